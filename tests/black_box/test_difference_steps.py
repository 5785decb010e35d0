"""Claims about finite differences: their steps follow the noise of the simulation, which is measured."""

from __future__ import annotations

import numpy as np
import pytest

from dynident.black_box.finite_differences import NOISE_DIFFERENCE_ORDER, estimate_noise, is_noise, optimal_steps


@pytest.mark.parametrize("level", [1e-13, 1e-9, 1e-6, 1e-4])
def test_noise_is_measured_whatever_its_size(level):
    rng = np.random.default_rng(1)
    t = np.linspace(0, 5, 2000)
    row = [np.sin((2 + 2e-4 * k) * t) * (1 + level * rng.normal(size=t.size)) for k in range(NOISE_DIFFERENCE_ORDER + 1)]
    assert estimate_noise(row) == pytest.approx(level, rel=0.2)


def test_noise_is_told_from_what_is_smooth_and_from_kinks():
    t, rng = np.linspace(0, 5, 2000), np.random.default_rng(1)
    noisy = [np.sin((2 + 2e-4 * k) * t) + 1e-9 * rng.normal(size=t.size) for k in range(NOISE_DIFFERENCE_ORDER + 1)]
    smooth = [np.sin((2 + 0.02 * k) * t) for k in range(NOISE_DIFFERENCE_ORDER + 1)]
    kinked = [np.sin((2 + 2e-4 * k) * t) + 1e-3 * max(0, k - 3) * (np.arange(t.size) == 700)
              for k in range(NOISE_DIFFERENCE_ORDER + 1)]
    assert is_noise(noisy) and not is_noise(smooth) and not is_noise(kinked)


def test_steps_keep_the_noise_out_of_the_derivative():
    """A derivative by these steps errs by no more than a few times the best that is possible."""
    rng = np.random.default_rng(2)
    t = np.linspace(0, 5, 2000)

    def outputs(p, level):
        return np.sin(p * t) * (1 + level * rng.normal(size=t.size))

    for level in (1e-15, 1e-10, 1e-6):
        (step,), (both,) = optimal_steps(level, np.array([1.0]))
        h = 2.0 * step
        back = outputs(2.0 - h, level) if both else outputs(2.0, level)
        slope = (outputs(2.0 + h, level) - back) / (2 * h if both else h)
        error = np.linalg.norm(slope - t * np.cos(2 * t)) / np.linalg.norm(t * np.cos(2 * t))
        best = 3 * level ** (2 / 3) if both else 2 * level**0.5
        assert error < 30 * best
