"""Bounded least squares: the step within bounds, exactly, by a primal active set method.

It ends where the KKT conditions hold: free unknowns have no gradient, and each Lagrange multiplier of an active
bound points outwards.
"""

from __future__ import annotations

import numpy as np

from dynident.linalg.arrowhead import ArrowheadLeastSquares
from dynident.tolerances import MULTIPLIER_TOLERANCE


def bounded_least_squares(rows: ArrowheadLeastSquares, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The step that minimises the sum of squares with lower <= step <= upper, and the bounds that hold it.

    Where the bounds are in the way, a primal active set method from what they leave of the step without them: finite, and
    a bound that is reached is met exactly. `active` is -1 at a lower bound, +1 at an upper bound, 0 where free. The rows must
    have full column rank (damping gives them that).
    """
    unbounded = rows.solve()
    active = np.where(unbounded < lower, -1, np.where(unbounded > upper, 1, 0))
    if not np.any(active):
        return unbounded, active
    step = np.clip(unbounded, lower, upper)
    for _ in range(10 * rows.unknowns + 10):
        free = active == 0
        target = np.where(free, rows.with_fixed(~free, step).solve(), step)
        over = free & ((target < lower) | (target > upper))
        if np.any(over):
            step = _to_first_bound(step, target, over, active, lower, upper)
            continue
        step = target
        if not np.any(active):
            break
        multiplier = rows.gradient(step)  # wants to leave the bound where it points inwards
        violated = np.where(active == -1, -multiplier, np.where(active == 1, multiplier, -np.inf))
        worst = int(np.argmax(violated))
        if violated[worst] <= MULTIPLIER_TOLERANCE * rows.column_norms[worst] * rows.length:
            break
        active[worst] = 0
    return step, active


def _to_first_bound(step: np.ndarray, target: np.ndarray, over: np.ndarray, active: np.ndarray, lower: np.ndarray,
                       upper: np.ndarray) -> np.ndarray:
    """Towards the target until the first bound is met; notes it in `active`."""
    move = target - step
    edge = np.where(move < 0, lower, upper)
    fraction = np.where(over, (edge - step) / np.where(move == 0, 1, move), np.inf)
    first = int(np.argmin(fraction))
    step = step + max(0.0, float(fraction[first])) * move
    step[first], active[first] = edge[first], -1 if move[first] < 0 else 1
    return step
