"""Levenberg-Marquardt: least squares without matching conditions, within bounds.

The small problem of each step is solved exactly within the box (`bounded_least_squares.py`), damped relative to the
Jacobian's columns; a trust region on the cost (`globalization.py`) says how much.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynident.errors import NotSupported, SimulationDiverged
from dynident.linalg.finite_problem import FiniteProblem, Variables
from dynident.solvers.geodesic_acceleration import GeodesicTrustRegion
from dynident.solvers.globalization import FIRST_DAMPING, MOST_DAMPING, TrustRegion, project_to_bounds
from dynident.solvers.least_squares import LeastSquaresLoop, outcome_of
from dynident.solvers.search_direction import Regularization, SearchDirection
from dynident.solvers.search_state import SearchState, condense
from dynident.solvers.solver_result import SolverResult, Watch
from dynident.solvers.trust_region import compiled_steps
from dynident.tolerances import RANK_DAMPING, SAME_COST, STATIC_STEP_TOLERANCE, STEP_TOLERANCE

POLISHING_STEPS = 50  # at the most
POLISHED = 0.9  # of the step before: what shrinks less is rounding
SLOWER_POLISH = 4.0  # times the share of the step before: near a minimum steps shrink by the same share, until rounding is all
ACCELERATED_MEMORY = 0.8  # the same where steps bend: a column that vanishes is a plateau, and may not lead on at once
FOR_CURVES: dict[str, Any] = {"step_tolerance": STATIC_STEP_TOLERANCE, "accelerated": True}  # simulations cost next to nothing
COLUMN_LENGTH_MEMORY = 0.1  # of a column's length, from one iteration to the next


@dataclass(frozen=True)
class LevenbergMarquardt:
    """Options: how many iterations at the most, the damping to begin with, and how many standard errors may remain.

    A start that is known to be close is best taken with next to no damping.
    """

    max_iterations: int = 200
    name: str = "Levenberg-Marquardt"
    damping: float = FIRST_DAMPING
    step_tolerance: float = STEP_TOLERANCE
    accelerated: bool = False  # steps bend with the model, which takes two to four more simulations each

    def solve(self, finite: FiniteProblem, point: Variables, watch: Watch | None = None) -> SolverResult:
        if finite.equality_count:
            raise NotSupported(f"{self.name} takes no matching conditions, but the problem has "
                               f"{finite.equality_count}. Use segments=1, or the Gauss-Newton solver.")
        memory = ACCELERATED_MEMORY if self.accelerated else COLUMN_LENGTH_MEMORY
        damping = Regularization(least=RANK_DAMPING, initial=self.damping, first=FIRST_DAMPING, most=MOST_DAMPING, factor=1.0,
                                 memory=memory, with_nodes=self.accelerated)  # which asks for gradients of other residuals
        region = GeodesicTrustRegion() if self.accelerated else TrustRegion()
        compiled = None if self.accelerated else compiled_steps(finite, COLUMN_LENGTH_MEMORY, RANK_DAMPING, self.step_tolerance)
        loop = LeastSquaresLoop(region, damping, self.max_iterations, self.step_tolerance, compiled=compiled)
        state = loop.run(finite, point, watch)
        return outcome_of(finite, polish(finite, loop, state) if self.step_tolerance < STEP_TOLERANCE else state)


def polish(problem: FiniteProblem, loop: LeastSquaresLoop, state: SearchState) -> SearchState:
    """Undamped steps from a minimum, as long as the step that remains gets shorter: costs cannot tell points so close apart."""
    if state.ending is None or not state.ending[0]:
        return state
    newton, share = loop.direction(problem, state, loop.regularization.least), 1.0
    for _ in range(POLISHING_STEPS):
        left = _step_length(problem, state, newton)
        if left <= loop.step_tolerance:
            break
        candidate = project_to_bounds(problem, replace(state.variables, unknowns=state.variables.unknowns + newton.step))
        try:
            condensed = condense(problem.linearize(candidate, state.spare), loop.regularization.with_nodes)
        except (SimulationDiverged, np.linalg.LinAlgError):
            break
        moved = state.moved_to(problem, candidate, condensed, left)
        if moved.evaluation.cost > state.evaluation.cost * (1 + SAME_COST) + problem.rounding_cost:
            break  # far along what the data hardly see
        newton = loop.direction(problem, moved, loop.regularization.least)
        before, share = share, _step_length(problem, moved, newton) / left
        if not share < min(POLISHED, SLOWER_POLISH * before):
            break
        state = moved
    return state


def _step_length(problem: FiniteProblem, state: SearchState, direction: SearchDirection) -> float:
    """Of a step in standard deviations of the residuals, by what it does and not by what it gains."""
    std = state.residual_std(problem)
    return float(np.linalg.norm(direction.step * state.column_scale)) / std if std > 0 else 0.0
