"""How often do plain, corrected and Newey-West 95 % intervals hold the truth? Run it to print the table of the docs."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
from regression import autoregressive, fitted, linearized, regression_problem
from scipy.signal import lfilter

from dynident.problem.parameter import Parameter
from dynident.statistics.covariance import covariance_from

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


def newey_west(x: np.ndarray, residuals: np.ndarray, lags: int) -> np.ndarray:
    """Half-widths with Bartlett weights, n / (n - p), and the quantile of Kiefer and Vogelsang (2005)."""
    n, p = x.shape
    lags = min(lags, n - 1)
    weights = np.linalg.pinv(x).T * residuals[:, None]
    middle = weights.T @ weights
    for k in range(1, lags + 1):
        cross = weights[k:].T @ weights[:-k]
        middle += (1 - k / (lags + 1)) * (cross + cross.T)
    b = (lags + 1) / n
    return (1.96 + 2.9694 * b + 0.416 * b**2 - 0.5324 * b**3) * np.sqrt(np.diag(middle) * n / (n - p))


def automatic_lags(residuals: np.ndarray) -> int:
    """Andrews (1991), AR(1) rule for Bartlett weights."""
    rho = residuals[1:] @ residuals[:-1] / (residuals @ residuals)
    return int(1.1447 * (4 * rho**2 / (1 - rho**2) ** 2 * residuals.size) ** (1 / 3)) + 1


def measure(noise: Noise, samples: int, repeats: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(SEED)
    x = regressors(samples)
    hits = {kind: np.zeros(TRUTH.size) for kind in ("plain", "corrected", "printed", "root n", "automatic")}
    for _ in range(repeats):
        y = x @ TRUTH + 0.1 * noise(rng, samples)
        problem = regression_problem(PARAMETERS, [y])
        values = fitted([x], [y])
        covariance = covariance_from(problem, linearized(problem, [x], values), {}, True)
        for kind in ("plain", "corrected", "printed"):
            ends = [covariance.interval(name, kind=None if kind == "printed" else kind) for name in problem.names]
            hits[kind] += [low <= true <= high for (low, high), true in zip(ends, TRUTH, strict=True)]
        residuals = y - x @ values
        for kind, lags in (("root n", int(1.3 * np.sqrt(samples))), ("automatic", automatic_lags(residuals))):
            hits[kind] += np.abs(values - TRUTH) <= newey_west(x, residuals, lags)
    return {kind: count / repeats for kind, count in hits.items()}


def main(repeats: int = 1000) -> None:
    print(f"{repeats} repeats, seed {SEED}; percent, lowest and highest of the four unknowns")
    print("| noise | samples | plain | corrected | printed | Newey-West, 1.3 sqrt(n) lags | Newey-West, automatic |")
    for name, noise in NOISES.items():
        for samples in (200, 500, 2000):
            shares = measure(noise, samples, repeats)
            cells = [f"{100 * s.min():.1f} to {100 * s.max():.1f}" for s in shares.values()]
            print(f"| {name} | {samples} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
