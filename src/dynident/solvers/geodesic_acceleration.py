"""Geodesic acceleration: steps that bend with the model, for Levenberg-Marquardt along narrow curved valleys.

A damped step v is followed by half of the acceleration a that keeps the residuals on the line which their first derivatives
promise: (J'J + damping) a = -J' r_vv, with r_vv the second derivative of the residuals along v (Transtrum and Sethna 2012,
arXiv:1201.5885). A step whose acceleration is not short beside it is damped more, whatever the cost at its end says: so no
step jumps onto a plateau, where the data see nothing and nothing leads back.

The same v is followed along two curves, in values and in logarithms of what is not zero, and the lower end is taken: products
and powers are straight in logarithms, and what changes its sign is straight in values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from dynident._util.frozen import changed
from dynident.errors import SimulationDiverged
from dynident.linalg.finite_problem import Evaluation, FiniteProblem, Variables
from dynident.solvers.globalization import MOST_DAMPING, Damping, TrustRegion, project_to_bounds
from dynident.solvers.least_squares import LeastSquaresLoop
from dynident.solvers.search_direction import SearchDirection
from dynident.solvers.search_state import SearchState, condense
from dynident.tolerances import BENT_STEP, LONGEST_LOG_STEP, STRAIGHT_DISTANCE

LOOK_AHEAD = 0.1  # of a step: where residuals are looked at for their second derivative

DAMPING_PATIENCE = 20  # iterations: after so many with less damping each, a step along a valley is as long as the valley

StepCurve = Callable[[np.ndarray], np.ndarray]  # from a step to the change of the unknowns that it stands for


@dataclass(frozen=True)
class GeodesicTrustRegion:
    """A trust region on the cost whose steps are accelerated, until next to nothing is left."""

    straight: TrustRegion = field(default_factory=lambda: TrustRegion(DAMPING_PATIENCE))

    def advance(self, problem: FiniteProblem, loop: LeastSquaresLoop, state: SearchState, newton: SearchDirection,
                remaining: float) -> SearchState:
        if remaining <= STRAIGHT_DISTANCE or state.evaluation.weights:  # near the optimum, or where weights follow the model
            return self.straight.advance(problem, loop, state, newton, remaining)
        here = state.variables
        while state.regularization < MOST_DAMPING and state.variables is here:
            state = self.trial(problem, loop, state, loop.direction(problem, state, state.regularization, limited=True))
        return state

    def trial(self, problem: FiniteProblem, loop: LeastSquaresLoop, state: SearchState, direction: SearchDirection
              ) -> SearchState:
        """The state at the lower end of the two curves, where that is low enough, else the same one with more damping."""
        state, damping = changed(state, active_bounds=direction.active_bounds), Damping(state.regularization, state.growth)
        predicted = max(0.0, state.condensed.rows.predicted_reduction(direction.step))
        ends = list(curve_ends(problem, state, direction))
        best = min(ends, key=lambda end: end[1].cost, default=None)
        reduction = -np.inf if best is None else state.evaluation.cost - best[1].cost
        condensed = None
        if best is not None and damping.accepts(reduction, predicted):
            try:
                condensed = condense(problem.linearize(best[0], state.spare), loop.regularization.with_nodes)
            except SimulationDiverged as divergence:
                state = changed(state, last_divergence=divergence)
        damping = damping.rejected() if condensed is None else damping.accepted(reduction, predicted)
        state = changed(state, regularization=damping.amount, growth=damping.growth)
        if best is None or condensed is None:
            return state
        length = float(np.linalg.norm(direction.step * state.column_scale))
        return with_relative_memory(state, best[0]).moved_to(problem, best[0], condensed, length)

    def ending(self, problem: FiniteProblem, loop: LeastSquaresLoop, before: SearchState, after: SearchState,
               remaining: float, iteration: int) -> SearchState:
        return self.straight.ending(problem, loop, before, after, remaining, iteration)


def with_relative_memory(state: SearchState, ahead: Variables) -> SearchState:
    """The columns' lengths to remember: of an unknown that grew, relative to it, since the data see its changes so."""
    here, there = np.abs(state.variables.unknowns), np.abs(ahead.unknowns)
    return changed(state, column_scale=state.column_scale * np.where(there > here, here / np.where(there > 0, there, 1.0), 1.0))


def curve_ends(problem: FiniteProblem, state: SearchState, direction: SearchDirection
               ) -> Iterator[tuple[Variables, Evaluation]]:
    """Where the accelerated step ends along each curve on which its acceleration is short."""
    for curve in curves(problem, state, direction):
        try:
            ahead = problem.evaluate(step_along(problem, state, curve(LOOK_AHEAD * direction.step)))
            acceleration = direction.free_rows.newton_step(second_derivative(state, direction, ahead))
            if 2 * np.linalg.norm(acceleration * state.column_scale) > BENT_STEP * np.linalg.norm(
                    direction.step * state.column_scale):
                continue
            end = step_along(problem, state, curve(direction.step + acceleration / 2))
            yield end, problem.evaluate(end)
        except SimulationDiverged:
            continue


def curves(problem: FiniteProblem, state: SearchState, direction: SearchDirection) -> Iterator[StepCurve]:
    """In the solver's coordinates; and in logarithms of those that have none yet, where no step goes too far for one."""
    yield lambda step: step
    at = state.variables.unknowns
    curved = (at != 0) & ~problem.coordinates.log
    relative = np.divide(direction.step, at, out=np.zeros(at.size), where=curved)
    if np.any(curved) and np.all(np.abs(relative) <= LONGEST_LOG_STEP):
        yield lambda step: np.where(curved, at * np.expm1(np.divide(step, at, out=np.zeros(at.size), where=curved)), step)


def step_along(problem: FiniteProblem, state: SearchState, change: np.ndarray) -> Variables:
    return project_to_bounds(problem, replace(state.variables, unknowns=state.variables.unknowns + change))


def second_derivative(state: SearchState, direction: SearchDirection, ahead: Evaluation) -> np.ndarray:
    """J' r_vv by a difference: what the residuals ahead differ by from the line of their first derivatives."""
    rows = state.condensed.rows
    here, line = rows.gradient(np.zeros_like(direction.step)), rows.gradient(direction.step)  # J' r and J' (r + J v)
    there = state.condensed.gradient(ahead)[0]
    return 2 / LOOK_AHEAD * ((there - here) / LOOK_AHEAD - (line - here))
