"""Active bounds: how far may a bound or an inequality that holds the estimate be off the truth, and what would follow it?

The fit says that the true value lies where the condition holds with equality, or further inside. How far inside is told by
the fit without that condition; how the other unknowns follow, by the linearised problem with it moved. Both together widen
the intervals of the others to the side to which they would go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dynident.statistics.autocorrelation import ColouredNoise, effective_dof
from dynident.statistics.distributions import student_quantile
from dynident.statistics.error_propagation import EstimatorGain, JacobianQR, estimator_gain
from dynident.tolerances import NULL_SPACE_COMPONENT, SINGULAR_VALUE

NOTICED = 0.1  # of the half width that an unknown has anyhow; one that follows by less is not named


@dataclass(frozen=True, eq=False)
class BoundRelaxation:
    """What an active condition leaves open: a length inwards with its standard deviation, and what follows per unit of it."""

    text: str  # the name of the unknown whose bound it is, or the constraint as it was written
    sensitivity: np.ndarray  # (unknowns,) change of each per unit inwards; zero for an unknown on its own bound
    std: Mapping[str, float]  # kind -> of the length, if the condition were released; infinite where nothing tells
    dof: Mapping[str, float]  # kind -> degrees of freedom of that
    span: float = np.inf  # to the condition's other side

    def inward_extent(self, level: float, kind: str) -> float:
        """How far inside the truth may lie at a level, to one side."""
        std, dof = self.std.get(kind, np.inf), self.dof.get(kind, np.inf)
        told = student_quantile(level, dof) * std if dof > 0 and np.isfinite(std) else np.inf
        return float(min(told, self.span))

    def effect_on(self, i: int, level: float, kind: str) -> float:
        """How far one unknown would follow, with its sign."""
        return float(self.sensitivity[i] * self.inward_extent(level, kind)) if self.sensitivity[i] else 0.0


@dataclass(frozen=True, eq=False)
class ActiveInequality:
    """An inequality that holds the estimate, and the row of the linearised problem that says so."""

    text: str
    row: int
    inward: np.ndarray  # (unknowns,) its derivative in the user's units, towards where it holds nothing
    weight: float  # the row is the derivative times this; negative where inwards is the other way
    span: float = np.inf


@dataclass(frozen=True, eq=False)
class NoiseModel:
    """The errors behind a linearised fit: what `limit_leeway` needs to ask again without one of its rows."""

    jacobian: np.ndarray
    scales: np.ndarray
    experiment: np.ndarray
    variance: np.ndarray  # (rows,) of independent errors
    dof: float
    noise: ColouredNoise | None  # as autocorrelated as the residuals are
    one_minus_leverage: np.ndarray  # (rows,) one minus the leverage


def bound_sensitivity(sensitivity: JacobianQR, fit: EstimatorGain, j: int, side: str, known: bool) -> np.ndarray:
    """(unknowns,) how the fitted ones make up for unknown j going inwards by a unit, the others on bounds held."""
    slope = -fit.gain @ (sensitivity.triangle[:, j] * sensitivity.lengths[j])
    if not known:  # what goes on without end must not be rounding
        slope[np.abs(slope) * sensitivity.lengths < NULL_SPACE_COMPONENT * sensitivity.lengths[j]] = 0.0
    slope[j] = 0.0
    return np.asarray(slope if side == "lower" else -slope)


def inequality_relaxation(limit: ActiveInequality, sensitivity: JacobianQR, fit: EstimatorGain, free: Sequence[int],
                          errors: NoiseModel, smallest: float = SINGULAR_VALUE) -> BoundRelaxation:
    """The same for an inequality: its row says where the unknowns go, the problem without it how far."""
    slope = fit.gain @ sensitivity.basis[limit.row] * limit.weight
    jacobian = errors.jacobian.copy()
    jacobian[limit.row] = 0.0
    without = JacobianQR.of(jacobian, errors.scales, errors.experiment)
    released = estimator_gain(without, free, smallest)
    move = limit.inward @ released.gain  # (k,) how errors move the length
    own = np.zeros_like(limit.inward)
    own[list(free)] = limit.inward[list(free)] / without.lengths[list(free)]
    seen = own @ ((released.gain * without.lengths[:, None]) @ without.triangle)
    if np.linalg.norm(own - seen) > NULL_SPACE_COMPONENT * np.linalg.norm(own):
        slope[np.abs(slope) * sensitivity.lengths < NULL_SPACE_COMPONENT * np.max(np.abs(slope) * sensitivity.lengths)] = 0.0
        return BoundRelaxation(limit.text, slope, {}, {}, limit.span)
    std = {"plain": float(np.sqrt(move @ without.covariance(errors.variance) @ move))}
    dof = {"plain": errors.dof}
    if errors.noise is not None:
        std["corrected"] = float(np.sqrt(move @ errors.noise.covariance_of(without.basis) @ move))
        dof["corrected"] = float(effective_dof(errors.noise, without.influence(move[None, :]), errors.one_minus_leverage)[0])
    return BoundRelaxation(limit.text, slope, std, dof, limit.span)
