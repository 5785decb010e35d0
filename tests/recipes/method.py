"""Toy method: the best point of a grid over the bounds of the one unknown."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dynident.estimate.estimate import Estimate
from dynident.integrators import integrator_named
from dynident.linalg.finite_problem import Variables
from dynident.methods.build_estimate import build_estimate, trajectories_of
from dynident.methods.capabilities import Capabilities, check_supports
from dynident.methods.method import Method
from dynident.methods.options import check_options, option, whole_number
from dynident.problem.problem import Problem
from dynident.statistics.grid_spacing import GridSpacing
from dynident.status import Status
from dynident.transcription.shooting import Shooting


@dataclass(frozen=True)
class GridSearch(Method):
    """The best point of a grid."""

    points: int = option(101, "How many points.", whole_number(2))
    kind: ClassVar[str] = "grid_search"

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()

    def check_supports(self, problem: Problem) -> None:
        check_supports(problem, self.kind, self.capabilities)

    def identify(self, problem: Problem, executor: Executor | None, report: Callable[..., object], /) -> Estimate:
        self.check_supports(problem)
        finite = Shooting(problem, integrator_named("runge_kutta"), [1] * len(problem.experiments), 1, {})
        (unknown,) = problem.unknowns
        grid = np.linspace(unknown.lower, unknown.upper, self.points)
        points = [Variables(finite.coordinates.coordinates(np.array([value])), finite.start().nodes) for value in grid]
        costs = [finite.evaluate(point).cost for point in points]
        best = int(np.argmin(costs))
        trajectories, residuals = trajectories_of(problem, finite, finite.run_with_all_outputs(points[best]))
        spacing = GridSpacing(problem.names, (float(grid[best]),), float(grid[1] - grid[0]))
        return build_estimate(problem, self, {unknown.name: float(grid[best])}, spacing, trajectories, residuals,
                              converged=True, status=Status.from_text("Best of a grid."), cost=costs[best],
                              counts={"simulations": self.points})
