"""Do the 95 % intervals hold the truth 95 times in a hundred, when errors are alone and when they keep company?"""

from __future__ import annotations

import numpy as np
import pytest
from regression import autoregressive, fitted, linearized, regression_problem

from dynident.problem.parameter import Parameter
from dynident.statistics.covariance import covariance_from

REPEATS = 300
TRUTH = np.array([1.0, 2.0, -0.5])
PARAMETERS = [Parameter("offset", 1.0), Parameter("gain", 1.0), Parameter("swing", 1.0)]


def response(samples: int) -> np.ndarray:
    """A settling first-order response with an offset, and an oscillation on it."""
    t = np.linspace(0, 10, samples)
    return np.stack([np.ones(samples), 1 - np.exp(-t / 2), np.sin(2 * t)], axis=1)


def coverage(phi: float, samples: int = 500, std: float | None = None, holes: bool = False, repeats: int = REPEATS
             ) -> dict[str, np.ndarray]:
    """Share of repeats in which each interval holds the truth, and how often the corrected one was printed."""
    rng = np.random.default_rng(7)
    x = response(samples)
    hits = {"plain": np.zeros(3), "corrected": np.zeros(3), "printed": np.zeros(3), "chosen": np.zeros(1)}
    for _ in range(repeats):
        y = x @ TRUTH + autoregressive(rng, samples, phi, 0.1)
        if holes:
            y[rng.random(samples) < 0.2] = np.nan
        problem = regression_problem(PARAMETERS, [y], std=std)
        covariance = covariance_from(problem, linearized(problem, [x], fitted([x], [y]), std or 1.0), {}, std is None)
        for kind in ("plain", "corrected", "printed"):
            for i, name in enumerate(problem.names):
                low, high = covariance.interval(name, kind=None if kind == "printed" else kind)
                hits[kind][i] += low <= TRUTH[i] <= high
        hits["chosen"] += covariance.default_kind == "corrected"
    return {kind: count / repeats for kind, count in hits.items()}


def test_plain_interval_covers_independent_errors_and_the_corrected_one_costs_nothing():
    share = coverage(0.0, repeats=1000)  # the claim is exact here, so the test can afford to be sharp
    for kind in ("plain", "corrected"):
        assert np.all((share[kind] >= 0.93) & (share[kind] <= 0.97))  # 2.9 standard errors
    assert share["chosen"] <= 0.03


@pytest.mark.parametrize("phi", [0.9, 0.95])
def test_correction_restores_the_coverage_that_autocorrelation_takes(phi):
    share = coverage(phi)
    assert np.all(share["plain"] < 0.60)
    assert np.all((share["corrected"] >= 0.90) & (share["corrected"] <= 0.98))
    assert np.all(share["printed"] >= 0.90)
    assert share["chosen"] == 1.0


def test_correction_holds_with_a_fifth_of_the_samples_missing_and_a_given_std():
    share = coverage(0.9, std=0.1, holes=True)
    assert np.all(share["plain"] < 0.65)
    assert np.all((share["corrected"] >= 0.90) & (share["corrected"] <= 0.985))


def test_interval_of_few_samples_uses_the_t_distribution():
    share = coverage(0.0, samples=12)
    assert np.mean(share["plain"]) > 0.93  # the normal quantile would give 0.92 with 9 degrees of freedom
