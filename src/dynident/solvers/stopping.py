"""Stopping: when is a least squares solver done? The one rule, in standard errors.

Not at a gradient norm, which has no unit: a fit has converged when the step that remains is a small part of a standard
error, all segments meet, and all constraints are met. Where no step helps any more, a larger part will do: as much as no
printed digit depends on, or as the simulation's own noise hides (the noise floor).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dynident.linalg.finite_problem import FiniteProblem
from dynident.status import Status, StatusCode
from dynident.tolerances import (
    CONSTRAINT_PROGRESS,
    COST_ROUNDING,
    DEFECT_TOLERANCE,
    HIDDEN_STEP,
    NODE_GAIN_TOLERANCE,
    NODE_STEP_TOLERANCE,
    ROUNDING_STEP,
    SIMULATION_ROUNDING,
    STALLED_STEP_TOLERANCE,
)

if TYPE_CHECKING:
    from dynident.solvers.search_direction import SearchDirection
    from dynident.solvers.search_state import SearchState

PROGRESS_WINDOW = 10  # iterations in which constraints that are not met have to come closer


def residual_std(cost: float, finite: FiniteProblem) -> float:
    """Of the weighted residuals: 1 where the noise is as large as said."""
    return math.sqrt(max(cost, finite.rounding_cost) / max(1, finite.residual_count - len(finite.names)))


def noise_floor(cost: float, finite: FiniteProblem) -> float:
    """Below this length the simulation's own noise hides whether a step helps; 0 where it has none.

    The noise e changes the cost |r|^2 by 2 r.e + |e|^2. The residuals r at a fit know nothing of e, so that r.e is of the size
    of one residual times |e|, and not of the length of all of them.
    """
    noise = finite.simulation_noise
    return step_in_standard_errors(2 * residual_std(cost, finite) * noise + noise**2, cost, finite)


def step_in_standard_errors(gain: float, cost: float, finite: FiniteProblem) -> float:
    """Length of a step in standard errors, from the fall of the cost that it promises.

    Zero where the fall would drown in rounding, or where the cost itself is rounding.
    """
    residual = SIMULATION_ROUNDING * math.sqrt(finite.rounding_cost / max(1, finite.residual_count))  # rounding in one of them
    if gain <= max(COST_ROUNDING * cost, 2 * math.sqrt(max(cost, 0.0)) * residual) or cost <= finite.rounding_cost:
        return 0.0
    freedom = max(1, finite.residual_count - len(finite.names))
    return math.sqrt(gain * freedom / cost)


def remaining_step(problem: FiniteProblem, state: SearchState, direction: SearchDirection) -> float:
    """How far an undamped direction leads, in standard errors; infinite while segments do not meet, or constraints."""
    evaluation, nodes = state.evaluation, direction.node_steps
    if direction.constraints is not None and np.any(direction.constraints.violation):
        return np.inf
    if state.length(problem, direction.step, nodes) <= ROUNDING_STEP:
        return 0.0
    if nodes:
        links = max(1, sum(len(d) for d in evaluation.defects))  # what each lacks adds up along the record
        if (evaluation.max_defect * math.sqrt(links) > DEFECT_TOLERANCE
                or math.sqrt(problem.node_step_norm(nodes)) > NODE_STEP_TOLERANCE):
            return np.inf
    free = state.condensed.node_reduction  # of all together
    if free > 0 and step_in_standard_errors(free, evaluation.squares, problem) > NODE_GAIN_TOLERANCE:
        return np.inf
    gain = state.condensed.rows.predicted_reduction(direction.step) - 2 * direction.cost_of_regularization
    return step_in_standard_errors(gain, evaluation.squares, problem)  # none along what regularisation holds more than the data


def is_optimum_to_rounding(problem: FiniteProblem, state: SearchState, remaining: float) -> bool:
    """Whether what remains is nothing to speak of, where no step helps any more."""
    return remaining <= max(STALLED_STEP_TOLERANCE, min(HIDDEN_STEP * noise_floor(state.evaluation.squares, problem), 1))


def stalled(problem: FiniteProblem, state: SearchState, remaining: float, helps: str, although: str) -> SearchState:
    """The end where no step helps any more: an optimum, or not."""
    if is_optimum_to_rounding(problem, state, remaining):
        return state.ended(True, Status.of(StatusCode.CONVERGED_NO_PROGRESS, helps=helps))
    beyond = f"; every way on meets a point where {state.last_divergence}" if state.last_divergence else ""
    return state.ended(False, Status.of(StatusCode.NO_PROGRESS, helps=helps + although, beyond=beyond))


def infeasible(violations: Sequence[float]) -> bool:
    """Whether constraints have come no closer to being met for a while."""
    return len(violations) > PROGRESS_WINDOW and violations[-1] > CONSTRAINT_PROGRESS * violations[-1 - PROGRESS_WINDOW]
