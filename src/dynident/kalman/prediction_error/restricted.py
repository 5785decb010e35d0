"""Restricted likelihood: how large are the noises, when the unknowns that were fitted beside them are allowed for?

Unknowns follow a slow disturbance as far as they can, so that the likelihood finds it too small: by a half and more where a
record shows but few swings of it. The restricted likelihood (Patterson and Thompson 1971; Harville 1977) averages over the
unknowns instead: R(noises) = min over unknowns of L + 1/2 log det A, with their information A. In the logarithm of a noise the
second part falls and is concave, so that its tangent lies above it: each pass minimises L + tangent over everything, and R
falls from pass to pass. For output error this is the division by n - p.

A disturbance that a record hardly shows has its highest likelihood at zero as often as not, and intervals that rest on zero
hold next to nothing. So where noise of states or inputs is open, its standard deviation has a flat prior, whose mode in the
logarithm lies about one standard error above zero then, and next to the likelihood's where it is seen (Chung et al. 2013).

How well the noises are known then decides the quantile: the variance of an unknown has 2 V^2 / var(V) degrees of freedom
(Satterthwaite 1946).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dynident.kalman.prediction_error.scoring import (
    InnovationCriterion,
    ScoringState,
    evaluate,
    inverse_information,
    minimise,
    on_bound,
)
from dynident.kalman.prediction_error.setup import PredictionSetup
from dynident.statistics.autocorrelation import FEWEST_VARIANCE_DOF
from dynident.tolerances import RESTRICTED_NOISE, SMALLEST_EIGENVALUE

MAX_SCORING_PASSES = 20
SCORING_STEPS = 3  # of scoring in a pass: the tangent moves on before its minimum is exact
LOG_NOISE_STEP = 0.02  # of a noise's logarithm, for the slope of log det A
LEAST_CURVATURE = 0.25  # of the likelihood's own: less is left to the noises nowhere, whatever differences say


@dataclass(frozen=True, eq=False)
class RestrictedLikelihood:
    """What is minimised, and where."""

    setup: PredictionSetup
    lower: np.ndarray
    upper: np.ndarray

    @classmethod
    def of(cls, setup: PredictionSetup, lower: np.ndarray, upper: np.ndarray) -> RestrictedLikelihood:
        """Of all values: log det A makes good what free initial states explain (`counted` of the records)."""
        records = tuple(replace(record, counted=np.ones(record.there.shape)) for record in setup.records)
        return cls(replace(setup, records=records), lower, upper)

    def value(self, state: ScoringState) -> float:
        """R at a point whose unknowns are at their minimum."""
        at = evaluate(self.setup, state.theta)
        return at.value + half_log_det(at, self._free(state)) + float(self._flat_prior @ state.theta)

    def minimum_from(self, theta: np.ndarray, moving: np.ndarray, most: int, tell: Callable[..., object]) -> ScoringState:
        """By passes; the noises that do not move stay where they are."""
        state = ScoringState(theta, evaluate(self.setup, theta))
        history = state.history
        noises = np.arange(theta.size) >= self.setup.unknowns
        for last in [False] * MAX_SCORING_PASSES + [True]:
            tilted = replace(self.setup, tilt=self._slopes(state, moving) + self._flat_prior)
            steps = most if last else SCORING_STEPS
            following = minimise(tilted, state.theta, self.lower, self.upper, moving, most=steps, tell=tell)
            history = (*history, *following.history)
            moved = (following.theta - state.theta) * np.sqrt(np.diag(following.at.information))
            state = following
            if state.converged and np.max(np.abs(moved[noises]), initial=0.0) < RESTRICTED_NOISE:
                break
        return replace(state, history=history)

    def profiled(self, theta: np.ndarray, most: int) -> ScoringState:
        """With the unknowns at their minimum beside these noises."""
        return minimise(self.setup, theta, self.lower, self.upper, np.arange(theta.size) < self.setup.unknowns, most=most)

    def degrees_of_freedom(self, state: ScoringState) -> np.ndarray:
        """(unknowns,) of each variance, for what the record tells of the noises; infinite where these are given."""
        n = self.setup.unknowns
        moving = np.ones(state.theta.size, bool)
        moving[n:] = ~on_bound(state, self.lower, self.upper)[n:]
        noises = np.flatnonzero(moving[n:]) + n
        if not noises.size:
            return np.full(n, np.inf)
        variance = np.diag(inverse_information(state.at.information[:n, :n]))
        slopes, curvature, ends = np.zeros((n, noises.size)), np.zeros(noises.size), self._beside(state, noises)
        middle, free = half_log_det(state.at, self._free(state)), self._free(state)
        for j, (below, above) in enumerate(ends):
            spread = [np.diag(inverse_information(at.information[:n, :n])) for at in (below, above)]
            slopes[:, j] = (spread[1] - spread[0]) / (2 * LOG_NOISE_STEP)
            curvature[j] = (half_log_det(below, free) + half_log_det(above, free) - 2 * middle) / LOG_NOISE_STEP**2
        H = state.at.information[np.ix_(noises, noises)]
        H = H + np.diag(np.maximum(curvature, (LEAST_CURVATURE - 1) * np.diag(H)))
        doubt = np.einsum("ij,jk,ik->i", slopes, inverse_information(H), slopes)
        dof = np.divide(2 * variance**2, doubt, out=np.full(n, np.inf), where=doubt > 0)
        return np.maximum(dof, FEWEST_VARIANCE_DOF)

    @property
    def _flat_prior(self) -> np.ndarray:
        """(theta,) slope of minus its logarithm, per logarithm of a noise of states and inputs."""
        of_noises = [-float(place != "output") for place, _ in self.setup.open_terms]
        return np.concatenate([np.zeros(self.setup.unknowns), of_noises])

    def _free(self, state: ScoringState) -> np.ndarray:
        """Places of the unknowns that no bound holds."""
        return np.flatnonzero(~on_bound(state, self.lower, self.upper)[:self.setup.unknowns])

    def _slopes(self, state: ScoringState, moving: np.ndarray) -> np.ndarray:
        """d (1/2 log det A) / d theta in the noises that move, with the unknowns held."""
        slope, noises, free = np.zeros(state.theta.size), np.flatnonzero(moving), self._free(state)
        noises = noises[noises >= self.setup.unknowns]
        for k, (below, above) in zip(noises, self._beside(state, noises), strict=True):
            slope[k] = (half_log_det(above, free) - half_log_det(below, free)) / (2 * LOG_NOISE_STEP)
        return slope

    def _beside(self, state: ScoringState, noises: np.ndarray) -> list[tuple[InnovationCriterion, InnovationCriterion]]:
        steps = LOG_NOISE_STEP * np.eye(state.theta.size)[noises]
        return [(evaluate(self.setup, state.theta - step), evaluate(self.setup, state.theta + step)) for step in steps]


def half_log_det(at: InnovationCriterion, free: np.ndarray) -> float:
    """Of the information on the unknowns, scaled first; directions that the record does not determine count alike."""
    A = at.information[np.ix_(free, free)]
    size = np.maximum(np.diag(A), np.finfo(float).tiny)
    w = np.linalg.eigvalsh(A / np.sqrt(size) / np.sqrt(size)[:, None])
    return 0.5 * float(np.sum(np.log(np.maximum(w, SMALLEST_EIGENVALUE))) + np.sum(np.log(size)))
