"""Error propagation: how do errors of the measured values move the unknowns?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynident.linalg.block_qr import Part, block_qr
from dynident.linalg.finite_problem import ResidualIndex, ResidualJacobian
from dynident.linalg.rank import truncated_svd, unit_columns
from dynident.problem.problem import Problem, given_std
from dynident.tolerances import NULL_SPACE_COMPONENT, SINGULAR_VALUE

FEWEST_DOF = 0.5  # degrees of freedom; with fewer the residuals hold no word about the noise


@dataclass(frozen=True, eq=False)
class JacobianQR:
    """The Jacobian as basis @ triangle * lengths: all later algebra is (unknowns, unknowns), units taken out."""

    basis: np.ndarray  # (rows, k) orthonormal
    triangle: np.ndarray  # (k, unknowns), columns of length one or zero
    parts: tuple[Part, ...]  # where the basis is not zero
    lengths: np.ndarray  # (unknowns,)

    @classmethod
    def of(cls, jacobian: np.ndarray, scales: np.ndarray, experiment: np.ndarray | None = None) -> JacobianQR:
        """`experiment` (rows,) says to which one each row belongs, -1 for none; without it all are one."""
        unit, lengths, _ = unit_columns(jacobian, scales)
        return cls(*block_qr(unit, np.zeros(len(unit), int) if experiment is None else experiment), lengths)

    @property
    def unknowns(self) -> int:
        return int(self.lengths.size)

    def covariance(self, variance: np.ndarray) -> np.ndarray:
        """(k, k) covariance of basis' @ errors for independent errors of the given variances (rows,)."""
        score_covariance = np.zeros((self.basis.shape[1], self.basis.shape[1]))
        for rows, columns in self.parts:
            own = self.basis[np.ix_(rows, columns)]
            score_covariance[np.ix_(columns, columns)] += own.T @ (variance[rows, None] * own)
        return score_covariance

    def influence(self, gain: np.ndarray) -> np.ndarray:
        """(rows, unknowns): how each error moves each unknown, for the gain of a response."""
        moves = np.empty((self.basis.shape[0], gain.shape[0]))
        for rows, columns in self.parts:
            moves[rows] = self.basis[np.ix_(rows, columns)] @ gain[:, columns].T
        return moves


@dataclass(frozen=True, eq=False)
class EstimatorGain:
    """First-order answer of a fit in some columns: change of the unknowns = gain @ basis' @ errors."""

    gain: np.ndarray  # (unknowns, k), zero rows for unknowns that are not fitted; only along determined directions
    fitted: np.ndarray  # (k, rank) orthonormal; basis @ fitted spans what the fit can explain
    determined: np.ndarray  # (unknowns,) bool; False where an undetermined direction takes part, or not fitted

    def fitted_subspace(self, basis: np.ndarray) -> np.ndarray:
        """Orthonormal columns (rows, rank) that span what the fit can explain; the basis itself where that is all."""
        return basis if self.fitted.shape[0] == self.fitted.shape[1] else basis @ self.fitted

    def covariance(self, score_covariance: np.ndarray) -> np.ndarray:
        """(unknowns, unknowns) from the covariance of basis' @ errors: a sandwich, with the score's covariance as its meat."""
        covariance = self.gain @ score_covariance @ self.gain.T
        return 0.5 * (covariance + covariance.T)


def estimator_gain(sensitivity: JacobianQR, columns: Sequence[int], smallest: float = SINGULAR_VALUE) -> EstimatorGain:
    """Fit only these columns, the other unknowns fixed; from the singular values, never from normal equations."""
    columns = list(columns)
    svd = truncated_svd(sensitivity.triangle[:, columns], smallest)
    gain = np.zeros((sensitivity.unknowns, len(svd.left)))
    gain[columns] = svd.pseudo_inverse() / sensitivity.lengths[columns, None]
    determined = np.zeros(sensitivity.unknowns, bool)
    determined[columns] = 1 - np.sum(svd.row_basis**2, axis=0) <= NULL_SPACE_COMPONENT**2
    return EstimatorGain(gain, svd.range_basis, determined)


def independent_noise(problem: Problem, linearization: ResidualJacobian, one_minus_leverage: np.ndarray,
                      noise_estimated: bool) -> tuple[np.ndarray, float]:
    """(rows,) variances of independent errors, one per output where it is estimated, and their degrees of freedom.

    `one_minus_leverage` (rows,) is what each residual adds to the degrees of freedom.
    """
    variance = np.ones(one_minus_leverage.size)
    if not noise_estimated:
        return variance, np.inf
    dof = 0.0
    for rows, estimated in _noise_groups(problem, linearization.rows):
        if estimated:
            own = float(np.sum(one_minus_leverage[rows]))
            dof += own
            variance[rows] = np.sum(linearization.residuals[rows] ** 2) / own if own > FEWEST_DOF else np.nan
    return variance, dof if dof > FEWEST_DOF else 0.0


def _noise_groups(problem: Problem, rows: ResidualIndex) -> list[tuple[np.ndarray, bool]]:
    """Rows that share one noise size, and whether that size is estimated; priors keep theirs."""
    label = np.full(rows.count, -1)
    for e, experiment in enumerate(problem.experiments):
        for o, output in enumerate(problem.model.outputs):
            if output in experiment.outputs and given_std(experiment, output) is None:
                label[(rows.experiment == e) & (rows.output == o)] = o
    if not np.any(label >= 0):
        label[rows.experiment >= 0] = 0  # every std was given, yet the caller asks for their common factor
    return [(np.flatnonzero(label == k), bool(k >= 0)) for k in np.unique(label)]
