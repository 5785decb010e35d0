"""Run of a black box: a global search where it is asked for, the fit, and once more where derivatives turn out wrong."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dynident.black_box.finite_differences import SEED
from dynident.black_box.setup import BlackBoxTranscription
from dynident.black_box.solver_error import MAX_REFITS, check_solver
from dynident.errors import DynidentError, SimulationDiverged
from dynident.estimate.estimate import Estimate
from dynident.linalg.finite_problem import Variables
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
    start, notes = search_globally(given) if given.method.global_search else _with_dead_times(given)
    searched = time.perf_counter() - began
    estimate = fit(start, given.problem, report)
    again, more = recheck_derivatives(start, estimate)
    if again is not None:
        estimate = fit(again, given.problem, report)
    used, estimate, about_solver = refit_by_tighter_solver(again or start, estimate, report)
    return BlackBoxRun(estimate, used, searched, (*notes, *past_note(given.problem), *more, *about_solver))


def refit_by_tighter_solver(transcription: BlackBoxTranscription, estimate: Estimate, report: Callable[..., object]
                            ) -> tuple[BlackBoxTranscription, Estimate, tuple[str, ...]]:
    """Until the error of a solver inside no longer matters; how often, and what is left, the notes say."""
    notes: tuple[str, ...] = ()
    for _ in range(MAX_REFITS):
        if not estimate.converged and estimate.status.code != StatusCode.NO_PROGRESS:
            break
        found = check_solver(transcription, estimate)
        notes += found.notes
        if found.again is None:
            break
        transcription = found.again
        estimate = fit(transcription, transcription.problem, report)
    return transcription, estimate, notes


def _with_dead_times(given: BlackBoxTranscription) -> tuple[BlackBoxTranscription, tuple[str, ...]]:
    """From where dead times were found, where the model has unknown ones."""
    scan = scan_dead_times(given.problem)
    if not scan.note:
        return given, ()
    return given.with_start(Objective(scan.problem, given.loss).start_values), (scan.note,)


def search_globally(transcription: BlackBoxTranscription) -> tuple[BlackBoxTranscription, tuple[str, ...]]:
    """Differential evolution between the bounds; a rough start is all that is asked of it."""
    from scipy.optimize import differential_evolution

    try:
        finite = transcription.at_start()
    except SimulationDiverged:  # no steps can be chosen there; the fit says so
        return transcription, ()
    lower, upper = finite.coordinates.lower, finite.coordinates.upper
    start = finite.start()
    try:
        worst = FAILED_COST * finite.evaluate(start).cost
    except SimulationDiverged:
        worst = float(np.finfo(float).max)

    def cost(xi: np.ndarray) -> float:
        try:
            return finite.evaluate(Variables(np.asarray(xi, float), ())).cost
        except SimulationDiverged:
            return worst if np.isfinite(worst) else float(np.finfo(float).max)

    count, evaluations = len(finite.names), transcription.method.global_search
    members = int(np.clip(evaluations // (MIN_GENERATIONS * count), MIN_MEMBERS_PER_UNKNOWN, MAX_MEMBERS_PER_UNKNOWN))
    generations = max(1, evaluations // (members * count) - 1)
    found = differential_evolution(cost, list(zip(lower, upper, strict=True)), maxiter=generations, popsize=members,
                                   rng=SEED, polish=False, x0=start.unknowns)
    note = (f"A search between the bounds ({found.nfev} simulations, differential evolution) gave the start; the best point "
            "of a search is not proved to be the global one.")
    return transcription.with_start(finite.coordinates.values(np.asarray(found.x, float))), (note,)


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
