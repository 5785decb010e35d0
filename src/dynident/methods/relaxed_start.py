"""Relaxed start (continuation from decoupled segments): a start for a problem in which segments have to meet, from problems
in which they need not.

1. Short segments that begin where the measurements say: nearly linear in the parameters, whatever the start.
2. The usual segments, from there or from the user's start, whichever fits them better.
3. The same with first states of their own, which takes away the bias that noise in the measurements brings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynident.errors import SimulationDiverged
from dynident.integrators.scheme import Integrator
from dynident.linalg.finite_problem import Variables
from dynident.methods.outer_loop import Listener, RunLog, run_solver
from dynident.problem.problem import Problem
from dynident.solvers.levenberg_marquardt import LevenbergMarquardt
from dynident.solvers.solver_result import SolverResult
from dynident.transcription.relaxed_shooting import RelaxedShooting
from dynident.transcription.shooting import SAMPLES_PER_SEGMENT, Shooting, default_segments

ITERATIONS = 30  # for a start; what is not found by then is left to the method itself
NEAR = 0.1  # standard errors; the noise in the nodes moves it by more


@dataclass(frozen=True, eq=False)
class RelaxedStart:
    """Values of the unknowns, and the states of each record that go with them."""

    unknowns: np.ndarray
    times: list[np.ndarray]
    states: list[np.ndarray]  # per record (nodes, states)
    outcome: SolverResult  # of the last solve


def relaxed_start(problem: Problem, integrator: Integrator, substeps: int, noise_std: Mapping[str, float], loss: str,
                  max_iterations: int, log: RunLog, listener: Listener) -> tuple[RelaxedStart | None, RunLog]:
    """The start, and the log with what it took.

    None where records are too short to be cut, do not show every state, or the model diverges on every piece.
    """
    solver = LevenbergMarquardt(min(max_iterations, ITERATIONS), settled=NEAR)
    samples = [e.samples for e in problem.experiments]

    def cut(segments: Sequence[int]) -> Shooting:
        return Shooting(problem, integrator, segments, substeps, noise_std, loss)

    def solve(shooting: Shooting, begin: Variables, free_nodes: bool, log: RunLog) -> tuple[Variables, SolverResult, RunLog]:
        relaxed = RelaxedShooting(shooting, begin, free_nodes)
        outcome, log = run_solver(solver, relaxed, relaxed.start(), log, listener)
        return relaxed.shooting_variables(outcome.point), outcome, log

    usual = cut([default_segments(n) for n in samples])
    if not usual.equality_count or not usual.all_states_measured:
        return None, log
    try:
        here = usual.start()
        short = cut([max(1, (n - 1) // SAMPLES_PER_SEGMENT) for n in samples])
        if short.equality_count > usual.equality_count:
            there, outcome, log = solve(short, short.start(), False, log)
            moved = replace(here, unknowns=there.unknowns)
            better = _cost(usual, moved, True) < _cost(usual, here, False)  # as a rule, and its slopes are there then
            here = moved if better else here
            if outcome.interrupted:
                return _start(usual, here, outcome), log
        here, outcome, log = solve(usual, here, False, log)
        if not outcome.interrupted:
            here, outcome, log = solve(usual, here, True, log)
        return _start(usual, here, outcome), log
    except SimulationDiverged:
        return None, log


def _cost(shooting: Shooting, point: Variables, slopes: bool) -> float:
    try:
        return shooting.linearize(point).evaluation.cost if slopes else shooting.evaluate(point).cost
    except SimulationDiverged:
        return np.inf


def _start(shooting: Shooting, point: Variables, outcome: SolverResult) -> RelaxedStart:
    states = [out.states for out in shooting.run(point, False)]
    return RelaxedStart(point.unknowns, [record.grid.time for record in shooting.records], states, outcome)
