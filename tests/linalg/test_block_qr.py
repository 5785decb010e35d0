"""Orthogonal factors of many experiments: those of the whole matrix, with zeros where experiments do not meet."""

import numpy as np
import pytest

from dynident.linalg.block_qr import block_qr

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
    basis, factor, parts = block_qr(matrix, experiment)
    np.testing.assert_allclose(basis @ factor, matrix, atol=ROUNDING * np.max(np.abs(matrix)))
    np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=ROUNDING)
    assert np.linalg.matrix_rank(matrix) <= basis.shape[1] <= min(matrix.shape)
    inside = np.zeros(basis.shape, bool)
    for rows, columns in parts:
        inside[np.ix_(rows, columns)] = True
    assert not np.any(basis[~inside])
    assert sorted(np.concatenate([rows for rows, _ in parts])) == list(range(len(matrix)))


def test_an_experiment_sees_only_its_own_columns_and_the_shared_ones():
    matrix, experiment = jacobian(50, 20, 2, 3)
    _, _, parts = block_qr(matrix, experiment)
    assert {columns.size for _, columns in parts} == {5}
