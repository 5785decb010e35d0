"""Other ends: has the likelihood a second maximum beyond a ridge, along the unknown that the record determines worst?

A walk from the end found, two standard errors at a time, with everything else at its minimum (a likelihood profile). A parabola
has 2 dL = 4 at the first point and 16 at the second, and the walk is over. Where the valley bends it goes on, and where the
likelihood rises again behind a ridge a search begins.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynident.kalman.prediction_error.scoring import ScoringState, inverse_information, minimise
from dynident.kalman.prediction_error.setup import PredictionSetup
from dynident.tolerances import RIVAL_END

STRIDE = 2.0  # standard errors between two points
MAX_END_POINTS = 10  # on each side
RIDGE = 15.0  # 2 dL: beyond a ridge that is higher nothing is looked for
BEHIND = 0.1  # by which L falls behind a ridge
AT_A_POINT = 6  # steps of scoring
LONG_RECORD = 20_000  # rows of the filter: above it one end is enough to wait for
APART = 3.0  # standard errors between two ends, or they are one
NOT_WALKED = ("Whether the likelihood has a second maximum was not looked for: {rows:,} samples times sub-steps are more than "
              f"{LONG_RECORD:,}. Fit a part of the record to ask.")
REACH = 1.96  # standard deviations in the half-width of a 95 % interval


def starts_beyond(setup: PredictionSetup, found: ScoringState, lower: np.ndarray, upper: np.ndarray) -> list[np.ndarray]:
    """Where to search on either side of `found`, if anywhere; nowhere for a long record."""
    if not (found.converged and setup.unknowns) or rows_of(setup) > LONG_RECORD:
        return []
    covariance = inverse_information(found.at.information)
    k = worst_determined(setup, found, covariance)
    if not covariance[k, k] > 0:
        return []
    along = STRIDE * covariance[:, k] / np.sqrt(covariance[k, k])
    starts = [_behind_the_ridge(setup, found, lower, upper, k, side * along) for side in (-1, 1)]
    return [start for start in starts if start is not None]


def rows_of(setup: PredictionSetup) -> int:
    """What a pass of the filter goes through: samples times sub-steps."""
    return sum(len(record.columns) for record in setup.records)


def worst_determined(setup: PredictionSetup, found: ScoringState, covariance: np.ndarray) -> int:
    """The unknown with the largest standard deviation, relative to its value."""
    n = setup.unknowns
    values = np.abs(setup.values(found.theta))
    relative = np.sqrt(np.maximum(np.diag(covariance)[:n], 0.0)) * np.abs(setup.slopes(found.theta))
    initial = np.array([unknown.initial for unknown in setup.problem.unknowns])
    return int(np.argmax(np.where(initial & ~np.all(initial), -1.0, relative / np.where(values > 0, values, np.inf))))


def _behind_the_ridge(setup: PredictionSetup, found: ScoringState, lower: np.ndarray, upper: np.ndarray, k: int,
                      along: np.ndarray) -> np.ndarray | None:
    """The first point of the walk at which the likelihood rises again; None where a bound or a cliff comes first."""
    theta, highest = found.theta, found.at.value
    others = np.arange(theta.size) != k
    for _ in range(MAX_END_POINTS):
        theta = theta + along
        if not lower[k] < theta[k] < upper[k]:
            return None
        here = minimise(setup, theta, lower, upper, others, most=AT_A_POINT)
        if not 2 * (here.at.value - found.at.value) < RIDGE:
            return None
        if here.at.value < highest - BEHIND:
            return here.theta
        theta, highest = here.theta, max(highest, here.at.value)
    return None


def rivals(setup: PredictionSetup, found: ScoringState, others: Sequence[ScoringState]) -> tuple[list[np.ndarray], list[str]]:
    """Ends that explain the record nearly as well as `found`: standard deviations (unknowns,) that reach them, and words.

    Also words where a record is too long to look for any.
    """
    n = setup.unknowns
    std = np.sqrt(np.maximum(np.diag(inverse_information(found.at.information))[:n], np.finfo(float).tiny))
    shifts: list[np.ndarray] = []
    said = [NOT_WALKED.format(rows=rows_of(setup))] if setup.unknowns and rows_of(setup) > LONG_RECORD else []
    for other in others:
        gap, away = 2 * (other.at.value - found.at.value), other.theta[:n] - found.theta[:n]
        names = [k for k in range(n) if abs(away[k]) > APART * std[k]]
        if not (other.converged and names and gap < RIVAL_END):
            continue
        there = ", ".join(f"{setup.problem.names[k]} = {setup.values(other.theta)[k]:.4g}" for k in names)
        said.append(f"Another set of values explains the record nearly as well ({there}; 2 dL = {max(gap, 0.0):.2g}); the 95 % "
                    "intervals reach it. A value or a bound that you know, or another record, tells which it is.")
        shifts.append(away / REACH)
    return shifts, said
