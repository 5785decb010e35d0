"""The spectrum that the page draws: the amplitude of a sine is its peak, and no line is lost among few points."""

import numpy as np
import pytest

from dynident.workbench.spectrum import amplitude_spectra


@pytest.mark.parametrize("points", [50, 4000])
def test_sines_have_peaks_of_their_amplitude_at_their_frequency(points):
    t = np.arange(10_000) * 1e-3
    y = 7 + 0.5 * np.sin(2 * np.pi * 3 * t) + 0.02 * np.cos(2 * np.pi * 200 * t)
    frequency, (found,) = amplitude_spectra(t, [y], points)
    for f, amplitude in ((3.0, 0.5), (200.0, 0.02)):
        near = np.searchsorted(frequency, f * (1 + 1e-9)) - 1  # the one whose stretch holds it
        assert found[near] == pytest.approx(amplitude, rel=1e-3)
    assert frequency.size <= points and frequency[-1] <= 500


def test_missing_and_uneven_samples_are_bridged_and_short_records_have_none():
    t = np.sort(np.concatenate([np.arange(1000) * 0.01, [0.123, 4.567]]))
    y = np.sin(2 * np.pi * t)
    y[::50] = np.nan
    frequency, (found,) = amplitude_spectra(t, [y], 400)
    assert found.max() == pytest.approx(1.0, rel=0.01) and frequency[np.argmax(found)] == pytest.approx(1.0, rel=0.1)
    assert amplitude_spectra(t[:5], [y[:5]], 100)[0].size == 0
    assert np.isnan(amplitude_spectra(t, [np.full(t.size, np.nan)], 10)[1][0]).all()
