"""Instrumental variables: is least squares biased by noise in the motion itself?

Noise in measured positions enters the regressor, and least squares takes it for motion. Instruments are the regressor along
the motion that the identified model makes in a loop with computed torque: that is the commanded motion itself, and where no
command was recorded the measured motion without all above twice its bandwidth (IDIM-IV; Janot, Vandanjon, Gautier, Control
Engineering Practice 25, 2014). What of the noise lies inside of the bandwidth stays.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.stats import chi2

from dynident.estimate.robot_result import HausmanTest
from dynident.inverse_dynamics.run import TorqueFit
from dynident.inverse_dynamics.setup import ArmAlongMotion, JointMotion, TorqueRecord, zero_phase
from dynident.linalg.block_rows import BlockRows
from dynident.linalg.finite_problem import ResidualIndex
from dynident.linalg.rank import pseudo_inverse_of_independent
from dynident.statistics.autocorrelation import coloured_noise

OVER_BANDWIDTH = 2.0  # what of the measured motion is called motion
SAME_DIRECTION = 1e-6  # of the largest variance: differences that small are rounding of two equal estimates


def instrumental_variables(fit: TorqueFit, records: Sequence[TorqueRecord], along: Sequence[ArmAlongMotion]
                           ) -> tuple[HausmanTest, dict[str, float]]:
    """The Durbin-Wu-Hausman test, and the base parameters by instrumental variables."""
    arm, kept = fit.arm, fit.base.independent
    smooth = [_commanded(record) for record in records]
    instruments = fit.at(fit.values, records, [ArmAlongMotion.of(arm, motion) for motion in smooth]).stacked()[1][:, kept]
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
    seen = variances > SAME_DIRECTION * variances[-1]
    statistic = float(np.sum((directions[:, seen].T @ (shift / size)) ** 2 / variances[seen]))
    test = HausmanTest(statistic, int(seen.sum()), float(chi2.sf(statistic, int(seen.sum()))))
    values = fit.base.values(fit.values) + shift
    return test, {arm.parameters[i]: float(v) for i, v in zip(kept, values, strict=True)}


def _commanded(record: TorqueRecord) -> JointMotion:
    """The motion without what lies above twice its bandwidth."""
    motion = record.motion
    q = zero_phase(motion.q, OVER_BANDWIDTH * record.bandwidth, motion.rate)
    spline = CubicSpline(motion.time, q, axis=0)
    return JointMotion(motion.time, q, spline(motion.time, 1), spline(motion.time, 2))


