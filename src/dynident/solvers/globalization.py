"""Globalisation: how far along a direction, so that a step helps from far away too?

`TrustRegion` judges by the cost: the gain ratio, actual to predicted reduction, sets the damping of the next step (Levenberg,
Marquardt; Nielsen's rule). `NaturalMonotonicity` judges by the natural level function: the step that would follow, computed
with the derivatives already at hand, must be shorter (Bock; Deuflhard). It compares like with like, steps in the unknowns (it
is affine invariant), so that neither a penalty for open matching conditions nor the weights of the residuals need tuning (no
merit function).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dynident._util.frozen import changed
from dynident.errors import SimulationDiverged
from dynident.linalg.condensing import CondensedProblem
from dynident.linalg.finite_problem import Evaluation, FiniteProblem, Variables
from dynident.solvers.least_squares import LeastSquaresLoop
from dynident.solvers.search_direction import SearchDirection
from dynident.solvers.search_state import FIRST_GROWTH, SearchState, condense
from dynident.solvers.solver_result import iterations_in_words
from dynident.solvers.stopping import noise_floor, remaining_step, residual_std, stalled
from dynident.status import Status, StatusCode
from dynident.tolerances import (
    CONTRACTED_STEP,
    CONTRACTING_STEP,
    LONGEST_LOG_STEP,
    STALLED_STEP_TOLERANCE,
    SUFFICIENT_REDUCTION,
    UNOBSERVABLE_STEP,
)

FIRST_DAMPING = 1e-3  # of squared columns
LEAST_DAMPING = 1e-15  # of squared columns: below, it is lost in the rounding of their sum
MOST_DAMPING = 1e14  # beyond it a step changes nothing
NEAR_DAMPING = 1e-8  # it may fall to this at once when less than a standard error is left
DIVERGED_GROWTH = 10.0  # of the damping after a simulation that diverged
SHORTEST_STEP = 1e-3  # of a direction; below it the direction is given up and regularised instead
SHORT_STEP = 0.3  # of a direction regularised in typical sizes; it was regularised too little
SMALLEST_LIMIT = 0.1  # of a direction, however much it seems to overshoot
LENGTHENING = 4.0  # times the last step length, at the most


@dataclass(frozen=True)
class Damping:
    """Of a trust region on the cost: how much, and by how much more after a step that does not help (Nielsen's rule)."""

    amount: float
    growth: float = FIRST_GROWTH

    @staticmethod
    def accepts(reduction: float, predicted: float) -> bool:
        """Whether a step gains enough of what the linearised problem promises."""
        return reduction > SUFFICIENT_REDUCTION * predicted

    def accepted(self, reduction: float, predicted: float) -> Damping:
        ratio = reduction / predicted if predicted > 0 else 1.0
        return Damping(max(self.amount * max(1 / 3, 1 - (2 * ratio - 1) ** 3), LEAST_DAMPING))

    def rejected(self) -> Damping:
        return Damping(self.amount * self.growth, 2 * self.growth)

    def near_optimum(self, remaining: float) -> Damping:
        """Less when less than a standard error remains, as its square: the last step doubles the digits, and saves one."""
        near = max(NEAR_DAMPING, FIRST_DAMPING * remaining**2)
        return replace(self, amount=min(self.amount, near)) if remaining < 1 else self


@dataclass(frozen=True)
class TrustRegion:
    """Damping that follows the ratio of actual to predicted reduction of the cost; takes no matching conditions."""

    patience: int = 1  # iterations that together gain nothing to speak of before the rest is called unobservable

    def advance(self, problem: FiniteProblem, loop: LeastSquaresLoop, state: SearchState, newton: SearchDirection,
                remaining: float) -> SearchState:
        if not problem.jacobian_is_cheap:
            state = changed(state, regularization=Damping(state.regularization).near_optimum(remaining).amount)
        here = state.variables
        while state.regularization < MOST_DAMPING and state.variables is here:
            state = self.trial(problem, loop, state, loop.direction(problem, state, state.regularization, limited=True))
        return state

    def trial(self, problem: FiniteProblem, loop: LeastSquaresLoop, state: SearchState, direction: SearchDirection
              ) -> SearchState:
        """The state at the end of a step that lowers the cost, else the same one with more damping."""
        state, damping = changed(state, active_bounds=direction.active_bounds), Damping(state.regularization, state.growth)
        predicted = max(0.0, state.condensed.rows.predicted_reduction(direction.step))
        here = state.variables
        candidate = project_to_bounds(problem, Variables(here.unknowns + direction.step, here.nodes))
        try:
            ahead = problem.linearize(candidate, state.spare) if self.expects_success(problem, state) else None
            evaluation = ahead.evaluation if ahead else problem.evaluate(candidate)
            reduction = state.evaluation.cost - evaluation.cost
            condensed = (condense(ahead or problem.linearize(candidate, state.spare), loop.regularization.with_nodes)
                         if damping.accepts(reduction, predicted) else None)
        except SimulationDiverged as divergence:  # never an abort: come back from where nothing is finite
            return changed(state, last_divergence=divergence, regularization=DIVERGED_GROWTH * state.regularization)
        damping = damping.rejected() if condensed is None else damping.accepted(reduction, predicted)
        state = changed(state, regularization=damping.amount, growth=damping.growth)
        if condensed is None:
            return state
        scaled = direction.step * state.column_scale
        return state.moved_to(problem, candidate, condensed, math.sqrt(float(scaled @ scaled)))

    def expects_success(self, problem: FiniteProblem, state: SearchState) -> bool:
        """The last trial helped, so the next probably will: its Jacobian is asked for at once and saves an evaluation."""
        return problem.jacobian_is_cheap and state.growth == FIRST_GROWTH

    def ending(self, problem: FiniteProblem, loop: LeastSquaresLoop, before: SearchState, after: SearchState,
               remaining: float, iteration: int) -> SearchState:
        floor, spent = noise_floor(after.evaluation.squares, problem), iterations_in_words(iteration)
        if remaining <= floor:  # costs cannot be compared any more
            return after.ended(floor < 1, Status.of(StatusCode.SIMULATION_NOISE, spent=spent, hidden=floor))
        if after.variables is before.variables:
            remaining = min(remaining, self.observable_step(problem, loop, after))
            return stalled(problem, after, remaining, "lowers the cost", ", although the gradient is not zero")
        if iteration < self.patience:
            return after
        gained = after.history[-1 - self.patience].cost - after.evaluation.cost
        return self.end_if_stationary(problem, loop, after, iteration) if self.gains_little(
            problem, after.evaluation.squares, gained) else after

    @staticmethod
    def gains_little(problem: FiniteProblem, squares: float, gained: float) -> bool:
        """Whether a step gained less than a small part of a standard error is worth."""
        variance = min(1.0, residual_std(squares, problem) ** 2)  # far from the data nothing could be told from what is wrong
        return gained < UNOBSERVABLE_STEP**2 * variance

    def end_if_stationary(self, problem: FiniteProblem, loop: LeastSquaresLoop, after: SearchState, iteration: int
                          ) -> SearchState:
        """The state after a step that gained little, with its ending where nothing remains that the data see."""
        if self.observable_step(problem, loop, after) <= loop.step_tolerance:
            left = remaining_step(problem, after, loop.direction(problem, after, loop.regularization.least))
            all_of_it = left <= STALLED_STEP_TOLERANCE  # also along what the data hardly see
            code = StatusCode.CONVERGED if all_of_it else StatusCode.CONVERGED_IDENTIFIABLE
            return after.ended(True, Status.of(code, spent=iterations_in_words(iteration)))
        return after

    def observable_step(self, problem: FiniteProblem, loop: LeastSquaresLoop, state: SearchState) -> float:
        """What remains without the endless way along what the data do not see."""
        return remaining_step(problem, state, loop.direction(problem, state, loop.regularization.least, observable=True))


@dataclass(frozen=True)
class NaturalMonotonicity:
    """A line search along the direction; where no part of it passes the test, a direction that is regularised more."""

    def advance(self, problem: FiniteProblem, loop: LeastSquaresLoop, state: SearchState, newton: SearchDirection,
                remaining: float) -> SearchState:
        here, limit, schedule = state.variables, aitken_step_length(state, newton.step), loop.regularization
        short = not np.any(np.abs(newton.step[problem.coordinates.log]) > LONGEST_LOG_STEP)
        while state.regularization <= schedule.most and state.variables is here:
            direction = newton if short and state.regularization == schedule.least else (
                loop.direction(problem, state, state.regularization, limited=True))
            state = line_search(problem, loop, state, direction, limit)
        return changed(state, previous_step=(newton.step, state.step_length))

    def ending(self, problem: FiniteProblem, loop: LeastSquaresLoop, before: SearchState, after: SearchState,
               remaining: float, iteration: int) -> SearchState:
        if after.variables is not before.variables:
            return after
        return stalled(problem, after, remaining, "passes the monotonicity test", " any more")


def aitken_step_length(state: SearchState, step: np.ndarray) -> float:
    """The part of a step that leads to where the next one would vanish, seen from how it follows the last one.

    With large residuals a Gauss-Newton step overshoots: the next step, d, points back along the last one, d', of
    which the part a was gone. If d = (1 - a c) d' with the same c in the next step (Aitken), the right part is 1 / c.
    """
    if state.previous_step is None:
        return 1.0
    before, gone = state.previous_step[0] / state.variable_scale, state.previous_step[1]
    squared = float(before @ before)
    follows = float(before @ (step / state.variable_scale)) / squared if squared > 0 else 0.0
    return float(np.clip(gone / (1 - follows), SMALLEST_LIMIT, 1.0)) if follows < 0 else 1.0


def line_search(problem: FiniteProblem, loop: LeastSquaresLoop, state: SearchState, direction: SearchDirection, limit: float
                ) -> SearchState:
    """As far along the direction as the natural monotonicity test allows; where that is nowhere, more regularisation."""
    state = changed(state, active_bounds=direction.active_bounds, constraints=direction.constraints)
    length = state.length(problem, direction.step, direction.node_steps)
    step_length = min(limit, LENGTHENING * state.step_length)
    while step_length >= SHORTEST_STEP:
        candidate = project_to_bounds(problem, state.variables.step_along(direction.step, direction.node_steps, step_length))
        try:
            ahead = problem.linearize(candidate, state.spare) if expects_success(problem, state, step_length) else None
            evaluation = ahead.evaluation if ahead else problem.evaluate(candidate)
            follows = simplified_step_norm(problem, state, direction, candidate, evaluation, step_length)
            if follows <= (1 - step_length / 4) * length or (
                    step_length == limit and follows <= CONTRACTED_STEP and length <= CONTRACTING_STEP):
                condensed = CondensedProblem(ahead or problem.linearize(candidate, state.spare, evaluation))
                return accept(loop, state, step_length, limit).moved_to(problem, candidate, condensed, step_length * length)
        except SimulationDiverged as divergence:
            state, step_length = changed(state, last_divergence=divergence), step_length / 4
            continue
        excess = abs(follows - (1 - step_length) * length)
        step_length = min(step_length / 2, max(step_length / 10, step_length * length / max(2 * excess, 1e-300)))
    schedule = loop.regularization
    return changed(state, step_length=1.0, regularization=max(state.regularization * schedule.factor, schedule.first))


def expects_success(problem: FiniteProblem, state: SearchState, step_length: float) -> bool:
    """A full step after a full one probably passes: its Jacobian is asked for at once and saves an evaluation."""
    return problem.jacobian_is_cheap and step_length == state.step_length == 1.0


def accept(loop: LeastSquaresLoop, state: SearchState, step_length: float, limit: float) -> SearchState:
    """What a step of this length says about the regularisation of the next direction."""
    schedule, amount = loop.regularization, state.regularization
    if step_length == limit:
        return changed(state, step_length=step_length, regularization=max(amount / schedule.factor, schedule.least))
    if schedule.scaled and step_length < SHORT_STEP:
        return changed(state, step_length=1.0, regularization=min(amount * schedule.factor, schedule.most))
    return changed(state, step_length=step_length)


def simplified_step_norm(problem: FiniteProblem, state: SearchState, direction: SearchDirection, candidate: Variables,
                         evaluation: Evaluation, step_length: float) -> float:
    """Length of the simplified Newton step: residuals and defects of another point, derivatives of the present one.

    What regularises the step pulls on the other point too: in a linear problem nothing follows a full step, regularised
    or not.
    """
    gradient, offsets = state.condensed.gradient(evaluation)
    gradient += direction.weights**2 * (step_length * direction.step)
    constraints, active = direction.constraints, direction.active_constraints
    if constraints is not None:
        gradient += constraints.gradient(active, constraints.constraints.at(candidate.unknowns)[0])
    step = direction.free_rows.newton_step(np.append(gradient, np.zeros(active.size)))[:gradient.size]
    return state.length(problem, step, state.condensed.expand(step, offsets))


def project_to_bounds(problem: FiniteProblem, variables: Variables) -> Variables:
    """Rounding must not carry an unknown out of its bounds."""
    c = problem.coordinates
    return Variables(np.minimum(np.maximum(variables.unknowns, c.lower), c.upper), variables.nodes)
