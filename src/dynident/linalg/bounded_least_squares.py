"""Bounded least squares: the step within bounds, exactly, by a primal active set method.

It ends where the conditions of Karush, Kuhn and Tucker (KKT) hold: free unknowns have no gradient, and each Lagrange
multiplier of an active bound points outwards (complementarity). `bounded_least_squares.c` is the same, with the damping before
it, for rows of one stack: what every small fit asks in each iteration.
"""

from __future__ import annotations

import numpy as np

from dynident.codegen.pointers import address, addresses
from dynident.linalg.arrowhead import ArrowheadBlock, ArrowheadLeastSquares, ArrowheadStack
from dynident.linalg.compiled_arrowhead import CompiledArrowhead
from dynident.tolerances import MULTIPLIER_TOLERANCE

SINGULAR = 2  # what the compiled step answers where a diagonal is zero


def damped_step(rows: ArrowheadLeastSquares, lengths: np.ndarray, lower: np.ndarray, upper: np.ndarray
                ) -> tuple[ArrowheadLeastSquares, np.ndarray, np.ndarray]:
    """The rows with one more per unknown, length * step; their step within bounds, and the bounds that hold it."""
    if not isinstance(rows.loops, CompiledArrowhead) or len(rows.stacks) > 1:
        damped = rows.with_damping(lengths)
        return damped, *bounded_least_squares(damped, lower, upper)
    shared, unknowns = rows.shared.size, rows.unknowns
    border, step, active = np.empty((shared + 1, shared + 1)), np.empty(unknowns), np.empty(unknowns, np.int64)
    tops = [np.empty(stack.rows.shape) for stack in rows.stacks]
    lengths, lower, upper = (np.ascontiguousarray(each, float) for each in (lengths, lower, upper))
    failure = rows.loops.library.dynident_damped_step(
        *rows.only_stack_pointers, *rows.border_stack.pointers[3:], unknowns, *addresses(lengths, lower, upper),
        MULTIPLIER_TOLERANCE, address(tops[0]) if tops else None, *addresses(border, step, active))
    if failure:
        raise np.linalg.LinAlgError("Singular matrix") if failure == SINGULAR else MemoryError("a step is out of memory")
    stacks = tuple(ArrowheadStack(stack.own, top) for stack, top in zip(rows.stacks, tops, strict=True))
    return ArrowheadLeastSquares(unknowns, stacks, ArrowheadBlock(rows.shared, border[:shared])), step, active


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
