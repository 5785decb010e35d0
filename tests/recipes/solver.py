"""Toy solver: the loop of all least squares solvers with a damping that is never small."""

from __future__ import annotations

from dataclasses import dataclass

from dynident.linalg.finite_problem import FiniteProblem, Variables
from dynident.solvers.globalization import TrustRegion
from dynident.solvers.least_squares import LeastSquaresLoop, outcome_of
from dynident.solvers.search_direction import Regularization
from dynident.solvers.solver_result import SolverResult, Watch


@dataclass(frozen=True)
class Cautious:
    """Options: how many iterations at the most."""

    max_iterations: int = 200
    name: str = "cautious"

    def solve(self, finite: FiniteProblem, point: Variables, watch: Watch | None = None) -> SolverResult:
        damping = Regularization(least=1e-4, initial=1e-1, first=1e-1, most=1e6, factor=1.0, memory=0.1, with_nodes=False)
        return outcome_of(finite, LeastSquaresLoop(TrustRegion(), damping, self.max_iterations).run(finite, point, watch))
