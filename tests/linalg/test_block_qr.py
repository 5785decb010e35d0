"""Orthogonal factors of many experiments: those of the whole matrix, with zeros where experiments do not meet."""

import numpy as np
import pytest

from dynident.linalg.block_qr import block_qr
from dynident.linalg.block_rows import BlockRows

ROUNDING = 1e-13


def jacobian(experiments: int, rows: int, own: int, shared: int, extra: np.ndarray | None = None):
    """Columns: first the shared ones, then those of each experiment; extra rows belong to none."""
    rng = np.random.default_rng(experiments + rows)
    matrix = np.zeros((experiments * rows, shared + experiments * own))
    for e in range(experiments):
        mine = slice(e * rows, (e + 1) * rows)
        matrix[mine, :shared] = rng.normal(size=(rows, shared))
        matrix[mine, shared + e * own:shared + (e + 1) * own] = rng.normal(size=(rows, own))
    experiment = np.repeat(np.arange(experiments), rows)
    if extra is not None:
        matrix, experiment = np.vstack([matrix, extra]), np.append(experiment, np.full(len(extra), -1))
    return matrix, experiment


def mixed(columns: int, *nonzero: tuple[int, ...]) -> np.ndarray:
    rows = np.zeros((len(nonzero), columns))
    for row, where in zip(rows, nonzero, strict=True):
        row[list(where)] = np.arange(1, len(where) + 1)
    return rows


CASES = {
    "one experiment": jacobian(1, 9, 3, 2), "several": jacobian(4, 7, 2, 3), "nothing shared": jacobian(3, 5, 2, 0),
    "nothing of their own": jacobian(3, 5, 0, 2), "fewer rows than unknowns": jacobian(3, 2, 3, 2),
    "rows of none": jacobian(3, 6, 2, 2, mixed(8, (0,), (3,), (4, 5), (0, 6))),
    "a row that ties two experiments": jacobian(3, 6, 2, 2, mixed(8, (2, 4), (2,), (5, 0))),
    "a column of zeros": jacobian(3, 6, 2, 2)}
CASES["a column of zeros"][0][:, 1] = 0


@pytest.mark.parametrize(("matrix", "experiment"), CASES.values(), ids=CASES)
def test_basis_times_factor_is_the_matrix(matrix, experiment):
    found = block_qr(BlockRows.of(matrix, experiment), experiment)
    basis, factor = found.basis.dense(), found.triangle
    np.testing.assert_allclose(basis @ factor, matrix, atol=ROUNDING * np.max(np.abs(matrix)))
    np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=ROUNDING)
    assert np.linalg.matrix_rank(matrix) <= basis.shape[1] <= min(matrix.shape)
    inside = np.zeros(basis.shape, bool)
    for block in found.basis.blocks:
        inside[np.ix_(block.rows, block.columns)] = True
    assert not np.any(basis[~inside])
    assert sorted(np.concatenate([block.rows for block in found.basis.blocks])) == list(range(len(matrix)))


def test_an_experiment_sees_only_its_own_columns_and_the_shared_ones():
    matrix, experiment = jacobian(50, 20, 2, 3)
    found = block_qr(BlockRows.of(matrix, experiment), experiment)
    assert {block.columns.size for block in found.basis.blocks} == {5}
    assert sum(block.entries.size for block in found.basis.blocks) == 50 * 20 * 5


def test_a_row_of_zeros_goes_nowhere():
    matrix, experiment = CASES["rows of none"]
    rows = BlockRows.of(matrix, experiment).without_row(len(matrix) - 3)  # the row that stood in own columns of one experiment
    found = block_qr(rows, experiment)
    np.testing.assert_allclose(found.basis.dense() @ found.triangle, rows.dense(), atol=ROUNDING * np.max(np.abs(matrix)))


FULL_RANK = ("one experiment", "several", "nothing shared", "nothing of their own", "rows of none",
             "a row that ties two experiments")


@pytest.mark.parametrize("case", FULL_RANK)
def test_the_sandwich_by_parts_is_that_of_the_dense_inverse(case):
    matrix, experiment = CASES[case]
    unit = matrix / np.linalg.norm(matrix, axis=0)
    found = block_qr(BlockRows.of(unit, experiment), experiment)
    inverse = found.inverse(1e-8)
    assert inverse is not None
    np.testing.assert_allclose(inverse.dense() @ found.triangle, np.eye(matrix.shape[1]), atol=1e-11)
    some = np.random.default_rng(4).permutation(matrix.shape[1])
    np.testing.assert_array_equal(inverse.columns(some), inverse.dense()[:, some])
    variance = np.random.default_rng(3).uniform(0.5, 2.0, len(matrix))
    dense = np.linalg.pinv(unit) @ np.diag(variance) @ np.linalg.pinv(unit).T
    blocks = inverse.sandwich(found.score_covariance(variance))
    np.testing.assert_allclose(blocks.dense(), dense, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(blocks.diagonal(), np.diag(dense), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("weakest", [1e-6, 1e-9])
def test_a_rank_that_is_in_doubt_is_left_to_the_singular_values(weakest):
    matrix, experiment = jacobian(4, 7, 2, 3)
    matrix[:, 1] = matrix[:, 0] + weakest * matrix[:, 1]
    unit = matrix / np.linalg.norm(matrix, axis=0)
    smallest = np.linalg.svd(unit, compute_uv=False)[-1]
    found = block_qr(BlockRows.of(unit, experiment), experiment).inverse(1e-9)
    assert (found is not None) == (weakest == 1e-6)
    assert found is None or smallest > 1e-9
