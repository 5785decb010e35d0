"""Levenberg-Marquardt: least squares without matching conditions, within bounds.

The small problem of each step is solved exactly within the box (`bounded_least_squares.py`), damped relative to the
Jacobian's columns; a trust region on the cost (`globalization.py`) says how much.
"""

from __future__ import annotations

from dataclasses import dataclass

from dynident.errors import NotSupported
from dynident.linalg.finite_problem import FiniteProblem, Variables
from dynident.solvers.globalization import FIRST_DAMPING, MOST_DAMPING, TrustRegion
from dynident.solvers.least_squares import LeastSquaresLoop, outcome_of
from dynident.solvers.search_direction import Regularization
from dynident.solvers.solver_result import SolverResult, Watch
from dynident.tolerances import RANK_DAMPING, STEP_TOLERANCE

MEMORY = 0.1  # of a column's length, from one iteration to the next


@dataclass(frozen=True)
class LevenbergMarquardt:
    """Options: how many iterations at the most, the damping to begin with, and how many standard errors may remain.

    A start that is known to be close is best taken with next to no damping.
    """

    max_iterations: int = 200
    name: str = "Levenberg-Marquardt"
    damping: float = FIRST_DAMPING
    step_tolerance: float = STEP_TOLERANCE

    def solve(self, finite: FiniteProblem, point: Variables, watch: Watch | None = None) -> SolverResult:
        if finite.equality_count:
            raise NotSupported(f"{self.name} takes no matching conditions, but the problem has "
                               f"{finite.equality_count}. Use segments=1, or the Gauss-Newton solver.")
        damping = Regularization(least=RANK_DAMPING, initial=self.damping, first=FIRST_DAMPING, most=MOST_DAMPING, factor=1.0,
                                 memory=MEMORY, with_nodes=False)
        loop = LeastSquaresLoop(TrustRegion(), damping, self.max_iterations, self.step_tolerance)
        return outcome_of(finite, loop.run(finite, point, watch))
