"""Run of a black box: a global search where it is asked for, the fit, and once more where derivatives turn out wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynident.black_box.finite_differences import DIFFERENCE_SEED
from dynident.black_box.setup import BlackBoxTranscription
from dynident.black_box.solver_error import MAX_REFITS, check_solver
from dynident.errors import DynidentError, SimulationDiverged, SimulatorLost
from dynident.estimate.estimate import Estimate
from dynident.linalg.finite_problem import FiniteProblem, Variables
from dynident.methods import noise_estimation
from dynident.methods.dead_time_scan import past_note, scan_dead_times
from dynident.methods.direct_estimate import fit
from dynident.status import StatusCode
from dynident.transcription.objective import Objective

FAILED_COST = 1e6  # times the cost at the start: what a failed simulation counts in the global search
MAX_MEMBERS_PER_UNKNOWN = 10  # of the searching population, where evaluations allow
MIN_MEMBERS_PER_UNKNOWN = 4  # per unknown
MIN_GENERATIONS = 5  # evaluations are spent on that many rather than on more members


@dataclass(frozen=True, eq=False)
class BlackBoxRun:
    """A fit that is over: the estimate of the last round, and what all rounds together took and found."""

    estimate: Estimate
    transcription: BlackBoxTranscription  # whose cache holds all simulations
    seconds_of_search: float
    notes: tuple[str, ...]


def run(given: BlackBoxTranscription, report: Callable[..., object]) -> BlackBoxRun:
    began = time.perf_counter()
    found = search_globally(given) if given.method.global_search else _with_dead_times(given)
    searched = time.perf_counter() - began
    estimate = fit(found.start, given.problem, _interrupt if found.interrupted else report)
    last = done = BlackBoxRun(estimate, found.start, searched, (*found.notes, *past_note(given.problem)))
    try:
        for done in afterwards(last, report):
            last = done
    except KeyboardInterrupt:  # what is found stays found
        counts = {**last.estimate.counts, "interrupted": 1}
        return replace(last, estimate=replace(last.estimate, counts=counts), notes=(
            *last.notes, "Stopped by the user while the fit was looked at or repeated more exactly; this is the fit before."))
    except SimulatorLost as end:
        return replace(last, notes=(*last.notes, f"The fit was not looked at or repeated more exactly: {end}"))
    return done


def afterwards(done: BlackBoxRun, report: Callable[..., object]) -> Iterator[BlackBoxRun]:
    """The run after each further step: by differences where derivatives turned out wrong, then by a tighter solver inside."""
    again, notes = recheck_derivatives(done.transcription, done.estimate)
    done = replace(done, notes=(*done.notes, *notes))
    yield done
    if again is not None:
        done = replace(done, estimate=fit(again, done.transcription.problem, report), transcription=again)
        yield done
    for _ in range(MAX_REFITS):
        if not done.estimate.converged and done.estimate.status.code != StatusCode.NO_PROGRESS:
            return
        found = check_solver(done.transcription, done.estimate)
        if found.again is None:
            yield replace(done, notes=(*done.notes, *found.notes))
            return
        estimate = fit(found.again, found.again.problem, report)
        done = replace(done, estimate=estimate, transcription=found.again, notes=(*done.notes, *found.notes))
        yield done


def _interrupt(page: object) -> None:
    """In the place of who watches: the fit ends at its first point, as a result with what is known there."""
    raise KeyboardInterrupt


@dataclass(frozen=True, eq=False)
class SearchedStart:
    """From where the fit begins; `interrupted`: the user wants the best so far and no more."""

    start: BlackBoxTranscription
    notes: tuple[str, ...] = ()
    interrupted: bool = False


def _with_dead_times(given: BlackBoxTranscription) -> SearchedStart:
    """From where dead times were found, where the model has unknown ones."""
    scan = scan_dead_times(given.problem)
    if not scan.note:
        return SearchedStart(given)
    return SearchedStart(given.with_start(Objective(scan.problem, given.loss).start_values), (scan.note,))


@dataclass(eq=False)
class SearchedCost:
    """The cost between the bounds, which remembers the best point of all that were simulated."""

    finite: FiniteProblem
    worst: float  # what a point costs that cannot be simulated
    simulations: int = 0
    best: tuple[float, np.ndarray] | None = None

    def __call__(self, xi: np.ndarray) -> float:
        self.simulations += 1
        try:
            found = self.finite.evaluate(Variables(np.asarray(xi, float), ())).cost
        except SimulationDiverged:
            return self.worst
        if found < (self.worst if self.best is None else self.best[0]):
            self.best = (found, np.array(xi, float))
        return found

    @property
    def values(self) -> np.ndarray | None:
        """Of the unknowns at the best point; None where nothing was simulated that is better than the worst."""
        return None if self.best is None else self.finite.coordinates.values(self.best[1])


def search_globally(transcription: BlackBoxTranscription) -> SearchedStart:
    """Differential evolution between the bounds; a rough start is all that is asked of it. Whatever ends it, its best stays."""
    try:
        finite = transcription.at_start()
    except SimulationDiverged:  # no steps can be chosen there; the fit says so
        return SearchedStart(transcription)
    try:
        worst = FAILED_COST * finite.evaluate(finite.start()).cost
    except SimulationDiverged:
        worst = float(np.finfo(float).max)
    cost = SearchedCost(finite, worst if np.isfinite(worst) else float(np.finfo(float).max))
    try:
        found = _evolved(cost, transcription.method.global_search)
    except KeyboardInterrupt:
        if cost.values is None:
            raise
        note = f"The search between the bounds was stopped by the user; this is the best of its {cost.simulations} simulations."
        return SearchedStart(transcription.with_start(cost.values), (note,), interrupted=True)
    except SimulatorLost as end:
        if cost.best is None or cost.values is None:
            raise
        listed = ", ".join(f"{n} = {v:.6g}" for n, v in zip(finite.names, cost.values, strict=True))
        raise type(end)(f"{str(end).rstrip('.')}. The best of {cost.simulations} simulations of the search was at {listed} "
                        f"(cost {cost.best[0]:.6g}).") from end
    note = (f"A search between the bounds ({found.nfev} simulations, differential evolution) gave the start; the best point "
            "of a search is not proved to be the global one.")
    return SearchedStart(transcription.with_start(finite.coordinates.values(np.asarray(found.x, float))), (note,))


def _evolved(cost: SearchedCost, evaluations: int) -> Any:
    from scipy.optimize import differential_evolution

    finite, count = cost.finite, len(cost.finite.names)
    members = int(np.clip(evaluations // (MIN_GENERATIONS * count), MIN_MEMBERS_PER_UNKNOWN, MAX_MEMBERS_PER_UNKNOWN))
    return differential_evolution(
        cost, list(zip(finite.coordinates.lower, finite.coordinates.upper, strict=True)), popsize=members,
        maxiter=max(1, evaluations // (members * count) - 1), rng=DIFFERENCE_SEED, polish=False, x0=finite.start().unknowns)


def recheck_derivatives(transcription: BlackBoxTranscription, estimate: Estimate
                        ) -> tuple[BlackBoxTranscription | None, tuple[str, ...]]:
    """How to go on where derivatives by the model, right at first, are wrong at the end: from there, by differences."""
    if estimate.counts.get("interrupted"):
        return None, ()
    problem = transcription.problem
    values = np.array([estimate.values[name] for name in problem.names])
    finite = transcription.transcribe(problem, estimate.counts["substeps"], noise_estimation.initial_noise_std(problem))
    try:
        right = finite.recheck_derivatives(Variables(finite.coordinates.coordinates(values), ()))
    except DynidentError:  # where nothing more can be simulated, nothing more can be said
        return None, ()
    except KeyboardInterrupt:
        return None, ("Whether its own derivatives are right at the end was not looked at (stopped by the user).",)
    if right:
        return None, ()
    return transcription.with_start(values), (
        "The fit went on by differences from where the model's own derivatives were found wrong.",)
