"""Tests of residuals: right level on noise, alarm on what is not noise."""

from __future__ import annotations

import json

import numpy as np
import pytest
from regression import autoregressive
from scipy import stats

from dynident._util.codec import decode, to_json
from dynident.statistics.distributions import f_quantile
from dynident.statistics.residual_tests import (
    ResidualTest,
    autocorrelation,
    independence,
    noise_level,
    normality,
    outliers,
    residual_tests,
    runs,
    surely_not_white,
    whiteness,
)

REPEATS = 600


@pytest.mark.parametrize("test", [whiteness, runs, normality])
def test_false_alarms_on_white_noise_are_one_in_a_hundred(test):
    rng = np.random.default_rng(1)
    failed = sum(not test(rng.normal(size=500)).passed for _ in range(REPEATS))
    assert failed <= stats.binom.ppf(0.999, REPEATS, 0.025)  # Jarque-Bera and Ljung-Box are a little liberal


def test_independence_of_a_slow_input_and_slow_residuals_is_kept():
    rng = np.random.default_rng(2)
    failed = 0
    for _ in range(200):
        failed += not independence(autoregressive(rng, 500, 0.9), autoregressive(rng, 500, 0.9)).passed
    assert failed <= 12  # bounds of white residuals would fail most


def test_missed_effect_of_an_input_is_found_at_its_lag():
    rng = np.random.default_rng(3)
    u = rng.normal(size=500)
    r = rng.normal(size=500)
    r[3:] += 0.4 * u[:-3]
    found = independence(r, u, "y", "u")
    assert not found.passed and "at lag 3" in found.sentence


def test_ljung_box_is_its_formula():
    r = autoregressive(np.random.default_rng(4), 300, 0.3)
    rho = np.array([r[k:] @ r[: r.size - k] / (r @ r) for k in range(1, 11)])
    expected = 300 * 302 * np.sum(rho**2 / (300 - np.arange(1, 11)))
    assert whiteness(r, lags=10).value == pytest.approx(expected)


def test_partial_autocorrelations_keep_a_level_of_one_in_a_thousand_where_ljung_box_does_not():
    rng, level, repeats = np.random.default_rng(14), 1e-3, 4000
    white = rng.normal(size=(repeats, 200))
    sure = sum(surely_not_white(r, 1 - level) for r in white)
    assert sure <= 12  # 4 are expected; more than 12 in one of four thousand runs
    assert sum(not whiteness(r, confidence=1 - level).passed for r in white[:2000]) >= 5  # 8 are, where chi-square says 2


def test_memory_is_seen_at_the_level_of_a_hundred_series():
    rng = np.random.default_rng(15)
    seen = [surely_not_white(autoregressive(rng, 200, 0.5), 0.9999) for _ in range(100)]
    assert np.mean(seen) >= 0.9
    season = rng.normal(size=1000)
    season[7:] += 0.6 * season[:-7]
    assert surely_not_white(season, 0.9999)


def test_gaps_and_series_without_errors_are_no_memory():
    rng = np.random.default_rng(16)
    gaps = rng.normal(size=400)
    gaps[rng.random(400) < 0.5] = np.nan
    assert not surely_not_white(gaps, 0.999)
    assert not surely_not_white(np.zeros(50), 0.999)


def test_missing_samples_take_only_their_pairs():
    rng = np.random.default_rng(5)
    r = autoregressive(rng, 4000, 0.6)
    r[rng.random(4000) < 0.3] = np.nan
    there = np.isfinite(r)
    pairs = there[1:] & there[:-1]
    rho, band = autocorrelation(r, 5)
    assert rho[1] == pytest.approx(np.sum(r[1:][pairs] * r[:-1][pairs]) / np.nansum(r**2))
    assert band == pytest.approx(2.5758 / np.sqrt(np.sum(there)), rel=1e-4)
    assert not whiteness(r).passed


def test_drift_makes_few_runs_and_one_side_none():
    assert not runs(np.sin(np.linspace(0, 6, 200))).passed
    assert not runs(np.ones(50)).passed
    assert runs(np.zeros(50)).passed


def test_outliers_are_counted_against_what_they_cannot_move():
    r = np.random.default_rng(6).normal(size=1000)
    assert outliers(r).passed
    r[::50] += 30
    found = outliers(r)
    assert not found.passed and found.value == 20


def test_wrong_noise_level_is_told_with_its_factor():
    r = 3 * np.random.default_rng(7).normal(size=1000)
    found = noise_level(float(r @ r), 995)
    assert not found.passed and "times too small" in found.sentence
    assert found.threshold[0] < 1 < found.threshold[1]
    assert noise_level(float(r @ r) / 9, 995).passed


def test_short_series_say_nothing_and_results_go_through_json():
    assert residual_tests(np.ones(5), "y") == ()
    tests = residual_tests(np.ones(50), "y", inputs={"u": np.zeros(50)})
    for test in tests:
        assert decode(ResidualTest, json.loads(to_json(test)), "a file") == test


def test_independence_of_a_periodic_input_and_slow_residuals_is_kept():
    """The share of false alarms is that of the band; the 99.9 % quantile of the binomial distribution stands above it."""
    rng = np.random.default_rng(12)
    u = np.sign(np.sin(0.15 * np.arange(500)))
    failed = sum(not independence(autoregressive(rng, 500, 0.9), u).passed for _ in range(200))
    assert failed <= 12


def test_quantiles_of_f_are_those_of_scipy():
    assert f_quantile(0.995, 40, 17) == pytest.approx(stats.f.ppf(0.995, 40, 17))
    assert f_quantile(0.995, 40, np.inf) == pytest.approx(stats.chi2.ppf(0.995, 40) / 40)


def test_the_lag_that_shows_it_is_named_where_neighbours_do_not():
    e = np.random.default_rng(2).standard_normal(4005)
    apart = whiteness(e[5:] - 0.8 * e[:-5])
    assert not apart.passed and "residuals 5 samples apart are opposed, correlation -0.4" in apart.sentence
    assert "neighbouring residuals are opposed" in whiteness(e[1:] - 0.8 * e[:-1]).sentence
    assert "neighbouring residuals are alike" in whiteness(e[1:] + 0.8 * e[:-1]).sentence
