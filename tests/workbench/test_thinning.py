"""Do the few points that are drawn look like all of them?"""

from __future__ import annotations

import numpy as np
import pytest

from dynident.workbench.live import Thinning

RANDOM = np.random.default_rng(4)


def test_few_samples_are_kept_as_they_are():
    time, signal = np.arange(100.0), RANDOM.normal(size=100)
    thin = Thinning.of(time, 50)
    assert thin.times(time) == pytest.approx(time)
    assert thin.values(signal) == pytest.approx(signal)


def test_every_pixel_shows_its_smallest_and_its_largest_value():
    time, signal = np.linspace(0, 10, 100_003), RANDOM.normal(size=100_003)
    signal[77_777] = 50.0  # a spike of one sample
    thin = Thinning.of(time, 800)
    drawn = thin.values(signal).reshape(-1, 2)
    parts = np.split(signal, thin.edges[1:])
    assert drawn.shape == (800, 2)
    assert drawn.min(axis=1) == pytest.approx([part.min() for part in parts])
    assert drawn.max(axis=1) == pytest.approx([part.max() for part in parts])
    assert drawn.max() == 50.0


def test_times_are_those_of_samples_and_grow():
    time = np.cumsum(RANDOM.uniform(0.5, 1.5, 20_000))
    drawn = Thinning.of(time, 300).times(time)
    assert np.all(np.diff(drawn) > 0)
    assert np.isin(drawn, time).all()


def test_a_window_has_one_neighbour_on_either_side():
    time = np.arange(1000.0)
    thin = Thinning.of(time, 500, 100.5, 200.5)
    assert (time[thin.first], time[thin.last - 1]) == (100.0, 201.0)


def test_a_window_between_two_samples_or_beyond_the_record_is_not_empty():
    time = np.arange(10.0)
    assert len(Thinning.of(time, 50, 3.2, 3.4).times(time)) == 2
    assert len(Thinning.of(time, 50, 20.0, 30.0).times(time)) >= 1
    assert len(Thinning.of(time, 50, -5.0, -1.0).times(time)) >= 1


def test_missing_samples_leave_a_gap_only_where_all_of_a_pixel_are_missing():
    time, signal = np.arange(10_000.0), np.sin(np.arange(10_000.0) / 500)
    signal[::2] = np.nan
    signal[3000:4000] = np.nan
    drawn = Thinning.of(time, 100).values(signal).reshape(-1, 2)
    assert np.isnan(drawn).all(axis=1).tolist() == [30 <= pixel < 40 for pixel in range(100)]


def test_a_monotonic_signal_stays_monotonic():
    time = np.arange(50_000.0)
    for signal in (time**1.1, -time):
        drawn = Thinning.of(time, 400).values(signal)
        assert len(set(np.sign(np.diff(drawn)))) == 1
