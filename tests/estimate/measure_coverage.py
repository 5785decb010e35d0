"""How often do plain, corrected and Newey-West 95 % intervals hold the truth? Run it to print the table of the docs."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
from regression import autoregressive, fitted, linearized, regression_problem
from scipy import stats
from scipy.signal import lfilter

from dynident.estimate.covariance import covariance_from
from dynident.problem.parameter import Parameter

SEED = 20240611  # not used while anything was being chosen
PARAMETERS = [Parameter(name, 1.0) for name in ("offset", "slow", "swing", "ramped")]
TRUTH = np.array([1.0, 2.0, -0.5, 0.7])
Noise = Callable[[np.random.Generator, int], np.ndarray]
NOISES: dict[str, Noise] = {
    "white": lambda rng, n: rng.normal(size=n),
    "AR(1) 0.5": lambda rng, n: autoregressive(rng, n, 0.5),
    "AR(1) 0.9": lambda rng, n: autoregressive(rng, n, 0.9),
    "AR(1) 0.95": lambda rng, n: autoregressive(rng, n, 0.95),
    "AR(1) 0.95 + white 0.7": lambda rng, n: autoregressive(rng, n, 0.95) + 0.7 * rng.normal(size=n),
    "AR(2) resonance": lambda rng, n: lfilter([1.0], [1.0, -1.8, 0.9], rng.normal(size=n + 500))[500:],
}


def regressors(samples: int) -> np.ndarray:
    t = np.linspace(0, 10, samples)
    return np.stack([np.ones(samples), np.exp(-t / 2), np.sin(2 * t), t * np.exp(-t / 2)], axis=1)


def newey_west(x: np.ndarray, residuals: np.ndarray) -> np.ndarray:
    """Standard deviations with Bartlett weights over 1.3 sqrt(n) lags."""
    weights = np.linalg.pinv(x).T * residuals[:, None]
    lags = int(1.3 * np.sqrt(residuals.size))
    middle = weights.T @ weights
    for k in range(1, lags + 1):
        cross = weights[k:].T @ weights[:-k]
        middle += (1 - k / (lags + 1)) * (cross + cross.T)
    return np.sqrt(np.diag(middle))


def measure(noise: Noise, samples: int, repeats: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(SEED)
    x = regressors(samples)
    hits = {kind: np.zeros(TRUTH.size) for kind in ("plain", "corrected", "printed", "Newey-West")}
    for _ in range(repeats):
        y = x @ TRUTH + 0.1 * noise(rng, samples)
        problem = regression_problem(PARAMETERS, [y])
        values = fitted([x], [y])
        covariance = covariance_from(problem, linearized(problem, [x], values), {}, True)
        for kind in ("plain", "corrected", "printed"):
            ends = [covariance.interval(name, kind=None if kind == "printed" else kind) for name in problem.names]
            hits[kind] += [low <= true <= high for (low, high), true in zip(ends, TRUTH, strict=True)]
        reach = stats.norm.ppf(0.975) * newey_west(x, y - x @ values)
        hits["Newey-West"] += np.abs(values - TRUTH) <= reach
    return {kind: count / repeats for kind, count in hits.items()}


def main(repeats: int = 1000) -> None:
    print(f"| noise | samples | plain | corrected | printed | Newey-West |  ({repeats} repeats, seed {SEED})")
    for name, noise in NOISES.items():
        for samples in (200, 500, 2000):
            shares = measure(noise, samples, repeats)
            cells = [f"{100 * s.min():.1f} to {100 * s.max():.1f}" for s in shares.values()]
            print(f"| {name} | {samples} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
