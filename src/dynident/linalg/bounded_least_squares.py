"""Box: least squares within bounds, exactly."""

from __future__ import annotations

import numpy as np

from dynident.linalg.arrowhead import ArrowheadLeastSquares
from dynident.tolerances import MULTIPLIER_TOLERANCE


def bounded_least_squares(rows: ArrowheadLeastSquares, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The step that minimises the sum of squares with lower <= step <= upper, and the bounds that hold it.

    Where the bounds are in the way, a primal active set method from what they leave of the step without them: finite, and
    a bound that is reached is met exactly. `held` is -1 at a lower bound, +1 at an upper bound, 0 where free. The rows must
    have full column rank (damping gives them that).
    """
    anywhere = rows.minimiser()
    held = np.where(anywhere < lower, -1, np.where(anywhere > upper, 1, 0))
    if not np.any(held):
        return anywhere, held
    step = np.clip(anywhere, lower, upper)
    for _ in range(10 * rows.unknowns + 10):
        free = held == 0
        target = np.where(free, rows.holding(~free, step).minimiser(), step)
        over = free & ((target < lower) | (target > upper))
        if np.any(over):
            step = _as_far_as_allowed(step, target, over, held, lower, upper)
            continue
        step = target
        if not np.any(held):
            break
        pull = rows.slope(step)  # wants to leave the bound where it points inwards
        wrong = np.where(held == -1, -pull, np.where(held == 1, pull, -np.inf))
        worst = int(np.argmax(wrong))
        if wrong[worst] <= MULTIPLIER_TOLERANCE * rows.column_norms[worst] * rows.length:
            break
        held[worst] = 0
    return step, held


def _as_far_as_allowed(step: np.ndarray, target: np.ndarray, over: np.ndarray, held: np.ndarray, lower: np.ndarray,
                       upper: np.ndarray) -> np.ndarray:
    """Towards the target until the first bound is met; notes it in `held`."""
    move = target - step
    edge = np.where(move < 0, lower, upper)
    share = np.where(over, (edge - step) / np.where(move == 0, 1, move), np.inf)
    first = int(np.argmin(share))
    step = step + max(0.0, float(share[first])) * move
    step[first], held[first] = edge[first], -1 if move[first] < 0 else 1
    return step
