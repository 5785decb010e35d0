"""Toy direct method: what a new transcription needs to be asked for by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from dynident.methods.direct import ShootingMethod, max_iterations_option, solver_for, substeps_option
from dynident.methods.options import check_options
from dynident.problem.problem import Problem
from dynident.transcription.counted_shooting import CountedShooting

MADE: list[CountedShooting] = []


@dataclass(frozen=True)
class Counted(ShootingMethod):
    """Single shooting, counted."""

    substeps: int | str = substeps_option()
    max_iterations: int = max_iterations_option()
    kind: ClassVar[str] = "counted"
    integrator: ClassVar[str] = "runge_kutta"
    solver: ClassVar[str] = "levenberg_marquardt"
    loss: ClassVar[str] = "squared"
    initial_guess: ClassVar[Any] = None

    def __post_init__(self) -> None:
        check_options(self)

    def segments_for(self, samples: int) -> int:
        return 1

    def transcribe(self, problem: Problem, substeps: int, noise_std: Mapping[str, float]) -> Any:
        MADE.append(CountedShooting(problem, substeps, noise_std))
        return MADE[-1]

    def transcribe_by_shooting(self, problem: Problem, substeps: int, noise_std: Mapping[str, float]) -> Any:
        return CountedShooting(problem, substeps, noise_std).inner

    def make_solver(self, finite: Any) -> Any:
        return solver_for(self.solver, finite, self.max_iterations, finite.problem)

    def advice(self, problem: Problem) -> list[str]:
        return []
