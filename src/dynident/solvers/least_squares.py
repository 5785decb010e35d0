"""Least squares: one damped Gauss-Newton loop, made of a direction and of a globalisation.

The loop is a function from one frozen state to the next. A *direction* solves the linearised problem, regularised as much
as it takes (`search_direction.py`); a *globalisation* decides how far to go along it, and when to regularise more: a trust
region on the cost, or a line search with the natural monotonicity test (`globalization.py`). Both end by the same rule
(`stopping.py`). Levenberg-Marquardt and the generalised Gauss-Newton method are two choices of these parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dynident._util.frozen import changed
from dynident.errors import SimulationDiverged, SimulatorLost
from dynident.linalg.finite_problem import FiniteProblem, Variables, Workspace
from dynident.solvers.search_direction import Regularization, SearchDirection, search_direction
from dynident.solvers.search_state import SearchState, condense, rounding_only
from dynident.solvers.solver_result import Iteration, SolverResult, Watch, iterations_in_words, simulator_lost_status
from dynident.solvers.stopping import infeasible, remaining_step
from dynident.status import Status, StatusCode
from dynident.tolerances import STEP_TOLERANCE
from dynident.transcription.parameter_constraints import ParameterConstraints


class Globalization(Protocol):
    """How far to go along a direction; `advance` gives the state at a better point, or one that stayed where it was."""

    def advance(self, problem: FiniteProblem, loop: LeastSquaresLoop, state: SearchState, newton: SearchDirection,
                remaining: float) -> SearchState: ...

    def ending(self, problem: FiniteProblem, loop: LeastSquaresLoop, before: SearchState, after: SearchState,
               remaining: float, iteration: int) -> SearchState:
        """The state after a step, with its ending where there is nothing more to gain."""
        ...


class CompiledSteps(Protocol):
    """Takes ordinary steps of a loop at once; what it leaves is for the loop."""

    def advance(self, loop: LeastSquaresLoop, state: SearchState, most: int, done: int, watch: Watch | None
                ) -> tuple[SearchState, int]: ...


@dataclass(frozen=True, eq=False)
class LeastSquaresLoop:
    """The parts that are combined, and when it is enough."""

    globalization: Globalization
    regularization: Regularization
    max_iterations: int
    step_tolerance: float = STEP_TOLERANCE  # standard errors that may remain
    constraints: ParameterConstraints | None = None
    max_newton_step: float = np.inf  # typical sizes; a longer undamped step is a sign of what the data do not see
    compiled: CompiledSteps | None = None  # where steps can be had in one call each

    def direction(self, problem: FiniteProblem, state: SearchState, amount: float, observable: bool = False,
                  limited: bool = False) -> SearchDirection:
        return search_direction(problem, state, self.regularization, amount, self.constraints, observable, limited)

    def run(self, problem: FiniteProblem, variables: Variables, watch: Watch | None = None,
            history: tuple[Iteration, ...] = ()) -> SearchState:
        """From a point until it ends. Raises SimulationDiverged where derivatives are not finite at the point itself."""
        state = initial_state(problem, variables, self.regularization, history)
        try:
            notify(watch, state)
            done = 0
            while done < self.max_iterations and state.ending is None:
                if self.compiled is not None:
                    state, steps = self.compiled.advance(self, state, self.max_iterations - done, done, watch)
                    done += steps
                if done < self.max_iterations and state.ending is None:
                    before, state = state, iterate(problem, self, state, done)
                    done += 1
                    if len(state.history) > len(before.history):
                        notify(watch, state)
            if state.ending is not None:
                return state
            spent = iterations_in_words(self.max_iterations)
            return state.ended(False, Status.of(StatusCode.ITERATION_LIMIT, spent=spent))
        except np.linalg.LinAlgError:  # entries too large or too small for a factorisation
            return state.ended(False, Status.of(StatusCode.SINGULAR))
        except KeyboardInterrupt:
            return state.ended(False, Status.of(StatusCode.INTERRUPTED))
        except SimulatorLost as end:
            return state.ended(False, simulator_lost_status(end))


def initial_state(problem: FiniteProblem, variables: Variables, regularization: Regularization,
                  history: tuple[Iteration, ...] = ()) -> SearchState:
    try:
        condensed = condense(problem.linearize(variables, Workspace()), regularization.with_nodes)
    except np.linalg.LinAlgError:
        raise SimulationDiverged(np.nan, 0, what="the derivatives are too large for the linear algebra") from None
    spare = Workspace() if regularization.with_nodes else condensed.linear.workspace  # nothing in it is referred to
    state = SearchState(variables, condensed, regularization.initial, np.zeros(len(problem.names)),
                        np.zeros(len(problem.names), dtype=int), spare, rounding_only(problem, variables, condensed),
                        history=history)
    return state.logged(problem, 0.0)


def notify(watch: Watch | None, state: SearchState) -> None:
    if watch is not None:
        watch(state.history[-1])


def iterate(problem: FiniteProblem, loop: LeastSquaresLoop, state: SearchState, iteration: int) -> SearchState:
    """One step, or the end: the undamped direction, what it would still gain, and as much of it as helps."""
    schedule = loop.regularization
    state = state.rescaled(problem, schedule.memory, schedule.scaled)
    newton = loop.direction(problem, state, schedule.least)
    state = with_direction(state, newton)
    remaining = remaining_step(problem, state, newton)
    if remaining <= loop.step_tolerance:
        return state.ended(True, Status.of(StatusCode.CONVERGED, spent=iterations_in_words(iteration)))
    if infeasible(state.violations):
        return state.ended(False, Status.of(StatusCode.INFEASIBLE_CONSTRAINTS, why=""))
    if loop.max_newton_step < np.inf and state.length(problem, newton.step, newton.node_steps) > loop.max_newton_step:
        return state.ended(False, Status.of(StatusCode.WANDERING))
    moved = loop.globalization.advance(problem, loop, state, newton, remaining)
    return loop.globalization.ending(problem, loop, state, moved, remaining, iteration + 1)


def with_direction(state: SearchState, direction: SearchDirection) -> SearchState:
    """With what the undamped direction says about bounds and constraints here."""
    constraints = direction.constraints
    more = () if constraints is None else (float(np.max(constraints.violation / constraints.scale)),)
    return changed(state, active_bounds=direction.active_bounds, constraints=constraints,
                   violations=(*state.violations, *more))


def outcome_of(problem: FiniteProblem, state: SearchState) -> SolverResult:
    """The result of a search that has ended."""
    assert state.ending is not None
    converged, reason = state.ending
    stopped = reason.code in (StatusCode.INTERRUPTED, StatusCode.SIMULATOR_LOST)
    if not (converged or stopped) and state.constraints is not None and np.any(state.constraints.violation):
        reason = Status.of(StatusCode.INFEASIBLE_CONSTRAINTS, why=f": {state.constraints.message}")
    return SolverResult(state.variables, state.evaluation, converged, reason, state.history,
                   bounds_met(problem, state.variables, state.active_bounds), reason.code is StatusCode.INTERRUPTED)


def bounds_met(problem: FiniteProblem, variables: Variables, active: np.ndarray) -> np.ndarray:
    """Which unknowns are at a bound that is active, and not only on the way to it."""
    c = problem.coordinates
    below, above = (active < 0) & (variables.unknowns <= c.lower), (active > 0) & (variables.unknowns >= c.upper)
    return np.where(below, -1, np.where(above, 1, 0))
