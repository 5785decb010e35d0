"""Spread: how do errors of the measured values move the unknowns?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dynident.discretizations.finite import Linearization, Rows
from dynident.estimate.identifiability import SMALLEST_SINGULAR, UNTOUCHED, unit_columns
from dynident.problem.problem import Problem, known_std

FEWEST_DOF = 0.5  # degrees of freedom; with fewer the residuals hold no word about the noise


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """The Jacobian as basis @ triangle * lengths: all later algebra is (unknowns, unknowns), units taken out."""

    basis: np.ndarray  # (rows, k) orthonormal
    triangle: np.ndarray  # (k, unknowns), columns of length one or zero
    lengths: np.ndarray  # (unknowns,)

    @classmethod
    def of(cls, jacobian: np.ndarray, scales: np.ndarray) -> Sensitivity:
        unit, lengths, _ = unit_columns(jacobian, scales)
        return cls(*np.linalg.qr(unit), lengths)

    @property
    def unknowns(self) -> int:
        return int(self.lengths.size)


@dataclass(frozen=True, eq=False)
class Response:
    """First-order answer of a fit in some columns: change of the unknowns = gain @ basis' @ errors."""

    gain: np.ndarray  # (unknowns, k), zero rows for unknowns that are not fitted; only along determined directions
    fitted: np.ndarray  # (k, rank) orthonormal; basis @ fitted spans what the fit can explain
    determined: np.ndarray  # (unknowns,) bool; False where an undetermined direction takes part, or not fitted

    def covariance(self, middle: np.ndarray) -> np.ndarray:
        """(unknowns, unknowns) from the covariance of basis' @ errors."""
        covariance = self.gain @ middle @ self.gain.T
        return 0.5 * (covariance + covariance.T)


def response(sensitivity: Sensitivity, columns: Sequence[int], smallest: float = SMALLEST_SINGULAR) -> Response:
    """Fit only these columns, the other unknowns fixed; from the singular values, never from normal equations."""
    columns = list(columns)
    u, s, vt = np.linalg.svd(sensitivity.triangle[:, columns], full_matrices=False)
    keep = s > smallest * max(np.max(s, initial=0.0), 1.0)
    gain = np.zeros((sensitivity.unknowns, u.shape[0]))
    gain[columns] = (vt[keep].T / s[keep]) @ u[:, keep].T / sensitivity.lengths[columns, None]
    determined = np.zeros(sensitivity.unknowns, bool)
    determined[columns] = 1 - np.sum(vt[keep] ** 2, axis=0) <= UNTOUCHED**2
    return Response(gain, u[:, keep], determined)


def independent_noise(problem: Problem, linearization: Linearization, basis: np.ndarray, fitted: np.ndarray,
                 noise_estimated: bool) -> tuple[np.ndarray, float]:
    """Covariance of basis' @ errors for independent errors, one variance per output where it is estimated."""
    if not noise_estimated:
        return basis.T @ basis, np.inf
    left_over = 1 - np.sum(fitted**2, axis=1)  # (rows,) what each residual adds to the degrees of freedom
    middle, dof = np.zeros((basis.shape[1], basis.shape[1])), 0.0
    for rows, estimated in _noise_groups(problem, linearization.rows):
        variance, own = 1.0, float(np.sum(left_over[rows]))
        if estimated:
            dof += own
            variance = float(np.sum(linearization.residuals[rows] ** 2)) / own if own > FEWEST_DOF else np.nan
        middle += variance * basis[rows].T @ basis[rows]
    return middle, dof if dof > FEWEST_DOF else 0.0


def _noise_groups(problem: Problem, rows: Rows) -> list[tuple[np.ndarray, bool]]:
    """Rows that share one noise size, and whether that size is estimated; priors keep theirs."""
    label = np.full(rows.count, -1)
    for e, experiment in enumerate(problem.experiments):
        for o, output in enumerate(problem.model.outputs):
            if output in experiment.outputs and known_std(experiment, output) is None:
                label[(rows.experiment == e) & (rows.output == o)] = o
    if not np.any(label >= 0):
        label[rows.experiment >= 0] = 0  # every std was given, yet the caller asks for their common factor
    return [(np.flatnonzero(label == k), bool(k >= 0)) for k in np.unique(label)]
