"""Search direction: the step that solves the linearised problem, regularised, within bounds and under constraints.

    minimise |J step + r|^2 + |regularisation * step|^2   with   lower <= x + step <= upper,   constraints met

Undamped it is the Gauss-Newton step. Regularisation is relative to the Jacobian's columns (Levenberg, Marquardt), so that
units do not matter, or to typical sizes of the unknowns: then directions that the data hardly see rest (truncated SVD).

Each constraint between unknowns gets an unknown of its own, its linearised value after the step, which has bounds like any
other; heavy rows tie it to the step. So bounded least squares decides which constraints hold the step (active set), and a
start that does not meet them is no special case.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dynident._util.frozen import frozen
from dynident.linalg.arrowhead import FIRM, ArrowheadLeastSquares, arrowhead
from dynident.linalg.bounded_least_squares import bounded_least_squares, damped_step
from dynident.linalg.finite_problem import FiniteProblem
from dynident.solvers.search_state import SearchState
from dynident.tolerances import CONSTRAINT_TOLERANCE, LONGEST_LOG_STEP, RANK_DAMPING, UNOBSERVABLE_STEP
from dynident.transcription.parameter_constraints import ParameterConstraints


@dataclass(frozen=True, eq=False)
class LinearizedConstraints:
    """Constraints linearised at a point: lower <= values + jacobian @ step <= upper."""

    constraints: ParameterConstraints
    values: np.ndarray  # (k,)
    jacobian: np.ndarray  # (k, unknowns)
    scale: np.ndarray  # (k,) of the terms that make a value, to compare rounding with
    weights: np.ndarray  # (k,) of the rows that tie a constraint to the step

    def augment(self, rows: ArrowheadLeastSquares) -> ArrowheadLeastSquares:
        """The rows in the unknowns and, after them, the changes of the constraints' values."""
        n, k = rows.unknowns, self.values.size
        below = np.column_stack([self.weights[:, None] * self.jacobian, -np.diag(self.weights), np.zeros(k)])
        above = np.zeros((n, n + k + 1))
        triangle = rows.to_dense()
        above[:, :n], above[:, -1] = triangle[:, :n], triangle[:, -1]
        return arrowhead(n + k, np.arange(n + k), [], np.vstack([below, above]))

    def bounds(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of a step, continued for the changes of the constraints' values."""
        return (np.concatenate([lower, self.constraints.lower - self.values]),
                np.concatenate([upper, self.constraints.upper - self.values]))

    def gradient(self, active: np.ndarray, values: np.ndarray) -> np.ndarray:
        """What the constraints that hold a step (-1 below, +1 above) add to the gradient where their values are these."""
        goal = np.where(active < 0, self.constraints.lower, np.where(active > 0, self.constraints.upper, values))
        return self.jacobian.T @ (self.weights**2 * (values - goal))

    @property
    def violation(self) -> np.ndarray:
        """(k,) by how much each is not met; 0 where it is, to rounding."""
        beyond = np.maximum(self.constraints.lower - self.values, self.values - self.constraints.upper)
        return np.where(beyond > CONSTRAINT_TOLERANCE * self.scale, beyond, 0.0)

    @property
    def message(self) -> str:
        """What is not met, as a clause."""
        worst = int(np.argmax(self.violation / self.scale))
        return f"'{self.constraints.texts[worst]}' is off by {self.violation[worst]:.3g}"


def linearize_constraints(constraints: ParameterConstraints, at: np.ndarray, unit: np.ndarray, row_norm: float
                          ) -> LinearizedConstraints:
    """At these unknowns, of these typical changes; `row_norm`: the largest effect of one of them on the rows."""
    values, jacobian = constraints.at(at)
    effect = np.linalg.norm(jacobian * unit, axis=1)
    limits = np.where(np.isfinite(constraints.lower), constraints.lower, constraints.upper)
    scale = np.abs(values) + np.abs(limits) + np.sum(np.abs(jacobian * at), axis=1) + 1e-300
    weights = FIRM * row_norm / np.where(effect > 0, effect, row_norm * FIRM)
    return LinearizedConstraints(constraints, values, jacobian, scale, weights)


@dataclass(frozen=True)
class Regularization:
    """Tikhonov regularization of a direction: how much at least, to begin with, once it is needed, and at the most."""

    least: float
    initial: float
    first: float  # once it is needed at all
    most: float
    factor: float  # from one to the next
    scaled: bool = False  # in standard errors that a typical size costs; else relative to the squared columns
    memory: float = 0.0  # of a column's length, from one iteration to the next; it may shrink by decades on the way
    with_nodes: bool = True  # inner nodes follow the step of the unknowns


@frozen
class SearchDirection:
    """A step of the unknowns and of the inner nodes, and what it was made of."""

    unknowns: int
    solution: np.ndarray  # (unknowns + constraints,) the step, and the changes of the constraints' values
    active: np.ndarray  # the same: -1 at a lower limit, +1 at an upper one, 0 free
    rows: ArrowheadLeastSquares  # regularised, the constraints among them
    weights: np.ndarray  # (unknowns,) of the rows that regularise
    node_steps: tuple[np.ndarray, ...]
    constraints: LinearizedConstraints | None  # linearised, where there are any
    cost_of_regularization: float  # what the regularisation that is always there adds to the cost of this step

    @property
    def step(self) -> np.ndarray:
        return self.solution[:self.unknowns]

    @property
    def active_bounds(self) -> np.ndarray:
        return self.active[:self.unknowns]

    @property
    def active_constraints(self) -> np.ndarray:
        return self.active[self.unknowns:]

    @cached_property
    def free_rows(self) -> ArrowheadLeastSquares:
        """The regularised rows with all that is active kept where it is."""
        return self.rows.with_fixed(self.active != 0, self.solution)


def search_direction(problem: FiniteProblem, state: SearchState, regularization: Regularization, amount: float,
                     constraints: ParameterConstraints | None = None, observable: bool = False, limited: bool = False
                     ) -> SearchDirection:
    """The direction with this amount of regularisation; `observable`: nothing along what the data hardly see.

    `limited`: no logarithm goes further than derivatives can be trusted, to be tried; what it says is not what remains.
    """
    rows, coordinates = state.condensed.rows.freeze_null_space(), problem.coordinates
    scale, typical, paid = state.variable_scale, state.variable_scale, 0.0
    weights = math.sqrt(RANK_DAMPING if regularization.scaled else amount) * np.where(
        state.column_scale > 0, state.column_scale, 1.0)
    if regularization.scaled or observable:  # the way along what the data do not see is endless, and bends: it stays there
        std = state.residual_std(problem)
        if regularization.scaled:
            weights = weights + amount * std / scale
        else:
            typical = np.fmax(coordinates.scale, np.abs(state.variables.unknowns))  # NaN without a scale
            typical = np.where(typical > 0, typical, 1.0)
        rows = rows.freeze_unobservable(typical, UNOBSERVABLE_STEP * min(1.0, std))  # far from the data all counts
    if state.at_rest is not None:
        weights = np.where(state.at_rest, np.max(state.column_scale, initial=1.0), weights)  # nothing moves it
    lower, upper = coordinates.lower - state.variables.unknowns, coordinates.upper - state.variables.unknowns
    if limited and coordinates.any_log:
        reach = np.where(coordinates.log, LONGEST_LOG_STEP, np.inf)
        lower, upper = np.maximum(lower, -reach), np.minimum(upper, reach)
    linearized = None
    if constraints is None:
        rows, solution, active = damped_step(rows, weights, lower, upper)
    else:
        rows = rows.with_damping(weights)
        row_norm = float(np.max(rows.column_norms * scale))
        linearized = linearize_constraints(constraints, state.variables.unknowns, scale, row_norm)
        rows, (lower, upper) = linearized.augment(rows), linearized.bounds(lower, upper)
        solution, active = bounded_least_squares(rows, lower, upper)
    step = solution[:len(scale)]
    nodes = state.condensed.expand(step) if regularization.with_nodes else ()
    if regularization.scaled:
        paid = float(np.sum((regularization.least * std / scale * step) ** 2))
    return SearchDirection(len(scale), solution, active, rows, weights, nodes, linearized, paid)
