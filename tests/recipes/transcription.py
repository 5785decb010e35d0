"""Toy transcription: single shooting, with a note of how often it was linearised."""

from __future__ import annotations

from typing import Any

from dynident.integrators import integrator_named
from dynident.linalg.finite_problem import Evaluation, LinearizedProblem, Variables, Workspace
from dynident.problem.problem import Problem
from dynident.transcription.shooting import Shooting


class CountedShooting:
    """All members of `TranscribedProblem`; those that it does not say itself are the inner problem's."""

    def __init__(self, problem: Problem, substeps: int, noise_std: Any):
        self.inner = Shooting(problem, integrator_named("runge_kutta"), [1] * len(problem.experiments), substeps, noise_std)
        self.linearized: list[Variables] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def evaluate(self, point: Variables) -> Evaluation:
        return self.inner.evaluate(point)

    def plain_record(self):
        return None  # nothing that one compiled call could run

    def linearize(self, point: Variables, workspace: Workspace | None = None, known: Evaluation | None = None
                  ) -> LinearizedProblem:
        self.linearized.append(point)
        return self.inner.linearize(point, workspace)

    def transfer(self, point: Variables, before: CountedShooting) -> Variables:
        return self.inner.transfer(point, before.inner)
