"""Error propagation: how do errors of the measured values move the unknowns?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dynident.linalg.block_qr import BlockQR, SandwichBlocks, ScoreCovariance, TriangleInverse, block_qr
from dynident.linalg.block_rows import BlockRows
from dynident.linalg.finite_problem import ResidualIndex, ResidualJacobian
from dynident.linalg.rank import tolerance_for_growing_rows, truncated_svd, without_effect
from dynident.problem.problem import Problem, given_std
from dynident.statistics.autocorrelation import ColouredNoise
from dynident.statistics.distributions import chi_square_quantile
from dynident.statistics.residual_tests import CONFIDENCE
from dynident.tolerances import NOISE_FREE, NULL_SPACE_COMPONENT, SINGULAR_VALUE

FEWEST_TO_NARROW = 16.0  # degrees of freedom; a few small residuals are luck, and narrow no interval
FEWEST_DOF = 0.5  # degrees of freedom; with fewer the residuals hold no word about the noise


@dataclass(frozen=True, eq=False)
class JacobianQR:
    """The Jacobian as basis @ triangle * lengths, by blocks, units taken out: columns of the triangle have length one or 0."""

    factors: BlockQR
    lengths: np.ndarray  # (unknowns,)
    unit: BlockRows  # the Jacobian with columns of length one

    @classmethod
    def of(cls, jacobian: BlockRows, scales: np.ndarray, experiment: np.ndarray, values: np.ndarray | None = None
           ) -> JacobianQR:
        """`experiment` (rows,) says to which one each row belongs, -1 for none; `values` as in `without_effect`."""
        lengths = jacobian.column_lengths
        factors = np.where(without_effect(jacobian.column_peaks, lengths, scales, values), 0.0, 1 / lengths)
        unit = jacobian.with_columns(factors)
        return cls(block_qr(unit, experiment), lengths, unit)

    @property
    def unknowns(self) -> int:
        return int(self.lengths.size)

    @property
    def basis(self) -> BlockRows:
        """(rows, k) orthonormal."""
        return self.factors.basis

    @property
    def triangle(self) -> np.ndarray:
        """(k, unknowns), dense."""
        return self.factors.triangle

    def covariance(self, variance: np.ndarray) -> ScoreCovariance:
        """Of basis' @ errors, for independent errors of the given variances (rows,)."""
        return self.factors.score_covariance(variance)

    def coloured_covariance(self, noise: ColouredNoise) -> ScoreCovariance:
        """The same for autocorrelated errors."""
        return ScoreCovariance(self.factors, noise.covariances_of(self.basis))


@dataclass(frozen=True, eq=False)
class EstimatorGain:
    """First-order answer of a fit in some columns: change of the unknowns = gain @ basis' @ errors."""

    gain: np.ndarray  # (unknowns, k), zero rows for unknowns that are not fitted; only along determined directions
    fitted: np.ndarray  # (k, rank) orthonormal; basis @ fitted spans what the fit can explain
    determined: np.ndarray  # (unknowns,) bool; False where an undetermined direction takes part, or not fitted

    def fitted_subspace(self, basis: BlockRows) -> BlockRows:
        """Orthonormal columns (rows, rank) that span what the fit can explain; the basis itself where that is all."""
        return basis if self.fitted.shape[0] == self.fitted.shape[1] else BlockRows.of(basis.dense() @ self.fitted)

    def covariance(self, score_covariance: ScoreCovariance) -> np.ndarray:
        """(unknowns, unknowns) from the covariance of basis' @ errors: a sandwich, with the score's covariance as its meat."""
        covariance = self.gain @ score_covariance.dense() @ self.gain.T
        return 0.5 * (covariance + covariance.T)

    def columns(self, some: np.ndarray) -> np.ndarray:
        """(unknowns, some) of the gain."""
        return self.gain[:, some]

    @property
    def complete(self) -> bool:
        """Every unknown is determined, beyond doubt."""
        return False


@dataclass(frozen=True, eq=False)
class FullRankGain:
    """The same where every unknown is fitted and determined beyond doubt: the inverse of the triangle, by its parts."""

    inverse: TriangleInverse
    lengths: np.ndarray

    @cached_property
    def gain(self) -> np.ndarray:
        return self.inverse.dense() / self.lengths[:, None]

    @property
    def determined(self) -> np.ndarray:
        return np.ones(self.lengths.size, bool)

    def fitted_subspace(self, basis: BlockRows) -> BlockRows:
        return basis

    def covariance(self, score_covariance: ScoreCovariance) -> SandwichBlocks:
        return self.inverse.sandwich(score_covariance, self.lengths)

    def columns(self, some: np.ndarray) -> np.ndarray:
        return self.inverse.columns(some) / self.lengths[:, None]

    @property
    def complete(self) -> bool:
        return True


