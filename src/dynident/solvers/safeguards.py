"""Safeguards: is what a solver found a local minimum, or a stationary start, or a way to a minimum at infinity?

Stationary start (a stationary point of the cost, mostly a saddle point): where an unknown acts through a product or a power
(m*l, a**2) and starts at 0, nothing measured changes with it to first order, no solver moves it, and every test of a small
step is passed. Such unknowns are moved beside their start, and the solver is asked again. What then stays where it was put,
though the cost is another, acts in jumps (a condition that begins to hold from one sample to the next): no derivative can tell
where it belongs.

Unbounded minimum: a cost that falls ever more slowly as unknowns grow without end (a mass, a stiffness and a damping that
together let a body stand still) passes every test of a small step. Whoever is far from the start is therefore asked once more
from ten times as far: a minimum is come back to, and the way to infinity is not. Where the model follows the data all the
same, its limit at infinity is the answer, and all that the data can tell; where it does not, or nobody knows, there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from dynident.errors import SimulationDiverged
from dynident.linalg.condensing import CondensedProblem
from dynident.linalg.finite_problem import FiniteProblem, Variables
from dynident.problem.parameter import Transforms
from dynident.solvers.solver_result import SolverResult
from dynident.solvers.stopping import residual_std, step_in_standard_errors
from dynident.status import Status, StatusCode
from dynident.tolerances import (
    ALONG_FRACTION,
    COMPARABLE_DEFECT,
    SAME_COST,
    SAME_FIT,
    STEP_TOLERANCE,
    UNBOUNDED_DISTANCE,
    UNBOUNDED_RETURN,
    ZERO_SENSITIVITY,
)

EXTRAPOLATION = 10.0  # times; so far away it is tried again
PERTURBATIONS = (1.0, 1e-2, 1e-4)  # of a typical change: how far beside
WAYS_OUT = ("Let inputs move between samples (hold=\"linear\"), write conditions inside of where() as modes and transitions, "
            "or take least_squares(), whose differences see jumps")


def stationary_unknowns(finite: FiniteProblem, outcome: SolverResult, start: np.ndarray) -> np.ndarray:
    """Which unknowns a solver left at their start, because nothing measured changes with them there."""
    unmoved = (outcome.point.unknowns == start) & (outcome.active_bounds == 0)
    if not outcome.converged or not np.any(unmoved):
        return np.zeros(unmoved.size, bool)
    return unmoved & _zero_sensitivity(finite, outcome.point)


def escapes(finite: FiniteProblem, outcome: SolverResult, restarted: SolverResult) -> bool:
    """Whether an outcome from beside is the better minimum."""
    gain = outcome.evaluation.cost - restarted.evaluation.cost
    return restarted.converged and step_in_standard_errors(gain, outcome.evaluation.squares, finite) > STEP_TOLERANCE


def find_piecewise_constant(finite: FiniteProblem, outcome: SolverResult, which: np.ndarray) -> np.ndarray:
    """Of some unknowns without slope, those with which everything changes all the same, and beside still without slope."""
    piecewise_constant = np.zeros(which.size, bool)
    for i in np.flatnonzero(which):
        for point in perturbed_points(finite, outcome.point, np.arange(which.size) == i):
            try:
                restarted = finite.evaluate(point)
            except SimulationDiverged:
                continue
            reached = outcome.evaluation
            change = abs(restarted.cost - reached.cost) / (max(reached.squares, finite.rounding_cost) or 1.0)  # a dead channel
            change += abs(restarted.max_defect - reached.max_defect)
            if change > SAME_COST:
                piecewise_constant[i] = bool(_zero_sensitivity(finite, point)[i])
                break
    return piecewise_constant


def reject_piecewise_constant(outcome: SolverResult, names: Sequence[str], jumps: np.ndarray) -> SolverResult:
    """Not converged where some jump, and why."""
    if not outcome.converged or not np.any(jumps):
        return outcome
    named = ", ".join(name for name, is_it in zip(names, jumps, strict=True) if is_it)
    return replace(outcome, converged=False, reason=Status.of(StatusCode.PIECEWISE_CONSTANT, names=named, ways_out=WAYS_OUT))


def perturbed_points(finite: FiniteProblem, point: Variables, which: np.ndarray) -> Iterator[Variables]:
    """Points beside, some unknowns moved by less and less."""
    c, change = finite.coordinates, typical_change(finite, point.unknowns)
    for step in (part * change for part in PERTURBATIONS if np.any(which)):
        moved = point.unknowns + np.where(point.unknowns + step <= c.upper, step, -step)
        yield Variables(np.clip(np.where(which, moved, point.unknowns), c.lower, c.upper), point.nodes)


def typical_change(finite: FiniteProblem, start: np.ndarray) -> np.ndarray:
    """Of each unknown; 1 where nothing is known of it."""
    scale = finite.coordinates.scale
    return np.where(np.isfinite(scale) & (scale > 0), scale, np.where(start != 0, np.abs(start), 1.0))


def sizes_seen(finite: FiniteProblem, outcome: SolverResult) -> np.ndarray:
    """Typical size of each unknown, and no less than what the data can tell of it alone: a start of 1e-7 is a zero, no size."""
    try:
        norms = CondensedProblem(finite.linearize(outcome.point)).rows.column_norms
    except SimulationDiverged:
        return finite.coordinates.scale
    told = residual_std(outcome.evaluation.squares, finite) / np.where(norms > 0, norms, np.inf)
    return np.maximum(finite.coordinates.scale, told)  # NaN without a scale


def _zero_sensitivity(finite: FiniteProblem, point: Variables) -> np.ndarray:
    try:
        norms = CondensedProblem(finite.linearize(point)).rows.column_norms * typical_change(finite, point.unknowns)
    except SimulationDiverged:
        return np.zeros(len(finite.names), bool)
    return norms <= ZERO_SENSITIVITY * max(float(np.max(norms)), np.sqrt(finite.rounding_cost))


def verify_bounded_minimum(finite: FiniteProblem, outcome: SolverResult, start: np.ndarray, names: Sequence[str],
                   follows: bool, solve: Callable[[Variables], SolverResult], far: float = UNBOUNDED_DISTANCE) -> SolverResult:
    """As `extrapolated_point` and `reject_unbounded_minimum`, with a solver between the two."""
    further = extrapolated_point(finite, outcome, start, far)
    if further is None:
        return outcome
    try:
        restarted = solve(further)
    except SimulationDiverged:  # no word on what is beyond
        return outcome
    return reject_unbounded_minimum(finite, outcome, start, names, follows, restarted, far)


def extrapolated_point(finite: FiniteProblem, outcome: SolverResult, start: np.ndarray, far: float = UNBOUNDED_DISTANCE
                       ) -> Variables | None:
    """Ten times as far from the start as a minimum whose unknowns are far from it; None where none is.

    `start` are the unknowns at the start, `far` is how far from it, in multiples of it, is far.
    """
    c, reached = finite.coordinates, outcome.point
    way_on = _way_on(c, reached.unknowns, start, far) * (outcome.active_bounds == 0)
    if not outcome.converged or not np.any(way_on):
        return None
    return Variables(np.clip(reached.unknowns + way_on, c.lower, c.upper), reached.nodes)


def reject_unbounded_minimum(finite: FiniteProblem, outcome: SolverResult, start: np.ndarray, names: Sequence[str],
                             follows: bool, restarted: SolverResult, far: float = UNBOUNDED_DISTANCE) -> SolverResult:
    """The outcome, not converged where its minimum lies at infinity and nothing says that the model follows the data.

    `restarted` is what was found from the extrapolated point, `names` are those of the unknowns as the user knows them.
    """
    if restarted.interrupted:
        return replace(outcome, converged=False, reason=restarted.reason, interrupted=True)
    c, reached = finite.coordinates, outcome.point
    way_on = _way_on(c, reached.unknowns, start, far) * (outcome.active_bounds == 0)
    further = np.clip(reached.unknowns + way_on, c.lower, c.upper)
    stayed = (restarted.point.unknowns - reached.unknowns) / np.where(way_on != 0, way_on, np.inf)
    stayed = np.where((restarted.point.unknowns == further) & (way_on != 0), 1.0, stayed)  # also where rounding hides the way
    returned = np.where(c.log, np.log(UNBOUNDED_RETURN) / np.log(EXTRAPOLATION), (UNBOUNDED_RETURN - 1) / (EXTRAPOLATION - 1))
    gone = stayed > returned
    if not np.any(gone) or restarted.evaluation.max_defect > COMPARABLE_DEFECT or not _as_well(restarted, outcome, finite):
        return outcome
    named = ", ".join(name for name, ran in zip(names, gone, strict=True) if ran)
    if follows:
        return replace(outcome, reason=Status.of(StatusCode.CONVERGED_LIMIT_CASE, reason=outcome.reason, names=named))
    return replace(outcome, converged=False, reason=Status.of(StatusCode.UNBOUNDED_MINIMUM, names=named))


def _as_well(restarted: SolverResult, reached: SolverResult, finite: FiniteProblem) -> bool:
    more = restarted.evaluation.cost - reached.evaluation.cost
    return more <= 0 or step_in_standard_errors(more, reached.evaluation.squares, finite) <= SAME_FIT


def relative_distance(c: Transforms, reached: np.ndarray, start: np.ndarray) -> np.ndarray:
    """How many times as large as at the start, or as its stated scale, each unknown is; where it is a logarithm also as small.

    NaN without a size.
    """
    typical = np.where(start != 0, np.fmax(np.abs(start), c.scale), c.scale)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(c.log, np.exp(np.abs(reached - start)), np.abs(reached) / typical)


def _way_on(c: Transforms, reached: np.ndarray, start: np.ndarray, far: float) -> np.ndarray:
    """The way on for unknowns that are far from where they began; 0 for all others."""
    times = relative_distance(c, reached, start)
    gone = (times > max(ALONG_FRACTION * far, UNBOUNDED_RETURN)) & np.any(times > far)
    return np.where(gone, np.where(c.log, np.sign(reached - start) * np.log(EXTRAPOLATION), (EXTRAPOLATION - 1) * reached), 0.0)
