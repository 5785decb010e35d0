"""Parameter constraints: equalities and inequalities between parameters, and bounds on states, given as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from dynident.models.parser import parse_expression
from dynident.problem.constraint import Constraint
from dynident.problem.parameter import Transforms
from dynident.problem.problem import Problem
from dynident.tolerances import ACTIVE_CONSTRAINT


@dataclass(frozen=True, eq=False)
class ParameterConstraints:
    """lower <= value(unknowns) <= upper, in solver coordinates, with derivatives."""

    texts: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray
    function: ca.Function  # coordinates -> values (k,), Jacobian (k, unknowns)
    hessian: ca.Function  # coordinates, multipliers -> (unknowns, unknowns), sparse

    @property
    def count(self) -> int:
        return len(self.texts)

    def at(self, xi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, jacobian = self.function(xi)
        return np.asarray(values).ravel(), np.asarray(jacobian).reshape(self.count, len(xi))

    def active(self, xi: np.ndarray) -> np.ndarray:
        """Which of them hold the estimate."""
        values, jacobian = self.at(xi)
        near = ACTIVE_CONSTRAINT * (np.abs(values) + np.sum(np.abs(jacobian * xi), axis=1) + 1e-300)
        return (values - self.lower <= near) | (self.upper - values <= near)


def parameter_constraints(problem: Problem, coordinates: Transforms) -> ParameterConstraints:
    """The constraints of a problem that speak of parameters."""
    xi = ca.SX.sym("xi", len(problem.unknowns))
    symbols: dict[str, Any] = dict(problem.fixed_parameters())
    for i, unknown in enumerate(problem.unknowns):
        symbols.setdefault(unknown.name, ca.exp(xi[i]) if coordinates.log[i] else xi[i])
    chosen = [c for c in problem.constraints if not c.of_states(problem.model.states)]
    rows = [parse_expression(c.middle, symbols, f"constraint '{c.text}'") for c in chosen]
    value = ca.vertcat(*rows) if rows else ca.SX(0, 1)
    multiplier = ca.SX.sym("m", len(rows))
    hessian = ca.hessian(ca.dot(multiplier, value), xi)[0] if rows else ca.SX(xi.numel(), xi.numel())
    return ParameterConstraints(
        tuple(c.text for c in chosen), np.array([c.lower for c in chosen], dtype=float),
        np.array([c.upper for c in chosen], dtype=float),
        ca.Function("constraints", [xi], [value, ca.densify(ca.jacobian(value, xi))]),
        ca.Function("curvature", [xi, multiplier], [hessian]))


def state_bounds(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bound of each state at every grid point."""
    states = problem.model.states
    lower, upper = np.full(len(states), -np.inf), np.full(len(states), np.inf)
    for c in problem.constraints:
        if c.of_states(states):
            i = states.index(c.middle)
            lower[i], upper[i] = max(lower[i], c.lower), min(upper[i], c.upper)
    return lower, upper


__all__ = ["Constraint", "ParameterConstraints", "parameter_constraints", "state_bounds"]
