"""Claims: thinning hides no peak and invents no sample."""

import numpy as np
import pytest

from dynident.report.charts import kept_samples

SAMPLES = 1_000_000


@pytest.mark.parametrize("place", [0, 1, 123_456, SAMPLES // 2, SAMPLES - 2, SAMPLES - 1])
@pytest.mark.parametrize("height", [5.0, -5.0])
def test_a_single_spike_in_a_million_samples_survives(place, height):
    values = np.sin(np.linspace(0, 50, SAMPLES))
    values[place] = height
    kept = kept_samples(values)
    assert place in kept
    assert kept.size <= 4000


def test_extremes_of_every_stretch_survive():
    values = np.random.default_rng(1).standard_normal(100_003)
    kept = kept_samples(values, 1000)
    drawn = np.full(values.size, np.nan)
    drawn[kept] = values[kept]
    for stretch in np.array_split(np.arange(values.size), 249):  # two buckets and more fit into each
        assert np.nanmax(drawn[stretch]) >= np.quantile(values[stretch], 0.99)
    assert drawn[np.argmax(values)] == values.max() and drawn[np.argmin(values)] == values.min()


def test_a_short_record_is_drawn_whole():
    assert kept_samples(np.arange(300.0)).tolist() == list(range(300))


def test_indices_rise_and_ends_stay():
    kept = kept_samples(np.random.default_rng(2).standard_normal(50_000), 500)
    assert np.all(np.diff(kept) > 0)
    assert kept[0] == 0 and kept[-1] == 49_999


def test_a_long_gap_stays_a_gap_and_scattered_missing_values_hide_nothing():
    values = np.zeros(100_000)
    values[40_000:60_000] = np.nan
    values[::2] = np.nan
    values[10_001] = 7.0
    kept = kept_samples(values, 1000)
    assert 10_001 in kept
    assert np.isnan(values[kept[(kept > 41_000) & (kept < 59_000)]]).all()
    assert kept[(kept > 41_000) & (kept < 59_000)].size > 0


def test_a_record_without_any_value_can_be_thinned():
    assert kept_samples(np.full(10_000, np.nan), 100).size > 0
    assert kept_samples(np.zeros(0)).size == 0
