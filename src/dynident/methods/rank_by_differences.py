"""Rank by differences: what do the data not see, where derivatives are differences that carry an error of their own?

Below the error of the derivatives a singular value says nothing, and above it a weak direction is no null direction. So
directions that may be null as far as derivatives tell are tried out: along such a direction, over a finite way, outputs must
not change. Only what simulations confirm is called undetermined.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dynident.errors import SimulationDiverged
from dynident.linalg.finite_problem import ResidualJacobian, Variables
from dynident.statistics.covariance import Covariance
from dynident.tolerances import SAME_OUTPUTS_BY_DIFFERENCES
from dynident.transcription.transcribed_problem import SimulatedProblem

ERROR_MARGIN = 10.0  # times the error of a column: singular values below it may be those of null directions
TRIED_WAY = 0.1  # of the unknown that moves most: so far along a direction outputs are simulated


def covariance_by_differences(finite: SimulatedProblem, at: ResidualJacobian, covariance: Callable[[float], Covariance],
                              smallest: float) -> Covariance:
    """With directions below the error of the derivatives as undetermined, where simulations confirm every one of them."""

    def null_space(least: float) -> np.ndarray:
        found = covariance(least).null_space
        assert found is not None
        return found

    return covariance(smallest_by_differences(finite, at, null_space, smallest))


def smallest_by_differences(finite: SimulatedProblem, at: ResidualJacobian, null_space: Callable[[float], np.ndarray],
                            smallest: float) -> float:
    """The relative singular value that counts as zero: the error of the derivatives, where simulations confirm every
    direction of the null space that then follows, else what was given."""
    coarse = ERROR_MARGIN * finite.jacobian_error
    if coarse <= smallest or (wider := null_space(coarse)).shape[1] <= null_space(smallest).shape[1]:
        return smallest
    return coarse if all(_unchanged_along(finite, at, direction) for direction in wider.T) else smallest


def _unchanged_along(finite: SimulatedProblem, at: ResidualJacobian, direction: np.ndarray) -> bool:
    """Whether outputs stay as they are along a straight line, or along one of constant ratios."""
    members = np.flatnonzero(np.abs(direction) > 0)
    own = at.values[members]
    size = np.where(own != 0, own, 1.0)
    way = TRIED_WAY * direction[members] / np.max(np.abs(direction[members] / size))
    alone = float(np.max(np.linalg.norm(at.jacobian[:, members] * way, axis=0)))
    straight, ratios = at.values.copy(), at.values.copy()
    straight[members] += way
    ratios[members] = own * np.exp(way / size)
    here = _residuals(finite, at.values)
    for there in (straight, ratios):
        try:
            if np.linalg.norm(_residuals(finite, there) - here) <= SAME_OUTPUTS_BY_DIFFERENCES * alone:
                return True
        except SimulationDiverged:
            continue
    return False


def _residuals(finite: SimulatedProblem, values: np.ndarray) -> np.ndarray:
    finite = finite.whole_records()
    point = Variables(finite.coordinates.coordinates(values), finite.start().nodes)
    return np.concatenate([np.ravel(r) for r in finite.evaluate(point).weighted_residuals])
