"""Search state: where a least squares solver stands between two steps, as a frozen value."""

from __future__ import annotations

import math
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from dynident._util.frozen import changed, frozen
from dynident.errors import SimulationDiverged
from dynident.linalg.condensing import CondensedProblem
from dynident.linalg.finite_problem import Evaluation, FiniteProblem, LinearizedProblem, Variables, Workspace
from dynident.solvers.solver_result import Iteration
from dynident.solvers.stopping import residual_std
from dynident.status import Status
from dynident.tolerances import SIMULATION_ROUNDING

if TYPE_CHECKING:
    from dynident.solvers.search_direction import LinearizedConstraints

FIRST_GROWTH = 2.0  # of the damping after a failure; the next grows by twice as much


def condense(linear: LinearizedProblem, with_nodes: bool) -> CondensedProblem:
    """The linearised problem in the unknowns alone; a solver that moves no nodes keeps nothing of the workspace."""
    condensed = CondensedProblem(linear)
    return condensed if with_nodes else condensed.without_chains()


def rounding_only(problem: FiniteProblem, variables: Variables, condensed: CondensedProblem) -> np.ndarray | None:
    """Which unknowns act by rounding only: a change by a typical size, and by one, moves outputs by less than their last digit.

    Along them the least squares step is one rounding error divided by another. None where there are no such unknowns.
    """
    typical, known = problem.coordinates.least_typical
    effect = condensed.rows.column_norms * np.maximum(typical, np.abs(variables.unknowns))
    at_rest = known & (effect <= SIMULATION_ROUNDING * math.sqrt(problem.rounding_cost))
    return at_rest if at_rest.any() else None


@frozen
class SearchState:
    """A point with its linearised problem, and what the next step needs to know of the last ones."""

    variables: Variables
    condensed: CondensedProblem  # the linearised problem at the point, inner nodes eliminated
    regularization: float  # of the next direction
    column_scale: np.ndarray  # (unknowns,) lengths of the Jacobian's columns, here and with a memory before
    active_bounds: np.ndarray  # (unknowns,) of the last direction: -1 lower, +1 upper, 0 free
    spare: Workspace  # for the linearisation of the next trial
    at_rest: np.ndarray | None = None  # (unknowns,) bool: those that act by rounding only here; None: none does
    variable_scale: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (unknowns,) typical change of each
    growth: float = FIRST_GROWTH  # of the damping after the next failure (trust region)
    step_length: float = 1.0  # of the last step (line search)
    previous_step: tuple[np.ndarray, float] | None = None  # in its full length, and how much of it was gone
    constraints: LinearizedConstraints | None = None  # linearised for the last direction
    violations: tuple[float, ...] = ()  # of the constraints, from point to point
    last_divergence: SimulationDiverged | None = None
    history: tuple[Iteration, ...] = ()
    ending: tuple[bool, Status] | None = None  # whether it converged, and why it ended

    @property
    def evaluation(self) -> Evaluation:
        return self.condensed.linear.evaluation

    def rescaled(self, problem: FiniteProblem, memory: float, grown: bool) -> SearchState:
        """With the lengths by which steps are measured at this point; `grown`: what has grown may go further."""
        norms = self.condensed.rows.column_norms
        column_scale = np.maximum(memory * self.column_scale, norms)
        scale = problem.coordinates.scale
        if not problem.coordinates.all_scaled:  # where nothing is known, that which the data can tell
            visible = np.sqrt(max(self.evaluation.squares, problem.rounding_cost)) / np.where(norms > 0, norms, np.inf)
            scale = np.where(np.isnan(scale), visible, scale)
        scale = np.where(scale > 0, scale, 1.0)
        if grown:
            scale = np.maximum(scale, np.abs(self.variables.unknowns))
        return changed(self, column_scale=column_scale, variable_scale=scale)

    def length(self, problem: FiniteProblem, step: np.ndarray, node_steps: tuple[np.ndarray, ...]) -> float:
        """Of a step, in typical sizes of unknowns and nodes."""
        scaled = step / self.variable_scale
        return math.sqrt(float(scaled @ scaled) + (problem.node_step_norm(node_steps) if node_steps else 0.0))

    def residual_std(self, problem: FiniteProblem) -> float:
        return residual_std(self.evaluation.squares, problem)

    def moved_to(self, problem: FiniteProblem, variables: Variables, condensed: CondensedProblem, step: float) -> SearchState:
        """At another point, which becomes a line of the history; the memory of this one is free for the next."""
        return changed(self, variables=variables, condensed=condensed, spare=self.condensed.linear.workspace,
                       at_rest=rounding_only(problem, variables, condensed)).logged(problem, step)

    def logged(self, problem: FiniteProblem, step: float) -> SearchState:
        values = tuple(problem.coordinates.values(self.variables.unknowns).tolist())
        here = Iteration(len(self.history), self.evaluation.cost, step, self.evaluation.max_defect, values)
        return changed(self, history=(*self.history, here))

    def ended(self, converged: bool, reason: Status) -> SearchState:
        return changed(self, ending=(converged, reason))
