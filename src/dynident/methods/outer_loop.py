"""Outer loop: rounds of steps, each from one frozen state to the next, until nothing changes any more.

The driver is the same for every method that goes in rounds: it answers Ctrl-C and lost simulators with the best so far. What
a run has spent, its history, counts and times, is a value too, that grows from step to step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, Self, TypeVar

from dynident._util.frozen import changed, frozen
from dynident.codegen import compiler
from dynident.errors import SimulatorLost
from dynident.linalg.finite_problem import FiniteProblem, Variables
from dynident.solvers.solver_result import Iteration, Solver, SolverResult, iterations_in_words, simulator_lost_status
from dynident.status import Status, StatusCode


class Endable(Protocol):
    """A state that can be the end of a run before anything converged."""

    def ended(self, reason: Status, interrupted: bool) -> Self | None:
        """With the best so far as its result; None where there is none."""
        ...


SetupT = TypeVar("SetupT")
StateT = TypeVar("StateT", bound=Endable)


@dataclass(frozen=True)
class OuterLoop(Generic[SetupT, StateT]):
    """Steps to begin with, steps of each round until it has settled, and steps to end with."""

    prepare: tuple[Callable[[SetupT, StateT], StateT], ...]
    round: tuple[Callable[[SetupT, StateT], StateT], ...]
    conclude: tuple[Callable[[SetupT, StateT], StateT], ...]
    finished: Callable[[SetupT, StateT], bool]

    def states(self, setup: SetupT, state: StateT) -> Iterator[StateT]:
        """The state after each step."""
        for step in self.prepare:
            yield (state := step(setup, state))
        while not self.finished(setup, state):
            for step in self.round:
                yield (state := step(setup, state))
        for step in self.conclude:
            yield (state := step(setup, state))

    def run(self, setup: SetupT, state: StateT) -> StateT:
        """The last state; where the user or the end of all simulation stops it, one that ends with the best so far."""
        last = state
        try:
            for after in self.states(setup, state):
                last = after
        except KeyboardInterrupt:  # between two solves; within one, the solver answers for itself
            if (ended := last.ended(Status.of(StatusCode.INTERRUPTED), True)) is None:
                raise
            return ended
        except SimulatorLost as end:  # the same
            if (ended := last.ended(simulator_lost_status(end), False)) is None:
                raise
            return ended
        return last


@dataclass(frozen=True)
class Listener:
    """Who is told of each iteration; `place` says where the problem's own unknowns stand among those of the solver."""

    report: Callable[..., object]
    place: tuple[int, ...]

    def renumbered(self, iteration: Iteration, number: int) -> Iteration:
        """An iteration as the user knows it: its number in the whole run, and the unknowns of the problem alone."""
        values = tuple(iteration.values[i] for i in self.place if i < len(iteration.values))
        return changed(iteration, number=number, values=values)


@frozen
class RunLog:
    """What a run has spent so far."""

    history: tuple[Iteration, ...] = ()
    counts: Mapping[str, int] = field(default_factory=lambda: {"iterations": 0, "simulations": 0, "jacobians": 0})
    began: float = field(default_factory=time.perf_counter)  # seconds, on the clock of this process
    compiled_before: tuple[float, int] = field(  # seconds and libraries when it began
        default_factory=lambda: (compiler.seconds_compiling, compiler.libraries_compiled))

    def with_counts(self, more: Mapping[str, int]) -> RunLog:
        """With counts added to those that are there."""
        return changed(self, counts={**self.counts, **{key: self.counts.get(key, 0) + n for key, n in more.items()}})

    def with_iterations(self, iterations: tuple[Iteration, ...]) -> RunLog:
        return changed(self, history=(*self.history, *iterations))

    @property
    def compiled_libraries(self) -> int:
        return compiler.libraries_compiled - self.compiled_before[1]

    def times(self, work: str = "fit") -> dict[str, float]:
        """Seconds until now: of the compiler, and of the work itself."""
        compiling = compiler.seconds_compiling - self.compiled_before[0]
        return {"compile": compiling, work: time.perf_counter() - self.began - compiling}

    def spent(self, rounds: int = 1) -> str:
        """All iterations of all rounds: the last round alone would sound as if what came before had cost nothing."""
        return iterations_in_words(self.counts["iterations"]) + (f" in {rounds} rounds" if rounds > 1 else "")


def run_solver(solver: Solver, finite: FiniteProblem, variables: Variables, log: RunLog, listener: Listener | None
               ) -> tuple[SolverResult, RunLog]:
    """Solve a finite problem with `counts` of its own; without a listener nothing stands in the history.

    Raises SimulationDiverged where the solver cannot even begin.
    """
    before, first = dict(finite.counts), len(log.history)

    def watch(iteration: Iteration) -> None:
        assert listener is not None
        listener.report(listener.renumbered(iteration, first + iteration.number))

    outcome = solver.solve(finite, variables, None if listener is None else watch)
    log = log.with_counts({"iterations": len(outcome.history) - 1,
                           **{key: count - before[key] for key, count in finite.counts.items()}})
    if listener is not None:
        log = log.with_iterations(tuple(listener.renumbered(each, first + k) for k, each in enumerate(outcome.history)))
    return outcome, log
