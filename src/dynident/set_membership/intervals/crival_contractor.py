"""crival contractor (HC4): the interpreted twin of backward.c; y = f(a, b) and a narrower y leave which a and b?

Each operation only ever narrows. As in backward.c, it is done for arithmetic, and for functions that grow or fall
throughout; others are left alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dynident.set_membership.intervals.arithmetic import Interval, intersect

INVERSES = {"exp": "log", "log": "exp", "sinh": "asinh", "tanh": "atanh", "asin": "sin", "acos": "cos", "atan": "tan"}
PRINCIPAL = {"asin": 1.0, "acos": 1.0}  # arguments beyond have no value
QUARTER = 1.5707  # below pi/2: between, the tangent grows


def contract_operands(ival: Any, name: str, y: Interval, a: Interval, b: Interval, same: bool) -> tuple[Interval, Interval]:
    """What remains of the operands; `same` where both are one value, which is then left alone."""
    if name in _TWO:
        return (a, b) if same else _TWO[name](ival, y, a, b)
    if name in _ONE:
        return intersect(a, _ONE[name](ival, y, a)), b
    if name in INVERSES:
        return _contract_by_inverse(ival, name, y, a), b
    return a, b


def _to_ival(ival: Any, ends: Interval) -> Any:
    return ival.Interval(np.asarray(ends[0], float), np.asarray(ends[1], float))


def _from_ival(x: Any) -> Interval:
    return np.asarray(x.inf, float), np.asarray(x.sup, float)


def _add(ival: Any, y: Interval, a: Interval, b: Interval) -> tuple[Interval, Interval]:
    a = intersect(a, _from_ival(_to_ival(ival, y) - _to_ival(ival, b)))
    return a, intersect(b, _from_ival(_to_ival(ival, y) - _to_ival(ival, a)))


def _sub(ival: Any, y: Interval, a: Interval, b: Interval) -> tuple[Interval, Interval]:
    a = intersect(a, _from_ival(_to_ival(ival, y) + _to_ival(ival, b)))
    return a, intersect(b, _from_ival(_to_ival(ival, a) - _to_ival(ival, y)))


def _mul(ival: Any, y: Interval, a: Interval, b: Interval) -> tuple[Interval, Interval]:
    a = intersect(a, _from_ival(ival.mulrev(_to_ival(ival, b), _to_ival(ival, y), _to_ival(ival, a))))
    return a, intersect(b, _from_ival(ival.mulrev(_to_ival(ival, a), _to_ival(ival, y), _to_ival(ival, b))))


def _div(ival: Any, y: Interval, a: Interval, b: Interval) -> tuple[Interval, Interval]:
    a = intersect(a, _from_ival(_to_ival(ival, y) * _to_ival(ival, b)))
    return a, intersect(b, _from_ival(ival.mulrev(_to_ival(ival, y), _to_ival(ival, a), _to_ival(ival, b))))


def _min(ival: Any, y: Interval, a: Interval, b: Interval) -> tuple[Interval, Interval]:
    """Both are at least y; where one is above y for certain, the other is y."""
    return _contract_min(y, a, b), _contract_min(y, b, a)


def _contract_min(y: Interval, own: Interval, other: Interval) -> Interval:
    with np.errstate(invalid="ignore"):
        return intersect(own, (y[0], np.where(other[0] > y[1], y[1], np.inf)))


def _max(ival: Any, y: Interval, a: Interval, b: Interval) -> tuple[Interval, Interval]:
    low, high = _min(ival, _negate(y), _negate(a), _negate(b))
    return _negate(low), _negate(high)


def _negate(x: Interval) -> Interval:
    return -np.asarray(x[1]), -np.asarray(x[0])


def _contract_by_inverse(ival: Any, name: str, y: Interval, a: Interval) -> Interval:
    """Through the inverse of a function that has one; an empty inverse of what has no value leaves nothing."""
    if name == "atan":
        y = intersect(y, (np.full_like(y[0], -QUARTER * 2), np.full_like(y[0], QUARTER * 2)))
        inside = (y[0] > -QUARTER) & (y[1] < QUARTER)  # further out, the tangent is steep: leave the operand alone
        found = _from_ival(ival.tan(_to_ival(ival, y)))
        return intersect(a, (np.where(inside, found[0], -np.inf), np.where(inside, found[1], np.inf)))
    if name in PRINCIPAL:
        return intersect(a, (np.full_like(a[0], -1.0), np.full_like(a[0], 1.0)))
    return intersect(a, _from_ival(getattr(ival, INVERSES[name])(_to_ival(ival, y))))


_TWO = {"add": _add, "sub": _sub, "mul": _mul, "div": _div, "min": _min, "max": _max}
_ONE = {"neg": lambda ival, y, a: _negate(y), "copy": lambda ival, y, a: y,
        "twice": lambda ival, y, a: _from_ival(_to_ival(ival, y) * ival.Interval(0.5, 0.5)),
        "sq": lambda ival, y, a: _from_ival(ival.sqrrev(_to_ival(ival, y), _to_ival(ival, a))),
        "fabs": lambda ival, y, a: _from_ival(ival.absrev(_to_ival(ival, y), _to_ival(ival, a))),
        "inv": lambda ival, y, a: _from_ival(ival.recip(_to_ival(ival, y))),
        "sqrt": lambda ival, y, a: _from_ival(ival.sqr(ival.Interval(np.maximum(y[0], 0.0), np.maximum(y[1], 0.0))))}
