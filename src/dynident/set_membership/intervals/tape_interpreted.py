"""Tape interpreted: the twin of tape.c and backward.c, with the correctly rounded functions of crival, without a compiler.

Backward (HC4), each operation only ever narrows. As in backward.c, it is done for arithmetic, and for functions that grow or
fall throughout; others are left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dynident.errors import NotSupported
from dynident.set_membership.intervals.arithmetic import Interval, intersect
from dynident.set_membership.intervals.kernel import CODES, Guarantee, Tape, mark_empty_boxes

INVERSES = {"exp": "log", "log": "exp", "sinh": "asinh", "tanh": "atanh", "asin": "sin", "acos": "cos", "atan": "tan"}
PRINCIPAL = ("asin", "acos")  # arguments beyond 1 have no value
QUARTER = 1.5707  # below pi/2: between, the tangent grows


def _load_ival() -> Any:
    try:
        import ival
    except ImportError:
        raise NotSupported("verified results without a C compiler, or rigorous elementary functions, need crival: "
                           "pip install 'dynident[verified]'. Or install a C compiler.") from None
    return ival


class CrivalKernel:
    """One array operation per step of the tape: slower than the compiled kernel, and 1 ulp wide."""

    guarantee = Guarantee.RIGOROUS

    def __init__(self, tape: Tape):
        self.tape, self.ival = tape, _load_ival()

    def evaluate(self, lo: np.ndarray, hi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values = self._forward(np.asarray(lo, float), np.asarray(hi, float))
        boxes = np.shape(lo)[1]
        picked = [values[root] for root in self.tape.roots]
        ends = [np.array([np.broadcast_to(v[side], boxes) for v in picked]).reshape(len(picked), boxes)
                for side in (0, 1)]
        return ends[0], ends[1]

    def contract(self, lo: np.ndarray, hi: np.ndarray, want_lo: np.ndarray, want_hi: np.ndarray,
                 passes: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """HC4: forward, then backward through all that is part of the result whatever the conditions say."""
        lo, hi = np.array(lo, float), np.array(hi, float)
        for _ in range(passes):
            values = self._forward(lo, hi)
            for r, root in enumerate(self.tape.roots):
                values[root] = intersect(values[root], (want_lo[r], want_hi[r]))
                lost = np.broadcast_to(np.isnan(values[root][0]), lo.shape[1])
                lo[:, lost], hi[:, lost] = np.nan, np.nan
            self._backward(values)
            for (code, row, *_), value in zip(self.tape.instructions, values, strict=True):
                if CODES[code] == "input":
                    lo[row], hi[row] = intersect((lo[row], hi[row]), value)
            mark_empty_boxes(lo, hi)
        return lo, hi

    def _backward(self, values: list[tuple[np.ndarray, np.ndarray]]) -> None:
        for k in range(len(values) - 1, -1, -1):
            code, a, b, _, required = self.tape.instructions[k]
            name = CODES[code]
            if required and name not in ("input", "const"):
                values[a], values[b] = contract_operands(self.ival, name, values[k], values[a], values[b], a == b)

    def _forward(self, lo: np.ndarray, hi: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        values: list[tuple[np.ndarray, np.ndarray]] = []
        boxes = lo.shape[1]
        for code, a, b, c, _ in self.tape.instructions:
            name = CODES[code]
            if name == "input":
                values.append((lo[a], hi[a]))
            elif name == "const":
                values.append((np.full(boxes, self.tape.constants[a]),) * 2)
            else:
                values.append(self._operation(name, values[a], values[b], values[c]))
        return values

    def _operation(self, name: str, a: Any, b: Any, c: Any) -> tuple[np.ndarray, np.ndarray]:
        if name in _COMPARISONS:
            return _COMPARISONS[name](a, b)
        if name == "where":
            return _select(a, b, c)
        x, y = self.ival.Interval(*a), self.ival.Interval(*b)
        direct = {"add": lambda: x + y, "sub": lambda: x - y, "mul": lambda: x * y, "div": lambda: x / y,
                  "neg": lambda: -x, "twice": lambda: x + x, "sq": lambda: self.ival.sqr(x),
                  "inv": lambda: self.ival.recip(x), "fabs": lambda: abs(x), "min": lambda: self.ival.min(x, y),
                  "max": lambda: self.ival.max(x, y), "atan2": lambda: self._atan2(x, y),
                  "pow": lambda: self._pow(x, y), "copy": lambda: x}
        result = direct[name]() if name in direct else getattr(self.ival, name)(x)
        lo, hi = np.asarray(result.inf, float), np.asarray(result.sup, float)
        empty = lo > hi  # crival's empty set is [inf, -inf], ours NaN
        return np.where(empty, np.nan, lo), np.where(empty, np.nan, hi)

    def _atan2(self, y: Any, x: Any) -> Any:
        """The standard leaves atan2(0, 0) undefined; C and CasADi say 0."""
        result = self.ival.atan2(y, x)
        lo, hi = np.asarray(result.inf, float), np.asarray(result.sup, float)
        origin = (np.asarray(y.inf) <= 0) & (np.asarray(y.sup) >= 0) & (np.asarray(x.inf) <= 0) & (np.asarray(x.sup) >= 0)
        return self.ival.Interval(np.where(origin, np.minimum(lo, 0.0), lo), np.where(origin, np.maximum(hi, 0.0), hi))

    def _pow(self, x: Any, y: Any) -> Any:
        """Whole exponents take any base; an exponent that varies over a negative base can be anything."""
        lo, hi = np.atleast_1d(y.inf), np.atleast_1d(y.sup)
        if np.all(lo == hi) and np.all(lo == lo[0]) and float(lo[0]).is_integer():
            return self.ival.pown(x, int(lo[0]))
        result = self.ival.pow(x, y)
        wild = (np.asarray(x.inf) < 0) & ((lo != hi) | (lo == np.floor(lo)))
        return self.ival.Interval(np.where(wild, -np.inf, result.inf), np.where(wild, np.inf, result.sup))


def _truth(certain: np.ndarray, impossible: np.ndarray, *given: Any) -> tuple[np.ndarray, np.ndarray]:
    undefined = np.any([np.isnan(g[0]) for g in given], axis=0)
    return (np.where(undefined, np.nan, np.where(certain, 1.0, 0.0)),
            np.where(undefined, np.nan, np.where(impossible, 0.0, 1.0)))


def _certainly_true(a: Any) -> np.ndarray:
    return (a[0] > 0) | (a[1] < 0)


def _certainly_false(a: Any) -> np.ndarray:
    return (a[0] == 0) & (a[1] == 0)


def _certainly_equal(a: Any, b: Any) -> np.ndarray:
    return (a[0] == a[1]) & (b[0] == b[1]) & (a[0] == b[0])


def _certainly_different(a: Any, b: Any) -> np.ndarray:
    return (a[1] < b[0]) | (b[1] < a[0])


_COMPARISONS = {
    "lt": lambda a, b: _truth(a[1] < b[0], a[0] >= b[1], a, b),
    "le": lambda a, b: _truth(a[1] <= b[0], a[0] > b[1], a, b),
    "eq": lambda a, b: _truth(_certainly_equal(a, b), _certainly_different(a, b), a, b),
    "ne": lambda a, b: _truth(_certainly_different(a, b), _certainly_equal(a, b), a, b),
    "and": lambda a, b: _truth(_certainly_true(a) & _certainly_true(b), _certainly_false(a) | _certainly_false(b), a, b),
    "or": lambda a, b: _truth(_certainly_true(a) | _certainly_true(b), _certainly_false(a) & _certainly_false(b), a, b),
    "not": lambda a, b: _truth(_certainly_false(a), _certainly_true(a), a),
}


def _select(k: Any, a: Any, b: Any) -> tuple[np.ndarray, np.ndarray]:
    known = ~np.isnan(k[0])
    then, otherwise = known & ~_certainly_false(k), known & ~_certainly_true(k)
    lows = np.array([np.where(then, a[0], np.nan), np.where(otherwise, b[0], np.nan)])
    highs = np.array([np.where(then, a[1], np.nan), np.where(otherwise, b[1], np.nan)])
    return np.fmin(lows[0], lows[1]), np.fmax(highs[0], highs[1])


# HC4: y = f(a, b) and a narrower y leave which a and b?


def contract_operands(ival: Any, name: str, y: Interval, a: Interval, b: Interval, same: bool) -> tuple[Interval, Interval]:
    """What remains of the operands; `same` where both are one value, which is then left alone."""
    if name in _ARITHMETIC:
        return (a, b) if same else _arithmetic(ival, name, y, a, b)
    if name in ("min", "max"):
        return (a, b) if same else _min_or_max(name, y, a, b)
    if name in _ONE:
        return intersect(a, _ONE[name](ival, y, a)), b
    if name in INVERSES:
        return _contract_by_inverse(ival, name, y, a), b
    return a, b


def _to_ival(ival: Any, ends: Interval) -> Any:
    return ival.Interval(np.asarray(ends[0], float), np.asarray(ends[1], float))


def _from_ival(x: Any) -> Interval:
    return np.asarray(x.inf, float), np.asarray(x.sup, float)


def _arithmetic(ival: Any, name: str, y: Interval, a: Interval, b: Interval) -> tuple[Interval, Interval]:
    """The first operand from the second, and the second from what is then left of the first."""
    first, second = _ARITHMETIC[name]
    Y, B = _to_ival(ival, y), _to_ival(ival, b)
    a = intersect(a, _from_ival(first(ival, Y, _to_ival(ival, a), B)))
    return a, intersect(b, _from_ival(second(ival, Y, _to_ival(ival, a), B)))


def _min_or_max(name: str, y: Interval, a: Interval, b: Interval) -> tuple[Interval, Interval]:
    """Both are at least the minimum y; where one is above y for certain, the other is y."""
    if name == "max":
        low, high = _min_or_max("min", _negate(y), _negate(a), _negate(b))
        return _negate(low), _negate(high)
    with np.errstate(invalid="ignore"):
        return (intersect(a, (y[0], np.where(b[0] > y[1], y[1], np.inf))),
                intersect(b, (y[0], np.where(a[0] > y[1], y[1], np.inf))))


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


_ARITHMETIC: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {  # y = f(a, b) solved for a, and for b
    "add": (lambda ival, y, a, b: y - b, lambda ival, y, a, b: y - a),
    "sub": (lambda ival, y, a, b: y + b, lambda ival, y, a, b: a - y),
    "mul": (lambda ival, y, a, b: ival.mulrev(b, y, a), lambda ival, y, a, b: ival.mulrev(a, y, b)),
    "div": (lambda ival, y, a, b: y * b, lambda ival, y, a, b: ival.mulrev(y, a, b))}
_ONE = {"neg": lambda ival, y, a: _negate(y), "copy": lambda ival, y, a: y,
        "twice": lambda ival, y, a: _from_ival(_to_ival(ival, y) * ival.Interval(0.5, 0.5)),
        "sq": lambda ival, y, a: _from_ival(ival.sqrrev(_to_ival(ival, y), _to_ival(ival, a))),
        "fabs": lambda ival, y, a: _from_ival(ival.absrev(_to_ival(ival, y), _to_ival(ival, a))),
        "inv": lambda ival, y, a: _from_ival(ival.recip(_to_ival(ival, y))),
        "sqrt": lambda ival, y, a: _from_ival(ival.sqr(ival.Interval(np.maximum(y[0], 0.0), np.maximum(y[1], 0.0))))}
