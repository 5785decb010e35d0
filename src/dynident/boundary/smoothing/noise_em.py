"""Noise estimation by expectation maximisation (EM): standard deviations of measurements that the user did not size, where
the model may err too.

What a residual lacks of a measurement error is what the smoothed output is unsure of: the mean of residual^2 + variance is the
next guess of the size (expectation maximisation; Shumway and Stoffer 1982). Such steps shrink by a factor that may be close
to one: a short step is no sign that the goal is near. The factor is read off two steps in a row, says how far the way still is,
and then the whole of it is gone at once (Aitken). Where the smoothed outputs follow every sample, the residuals have no freedom
left and say nothing of a size: its steps vanish like those near a goal, but it is never called settled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dynident.boundary.smoothing.setup import SmoothingSetup
from dynident.boundary.smoothing.smoother_covariance import SmootherCovariance
from dynident.boundary.smoothing.weak_constraint import WeakConstraintProblem
from dynident.linalg.finite_problem import Variables
from dynident.methods.noise_estimation import signal_std
from dynident.problem.problem import given_std
from dynident.tolerances import EM_NOISE_CONVERGED, EM_NOISE_KNOWN, EM_STEP_ROUNDING, RESIDUAL_ROUNDING

MAX_NOISE_CHANGE = 10.0  # times larger or smaller in one round, unless a plain step goes farther


class NoiseUpdate(NamedTuple):
    """What a round says of the noise."""

    noise_std: Mapping[str, float] | None  # None: they have settled, or there are none to estimate
    last_step: np.ndarray | None  # the last plain step, in logarithms


def update_noise_std(setup: SmoothingSetup, finite: WeakConstraintProblem, point: Variables, used: Mapping[str, float],
                     last_step: np.ndarray | None) -> NoiseUpdate:
    """Better standard deviations, by those that were used and the step that led to them."""
    if not used:
        return NoiseUpdate(None, last_step)
    seen = residual_variances(setup, finite, point, used)
    if any(it.uninformative for it in seen.values()):
        return NoiseUpdate(dict(used), last_step)  # smaller ones say even less: they do not settle
    found = {name: _not_less(setup, name, used[name] * seen[name].growth_factor) for name in used}
    step = np.array([np.log(found[name] / used[name]) for name in used])
    length = float(np.linalg.norm(step))
    if length == 0:  # as small as sizes get; a short step says nothing: on the way to a size of none, steps vanish too
        return NoiseUpdate(None, step)
    if last_step is None or np.linalg.norm(last_step) < EM_STEP_ROUNDING:
        return NoiseUpdate(found, step)
    factor = length / float(np.linalg.norm(last_step))
    if factor < 1 - _least_information(finite) and length * factor / (1 - factor) <= EM_NOISE_CONVERGED:
        return NoiseUpdate(None, step)
    return NoiseUpdate(_extrapolate(setup, used, step, factor), None)  # a long step is followed by two plain ones


def _extrapolate(setup: SmoothingSetup, used: Mapping[str, float], step: np.ndarray, factor: float) -> dict[str, float]:
    """The whole of a way whose steps shrink by a factor."""
    longest = max(1.0, np.log(MAX_NOISE_CHANGE) / float(np.linalg.norm(step)))
    reach = min(1 / (1 - factor) if factor < 1 else np.inf, longest)
    return {name: _not_less(setup, name, used[name] * np.exp(reach * s)) for name, s in zip(used, step, strict=True)}


def _not_less(setup: SmoothingSetup, name: str, size: float) -> float:
    return max(float(size), RESIDUAL_ROUNDING * signal_std(setup.problem, name))


def _least_information(finite: WeakConstraintProblem) -> float:
    """1 - factor where the data tell the logarithm of a size to EM_NOISE_KNOWN: it is the share of 2 N, what they would tell
    if the model could not err, that they do tell (the missing information principle)."""
    return 1 / (2 * finite.residual_count * EM_NOISE_KNOWN**2)


@dataclass(frozen=True)
class ResidualVariance:
    """What the samples of one output show of its size; squares in units of the size that was used."""

    count: int
    squares: float  # of the residuals
    variances: float  # of the smoothed output, added up

    @property
    def growth_factor(self) -> float:
        """The next size over the one that was used; 1 where nothing was measured."""
        total = self.squares + self.variances
        return float(np.sqrt((0.0 if total < 0 else total) / self.count)) if self.count else 1.0  # negative by rounding: none

    @property
    def uninformative(self) -> bool:
        """Whether the size shrinks where residuals no longer tell its logarithm to EM_NOISE_KNOWN: they tell at most twice
        their degrees of freedom, the sum of 1 - variance (2 tr A^2 <= 2 tr A, the residuals being A times what was measured).
        Those shrink with the size, so that it has no end but none at all."""
        vague = not 2 * (self.count - self.variances) * EM_NOISE_KNOWN**2 >= 1  # true where there is no variance
        return self.count > 0 and vague and not self.growth_factor > 1


def residual_variances(setup: SmoothingSetup, finite: WeakConstraintProblem, point: Variables, used: Mapping[str, float]
                       ) -> dict[str, ResidualVariance]:
    evaluation = finite.evaluate(point)
    variances = SmootherCovariance(finite, point).output_variances()
    found = {}
    for name in used:
        column = setup.problem.model.outputs.index(name)
        here = [(e, finite.records[e].weight[:, column] > 0) for e, experiment in enumerate(setup.inner.experiments)
                if name in experiment.noise and given_std(experiment, name) is None]
        found[name] = ResidualVariance(sum(int(np.sum(seen)) for _, seen in here),
                           sum(float(np.sum(evaluation.weighted_residuals[e][seen, column] ** 2)) for e, seen in here),
                           sum(float(np.sum(variances[e][seen, column])) for e, seen in here))
    return found
