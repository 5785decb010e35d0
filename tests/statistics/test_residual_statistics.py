"""Do the statistics of what a model leaves over say what an independent computation says?"""

from __future__ import annotations

import numpy as np
import pytest

from dynident.statistics.residual_statistics import (
    lag_one,
    memory,
    naive_rms,
    residual_statistics,
    white_std,
)

N = 4000
TIME = np.linspace(0.0, 10.0, N)


def white(seed=0, n=N):
    return np.random.default_rng(seed).standard_normal(n)


def autoregressive(coefficient, seed=0, n=N):
    e, r = white(seed, n), np.zeros(n)
    r[0] = e[0] / np.sqrt(1 - coefficient**2)
    for k in range(1, n):
        r[k] = coefficient * r[k - 1] + e[k]
    return r


@pytest.mark.parametrize("std", [1e-9, 0.3, 1e7])
def test_the_white_part_of_white_residuals_is_all_of_them(std):
    assert white_std(std * white()) == pytest.approx(std, rel=6 * np.sqrt(35 / 18 / 2 / N) + 0.02)  # the smallest of six


def test_the_white_part_is_not_changed_by_something_smooth():
    smooth = 50 * np.sin(2 * np.pi * TIME / 5)
    assert white_std(0.1 * white() + smooth) == pytest.approx(white_std(0.1 * white()), rel=0.01)


@pytest.mark.parametrize("coefficient", [0.5, 0.9, 0.97])
def test_memory_is_what_the_past_predicts(coefficient):
    """For a first-order autoregression the share is the squared coefficient; its error is 2 a sqrt((1 - a^2) / n)."""
    error = 2 * coefficient * np.sqrt((1 - coefficient**2) / N)
    assert memory(autoregressive(coefficient)) == pytest.approx(coefficient**2, abs=5 * error + 0.01)


def test_memory_equals_a_least_squares_autoregression():
    r = autoregressive(0.8, seed=3)
    past = np.column_stack([r[4 - k:-k] for k in range(1, 5)])
    left = r[4:] - past @ np.linalg.lstsq(past, r[4:], rcond=None)[0]
    assert memory(r) == pytest.approx(1 - np.mean(left**2) / np.mean(r**2), abs=0.01)  # another order, a few ends


def test_a_missing_resonance_has_memory_though_neighbours_are_opposed():
    r = np.cos(1.95 * np.arange(N)) + 0.3 * white()
    assert lag_one(r) < -0.3
    assert memory(r) > 0.5


def test_white_residuals_have_no_memory_in_199_of_200_records():
    found = [memory(white(seed, 300)) for seed in range(200)]
    assert sum(m > 0.15 + 6 / 300 for m in found) <= 1


def test_lag_one_is_that_of_numpy():
    r = autoregressive(0.6)
    assert lag_one(r) == pytest.approx(np.corrcoef(r[1:], r[:-1])[0, 1], abs=0.01)  # about zero instead of the mean


def test_missing_samples_change_the_statistics_by_their_own_error_only():
    r = autoregressive(0.9, seed=5)
    holes = np.where(np.random.default_rng(1).random(N) < 0.02, np.nan, r)
    assert white_std(holes) == pytest.approx(white_std(r), rel=0.05)
    assert memory(holes) == pytest.approx(memory(r), abs=0.1)


def test_of_a_thinned_record_those_that_follow_each_other_are_neighbours():
    thinned = np.full(3 * N, np.nan)
    thinned[1::3] = autoregressive(0.5, seed=6)
    assert white_std(thinned) == white_std(thinned[1::3])
    assert np.isnan(white_std(thinned[:3]))


def test_naive_references_are_those_of_polyfit():
    y = 3 + 2 * TIME + white()
    y[7] = np.nan
    there = np.isfinite(y)
    line = y[there] - np.polyval(np.polyfit(TIME[there], y[there], 1), TIME[there])
    assert naive_rms(y, TIME) == pytest.approx((np.nanstd(y), np.sqrt(np.mean(line**2))))


def test_a_quantised_signal_shows_its_step():
    y = np.round(np.sin(TIME) / 0.125) * 0.125
    y[7] = np.nan
    assert residual_statistics(0.01 * white(), y, TIME).quantisation == pytest.approx(0.125)
    assert residual_statistics(0.01 * white(), np.sin(TIME), TIME).quantisation == 0.0


def test_an_outlier_does_not_hide_what_robust_statistics_see():
    r = 0.1 * white()
    r[::100] += 50.0
    assert residual_statistics(r, np.sin(TIME), TIME, 0.1).reduced_chi_square > 1000
    assert residual_statistics(r, np.sin(TIME), TIME, 0.1, robust=True).reduced_chi_square == pytest.approx(1.06, abs=0.1)


def test_what_is_left_beyond_the_noise_is_relative_to_the_signal():
    y, noise, rest = 2 * np.sin(TIME), 0.02 * white(), 0.1 * np.sin(TIME)
    found = residual_statistics(noise + rest, y, TIME)
    assert found.systematic_share() == pytest.approx(np.sqrt(np.mean(rest**2)) / np.std(y), rel=0.02)
    assert residual_statistics(noise, y, TIME).systematic_share() < 0.005


def test_an_empty_and_a_constant_series_have_statistics():
    nothing = np.full(5, np.nan)
    assert residual_statistics(nothing, nothing, np.arange(5.0)).samples == 0
    still = residual_statistics(np.zeros(20), np.ones(20), np.arange(20.0))
    assert (still.rms, still.memory, still.lag_one, still.constant_rms) == (0.0, 0.0, 0.0, 0.0)
