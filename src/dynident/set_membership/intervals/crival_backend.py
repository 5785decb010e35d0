"""crival backend: the interpreted twin of tape.c, with correctly rounded functions; rigorous, and without a compiler."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynident.errors import NotSupported
from dynident.set_membership.intervals.arithmetic import intersect
from dynident.set_membership.intervals.crival_contractor import contract_operands
from dynident.set_membership.intervals.kernel import Guarantee, mark_empty_boxes
from dynident.set_membership.intervals.tape import CODES, Tape


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
