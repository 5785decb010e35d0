"""Solver result: what a solver reports, whichever it was, and its iterations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dynident.errors import SimulatorLost
from dynident.linalg.finite_problem import Evaluation, Variables
from dynident.status import Status, StatusCode


@dataclass(frozen=True)
class Iteration:
    """One line of the solver's log."""

    number: int
    cost: float
    step: float  # scaled length of the step that led here; 0 for the start
    max_defect: float = 0.0  # largest violated matching condition, scaled; 0 without such conditions
    values: tuple[float, ...] = ()  # the unknowns, in problem.names order


Watch = Callable[[Iteration], None]


@dataclass(frozen=True, eq=False)
class SolverResult:
    """The last point, whether it is an optimum, and why the solver stopped (a clause: 'after 12 iterations ...')."""

    point: Variables
    evaluation: Evaluation
    converged: bool
    reason: Status
    history: tuple[Iteration, ...]
    held: np.ndarray  # per unknown: -1 on its lower bound, +1 on its upper bound, 0 free
    interrupted: bool = False


@dataclass
class IterationLog:
    """Keeps the iterations and tells whoever watches."""

    values: Callable[[np.ndarray], np.ndarray]
    watch: Watch | None = None

    def __post_init__(self) -> None:
        self.pages: list[Iteration] = []

    def write(self, point: Variables, evaluation: Evaluation, step: float) -> None:
        self.add(point.unknowns, evaluation.cost, step, evaluation.max_defect)

    def add(self, unknowns: np.ndarray, cost: float, step: float, max_defect: float) -> None:
        page = Iteration(len(self.pages), cost, step, max_defect, tuple(self.values(unknowns).tolist()))
        self.pages.append(page)
        if self.watch:
            self.watch(page)


def iterations_in_words(iterations: int) -> str:
    """The number with its word: "1 iteration", "2 iterations"."""
    return f"{iterations} iteration{'s' * (iterations != 1)}"


def because(end: SimulatorLost) -> Status:
    """The end of all simulation as the reason of an outcome."""
    return Status.of(StatusCode.SIMULATOR_LOST, why=str(end).rstrip("."))
