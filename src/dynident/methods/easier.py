"""Easier first: a start for a problem in which segments have to meet, from problems in which they need not.

1. Short segments that begin where the measurements say: nearly linear in the parameters, whatever the start.
2. The usual segments, from there or from the user's start, whichever fits them better.
3. The same with first states of their own, which takes away the bias that noise in the measurements brings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from dynident.discretizations.finite import FiniteProblem, Point
from dynident.discretizations.shooting import SAMPLES_PER_SEGMENT, Shooting, usual_segments
from dynident.discretizations.unlinked import Unlinked
from dynident.integrators.march import Diverged
from dynident.integrators.scheme import Integrator
from dynident.problem.problem import Problem
from dynident.solvers.levenberg_marquardt import LevenbergMarquardt
from dynident.solvers.outcome import Outcome

ITERATIONS = 30  # for a start; what is not found by then is left to the method itself
NEAR = 0.1  # standard errors; the noise in the nodes moves it by more

Solve = Callable[[LevenbergMarquardt, FiniteProblem, Point, Mapping[str, int]], Outcome]


@dataclass(frozen=True, eq=False)
class Start:
    """Values of the unknowns, and the states of each record that go with them."""

    unknowns: np.ndarray
    times: list[np.ndarray]
    states: list[np.ndarray]  # per record (nodes, states)
    outcome: Outcome  # of the last solve


def easier_start(problem: Problem, integrator: Integrator, steps: int, sizes: Mapping[str, float], loss: str,
                 iterations: int, solve: Solve) -> Start | None:
    """None where records are too short to be cut, do not show every state, or the model diverges on every piece."""
    solver = LevenbergMarquardt(min(iterations, ITERATIONS), settled=NEAR)

    def cut(segments: Callable[[int], int]) -> Shooting:
        return Shooting(problem, integrator, [segments(e.samples) for e in problem.experiments], steps, sizes, loss)

    def fitted(shooting: Shooting, begin: Point, free_nodes: bool) -> tuple[Point, Outcome]:
        unlinked = Unlinked(shooting, begin, free_nodes)
        outcome = solve(solver, unlinked, unlinked.start(), shooting.counts)
        return unlinked.linked(outcome.point), outcome

    usual = cut(usual_segments)
    if not usual.equality_count or not usual.shown:
        return None
    try:
        here = usual.start()
        short = cut(lambda samples: max(1, (samples - 1) // SAMPLES_PER_SEGMENT))
        if short.equality_count > usual.equality_count:
            there, outcome = fitted(short, short.start(), False)
            moved = replace(here, unknowns=there.unknowns)
            better = _cost(usual, moved, True) < _cost(usual, here, False)  # as a rule, and its slopes are there then
            here = moved if better else here
            if outcome.interrupted:
                return _start(usual, here, outcome)
        here, outcome = fitted(usual, here, False)
        if not outcome.interrupted:
            here, outcome = fitted(usual, here, True)
        return _start(usual, here, outcome)
    except Diverged:
        return None


def _cost(shooting: Shooting, point: Point, slopes: bool) -> float:
    try:
        return shooting.linearize(point).evaluation.cost if slopes else shooting.evaluate(point).cost
    except Diverged:
        return np.inf


def _start(shooting: Shooting, point: Point, outcome: Outcome) -> Start:
    states = [out.states for out in shooting.run(point, False)]
    return Start(point.unknowns, [record.grid.time for record in shooting.records], states, outcome)
