"""Boundary conditions: which conditions tie the states at both ends of an interval?"""

from __future__ import annotations

from typing import Protocol

import casadi as ca
import numpy as np

from dynident.errors import SimulationDiverged

BoundaryJacobian = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # value, d/d begin, d/d end, d/d p


class BoundaryConditions(Protocol):
    """Conditions g(begin, end, p) = 0, as many as states and parameters together."""

    def value(self, begin: np.ndarray, end: np.ndarray, p: np.ndarray) -> np.ndarray: ...

    def linearize(self, begin: np.ndarray, end: np.ndarray, p: np.ndarray) -> BoundaryJacobian: ...


class SymbolicBoundaryConditions:
    """Conditions as one expression in the symbols of both states and of the parameters."""

    def __init__(self, begin: ca.SX, end: ca.SX, p: ca.SX, conditions: ca.SX):
        slope = ca.densify(ca.jacobian(conditions, ca.vertcat(begin, end, p)))
        everything = ca.vertcat(begin, end, p)
        self.plain = _Direct(ca.Function("ends", [everything], [ca.densify(conditions)]))
        self.both = _Direct(ca.Function("ends_slopes", [everything], [ca.densify(conditions), slope]))

    def value(self, begin: np.ndarray, end: np.ndarray, p: np.ndarray) -> np.ndarray:
        return _finite(self.plain(np.concatenate([begin, end, p]))[0].ravel())

    def linearize(self, begin: np.ndarray, end: np.ndarray, p: np.ndarray) -> BoundaryJacobian:
        value, slope = self.both(np.concatenate([begin, end, p]))
        n = begin.size
        _finite(value)
        _finite(slope, "the derivative of a condition")
        return value.ravel(), slope[:, :n], slope[:, n:2 * n], slope[:, 2 * n:]


class _Direct:
    """A CasADi function of one vector, called through its buffers: a tenth of the usual cost of a call."""

    def __init__(self, function: ca.Function):
        self.buffer, self.trigger = function.buffer()
        self.argument = np.zeros(function.size1_in(0))
        self.results = [np.zeros(function.size_out(k)[::-1]) for k in range(function.n_out())]  # column by column
        self.buffer.set_arg(0, memoryview(self.argument))  # type: ignore[call-arg, arg-type]
        for k, room in enumerate(self.results):
            self.buffer.set_res(k, memoryview(room))  # type: ignore[call-arg, arg-type]

    def __call__(self, argument: np.ndarray) -> list[np.ndarray]:
        self.argument[:] = argument
        self.trigger()
        return [room.T.copy() for room in self.results]


class LinearBoundaryConditions:
    """A y(begin) + B y(end) = c, as (3.16) of the thesis; no parameters."""

    def __init__(self, at_begin: np.ndarray, at_end: np.ndarray, right: np.ndarray):
        self.at_begin, self.at_end, self.right = (np.asarray(a, dtype=float) for a in (at_begin, at_end, right))

    def value(self, begin: np.ndarray, end: np.ndarray, p: np.ndarray) -> np.ndarray:
        return self.at_begin @ begin + self.at_end @ end - self.right

    def linearize(self, begin: np.ndarray, end: np.ndarray, p: np.ndarray) -> BoundaryJacobian:
        return self.value(begin, end, p), self.at_begin, self.at_end, np.zeros((self.right.size, p.size))


def _finite(values: np.ndarray, what: str = "a condition") -> np.ndarray:
    if not np.all(np.isfinite(values)):
        raise SimulationDiverged(np.nan, 0, what=f"{what} at the ends is not a finite number")
    return values
