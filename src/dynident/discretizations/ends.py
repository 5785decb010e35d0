"""Ends: which conditions tie the states at both ends of an interval?"""

from __future__ import annotations

from typing import Protocol

import casadi as ca
import numpy as np

from dynident.integrators.march import Diverged

Tied = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # value, d/d begin, d/d end, d/d p


class Ends(Protocol):
    """Conditions g(begin, end, p) = 0, as many as states and parameters together."""

    def value(self, begin: np.ndarray, end: np.ndarray, p: np.ndarray) -> np.ndarray: ...

    def linearize(self, begin: np.ndarray, end: np.ndarray, p: np.ndarray) -> Tied: ...


class TracedEnds:
    """Conditions as one expression in the symbols of both states and of the parameters."""

    def __init__(self, begin: ca.SX, end: ca.SX, p: ca.SX, conditions: ca.SX):
        slopes = [ca.densify(ca.jacobian(conditions, by)) for by in (begin, end, p)]
        self.call = ca.Function("ends", [begin, end, p], [ca.densify(conditions), *slopes])
        self.plain = ca.Function("ends_value", [begin, end, p], [ca.densify(conditions)])

    def value(self, begin: np.ndarray, end: np.ndarray, p: np.ndarray) -> np.ndarray:
        return _finite(np.asarray(self.plain(begin, end, p)).ravel())

    def linearize(self, begin: np.ndarray, end: np.ndarray, p: np.ndarray) -> Tied:
        value, *slopes = (np.asarray(part) for part in self.call(begin, end, p))
        for slope in slopes:
            _finite(slope)
        return _finite(value.ravel()), slopes[0], slopes[1], slopes[2].reshape(value.size, p.size)


class LinearEnds:
    """A y(begin) + B y(end) = c, as (3.16) of the thesis; no parameters."""

    def __init__(self, at_begin: np.ndarray, at_end: np.ndarray, right: np.ndarray):
        self.at_begin, self.at_end, self.right = (np.asarray(a, dtype=float) for a in (at_begin, at_end, right))

    def value(self, begin: np.ndarray, end: np.ndarray, p: np.ndarray) -> np.ndarray:
        return self.at_begin @ begin + self.at_end @ end - self.right

    def linearize(self, begin: np.ndarray, end: np.ndarray, p: np.ndarray) -> Tied:
        return self.value(begin, end, p), self.at_begin, self.at_end, np.zeros((self.right.size, p.size))


def _finite(values: np.ndarray) -> np.ndarray:
    if not np.all(np.isfinite(values)):
        raise Diverged(np.nan, 0, what="a condition at the ends is not a finite number")
    return values
