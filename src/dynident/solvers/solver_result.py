"""Outcome: what a solver reports, whichever it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dynident.errors import SimulatorLost
from dynident.linalg.finite_problem import Evaluation, FiniteProblem, Variables
from dynident.status import Status, StatusCode
from dynident.tolerances import COST_ROUNDING, SIMULATION_ROUNDING


@dataclass(frozen=True)
class Iteration:
    """One line of the solver's diary."""

    number: int
    cost: float
    step: float  # scaled length of the step that led here; 0 for the start
    mismatch: float = 0.0  # largest violated matching condition, scaled; 0 without such conditions
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
        self.add(point.unknowns, evaluation.cost, step, evaluation.mismatch)

    def add(self, unknowns: np.ndarray, cost: float, step: float, mismatch: float) -> None:
        page = Iteration(len(self.pages), cost, step, mismatch, tuple(self.values(unknowns).tolist()))
        self.pages.append(page)
        if self.watch:
            self.watch(page)


def iterations_in_words(iterations: int) -> str:
    """The number with its word: "1 iteration", "2 iterations"."""
    return f"{iterations} iteration{'s' * (iterations != 1)}"


def because(end: SimulatorLost) -> Status:
    """The end of all simulation as the reason of an outcome."""
    return Status.of(StatusCode.SIMULATOR_LOST, why=str(end).rstrip("."))


def noise_floor(cost: float, finite: FiniteProblem) -> float:
    """Below this length the simulation's own noise hides whether a step helps; 0 where it has none."""
    return step_in_standard_errors(2 * np.sqrt(cost) * finite.noise + finite.noise**2, cost, finite)


def step_in_standard_errors(gain: float, cost: float, finite: FiniteProblem) -> float:
    """Length of a step in standard errors, from the fall of the cost that it promises.

    Zero where the fall would drown in rounding, or where the cost itself is rounding.
    """
    residual = SIMULATION_ROUNDING * np.sqrt(finite.floor / max(1, finite.residual_count))  # rounding in one of them
    if gain <= max(COST_ROUNDING * cost, 2 * np.sqrt(cost) * residual) or cost <= finite.floor:
        return 0.0
    freedom = max(1, finite.residual_count - len(finite.names))
    return float(np.sqrt(gain * freedom / cost))
