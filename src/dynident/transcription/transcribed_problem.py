"""Transcribed problem: what a fit asks of a finite problem that was made of a problem in time, however it was made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self

import numpy as np

from dynident.integrators.propagation import Propagation
from dynident.linalg.finite_problem import FiniteProblem, ResidualJacobian, Variables
from dynident.problem.problem import Problem
from dynident.transcription.objective import Objective
from dynident.transcription.shooting import ExperimentData


class TranscribedProblem(FiniteProblem, Protocol):
    """A finite problem that was made of a problem in time: what a fit asks of it beside what a solver does."""

    problem: Problem
    objective: Objective
    loss: str

    def from_states(self, unknowns: np.ndarray, times: list[np.ndarray], states: list[np.ndarray]) -> Variables:
        """A point from trajectories on other grids."""
        ...

    def transfer(self, point: Variables, before: Any) -> Variables:
        """A point of the same problem with other weights or steps; `before` came from the same transcription."""
        ...

    def to_shooting(self, point: Variables) -> tuple[SimulatedProblem, Variables]:
        """The same point by shooting, for trajectories and derivatives along time."""
        ...


class NamedIntegrator(Protocol):
    """An integrator as far as words about it go."""

    @property
    def name(self) -> str: ...


class SimulatedProblem(TranscribedProblem, Protocol):
    """One whose residuals come from simulations, by shooting or of a black box: what the statistics and the choice of
    sub-steps ask of it."""

    substeps: int

    @property
    def integrator(self) -> NamedIntegrator: ...

    @property
    def records(self) -> Sequence[ExperimentData]: ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What is worth a word about its simulations."""
        ...

    def with_substeps(self, substeps: int) -> Self:
        """The same problem with other steps between the samples."""
        ...

    def whole_records(self) -> SimulatedProblem:
        """The same problem with records in one piece each."""
        ...

    def run(self, point: Variables, sensitivities: bool) -> list[Propagation]:
        """States and outputs per record."""
        ...

    def run_with_all_outputs(self, point: Variables) -> list[Propagation]:
        """The same, with outputs that nothing measures."""
        ...

    def linearization(self, point: Variables) -> ResidualJacobian:
        """Residuals and their total derivative in the user's units; squared loss."""
        ...
