"""Solver result: what a solver reports, whichever it was, and its iterations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dynident.errors import SimulatorLost
from dynident.linalg.finite_problem import Evaluation, FiniteProblem, Variables
from dynident.status import Status, StatusCode


@dataclass(frozen=True)
class Iteration:
    """One line of the solver's log."""

    number: int
    cost: float
    step: float  # scaled length of the step that led here; 0 for the start
    max_defect: float = 0.0  # largest violated matching condition, scaled; 0 without such conditions
    values: tuple[float, ...] = ()  # the unknowns, in problem.names order
    stage: str = ""  # what it is part of, in words, where there is more than one fit


Watch = Callable[[Iteration], None]


@dataclass(frozen=True, eq=False)
class SolverResult:
    """The last point, whether it is an optimum, and why the solver stopped (a clause: 'after 12 iterations ...')."""

    point: Variables
    evaluation: Evaluation
    converged: bool
    reason: Status
    history: tuple[Iteration, ...]
    active_bounds: np.ndarray  # per unknown: -1 on its lower bound, +1 on its upper bound, 0 free
    interrupted: bool = False


class Solver(Protocol):
    """What finds the minimum of a finite problem."""

    @property
    def name(self) -> str: ...

    def solve(self, finite: FiniteProblem, point: Variables, watch: Watch | None = None) -> SolverResult:
        """From this point; raises SimulationDiverged where it cannot even begin."""
        ...


@dataclass
class IterationLog:
    """Keeps the iterations and tells whoever watches."""

    values: Callable[[np.ndarray], np.ndarray]
    watch: Watch | None = None

    def __post_init__(self) -> None:
        self.iterations: list[Iteration] = []

    def write(self, point: Variables, evaluation: Evaluation, step: float) -> None:
        self.add(point.unknowns, evaluation.cost, step, evaluation.max_defect)

    def add(self, unknowns: np.ndarray, cost: float, step: float, max_defect: float) -> None:
        iteration = Iteration(len(self.iterations), cost, step, max_defect, tuple(self.values(unknowns).tolist()))
        self.iterations.append(iteration)
        if self.watch:
            self.watch(iteration)


def iterations_in_words(iterations: int) -> str:
    """The number with its word: "1 iteration", "2 iterations"."""
    return f"{iterations} iteration{'s' * (iterations != 1)}"


def simulator_lost_status(end: SimulatorLost) -> Status:
    """The end of all simulation as the reason of an outcome."""
    return Status.of(StatusCode.SIMULATOR_LOST, why=str(end).rstrip("."))
