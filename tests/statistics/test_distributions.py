"""What we compute ourselves, to load quickly, is what scipy.stats and scipy.signal compute."""

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter, lfiltic

from dynident.statistics import distributions as ours
from dynident.statistics.autocorrelation import from_reflections

PROBABILITIES = [0.005, 0.05, 0.5, 0.9, 0.975, 0.995, 0.9999]
EXACT = 1e-10


@pytest.mark.parametrize("p", PROBABILITIES)
def test_quantiles(p):
    assert ours.normal_quantile(p) == pytest.approx(stats.norm.ppf(p), abs=EXACT)
    for dof in (0.7, 1, 2.5, 30, 1e4, np.inf):
        assert ours.student_quantile(p, dof) == pytest.approx(stats.t.ppf(p, dof), rel=EXACT, abs=EXACT)
    for dof in (0.5, 1, 7, 300, 1e5):
        assert ours.chi_square_quantile(p, dof) == pytest.approx(stats.chi2.ppf(p, dof), rel=EXACT)
    for mean in (0.0, 1e-3, 0.4, 3, 27.5, 1e4):
        assert ours.poisson_quantile(p, mean) == stats.poisson.ppf(p, mean)


def test_tails_and_moments():
    assert ours.normal_sf(4) == pytest.approx(stats.norm.sf(4), rel=EXACT)
    assert ours.chi_square_sf(30, 7) == pytest.approx(stats.chi2.sf(30, 7), rel=EXACT)
    values = np.random.default_rng(1).gamma(2, size=500)
    skew, excess = ours.skewness_and_excess(values)
    assert (skew, excess) == pytest.approx((stats.skew(values), stats.kurtosis(values)), rel=EXACT)


@pytest.mark.parametrize("order", [1, 2, 7, 40])
def test_autocovariances_follow_the_recursion_of_the_model(order):
    reflections = np.tanh(0.3 * np.random.default_rng(order).normal(size=order))
    model = from_reflections(2.0, reflections)
    for count in (1, order, order + 1, order + 2, 60, 10_000):
        denominator = np.append(1.0, -model.coefficients)
        tail, _ = lfilter([1.0], denominator, np.zeros(max(0, count - order - 1)),
                          zi=lfiltic([1.0], denominator, model.start[:0:-1]))
        np.testing.assert_allclose(model.autocovariance(count), np.append(model.start, tail)[:count], atol=1e-10)


def test_white_noise_has_no_memory():
    model = from_reflections(2.0, np.zeros(0))
    np.testing.assert_array_equal(model.autocovariance(4), [2, 0, 0, 0])
