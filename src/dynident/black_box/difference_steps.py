"""Difference steps: how far must a parameter be moved so that a difference is a derivative and not the simulation's noise?

The noise is measured, not guessed: ECnoise of J. J. Moré and S. M. Wild, "Estimating computational noise", SIAM J. Sci.
Comput. 33 (2011) 1292-1314: seven simulations along a line, whose sixth differences hold no smooth part any more. The step
then balances noise against truncation error, as in their "Estimating derivatives of noisy simulations", ACM Trans. Math.
Softw. 38 (2012) 19.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

ORDER = 6  # of the differences that show the noise
SPACING = 1e-4  # relative: wide enough for an adaptive solver to change its steps, narrow enough for smoothness
SMALLEST_NOISE = 1e-16  # relative; below it stands only rounding
ROUNDING_NOISE = 1e-14  # relative; that little noise is nobody's fault and needs no second look
LARGEST_NOISE = 1e-3  # relative; more is rather a jump of the model between two of the simulations
COMPARED_ORDERS, LIKE = 3, 4.0  # the last orders of differences that must show the same noise, and by which factor
FEW_SAMPLES = 0.05  # of all: what shows in so few is a kink
CENTRAL_FROM = 1e-4  # relative step beyond which the curvature shows in forward differences
LARGEST_STEP = 0.05  # relative
SMALLEST_STEP = 1e-9  # relative


def estimate_noise(line: Sequence[np.ndarray]) -> float:
    """ECnoise: the noise of simulations at equally spaced points of a line, as a fraction of the size of the outputs."""
    return _noise_by_order(line)[-1]


def is_noise(line: Sequence[np.ndarray]) -> bool:
    """Whether it is noise that the highest differences hold, and neither a smooth part, which lower ones hold more of, nor
    a kink or a jump, as where an event passes a sample: that shows in few samples only."""
    levels = _noise_by_order(line)[-COMPARED_ORDERS:]
    alike = max(levels) <= min(LIKE * min(levels), LARGEST_NOISE)
    return levels[-1] <= ROUNDING_NOISE or (alike and not _in_few_samples(line))


def _in_few_samples(line: Sequence[np.ndarray]) -> bool:
    squares = np.sort(np.diff(np.stack(line), n=ORDER, axis=0)[0] ** 2)
    most = squares[:int((1 - FEW_SAMPLES) * squares.size)]
    return float(np.sum(most)) < float(np.sum(squares)) / LIKE**2 and squares.size > 1 / FEW_SAMPLES


def _noise_by_order(line: Sequence[np.ndarray]) -> list[float]:
    """What the differences of each order would say the noise is."""
    table = np.stack(line)
    size = max(float(np.linalg.norm(outputs)) for outputs in table)
    found = []
    for order in range(1, ORDER + 1):
        table = np.diff(table, axis=0)
        factor = math.factorial(order) / math.sqrt(math.factorial(2 * order))  # gamma_k = (k!)^2 / (2k)!
        level = factor * float(np.linalg.norm(table)) / math.sqrt(len(table))
        found.append(max(SMALLEST_NOISE, level / size if size > 0 else 0.0))
    return found


def optimal_steps(noise: float, influence: np.ndarray, two_sided: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Step per parameter relative to its size, and where it must be a central difference; with `two_sided` everywhere.

    `influence` is the change of the outputs that the derivative predicts for a change of the parameter by its own size,
    as a fraction of the size of the outputs; the curvature is taken to act over the same distance.
    """
    quotient = noise / np.maximum(influence, noise)
    forward = 2 * np.sqrt(quotient)  # 2 noise / h = h / 2
    central = np.cbrt(3 * quotient)  # noise / h = h^2 / 3
    both = (forward > CENTRAL_FROM) | two_sided
    return np.clip(np.where(both, central, forward), SMALLEST_STEP, LARGEST_STEP), both
