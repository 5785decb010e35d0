"""Instrumental variables: is least squares biased by noise in the motion itself?

Noise in measured positions enters the regressor, and least squares takes it for motion. Instruments are the regressor along
the motion that the identified model makes in a loop with computed torque: that is the commanded motion itself, and where no
command was recorded the measured motion without all above twice its bandwidth (IDIM-IV; Janot, Vandanjon, Gautier, Control
Engineering Practice 25, 2014). What of the noise lies inside of the bandwidth stays in the latter, and so does what the
controller feeds back; a command knows nothing of either.

Torques along the motion that the arm makes in its loop can also be fitted to those measured: direct and inverse dynamic
identification (DIDIM; Gautier, Janot, Vandanjon, IEEE Trans. Control Systems Technology 21, 2013). Instruments may be smoothed
as much as one likes, this motion may not, or it is another one: it is the smoothing spline of the unfiltered record whose
roughness is chosen by generalised cross-validation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.fft import dct
from scipy.interpolate import BSpline, CubicSpline, make_smoothing_spline
from scipy.optimize import minimize_scalar
from scipy.stats import chi2, norm

from dynident.estimate.robot_result import DidimCheck, HausmanTest
from dynident.inverse_dynamics.run import TorqueFit, refit
from dynident.inverse_dynamics.setup import ArmAlongMotion, JointMotion, TorqueRecord, zero_phase
from dynident.linalg.block_rows import BlockRows
from dynident.linalg.finite_problem import ResidualIndex
from dynident.linalg.rank import pseudo_inverse_of_independent
from dynident.statistics.autocorrelation import coloured_noise
from dynident.tolerances import SAME_ESTIMATES

OVER_BANDWIDTH = 2.0  # what of the measured motion is called motion
ROUGHNESS = (-7.0, 30.0)  # logarithm of the price of squared second differences: none, and a straight line
ENDS = 10  # samples that tell the slope at an end of a record


@dataclass(frozen=True, eq=False)
class MotionNoiseCheck:
    """What ways that do not trust the measured motion say: base parameters by name, and whether least squares is biased."""

    hausman: HausmanTest
    instrumental: dict[str, float]
    instrumental_std: dict[str, float]
    didim: DidimCheck


def check_motion_noise(fit: TorqueFit, records: Sequence[TorqueRecord]) -> MotionNoiseCheck:
    """Instrumental variables with the Durbin-Wu-Hausman test, and DIDIM."""
    commanded, simulated = ([ArmAlongMotion.of(fit.arm, motion(record)) for record in records]
                            for motion in (_commanded, _simulated))
    by = instrumental_variables(fit, records, commanded)
    names = [fit.arm.parameters[i] for i in fit.base.independent]
    return MotionNoiseCheck(by.test, dict(zip(names, map(float, by.values), strict=True)),
                            dict(zip(names, map(float, by.std), strict=True)),
                            didim(fit, records, simulated, by.least_squares_std))


@dataclass(frozen=True, eq=False)
class InstrumentalVariables:
    """Base parameters by instrumental variables, beside those of least squares."""

    test: HausmanTest
    values: np.ndarray  # (r,)
    std: np.ndarray  # (r,)
    least_squares_std: np.ndarray  # (r,)


def didim(fit: TorqueFit, records: Sequence[TorqueRecord], simulated: Sequence[ArmAlongMotion], std: np.ndarray) -> DidimCheck:
    """The same weights and base parameters, with torques along the motion that the identified arm would make; `std` (r,) of
    least squares. Load-dependent friction is followed as in the fit."""
    there = refit(fit.at(fit.values, records, simulated), "fixed", lambda after: after.at(after.values, records, simulated))
    names = [fit.arm.parameters[i] for i in fit.base.independent]
    values = fit.base.values(there.values)
    moved = np.abs(values - fit.base.values(fit.values)) / std
    worst = int(np.argmax(moved))
    return DidimCheck(dict(zip(names, map(float, values), strict=True)), float(moved[worst]), names[worst],
                      int(np.sum(moved > norm.isf(0.025))), tuple(map(float, there.rms)), there.converged)


def instrumental_variables(fit: TorqueFit, records: Sequence[TorqueRecord], commanded: Sequence[ArmAlongMotion]
                           ) -> InstrumentalVariables:
    """The base parameters by instrumental variables, and the Durbin-Wu-Hausman test; errors as in all other intervals."""
    arm, kept = fit.arm, fit.base.independent
    instruments = fit.at(fit.values, records, commanded).stacked()[1][:, kept]
    residuals, jacobian = fit.stacked()
    jacobian = jacobian[:, kept]
    least_squares = pseudo_inverse_of_independent(jacobian)  # (r, rows)
    lengths = np.linalg.norm(instruments, axis=0)
    unit = instruments / np.where(lengths > 0, lengths, 1.0)
    by_instruments = np.linalg.solve(unit.T @ jacobian, unit.T)
    shift = -by_instruments @ residuals  # away from the least squares values, whose own shift is zero
    index = ResidualIndex(np.concatenate([np.full(r.measured.size, e) for e, r in enumerate(fit.rows)]),
                          np.concatenate([np.tile(np.arange(arm.dof), len(r.measured)) for r in fit.rows]),
                          np.concatenate([np.repeat(np.arange(len(r.measured)), arm.dof) for r in fit.rows]))
    noise = coloured_noise(residuals, index, BlockRows.of(np.linalg.qr(jacobian)[0]))
    difference = by_instruments - least_squares
    size = np.sqrt(np.maximum(np.diag(noise.covariance_of(least_squares.T)), np.finfo(float).tiny))
    covariance = noise.covariance_of(difference.T) / size / size[:, None]  # in standard errors of least squares
    variances, directions = np.linalg.eigh(covariance)
    seen = variances > SAME_ESTIMATES * variances[-1]
    statistic = float(np.sum((directions[:, seen].T @ (shift / size)) ** 2 / variances[seen]))
    test = HausmanTest(statistic, int(seen.sum()), float(chi2.sf(statistic, int(seen.sum()))))
    own = np.sqrt(np.maximum(np.diag(noise.covariance_of(by_instruments.T)), 0.0))
    return InstrumentalVariables(test, fit.base.values(fit.values) + shift, own, size)


def _commanded(record: TorqueRecord) -> JointMotion:
    """What was asked for; where that is not known, the motion without what lies above twice its bandwidth."""
    if record.command is not None:
        return record.command
    motion = record.motion
    q = zero_phase(motion.q, OVER_BANDWIDTH * record.bandwidth, motion.rate)
    spline = CubicSpline(motion.time, q, axis=0)
    return JointMotion(motion.time, q, spline(motion.time, 1), spline(motion.time, 2))


def _simulated(record: TorqueRecord) -> JointMotion:
    """Where the arm was, as the record tells without a filter: splines whose roughness is chosen by cross-validation."""
    time, (q, dq) = record.motion.time, record.measured
    if dq is None:
        found = [_spline(time, column) for column in q.T]
        motion = [np.column_stack([s.derivative(k)(time) if k else s(time) for s in found]) for k in range(3)]
        return JointMotion(time, *motion)
    found = [_spline(time, column) for column in dq.T]  # measured velocities are smoother than differentiated positions
    velocity, acceleration = (np.column_stack([s.derivative(k)(time) if k else s(time) for s in found]) for k in range(2))
    return JointMotion(time, record.motion.q, velocity, acceleration)


def _spline(time: np.ndarray, values: np.ndarray) -> BSpline:
    """On an even grid; the price of roughness is found among cosines, where cross-validation is a sum."""
    step = float(time[1] - time[0])
    return make_smoothing_spline(time, values, lam=cross_validated_roughness(values) * step**3)


def cross_validated_roughness(values: np.ndarray) -> float:
    """The price of squared second differences by generalised cross-validation (Craven and Wahba 1979; by cosines: Garcia,
    Computational Statistics and Data Analysis 54, 2010)."""
    n = values.size
    line = np.polynomial.Polynomial.fit(np.arange(n), values, 1)(np.arange(n))
    cosines = dct(_without_end_slopes(values - line), norm="ortho") ** 2
    curvature = (2 - 2 * np.cos(np.pi * np.arange(n) / n)) ** 2

    def score(log_price: float) -> float:
        left = 1 - 1 / (1 + np.exp(log_price) * curvature)  # of each cosine; the model keeps the rest
        return float(np.sum(left**2 * cosines) / max(np.sum(left) ** 2, np.finfo(float).tiny))

    return float(np.exp(minimize_scalar(score, bounds=ROUGHNESS, method="bounded").x))


def _without_end_slopes(values: np.ndarray) -> np.ndarray:
    """The same without a parabola through both end slopes: a cosine series would take a slope for a corner."""
    n, few = values.size, min(ENDS, values.size)
    t = np.arange(n) / (n - 1)
    first, last = (np.polyfit(t[part], values[part], 1)[0] for part in (slice(None, few), slice(-few, None)))
    return values - (first * t + (last - first) * t**2 / 2)
