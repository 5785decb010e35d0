"""Rank: the one rule, against numpy's own least squares and pseudo-inverse."""

from __future__ import annotations

import numpy as np
import pytest

from dynident.linalg.block_rows import BlockRows
from dynident.linalg.rank import (
    column_lengths,
    independent_columns,
    pseudo_inverse,
    pseudo_inverse_of_independent,
    tolerance_for_growing_rows,
    truncated_svd,
)
from dynident.tolerances import SINGULAR_VALUE


def deficient(rng):
    """Six columns of rank four, in units that differ by 1e6; the last two are sums of earlier ones."""
    free = rng.standard_normal((40, 4))
    return np.column_stack([free, free[:, 0] - 2 * free[:, 1], free[:, 2] + free[:, 3]]) * 10.0 ** np.arange(-3, 3)


def test_least_squares_of_a_deficient_matrix_is_numpys_at_the_same_tolerance():
    rng = np.random.default_rng(0)
    matrix, target = deficient(rng), rng.standard_normal((40, 3))
    unit = matrix / column_lengths(matrix)
    svd = truncated_svd(unit)
    assert svd.rank == 4
    np.testing.assert_allclose(svd.least_squares(target), np.linalg.lstsq(unit, target, rcond=SINGULAR_VALUE)[0], atol=1e-12)


@pytest.mark.parametrize(("order", "kept"), [((0, 1, 2, 3, 4, 5), [0, 1, 2, 3]), ((5, 4, 3, 2, 1, 0), [5, 4, 3, 1])])
def test_what_earlier_columns_span_is_left_out(order, kept):
    matrix = deficient(np.random.default_rng(1))
    assert independent_columns(matrix / column_lengths(matrix), order) == kept


def test_a_pseudo_inverse_of_independent_columns_leaves_nothing_out():
    matrix = deficient(np.random.default_rng(2))[:, :4]
    inverse, lengths = pseudo_inverse_of_independent(matrix), column_lengths(matrix)
    np.testing.assert_allclose(inverse @ matrix / lengths * lengths[:, None], np.eye(4), atol=1e-12)
    np.testing.assert_allclose(inverse, np.linalg.pinv(matrix), rtol=1e-9, atol=1e-12 * np.max(np.abs(inverse)))


def test_a_pseudo_inverse_does_not_depend_on_units():
    """In units 1e12 apart the smaller columns are not null, as they are for numpy's rule on the matrix as it stands."""
    matrix, units = np.random.default_rng(3).standard_normal((30, 3)), np.array([1e-6, 1.0, 1e6])
    inverse = pseudo_inverse(matrix * units)
    np.testing.assert_allclose(inverse * units[:, None], np.linalg.pinv(matrix), rtol=1e-9, atol=1e-12)
    assert np.linalg.norm(np.linalg.pinv(matrix * units, rcond=SINGULAR_VALUE)[0]) < 1e-3 * np.linalg.norm(inverse[0])


def test_a_pseudo_inverse_is_zero_along_what_nothing_determines():
    matrix = deficient(np.random.default_rng(4))
    lengths = column_lengths(matrix)
    assert np.linalg.matrix_rank(pseudo_inverse(matrix) * lengths[:, None], tol=SINGULAR_VALUE) == 4


def grown(rng, tied):
    """Sensitivities of an unstable record, columns of length one: from row to row all columns turn into one direction."""
    rows = [rng.standard_normal(3) + np.exp(0.2 * k) * np.array([1.0, 1.0, -1.0]) for k in range(100)]
    matrix = np.array(rows)[:, [0, 1, 2, 2] if tied else [0, 1, 2]] * np.array([1.0, 1e3, 1e-3, 5.0])[:4 if tied else 3]
    return matrix / column_lengths(matrix)


@pytest.mark.parametrize("tied", [False, True])
def test_rows_that_grow_do_not_hide_what_the_first_rows_determine(tied):
    """By the singular values alone only one of three directions counts; of two equal columns one stays null."""
    unit = grown(np.random.default_rng(5), tied)
    assert truncated_svd(unit).rank == 1
    lower = tolerance_for_growing_rows(BlockRows.of(unit), range(unit.shape[1]), SINGULAR_VALUE)
    assert truncated_svd(unit, lower).rank == 3


def test_a_tolerance_stays_where_rows_do_not_grow_or_grown_rows_hide_nothing():
    matrix = deficient(np.random.default_rng(6))
    unit = matrix / column_lengths(matrix)
    assert tolerance_for_growing_rows(BlockRows.of(unit), range(6), SINGULAR_VALUE) == SINGULAR_VALUE
    steep = unit * np.exp(0.4 * np.arange(40))[:, None]
    steep /= column_lengths(steep)
    lower = tolerance_for_growing_rows(BlockRows.of(steep), range(6), SINGULAR_VALUE)
    assert truncated_svd(steep, lower).rank == 4
