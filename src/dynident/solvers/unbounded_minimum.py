"""Unbounded minimum: is it a local minimum, or has a solver stopped on the way to one that lies at infinity?

A cost that falls ever more slowly as unknowns grow without end (a mass, a stiffness and a damping that together let a
body stand still) passes every test of a small step. Whoever is far from the start is therefore asked once more from ten
times as far: a minimum is come back to, and the way to infinity is not. Where the model follows the data all the same, its
limit at infinity is the answer, and all that the data can tell; where it does not, or nobody knows, there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from dynident.errors import SimulationDiverged
from dynident.linalg.finite_problem import FiniteProblem, Variables
from dynident.problem.transforms import Transforms
from dynident.solvers.convergence import step_in_standard_errors
from dynident.solvers.solver_result import SolverResult
from dynident.status import Status, StatusCode
from dynident.tolerances import COMPARABLE_DEFECT, SAME_FIT, UNBOUNDED_DISTANCE, UNBOUNDED_RETURN

SUSPECT = 10.0  # times the start; the same where it is known that the data do not hold somebody
ALONG = 0.03  # of that; who is that far may run along with them
FURTHER = 10.0  # times; so far away it is tried again


def verify_bounded_minimum(finite: FiniteProblem, outcome: SolverResult, begin: np.ndarray, names: Sequence[str],
                   follows: bool, solve: Callable[[Variables], SolverResult], far: float = UNBOUNDED_DISTANCE) -> SolverResult:
    """As `extrapolated_point` and `reject_unbounded_minimum`, with a solver between the two."""
    further = extrapolated_point(finite, outcome, begin, far)
    if further is None:
        return outcome
    try:
        there = solve(further)
    except SimulationDiverged:  # no word on what is beyond
        return outcome
    return reject_unbounded_minimum(finite, outcome, begin, names, follows, there, far)


def extrapolated_point(finite: FiniteProblem, outcome: SolverResult, begin: np.ndarray, far: float = UNBOUNDED_DISTANCE
                       ) -> Variables | None:
    """Ten times as far from the start as a minimum whose unknowns are far from it; None where none is.

    `begin` are the unknowns at the start, `far` is how far from it, in multiples of it, is far.
    """
    c, here = finite.coordinates, outcome.point
    away = _further(c, here.unknowns, begin, far) * (outcome.held == 0)
    if not outcome.converged or not np.any(away):
        return None
    return Variables(np.clip(here.unknowns + away, c.lower, c.upper), here.nodes)


def reject_unbounded_minimum(finite: FiniteProblem, outcome: SolverResult, begin: np.ndarray, names: Sequence[str],
                             follows: bool, there: SolverResult, far: float = UNBOUNDED_DISTANCE) -> SolverResult:
    """The outcome, not converged where its minimum lies at infinity and nothing says that the model follows the data.

    `there` is what was found from the extrapolated point, `names` are those of the unknowns as the user knows them.
    """
    if there.interrupted:
        return replace(outcome, converged=False, reason=there.reason, interrupted=True)
    c, here = finite.coordinates, outcome.point
    away = _further(c, here.unknowns, begin, far) * (outcome.held == 0)
    further = np.clip(here.unknowns + away, c.lower, c.upper)
    stayed = (there.point.unknowns - here.unknowns) / np.where(away != 0, away, np.inf)
    stayed = np.where((there.point.unknowns == further) & (away != 0), 1.0, stayed)  # also where rounding hides the way
    gone = stayed > np.where(c.log, np.log(UNBOUNDED_RETURN) / np.log(FURTHER), (UNBOUNDED_RETURN - 1) / (FURTHER - 1))
    if not np.any(gone) or there.evaluation.max_defect > COMPARABLE_DEFECT or not _as_well(there, outcome, finite):
        return outcome
    named = ", ".join(name for name, ran in zip(names, gone, strict=True) if ran)
    if follows:
        return replace(outcome, reason=Status.of(StatusCode.CONVERGED_LIMIT_CASE, reason=outcome.reason, names=named))
    return replace(outcome, converged=False, reason=Status.of(StatusCode.UNBOUNDED_MINIMUM, names=named))


def _as_well(there: SolverResult, here: SolverResult, finite: FiniteProblem) -> bool:
    more = there.evaluation.cost - here.evaluation.cost
    return more <= 0 or step_in_standard_errors(more, here.evaluation.cost, finite) <= SAME_FIT


def relative_distance(c: Transforms, here: np.ndarray, begin: np.ndarray) -> np.ndarray:
    """How many times as large as at the start each unknown is, or as small where it is a logarithm; NaN without a size."""
    typical = np.where(begin != 0, np.abs(begin), c.scale)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(c.log, np.exp(np.abs(here - begin)), np.abs(here) / typical)


def _further(c: Transforms, here: np.ndarray, begin: np.ndarray, far: float) -> np.ndarray:
    """The way on for unknowns that are far from where they began; 0 for all others."""
    times = relative_distance(c, here, begin)
    gone = (times > max(ALONG * far, UNBOUNDED_RETURN)) & np.any(times > far)
    return np.where(gone, np.where(c.log, np.sign(here - begin) * np.log(FURTHER), (FURTHER - 1) * here), 0.0)
