"""Backward steps with crival: given y = f(a, b) and a narrower y, which a and b remain? Each only ever narrows.

The counterpart of backward.c for arithmetic, and for functions that grow or fall throughout; others are left alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dynident.set_membership.intervals.arithmetic import Ends, meet

INVERSES = {"exp": "log", "log": "exp", "sinh": "asinh", "tanh": "atanh", "asin": "sin", "acos": "cos", "atan": "tan"}
PRINCIPAL = {"asin": 1.0, "acos": 1.0}  # arguments beyond have no value
QUARTER = 1.5707  # below pi/2: between, the tangent grows


def backward(ival: Any, name: str, y: Ends, a: Ends, b: Ends, same: bool) -> tuple[Ends, Ends]:
    """What remains of the operands; `same` where both are one value, which is then left alone."""
    if name in _TWO:
        return (a, b) if same else _TWO[name](ival, y, a, b)
    if name in _ONE:
        return meet(a, _ONE[name](ival, y, a)), b
    if name in INVERSES:
        return _by_inverse(ival, name, y, a), b
    return a, b


def _of(ival: Any, ends: Ends) -> Any:
    return ival.Interval(np.asarray(ends[0], float), np.asarray(ends[1], float))


def _ends(x: Any) -> Ends:
    return np.asarray(x.inf, float), np.asarray(x.sup, float)


def _add(ival: Any, y: Ends, a: Ends, b: Ends) -> tuple[Ends, Ends]:
    a = meet(a, _ends(_of(ival, y) - _of(ival, b)))
    return a, meet(b, _ends(_of(ival, y) - _of(ival, a)))


def _sub(ival: Any, y: Ends, a: Ends, b: Ends) -> tuple[Ends, Ends]:
    a = meet(a, _ends(_of(ival, y) + _of(ival, b)))
    return a, meet(b, _ends(_of(ival, a) - _of(ival, y)))


def _mul(ival: Any, y: Ends, a: Ends, b: Ends) -> tuple[Ends, Ends]:
    a = meet(a, _ends(ival.mulrev(_of(ival, b), _of(ival, y), _of(ival, a))))
    return a, meet(b, _ends(ival.mulrev(_of(ival, a), _of(ival, y), _of(ival, b))))


def _div(ival: Any, y: Ends, a: Ends, b: Ends) -> tuple[Ends, Ends]:
    a = meet(a, _ends(_of(ival, y) * _of(ival, b)))
    return a, meet(b, _ends(ival.mulrev(_of(ival, y), _of(ival, a), _of(ival, b))))


def _min(ival: Any, y: Ends, a: Ends, b: Ends) -> tuple[Ends, Ends]:
    """Both are at least y; where one is above y for certain, the other is y."""
    return _capped(y, a, b), _capped(y, b, a)


def _capped(y: Ends, own: Ends, other: Ends) -> Ends:
    with np.errstate(invalid="ignore"):
        return meet(own, (y[0], np.where(other[0] > y[1], y[1], np.inf)))


def _max(ival: Any, y: Ends, a: Ends, b: Ends) -> tuple[Ends, Ends]:
    low, high = _min(ival, _turned(y), _turned(a), _turned(b))
    return _turned(low), _turned(high)


def _turned(x: Ends) -> Ends:
    return -np.asarray(x[1]), -np.asarray(x[0])


def _by_inverse(ival: Any, name: str, y: Ends, a: Ends) -> Ends:
    """Through the inverse of a function that has one; an empty inverse of what has no value leaves nothing."""
    if name == "atan":
        y = meet(y, (np.full_like(y[0], -QUARTER * 2), np.full_like(y[0], QUARTER * 2)))
        inside = (y[0] > -QUARTER) & (y[1] < QUARTER)  # further out, the tangent is steep: leave the operand alone
        found = _ends(ival.tan(_of(ival, y)))
        return meet(a, (np.where(inside, found[0], -np.inf), np.where(inside, found[1], np.inf)))
    if name in PRINCIPAL:
        return meet(a, (np.full_like(a[0], -1.0), np.full_like(a[0], 1.0)))
    return meet(a, _ends(getattr(ival, INVERSES[name])(_of(ival, y))))


_TWO = {"add": _add, "sub": _sub, "mul": _mul, "div": _div, "min": _min, "max": _max}
_ONE = {"neg": lambda ival, y, a: _turned(y), "copy": lambda ival, y, a: y,
        "twice": lambda ival, y, a: _ends(_of(ival, y) * ival.Interval(0.5, 0.5)),
        "sq": lambda ival, y, a: _ends(ival.sqrrev(_of(ival, y), _of(ival, a))),
        "fabs": lambda ival, y, a: _ends(ival.absrev(_of(ival, y), _of(ival, a))),
        "inv": lambda ival, y, a: _ends(ival.recip(_of(ival, y))),
        "sqrt": lambda ival, y, a: _ends(ival.sqr(ival.Interval(np.maximum(y[0], 0.0), np.maximum(y[1], 0.0))))}
