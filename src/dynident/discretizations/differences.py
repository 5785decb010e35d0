"""Differences: how far must a parameter be moved so that a difference is a derivative and not the simulation's noise?

The noise is measured, not guessed: seven simulations along one parameter, whose sixth differences hold no smooth part
any more (More and Wild, Estimating computational noise, 2011). The step then balances noise against curvature.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

ORDER = 6  # of the differences that show the noise
SPACING = 1e-4  # relative: wide enough for an adaptive solver to change its steps, narrow enough for smoothness
SMALLEST_NOISE = 1e-16  # relative; below it stands only rounding
CENTRAL_FROM = 1e-4  # relative step beyond which the curvature shows in forward differences
LARGEST_STEP = 0.05  # relative
SMALLEST_STEP = 1e-9  # relative


def relative_noise(row: Sequence[np.ndarray]) -> float:
    """Noise of simulations at equally spaced values of one parameter, as a share of the size of the outputs."""
    table = np.stack(row)
    size = float(np.linalg.norm(table[0]))
    for _ in range(ORDER):
        table = np.diff(table, axis=0)
    share = math.factorial(ORDER) / math.sqrt(math.factorial(2 * ORDER))
    level = share * float(np.linalg.norm(table[0]))
    return max(SMALLEST_NOISE, level / size if size > 0 else 0.0)


def relative_steps(noise: float, influence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Step per parameter relative to its size, and where it must go both ways.

    `influence` is the change of the outputs that the slope foretells for a change of the parameter by its own size,
    as a share of the size of the outputs; the curvature is taken to act over the same distance.
    """
    quotient = noise / np.maximum(influence, noise)
    forward = 2 * np.sqrt(quotient)  # 2 noise / h = h / 2
    central = np.cbrt(3 * quotient)  # noise / h = h^2 / 3
    both = forward > CENTRAL_FROM
    return np.clip(np.where(both, central, forward), SMALLEST_STEP, LARGEST_STEP), both
