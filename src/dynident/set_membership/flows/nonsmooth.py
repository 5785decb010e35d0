"""Nonsmooth points: where does a rate have a kink, a jump or an end, so that its Taylor polynomial does not hold?

abs, minimum, where, sign and comparisons have kinks or jumps; sqrt, log, powers, asin and acos end somewhere, with slopes
that are infinite there. Behind such a point the derivatives at the start of a step say nothing. `smoothness_margins`
are expressions that are positive over all states passed in a step only if none is met.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import casadi
import numpy as np

from dynident.set_membership.flows.interval_automaton import StepSymbols
from dynident.set_membership.intervals import IntervalKernel, make_interval_kernel

_COMPARISONS = (casadi.OP_LT, casadi.OP_LE, casadi.OP_EQ, casadi.OP_NE)
_LOGIC = (casadi.OP_NOT, casadi.OP_AND, casadi.OP_OR)
_POWERS = (casadi.OP_POW, casadi.OP_CONSTPOW)
_ENDS: dict[int, Callable[[casadi.SX], casadi.SX]] = {  # where the function is smooth: positive
    casadi.OP_SQRT: lambda a: a, casadi.OP_LOG: lambda a: a,
    casadi.OP_ASIN: lambda a: 1 - casadi.fabs(a), casadi.OP_ACOS: lambda a: 1 - casadi.fabs(a)}


class Smoothness:
    """Over which boxes a rate is smooth for the whole of a step."""

    def __init__(self, expression: casadi.SX, s: StepSymbols, rigorous: bool = False):
        found = smoothness_margins(expression, s)
        self.kernel: IntervalKernel | None = make_interval_kernel(
            s.function(s.during_step(casadi.vertcat(*found))), rigorous) if found else None

    @property
    def everywhere(self) -> bool:
        return self.kernel is None

    def may_fail(self, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
        """(boxes,) true where the enclosure in the rows may meet a kink, a jump or an end."""
        if self.kernel is None:
            return np.zeros(lo.shape[1], bool)
        return ~np.all(self.kernel.evaluate(lo, hi)[0] > 0, axis=0)


class NonsmoothKind(Enum):
    """What happens where a margin is not positive."""

    KINK = "its slope jumps"
    JUMP = "its value jumps"
    END = "it ends there, or has no finite slope"
    BOTH = "it ends at one point, and its value jumps at others"


def smoothness_margins(expression: casadi.SX, s: StepSymbols) -> list[casadi.SX]:
    """One expression for each operation that is not smooth everywhere; none where it cannot matter."""
    kept = [_relevant_margin(margin, kind, s) for node in _graph_nodes(expression) for margin, kind in _margins_of(node)]
    return [margin for margin in kept if margin is not None]


def _relevant_margin(margin: casadi.SX, kind: NonsmoothKind, s: StepSymbols) -> casadi.SX | None:
    """The margin, one that counts only while it moves, or nothing.

    A kink in a parameter alone is no kink in time, and an infinite slope in one is seen in the slope; a jump is not.
    """
    jumps = kind in (NonsmoothKind.JUMP, NonsmoothKind.BOTH)
    if casadi.depends_on(margin, s.x) or (jumps and casadi.depends_on(margin, s.p)):
        return margin
    if not casadi.depends_on(margin, casadi.vertcat(s.u, s.t)):
        return None
    if kind in (NonsmoothKind.END, NonsmoothKind.BOTH):
        return margin
    change = casadi.jtimes(margin, s.u, s.input_rate) + casadi.jtimes(margin, s.t, casadi.SX(1))
    return casadi.if_else(change == 0, 1, margin)


def _margins_of(node: casadi.SX) -> list[tuple[casadi.SX, NonsmoothKind]]:
    """What must be positive for an operation to be smooth."""
    operation = node.op()
    below = [node.dep(k) for k in range(node.n_dep())]
    if operation in (casadi.OP_FABS, casadi.OP_SIGN):
        return [(casadi.fabs(below[0]), NonsmoothKind.KINK if operation == casadi.OP_FABS else NonsmoothKind.JUMP)]
    if operation in (casadi.OP_FMIN, casadi.OP_FMAX):
        return [(casadi.fabs(below[0] - below[1]), NonsmoothKind.KINK)]
    if operation in _COMPARISONS:
        return [(casadi.fabs(below[0] - below[1]), NonsmoothKind.JUMP)]
    if operation == casadi.OP_ATAN2:  # jumps where its second argument is negative and the first passes zero
        return [(casadi.fmax(below[1], casadi.fabs(below[0])), NonsmoothKind.BOTH)]
    if operation in _LOGIC or operation == casadi.OP_IF_ELSE_ZERO:
        asked = below[:1] if operation == casadi.OP_IF_ELSE_ZERO else below
        return [(casadi.fabs(a), NonsmoothKind.JUMP) for a in asked if a.op() not in (*_COMPARISONS, *_LOGIC)]
    if operation in _POWERS:
        whole = below[1].is_constant() and float(below[1]) == round(float(below[1]))
        return [] if whole else [(below[0], NonsmoothKind.END)]
    return [(_ENDS[operation](below[0]), NonsmoothKind.END)] if operation in _ENDS else []


def _graph_nodes(expression: casadi.SX) -> list[casadi.SX]:
    """Every operation of the graph, once."""
    seen: dict[int, casadi.SX] = {}
    whole = casadi.densify(expression)
    ahead = [node for node in (whole[k] for k in range(whole.numel())) if not node.is_leaf()]
    while ahead:
        node = ahead.pop()
        if node.element_hash() in seen:
            continue
        seen[node.element_hash()] = node
        ahead += [part for part in (node.dep(k) for k in range(node.n_dep())) if not part.is_leaf()]
    return list(seen.values())
