"""What every filter shares when there is no compiler; the twin of filter_common.c."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import casadi as ca
import numpy as np

from dynident.kalman.backend import NOT_FINITE, NOT_POSITIVE, FilterLayout
from dynident.kalman.model_functions import functions_with_jacobians
from dynident.kalman.setup import FilterSetup
from dynident.kalman.simulated_functions import SimulatedFunctions
from dynident.tolerances import COVARIANCE_NEGATIVE_PIVOT, COVARIANCE_PIVOT

STEP_COUNT_ROUNDING = 1e-6  # of a step: an interval longer by this needs no step more


class FilterFault(Exception):
    """A sample cannot be taken; `code` is one of backend.FAULTS."""

    def __init__(self, code: int):
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, eq=False)
class SymbolicFunctions:
    """Step and measurement function of equations, with exact Jacobians; `SimulatedFunctions` are those of a model without."""

    next: ca.Function  # (t, h, a, u0, u1, p) -> next states, Jacobian
    output: ca.Function  # (t, a, u, p) -> outputs, Jacobian

    def step(self, t: float, h: float, a: np.ndarray, u0: np.ndarray, u1: np.ndarray, p: np.ndarray
             ) -> tuple[np.ndarray, np.ndarray]:
        after, F = (np.asarray(v) for v in self.next(t, h, a, u0, u1, p))
        return after.ravel(), F

    def outputs(self, t: float, a: np.ndarray, u: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        y, H = (np.asarray(v) for v in self.output(t, a, u, p))
        return y.ravel(), H

    def moved(self, t: float, h: float, points: np.ndarray, u0: np.ndarray, u1: np.ndarray, p: np.ndarray) -> np.ndarray:
        return np.array([self.step(t, h, point, u0, u1, p)[0] for point in points])

    def measured(self, t: float, points: np.ndarray, u: np.ndarray, p: np.ndarray) -> np.ndarray:
        return np.array([self.outputs(t, point, u, p)[0] for point in points])


@dataclass(frozen=True, eq=False)
class FilterModel:
    """What a filter is told once: step and measurement function with their Jacobians, and settings."""

    setup: FilterSetup
    layout: FilterLayout
    settings: Mapping[str, Any]
    first_order_hold: np.ndarray
    functions: SymbolicFunctions | SimulatedFunctions

    @classmethod
    def of(cls, setup: FilterSetup) -> FilterModel:
        settings = setup.settings()
        functions = setup.simulated or SymbolicFunctions(*functions_with_jacobians(setup.augmented, setup.integrator))
        return cls(setup, FilterLayout(setup), settings, settings["first_order_hold"], functions)

    def with_hold(self, first_order_hold: np.ndarray) -> FilterModel:
        """The same with inputs that move in another way between samples."""
        return replace(self, first_order_hold=first_order_hold)

    def substeps(self, begin: float, end: float, u_begin: np.ndarray, u_end: np.ndarray
                 ) -> Iterator[tuple[float, float, np.ndarray, np.ndarray, np.ndarray]]:
        """Time, length, inputs at both ends and process noise variance of each step over an interval."""
        count = max(1, int(np.ceil((end - begin) / self.setup.max_step * (1 - STEP_COUNT_ROUNDING))))
        h = (end - begin) / count
        slope = self.first_order_hold * (u_end - u_begin) / count
        q = self.setup.q * (1 / count if self.settings["per_sample"] else h)
        for m in range(count):
            yield begin + m * h, h, u_begin + m * slope, u_begin + (m + 1) * slope, q

    def step(self, t: float, h: float, a: np.ndarray, u0: np.ndarray, u1: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The augmented state one step later, and its transition matrix; parameters stand still."""
        after, F = self.functions.step(t, h, a, u0, u1, self.settings["p"])
        nx = self.layout.nx
        return np.concatenate([after, a[nx:]]), np.vstack([F, np.eye(self.layout.n)[nx:]])

    def step_points(self, t: float, h: float, points: np.ndarray, u0: np.ndarray, u1: np.ndarray) -> np.ndarray:
        """Several augmented states one step later, (points, size)."""
        after = self.functions.moved(t, h, points, u0, u1, self.settings["p"])
        return np.hstack([after, points[:, self.layout.nx:]])

    def outputs(self, t: float, a: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The outputs, and their Jacobian (outputs, size)."""
        return self.functions.outputs(t, a, u, self.settings["p"])

    def output_points(self, t: float, points: np.ndarray, u: np.ndarray) -> np.ndarray:
        """The outputs at several augmented states, (points, outputs)."""
        return self.functions.measured(t, points, u, self.settings["p"])


@dataclass(frozen=True, eq=False)
class FilterState:
    """What a filter knows: mean and covariance (as its form keeps it) at the time of the last sample."""

    t: float
    started: bool  # t and u are known
    u: np.ndarray
    x: np.ndarray
    P: np.ndarray  # (size, size)

    def to_array(self) -> np.ndarray:
        return np.concatenate([[self.t, float(self.started)], self.u, self.x, self.P.ravel()])

    @classmethod
    def from_array(cls, layout: FilterLayout, memory: np.ndarray) -> FilterState:
        head, u, x, P = np.split(memory.copy(), np.cumsum([2, layout.nu, layout.n]))
        return cls(float(head[0]), bool(head[1]), u, x, P.reshape(layout.n, layout.n))


@dataclass(frozen=True, eq=False)
class FilterStep:
    """What one sample leaves: the state after it, and the fields of `layout.sample` and `layout.smoother_data`."""

    state: Any
    sample: np.ndarray
    smoother_data: np.ndarray


def pack_fields(slices: Mapping[str, slice], **values: Any) -> np.ndarray:
    """A flat array from its named parts."""
    packed = np.empty(max(s.stop for s in slices.values()))
    for name, value in values.items():
        packed[slices[name]] = np.ravel(value)
    return packed


def check_finite(x: np.ndarray, variance: np.ndarray) -> None:
    if np.any(variance < 0):
        raise FilterFault(NOT_POSITIVE)
    if not (np.all(np.isfinite(x)) and np.all(np.isfinite(variance))):
        raise FilterFault(NOT_FINITE)


def semidefinite_cholesky(P: np.ndarray) -> np.ndarray:
    """L with L L' = P; a direction without variance gives a column of zeros, a negative variance a fault."""
    n = len(P)
    L = np.zeros((n, n))
    for j in range(n):
        pivot, size = P[j, j] - L[j, :j] @ L[j, :j], abs(P[j, j])
        if pivot <= COVARIANCE_PIVOT * size:
            if not pivot >= COVARIANCE_NEGATIVE_PIVOT * size:
                raise FilterFault(NOT_POSITIVE)
            continue
        L[j, j] = np.sqrt(pivot)
        L[j + 1:, j] = (P[j + 1:, j] - L[j + 1:, :j] @ L[j, :j]) / L[j, j]
    return L


def project_onto_bounds(model: FilterModel, x: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, int, np.ndarray]:
    """Parameters outside of their bounds onto them, in the metric of P: the new state, how many were outside, and the
    multipliers with which x moved by -P times them."""
    x, multipliers, projected = x.copy(), np.zeros(len(x)), 0
    for place, (low, high) in enumerate(zip(model.settings["lower"], model.settings["upper"], strict=True)):
        row = model.layout.nx + place
        bound = min(max(x[row], low), high)
        if bound != x[row] and P[row, row] > 0:
            multipliers[row] -= (bound - x[row]) / P[row, row]
            x += P[:, row] / P[row, row] * (bound - x[row])
            x[row] = bound
            projected += 1
    return x, projected, multipliers
