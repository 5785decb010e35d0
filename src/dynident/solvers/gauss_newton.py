"""Generalised Gauss-Newton: least squares with matching conditions, inner nodes eliminated along time.

Full steps where they can be had; whether a step is good is judged by the natural monotonicity test (`globalization.py`).
Undamped first; where that does not converge, with a regularisation that keeps unknowns which the data hardly see from
wandering.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dynident.errors import SimulationDiverged
from dynident.linalg.finite_problem import FiniteProblem, Variables
from dynident.solvers.globalization import NaturalMonotonicity
from dynident.solvers.least_squares import LeastSquaresLoop, initial_state, outcome_of
from dynident.solvers.search_direction import Regularization
from dynident.solvers.solver_result import SolverResult, Watch, iterations_in_words
from dynident.solvers.stopping import infeasible, remaining_step
from dynident.status import Status, StatusCode
from dynident.tolerances import RANK_DAMPING, STALLED_STEP_TOLERANCE, UNBOUNDED_STEP, UNOBSERVABLE_STEP
from dynident.transcription.parameter_constraints import ParameterConstraints

UNSCALED_ITERATIONS = 50  # before it is taken for wandering among unknowns that the data do not see
LEVENBERG = Regularization(least=RANK_DAMPING, initial=RANK_DAMPING, first=1e-6, most=1e4, factor=100)  # of squared columns
SCALED_TRUST = Regularization(least=UNOBSERVABLE_STEP, initial=1.0, first=1.0, most=1e4, factor=3, scaled=True)
STOPPED = (StatusCode.INTERRUPTED, StatusCode.SIMULATOR_LOST)  # from outside


@dataclass(frozen=True)
class GaussNewton:
    """Options: how many iterations at the most, and constraints between the unknowns."""

    max_iterations: int = 200
    constraints: ParameterConstraints | None = None
    name: str = "generalised Gauss-Newton"

    def solve(self, finite: FiniteProblem, point: Variables, watch: Watch | None = None) -> SolverResult:
        """Unscaled first; where that does not converge, unknowns that the data hardly see are kept from wandering."""
        constraints = self.constraints if self.constraints is not None and self.constraints.count else None
        first = LeastSquaresLoop(NaturalMonotonicity(), LEVENBERG, min(self.max_iterations, UNSCALED_ITERATIONS),
                                 constraints=constraints, max_newton_step=UNBOUNDED_STEP)
        state = first.run(finite, point, watch)
        first_result, used = outcome_of(finite, state), len(state.history) - 1
        stopped = first_result.converged or first_result.reason.code in STOPPED or infeasible(state.violations)
        if stopped or used >= self.max_iterations:
            return first_result
        start = first_result.point if used >= UNSCALED_ITERATIONS else point  # a run that got stuck begins anew
        second = replace(first, regularization=SCALED_TRUST, max_iterations=self.max_iterations - used, max_newton_step=np.inf)
        scaled = outcome_of(finite, second.run(finite, start, watch, state.history))
        limit = Status.of(StatusCode.ITERATION_LIMIT, spent=iterations_in_words(self.max_iterations))  # of both runs together
        if scaled.reason.code is StatusCode.ITERATION_LIMIT:
            scaled, first_result = replace(scaled, reason=limit), replace(first_result, reason=limit)
        better = scaled.converged or scaled.reason.code in STOPPED or used < UNSCALED_ITERATIONS
        if better or scaled.evaluation.cost < first_result.evaluation.cost:
            return scaled
        return replace(first_result, history=scaled.history)


def is_optimum(finite: FiniteProblem, point: Variables) -> bool:
    """Whether a point that another solver found passes for an optimum here."""
    try:
        state = initial_state(finite, point, LEVENBERG).rescaled(finite, 0.0, False)
    except SimulationDiverged:
        return False
    loop = LeastSquaresLoop(NaturalMonotonicity(), LEVENBERG, 1)
    return remaining_step(finite, state, loop.direction(finite, state, LEVENBERG.least)) <= STALLED_STEP_TOLERANCE
