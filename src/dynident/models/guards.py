"""Guards (switching functions, zero crossings): what do comparisons joined by and, or, not mean as a number that changes sign?

A condition is an expression that is 1 where it holds and 0 elsewhere. Its margin is positive inside of the set where it
holds, negative outside, and zero on the border, so that a crossing can be located: the margin of `v > a` is v - a, of
two conditions joined by `and` the smaller one, joined by `or` the larger one.
"""

from __future__ import annotations

from collections.abc import Callable

import casadi

COMPARISONS = {casadi.OP_LT: "<", casadi.OP_LE: "<=", casadi.OP_EQ: "==", casadi.OP_NE: "!="}
JOINS: dict[int, tuple[str, Callable]] = {casadi.OP_AND: ("and", casadi.fmin), casadi.OP_OR: ("or", casadi.fmax)}


def is_condition(expression: casadi.SX) -> bool:
    """Whether the expression is 1 or 0 by its form."""
    return any(expression.is_op(kind) for kind in (*COMPARISONS, *JOINS, casadi.OP_NOT))


def switching_function(condition: casadi.SX) -> casadi.SX:
    """A number that is positive inside of the set where the condition holds, zero on its border."""
    if condition.is_constant():
        return casadi.SX(1.0 if float(condition) else -1.0)
    for kind, (_, join) in JOINS.items():
        if condition.is_op(kind):
            return join(switching_function(condition.dep(0)), switching_function(condition.dep(1)))
    if condition.is_op(casadi.OP_NOT):
        return -switching_function(condition.dep(0))
    if condition.is_op(casadi.OP_EQ):
        return -casadi.fabs(condition.dep(0) - condition.dep(1))  # a set without an inside: zero where it holds
    if condition.is_op(casadi.OP_NE):
        return casadi.fabs(condition.dep(0) - condition.dep(1))
    if condition.is_op(casadi.OP_LT) or condition.is_op(casadi.OP_LE):
        return condition.dep(1) - condition.dep(0)
    return condition


def holds_equality(condition: casadi.SX) -> bool:
    """Whether == or != stands in it, which time passes without a change of sign."""
    if condition.is_op(casadi.OP_EQ) or condition.is_op(casadi.OP_NE):
        return True
    return is_condition(condition) and any(holds_equality(condition.dep(k)) for k in range(condition.n_dep()))


def condition_pattern(condition: casadi.SX, sides: list[casadi.SX]) -> str:
    """The condition as a pattern such as '({0} < {1}) and ({2} <= {3})'; the numbers in it are added to `sides`."""
    for kind, sign in COMPARISONS.items():
        if condition.is_op(kind):
            sides += [condition.dep(0), condition.dep(1)]
            return f"{{{len(sides) - 2}}} {sign} {{{len(sides) - 1}}}"
    for kind, (word, _) in JOINS.items():
        if condition.is_op(kind):
            return f"({condition_pattern(condition.dep(0), sides)}) {word} ({condition_pattern(condition.dep(1), sides)})"
    if condition.is_op(casadi.OP_NOT):
        return f"not ({condition_pattern(condition.dep(0), sides)})"
    sides.append(condition)
    return f"{{{len(sides) - 1}}} > 0"
