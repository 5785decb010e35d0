"""Unstable records: does a difference between two states grow beyond all digits along a record, and how is it cut then?

The elimination of the nodes goes along time, so that rounding grows as differences between two states do. Records that begin
with states of their own lose next to nothing: a handful of unknowns for hundreds of samples.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from dynident.errors import SimulationDiverged
from dynident.linalg.finite_problem import FiniteProblem, Variables
from dynident.methods.direct_steps import DirectSetup, OuterState
from dynident.problem.experiment import Experiment
from dynident.problem.parameter import Parameter
from dynident.problem.problem import Problem
from dynident.status import Status, StatusCode
from dynident.tolerances import MODEST_GROWTH, UNRESOLVED_GROWTH
from dynident.transcription.shooting import SAMPLES_PER_SEGMENT, Shooting

STUCK = (StatusCode.NO_PROGRESS, StatusCode.ITERATION_LIMIT, StatusCode.WANDERING)


def cut_unstable_records(shooting: Shooting) -> tuple[Problem, str] | None:
    """Along a record that is unstable: pieces over which a difference between two states grows modestly, and a sentence on it.

    None where no record is, or where it cannot be cut: states that are not measured, first states or parameters of which
    something is said record by record, models with dead times or modes, outputs that went through a filter.
    """
    problem = shooting.problem
    if not shooting.all_states_measured or not _may_be_cut(problem):
        return None
    try:
        growths = growth_along(shooting, shooting.start())
    except SimulationDiverged:
        return None
    experiments: list[Experiment] = []
    said = []
    for experiment, growth in zip(problem.experiments, growths, strict=True):
        count = math.ceil(growth / math.log(MODEST_GROWTH)) if growth > math.log(UNRESOLVED_GROWTH) else 1
        count = min(count, max(1, experiment.samples // (2 * SAMPLES_PER_SEGMENT)))
        experiments += pieces(experiment, count) if count > 1 else [experiment]
        if count > 1:
            each = float(np.ptp(experiment.time)) / count
            said.append(f"'{experiment.name}' was cut into {count} records of {each:.2g} s with first "
                        f"states of their own: the model is unstable along it, a difference between two states grows "
                        f"{math.exp(growth):.0e}-fold.")
    return (problem.replace(experiments=experiments), " ".join(said)) if said else None


def _may_be_cut(problem: Problem) -> bool:
    """Whether nothing is said record by record, and nothing that happened before a sample counts but the state there."""
    alike = all(isinstance(p, Parameter) and p.common for p in problem.parameters)
    plain = not any(e.filters or e.steady is not None for e in problem.experiments)
    return alike and plain and not problem.model.hybrid and not problem.model.delays


def pieces(experiment: Experiment, count: int) -> list[Experiment]:
    """The samples of a record in so many records, none of them twice."""
    made = []
    for rows in np.array_split(np.arange(experiment.samples), count):
        keep = np.zeros(experiment.samples, bool)
        keep[rows] = True
        made.append(experiment.rows(keep).with_name(f"{experiment.name} from {experiment.time[rows[0]]:.6g}"))
    return made


def growth_along(finite: FiniteProblem, point: Variables) -> list[float]:
    """Per record, the logarithm of how much a difference between two states grows at the most."""
    chains = finite.linearize(point).chains
    return [log_growth(chain.transition[:, :, :chain.transition.shape[1]]) for chain in chains]


def blame_instability(setup: DirectSetup, state: OuterState) -> OuterState:
    """Where segments do not come to meet: is it that the model is unstable along a record?"""
    if state.solved is None or state.converged or state.solved.result.reason.code not in STUCK:
        return state
    result, finite = state.solved.result, state.solved.finite
    if not finite.equality_count:
        return state
    try:
        growths = growth_along(finite, result.point)
    except SimulationDiverged:
        return state
    worst = int(np.argmax(growths))
    if growths[worst] < np.log(UNRESOLVED_GROWTH):
        return state
    experiment = setup.problem.experiments[worst]
    length = float(experiment.time[-1] - experiment.time[0])
    why = Status.of(StatusCode.UNSTABLE_RECORD, reason=result.reason, record=experiment.name, growth=np.exp(growths[worst]),
                    seconds=length * np.log(MODEST_GROWTH) / growths[worst])
    return state.with_result(replace(result, reason=why))


def log_growth(transitions: np.ndarray) -> float:
    """Logarithm of how much a difference between two states grows at the most along a chain of transitions (links, nx, nx)."""
    frame, total = np.eye(transitions.shape[1]), np.zeros(transitions.shape[1])
    for transition in transitions:
        frame, triangle = np.linalg.qr(transition @ frame)
        with np.errstate(divide="ignore"):
            total += np.log(np.abs(np.diag(triangle)))
    return float(np.max(total, initial=0.0))
