"""Rank: which directions do the rows of a least squares problem determine (observability)? The one rule, by a truncated SVD.

Columns are brought to length one first, so that units do not matter; a direction counts where its singular value is larger
than a tolerance times the largest one (`tolerances.py`). A matrix without any effect is rank deficient in every direction.
Where columns are to be kept or left out as they stand, those that the earlier ones span are left out (`independent_columns`).

Other questions, decided elsewhere: `ArrowheadLeastSquares.freeze_unobservable` rests what the data hardly see, an absolute
limit in standard errors and on the gradient too, not a share of the largest singular value; `solve_bvp` asks of square
systems how far their solution can be trusted; second derivatives (kalman/prediction_error) are judged by eigenvalues, which
may be negative.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dynident.linalg.block_rows import BlockRows
from dynident.tolerances import (
    GROWN_ROW,
    NO_EFFECT,
    SINGULAR_VALUE,
    SINGULAR_VALUE_CHOSEN,
    SINGULAR_VALUE_EQUAL_ROWS,
    SINGULAR_VALUE_ROUNDING,
)


@dataclass(frozen=True, eq=False)
class TruncatedSVD:
    """left @ diag(singular_values) @ right of a matrix with columns of length one, of which the first `rank` count."""

    left: np.ndarray  # (rows, k)
    singular_values: np.ndarray  # (k,) largest first
    right: np.ndarray  # (k, columns); all columns of them where the null space was asked for
    rank: int

    @property
    def range_basis(self) -> np.ndarray:
        """(rows, rank) orthonormal: what the columns can explain."""
        return self.left[:, :self.rank]

    @property
    def row_basis(self) -> np.ndarray:
        """(rank, columns) orthonormal: the directions that are determined."""
        return self.right[:self.rank]

    @property
    def null_space(self) -> np.ndarray:
        """(columns, columns - rank) orthonormal: the directions that change nothing."""
        return self.right[self.rank:].T

    @property
    def scaled_directions(self) -> np.ndarray:
        """(columns, rank): determined directions, each divided by its singular value; times its transpose: (A'A)^+."""
        return self.row_basis.T / self.singular_values[:self.rank]

    def pseudo_inverse(self) -> np.ndarray:
        """(columns, rows), zero along the null space."""
        return self.scaled_directions @ self.range_basis.T

    def least_squares(self, target: np.ndarray) -> np.ndarray:
        """The shortest x with the smallest |A x - target|; `target` (rows,) or (rows, several)."""
        return np.asarray(self.scaled_directions @ (self.range_basis.T @ target))


def truncated_svd(unit: np.ndarray, tolerance: float = SINGULAR_VALUE, null_space: bool = False) -> TruncatedSVD:
    """Of a matrix whose columns have length one (or zero); with `null_space` all right singular vectors are there."""
    left, s, right = np.linalg.svd(unit, full_matrices=null_space)
    s = np.concatenate([s, np.zeros(len(right) - s.size)])  # fewer rows than columns
    return TruncatedSVD(left, s, right, int(np.sum(s > tolerance * max(float(np.max(s, initial=0.0)), 1.0))))


def tolerance_for_growing_rows(unit: BlockRows, columns: Sequence[int], tolerance: float) -> float:
    """The tolerance, or a smaller one where rows that have grown along an unstable record drown what the others determine.

    Along a chaotic trajectory all sensitivities grow, and grow alike: the last rows make the columns nearly parallel, and the
    directions that the first rows determine well have singular values of 1e-9 of the largest. Rows that are divided by a number
    larger than one hold less information than they did; a direction that is determined by them is determined by all.
    """
    sizes = np.sqrt(unit.row_squares)
    usual = float(np.median(sizes[sizes > 0])) if np.any(sizes > 0) else np.inf
    if not np.max(sizes, initial=0.0) > GROWN_ROW * usual:
        return tolerance
    s = truncated_svd(_triangle(unit, columns), tolerance).singular_values
    rank = int(np.sum(s > tolerance * max(float(s[0]), 1.0))) if s.size else 0
    if rank == s.size:
        return tolerance
    equal = _triangle(unit.with_rows(usual / np.maximum(sizes, usual)), columns)
    seen = truncated_svd(equal / column_lengths(equal), max(tolerance, SINGULAR_VALUE_EQUAL_ROWS)).rank
    if seen <= rank or s[seen - 1] <= SINGULAR_VALUE_ROUNDING * s[0]:
        return tolerance
    below = max(SINGULAR_VALUE_ROUNDING * s[0], float(s[seen]) if seen < s.size else 0.0)
    return float(np.sqrt(s[seen - 1] * below) / max(float(s[0]), 1.0))


def _triangle(matrix: BlockRows, columns: Sequence[int]) -> np.ndarray:
    """(k, columns) with the same singular values, from as many rows at a time as there are columns."""
    factor = np.zeros((0, len(columns)))
    place = np.full(matrix.shape[1], -1)
    place[list(columns)] = np.arange(len(columns))
    for block in matrix.blocks:
        kept = np.flatnonzero(place[block.columns] >= 0)
        own = np.linalg.qr(block.entries[:, kept], mode="r")
        rows = np.zeros((len(own), len(columns)))
        rows[:, place[block.columns[kept]]] = own
        factor = np.asarray(np.linalg.qr(np.vstack([factor, rows]), mode="r"))
    return factor


def independent_columns(unit: np.ndarray, order: Iterable[int], tolerance: float = SINGULAR_VALUE) -> list[int]:
    """Columns, asked in this order, of which those kept before leave more than the tolerance (Gram-Schmidt)."""
    basis = np.zeros((len(unit), 0))
    kept: list[int] = []
    for j in order:
        rest = unit[:, j]
        for _ in range(2):  # twice is enough for orthogonality to rounding
            rest = rest - basis @ (basis.T @ rest)
        size = float(np.linalg.norm(rest))
        if size > tolerance:
            basis = np.column_stack([basis, rest / size])
            kept.append(int(j))
    return kept


def pseudo_inverse(jacobian: np.ndarray) -> np.ndarray:
    """(columns, rows) how unknowns follow the rows; zero along directions that nothing determines, whatever the units."""
    lengths = column_lengths(jacobian)
    return truncated_svd(jacobian / lengths).pseudo_inverse() / lengths[:, None]


def pseudo_inverse_of_independent(matrix: np.ndarray) -> np.ndarray:
    """(columns, rows) of columns that were chosen to be independent: nothing is left out but what is null to rounding."""
    lengths = column_lengths(matrix)
    return truncated_svd(matrix / lengths, SINGULAR_VALUE_CHOSEN).pseudo_inverse() / lengths[:, None]


def column_lengths(matrix: np.ndarray) -> np.ndarray:
    """(columns,) by which each is divided to have length one; 1 for a column that is zero."""
    peaks = np.max(np.abs(matrix), axis=0, initial=0.0)
    safe = np.where(peaks > 0, peaks, 1.0)
    lengths = safe * np.sqrt(np.sum((matrix / safe) ** 2, axis=0))  # peaks first: 1e-200 squared would vanish
    return np.where(lengths == 0, 1.0, lengths)


def unit_columns(jacobian: np.ndarray, scales: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The Jacobian with columns of length one, their lengths, and which columns have no effect at all (set to zero).

    `scales` holds a typical magnitude per unknown, NaN where none is known.
    """
    lengths = column_lengths(jacobian)
    dead = without_effect(np.max(np.abs(jacobian), axis=0, initial=0.0), lengths, scales)
    return np.where(dead, 0.0, jacobian / lengths), lengths, dead


def without_effect(peaks: np.ndarray, lengths: np.ndarray, scales: np.ndarray, values: np.ndarray | None = None) -> np.ndarray:
    """(columns,) which have no effect at all, by their largest entries, their lengths and the scales of `unit_columns`.

    `values`: where they are far below the scales, these are sizes of another place; what an unknown does there is not held
    against the others.
    """
    sizes = np.where(np.isfinite(scales), scales, 0.0)
    effects = np.where(peaks > 0, lengths, 0.0) * sizes
    here = np.ones_like(sizes) if values is None else np.divide(np.abs(values), sizes, out=np.ones_like(sizes), where=sizes > 0)
    largest = np.max(effects * np.where(here > 0, np.minimum(here, 1.0), 1.0), initial=0.0)
    return np.asarray((peaks == 0) | ((effects > 0) & (effects < NO_EFFECT * largest)))
