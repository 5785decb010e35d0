"""Products with the covariance of coloured noise: those of the dense matrix, however long record and memory are."""

import numpy as np
import pytest
from scipy.linalg import toeplitz

from dynident.linalg.block_rows import BlockRows
from dynident.linalg.finite_problem import ResidualIndex
from dynident.statistics.autocorrelation import FEW_LAGS, ColouredNoise, _autocorrelations, from_reflections, series_of

TRUNCATED = 1e-7  # autocovariances below 1e-9 of the variance are left out


def rows_of(*samples: np.ndarray) -> ResidualIndex:
    """One experiment per array of sample numbers, and one prior."""
    experiment = np.concatenate([np.full(s.size, e) for e, s in enumerate(samples)])
    return ResidualIndex(np.append(experiment, -1), np.append(np.zeros(experiment.size, int), -1),
                np.append(np.concatenate(samples), 0))


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.99, 0.9999])
def test_products_are_those_of_the_dense_covariance(memory):
    rng = np.random.default_rng(1)
    gaps = np.sort(rng.choice(9000, 5500, replace=False))  # longer than a piece, with missing samples
    rows = rows_of(gaps, np.arange(40))
    models = (from_reflections(2.0, np.array([memory, -0.3])), from_reflections(0.5, np.zeros(0)))
    noise = ColouredNoise(series_of(rows), models)
    columns = rng.normal(size=(rows.count, 3))
    columns[:gaps.size, 1] = 0  # a column of the second experiment only
    sigma = np.zeros((rows.count, rows.count))
    for series, model in zip(noise.series, models, strict=True):
        whole = toeplitz(model.autocovariance(series.span))
        sigma[np.ix_(series.rows, series.rows)] = whole[np.ix_(series.places, series.places)]
    sigma[-1, -1] = 1
    expected = sigma @ columns
    size = np.max(np.abs(expected))
    np.testing.assert_allclose(noise.times(columns), expected, atol=TRUNCATED * size)
    by_blocks = BlockRows.of(columns, rows.experiment)
    summed = np.zeros((3, 3))
    for block, own in zip(by_blocks.blocks, noise.covariances_of(by_blocks), strict=True):
        summed[np.ix_(block.columns, block.columns)] += own
    np.testing.assert_allclose(summed, columns.T @ expected, atol=TRUNCATED * size * rows.count**0.5)


@pytest.mark.parametrize("lags", [1, FEW_LAGS, FEW_LAGS + 1, 300])
def test_autocorrelations_by_sums_and_by_transforms_agree(lags):
    rng = np.random.default_rng(2)
    series = series_of(rows_of(np.sort(rng.choice(700, 500, replace=False))))[0]
    basis, gain = rng.normal(size=(501, 3)), rng.normal(size=(2, 3))
    weights = basis @ gain.T
    found = _autocorrelations(series, BlockRows.of(basis), lambda some: gain[:, some], lags)
    for j in range(2):
        w = series.on_grid(weights[:, j])
        expected = [(w[:w.size - k] @ w[k:]) * (2 if k else 1) for k in range(lags)]
        np.testing.assert_allclose(found[:, j], expected, atol=1e-9)
