"""Spectrum (periodogram): how large is a signal at each frequency, in so few points that a page can draw them?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

FEWEST_SPECTRUM_SAMPLES = 8  # samples; fewer have no spectrum to look at


def amplitude_spectra(time: np.ndarray, signals: Sequence[np.ndarray], points: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Frequencies in 1/time and the amplitude of each signal there, in its unit; a sine of amplitude 1 has a peak of 1.

    Signals are taken at the typical distance of the samples, missing ones by a straight line, without their mean, under a Hann
    window. Frequencies stand at even distances of their logarithm; each has the largest amplitude near it, so that no line of
    the spectrum is lost.
    """
    if time.size < FEWEST_SPECTRUM_SAMPLES:
        return np.zeros(0), [np.zeros(0) for _ in signals]
    step = float(np.median(np.diff(time)[np.diff(time) > 0]))
    even = time[0] + step * np.arange(int((time[-1] - time[0]) / step * (1 + 1e-9)) + 1)
    window = np.hanning(even.size + 2)[1:-1]
    frequency = np.fft.rfftfreq(even.size, step)[1:]
    places = np.unique(np.searchsorted(frequency, np.geomspace(frequency[0], frequency[-1] * (1 + 1e-9), points)))
    places = places[places < frequency.size]
    found = []
    for signal in signals:
        known = np.isfinite(signal)
        if known.sum() < FEWEST_SPECTRUM_SAMPLES:
            found.append(np.full(places.size, np.nan))
            continue
        values = np.interp(even, time[known], np.asarray(signal, float)[known])
        lines = 2 * np.abs(np.fft.rfft(window * (values - values.mean())))[1:] / window.sum()
        found.append(np.maximum.reduceat(lines, places))
    return frequency[places], found
