"""Stationary start: is it a local minimum, or was a solver put where the sensitivity to an unknown happens to vanish?

Where an unknown acts through a product or a power (m*l, a**2) and starts at 0, nothing measured changes with it to first
order, no solver moves it, and every test of a small step is passed. Such unknowns are moved beside their start, and the
solver is asked again. What then stays where it was put, though the cost is another, acts in jumps (a condition that begins
to hold from one sample to the next): no derivative can tell where it belongs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dynident.errors import SimulationDiverged
from dynident.linalg.condensing import CondensedProblem
from dynident.linalg.finite_problem import FiniteProblem, Variables
from dynident.solvers.convergence import step_in_standard_errors
from dynident.solvers.solver_result import SolverResult
from dynident.status import Status, StatusCode
from dynident.tolerances import SAME_COST, STEP_TOLERANCE, ZERO_SENSITIVITY

SIZES = (1.0, 1e-2, 1e-4)  # of a typical change: how far beside
WAYS_OUT = ("Let inputs move between samples (hold=\"linear\"), write conditions inside of where() as modes and transitions, "
            "or take least_squares(), whose differences see jumps")


def stationary_unknowns(finite: FiniteProblem, outcome: SolverResult, begin: np.ndarray) -> np.ndarray:
    """Which unknowns a solver left at their start `begin`, because nothing measured changes with them there."""
    unmoved = (outcome.point.unknowns == begin) & (outcome.held == 0)
    if not outcome.converged or not np.any(unmoved):
        return np.zeros(unmoved.size, bool)
    return unmoved & _without_slope(finite, outcome.point)


def escapes(finite: FiniteProblem, outcome: SolverResult, there: SolverResult) -> bool:
    """Whether an outcome from beside is the better minimum."""
    gain = outcome.evaluation.cost - there.evaluation.cost
    return there.converged and step_in_standard_errors(gain, outcome.evaluation.cost, finite) > STEP_TOLERANCE


def find_piecewise_constant(finite: FiniteProblem, outcome: SolverResult, which: np.ndarray) -> np.ndarray:
    """Of some unknowns without slope, those with which everything changes all the same, and beside still without slope."""
    found = np.zeros(which.size, bool)
    for i in np.flatnonzero(which):
        for point in perturbed_points(finite, outcome.point, np.arange(which.size) == i):
            try:
                there = finite.evaluate(point)
            except SimulationDiverged:
                continue
            here = outcome.evaluation
            change = abs(there.cost - here.cost) / max(here.cost, finite.rounding_cost)
            change += abs(there.max_defect - here.max_defect)
            if change > SAME_COST:
                found[i] = bool(_without_slope(finite, point)[i])
                break
    return found


def reject_piecewise_constant(outcome: SolverResult, names: Sequence[str], jumps: np.ndarray) -> SolverResult:
    """Not converged where some jump, and why."""
    if not outcome.converged or not np.any(jumps):
        return outcome
    named = ", ".join(name for name, is_it in zip(names, jumps, strict=True) if is_it)
    return replace(outcome, converged=False, reason=Status.of(StatusCode.PIECEWISE_CONSTANT, names=named, ways_out=WAYS_OUT))


def perturbed_points(finite: FiniteProblem, point: Variables, which: np.ndarray) -> Iterator[Variables]:
    """Points beside, some unknowns moved by less and less."""
    c, change = finite.coordinates, typical_change(finite, point.unknowns)
    for away in (size * change for size in SIZES if np.any(which)):
        moved = point.unknowns + np.where(point.unknowns + away <= c.upper, away, -away)
        yield Variables(np.clip(np.where(which, moved, point.unknowns), c.lower, c.upper), point.nodes)


def typical_change(finite: FiniteProblem, begin: np.ndarray) -> np.ndarray:
    """Of each unknown; 1 where nothing is known of it."""
    scale = finite.coordinates.scale
    return np.where(np.isfinite(scale) & (scale > 0), scale, np.where(begin != 0, np.abs(begin), 1.0))


def _without_slope(finite: FiniteProblem, point: Variables) -> np.ndarray:
    try:
        norms = CondensedProblem(finite.linearize(point)).rows.column_norms * typical_change(finite, point.unknowns)
    except SimulationDiverged:
        return np.zeros(len(finite.names), bool)
    return norms <= ZERO_SENSITIVITY * max(float(np.max(norms)), np.sqrt(finite.rounding_cost))