def estimator_gain(sensitivity: JacobianQR, columns: Sequence[int], smallest: float = SINGULAR_VALUE
                   ) -> EstimatorGain | FullRankGain:
    """Fit only these columns, the other unknowns fixed; from the singular values, never from normal equations."""
    columns = list(columns)
    if len(columns) == sensitivity.unknowns and (inverse := sensitivity.factors.inverse(smallest)) is not None:
        return FullRankGain(inverse, sensitivity.lengths)
    smallest = tolerance_for_growing_rows(sensitivity.unit, columns, smallest)
    svd = truncated_svd(sensitivity.triangle[:, columns], smallest)
    gain = np.zeros((sensitivity.unknowns, len(svd.left)))
    gain[columns] = svd.pseudo_inverse() / sensitivity.lengths[columns, None]
    determined = np.zeros(sensitivity.unknowns, bool)
    determined[columns] = 1 - np.sum(svd.row_basis**2, axis=0) <= NULL_SPACE_COMPONENT**2
    return EstimatorGain(gain, svd.range_basis, determined)


def independent_noise(problem: Problem, linearization: ResidualJacobian, one_minus_leverage: np.ndarray,
                      noise_estimated: bool) -> tuple[np.ndarray, float]:
    """(rows,) variances of independent errors, one per output where it is estimated, and their degrees of freedom.

    `one_minus_leverage` (rows,), 1 less the diagonal of the hat matrix, is what each residual adds to the degrees of freedom.
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


def noise_free(linearization: ResidualJacobian, size: float) -> bool:
    """Whether a record holds next to no noise: its residuals are those of the simulation, and say nothing of errors.

    `size` is what next to none is, in units of the noise that the residuals were divided by.
    """
    measured = linearization.residuals[linearization.rows.experiment >= 0]
    return bool(measured.size) and float(np.sqrt(np.mean(measured**2))) < size


def given_noise_factors(problem: Problem, linearization: ResidualJacobian, one_minus_leverage: np.ndarray
                        ) -> dict[str, tuple[np.ndarray, float, float]]:
    """Outputs whose residuals are not of the given std: their rows, the factor on it, and its degrees of freedom.

    Beyond the 99 % band of chi-square, the same that the note on the noise is said at. A record with next to no noise keeps the
    given std: who states one for it asks what such noise would do.
    """
    found = {}
    rows = linearization.rows
    for o, output in enumerate(problem.model.outputs):
        own = np.flatnonzero((rows.output == o) & (rows.experiment >= 0))
        dof = float(np.sum(one_minus_leverage[own]))
        if not own.size or dof <= FEWEST_DOF:
            continue
        value = float(np.sum(linearization.residuals[own] ** 2))
        low, high = (chi_square_quantile((1 + side * CONFIDENCE) / 2, dof) for side in (-1, 1))
        factor = float(np.sqrt(value / dof))
        tells = factor > 1 or dof >= FEWEST_TO_NARROW
        if not low <= value <= high and factor >= NOISE_FREE and tells:
            found[output] = own, factor, dof
    return found


def _noise_groups(problem: Problem, rows: ResidualIndex) -> list[tuple[np.ndarray, bool]]:
    """Rows that share one noise size, and whether that size is estimated; priors keep theirs."""
    outputs = problem.model.outputs
    size = np.full((len(problem.experiments) + 1, len(outputs) + 1), -1)  # the last ones: of no experiment, of no output
    for e, experiment in enumerate(problem.experiments):
        for o, output in enumerate(outputs):
            if output in experiment.outputs and given_std(experiment, output) is None:
                size[e, o] = o
    label = size[rows.experiment, rows.output]
    if not np.any(label >= 0):
        label[rows.experiment >= 0] = 0  # every std was given, yet the caller asks for their common factor
    return [(np.flatnonzero(label == k), bool(k >= 0)) for k in np.unique(label)]


def released_std(released: EstimatorGain | FullRankGain, score_covariance: np.ndarray, i: int) -> float:
    """Standard deviation of an unknown on a bound if it were released; infinite where the data do not determine it."""
    return float(np.sqrt(released.gain[i] @ score_covariance @ released.gain[i])) if released.determined[i] else np.inf


def with_released(fit: EstimatorGain | FullRankGain, released: Mapping[int, EstimatorGain | FullRankGain]
                  ) -> Callable[[np.ndarray], np.ndarray]:
    """Columns of the gain, in which each unknown on a bound follows the errors as if it were released."""
    if not released:
        return fit.columns
    gain = fit.gain.copy()
    for i, r in released.items():
        gain[i] = r.gain[i]
    return lambda some: gain[:, some]


def std_as_given(names: Sequence[str], sensitivity: JacobianQR, fit: EstimatorGain | FullRankGain,
                 released: Mapping[str, EstimatorGain | FullRankGain]) -> dict[str, float]:
    """By unknown: the standard deviation for independent errors of size one; of one on a bound, if it were released."""
    meat = sensitivity.covariance(np.ones(sensitivity.basis.shape[0]))
    found = dict(zip(names, np.sqrt(np.maximum(fit.covariance(meat).diagonal(), 0.0)).tolist(), strict=True))
    return found | {name: released_std(r, meat.dense(), names.index(name)) for name, r in released.items()}


def among_all(null_space: np.ndarray, free: list[int], unknowns: int) -> np.ndarray:
    """Directions of the free unknowns (free, k) as directions of all, (unknowns, k)."""
    null = np.zeros((unknowns, null_space.shape[1]))
    null[free] = null_space
    return null
