"""Autocorrelation: how wide is the interval when the errors of neighbouring samples are alike?

The least-squares estimate stays what it is; only its covariance changes: pinv(J) Sigma pinv(J)' with Sigma from an
autoregressive model of each residual series. Sigma is applied by FFT, series by series and column by column.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy.fft import irfft, next_fast_len, rfft

from dynident.linalg.finite_problem import ResidualIndex
from dynident.statistics.autoregression import Autoregression, choose_order, from_reflections, highest_order, levinson

MOST_PASSES = 4  # the bias depends on the model it corrects; where four do not settle it, more chase the noise
SETTLED = 1e-3  # change of the logarithm of the variance and of the reflections; no interval shows less
FORGOTTEN = 1e-9  # of the variance; autocovariances below it are left out
MOST_HIDDEN = 4.0  # noise variance over residual variance; noise of which a fit hides more cannot be told from it
LONGEST_MEMORY = 0.5  # of the record; a longer correlation time cannot be seen in it
PIECES = 8  # memories of the noise per piece of a long transform; the overlap is then a fifth of it
FEW_LAGS = 64  # up to here sums are quicker than transforms
SHORTEST_PIECE = 2**12  # samples
MOST_AT_ONCE = 2**20  # numbers in one batch of transforms; 16 MB
FEWEST_DOF = 2.0  # of a variance; the delta method says nothing below


@dataclass(frozen=True, eq=False)
class Series:
    """The residuals of one output in one experiment, in sample order."""

    experiment: int
    output: int
    rows: np.ndarray  # (n,) indices into the residual vector
    places: np.ndarray  # (n,) sample indices from 0; what is skipped is missing

    @property
    def span(self) -> int:
        return int(self.places[-1]) + 1

    def spread(self, column: np.ndarray) -> np.ndarray:
        """(span,) the entries of one column at their samples, zero where missing."""
        grid = np.zeros(self.span)
        grid[self.places] = column[self.rows]
        return grid

    def signals(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which of the columns (rows, k) are not zero here, and these over the samples, (touched, span)."""
        part = columns[self.rows]
        touched = np.flatnonzero(np.any(part != 0, axis=0))
        grid = np.zeros((touched.size, self.span))
        grid[:, self.places] = part[:, touched].T
        return touched, grid

    def in_order(self, column: np.ndarray) -> np.ndarray:
        """(span,) the same with NaN where missing."""
        grid = np.full(self.span, np.nan)
        grid[self.places] = column[self.rows]
        return grid

    def lag_sums(self, first: np.ndarray, second: np.ndarray, lags: int) -> np.ndarray:
        """(lags + 1,) sums over t of first[t] second[t + k]; both on the grid, (span,) or several rows of it."""
        pairs = list(zip(np.atleast_2d(first), np.atleast_2d(second), strict=True))
        return np.array([sum(a[: self.span - k] @ b[k:] for a, b in pairs) for k in range(lags + 1)], float)

    def pairs(self, lags: int) -> np.ndarray:
        """(lags + 1,) how many pairs of samples are k apart."""
        present = np.zeros(self.span)
        present[self.places] = 1.0
        return self.lag_sums(present, present, lags)

    def tapered_autocovariance(self, sums: np.ndarray) -> np.ndarray:
        """Lag sums as autocovariances, weighted by 1 - k/span: this keeps them positive definite in a full record."""
        lags = np.arange(sums.size)
        pairs = self.pairs(sums.size - 1)
        return np.divide(sums * (1 - lags / self.span), pairs, out=np.zeros_like(sums), where=pairs > 0)

    def order(self, column: np.ndarray) -> int:
        """How long its memory is; zeros for what is missing keep the lag sums positive definite."""
        grid = self.spread(column)
        return choose_order(self.lag_sums(grid, grid, highest_order(self.rows.size)), self.rows.size)

    def autocovariance(self, column: np.ndarray, lags: int) -> np.ndarray:
        grid = self.spread(column)
        return self.tapered_autocovariance(self.lag_sums(grid, grid, lags))


def series_of(rows: ResidualIndex) -> tuple[Series, ...]:
    """Residuals grouped by experiment and output; priors belong to none."""
    found = []
    measured = np.flatnonzero(rows.experiment >= 0)
    order = measured[np.lexsort((rows.sample[measured], rows.output[measured], rows.experiment[measured]))]
    other = (np.diff(rows.experiment[order]) != 0) | (np.diff(rows.output[order]) != 0)
    for own in np.split(order, np.flatnonzero(other) + 1) if order.size else ():
        found.append(Series(int(rows.experiment[own[0]]), int(rows.output[own[0]]), own,
                            rows.sample[own] - rows.sample[own[0]]))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class ColouredNoise:
    """One autoregression per residual series; rows of no series (priors) keep independent errors of variance one."""

    series: tuple[Series, ...]
    models: tuple[Autoregression, ...]
    drifting: bool = False  # a limit below was met: the errors of some series move as slowly as the record is long

    def times(self, columns: np.ndarray) -> np.ndarray:
        """Sigma @ columns (rows, k), in O(rows log rows) per column."""
        product = columns.copy()
        for series, model in zip(self.series, self.models, strict=True):
            touched, signals = series.signals(columns)
            product[np.ix_(series.rows, touched)] = _coloured(signals, model)[:, series.places].T
        return product

    def covariance_of(self, columns: np.ndarray) -> np.ndarray:
        """columns' @ Sigma @ columns (k, k); columns that are zero in a series cost nothing there."""
        score_covariance = np.zeros((columns.shape[1], columns.shape[1]))
        for series, model in zip(self.series, self.models, strict=True):
            touched, signals = series.signals(columns)
            score_covariance[np.ix_(touched, touched)] += signals @ _coloured(signals, model).T
        alone = columns[self.others(len(columns))]
        return score_covariance + alone.T @ alone

    def others(self, rows: int) -> np.ndarray:
        """(rows,) mask of the rows that belong to no series."""
        others = np.ones(rows, bool)
        for series in self.series:
            others[series.rows] = False
        return others


def _coloured(signals: np.ndarray, model: Autoregression) -> np.ndarray:
    """The autocovariance matrix times each row of `signals` (k, span).

    By FFT of overlapping pieces that are a few memories of the noise long: they stay in the cache, so that a long record
    costs as much per sample as a short one.
    """
    span = signals.shape[1]
    reach = _memory(model, span) - 1  # the longest lag that counts
    step = min(span, max(PIECES * reach, SHORTEST_PIECE))
    pieces, size = -(-span // step), next_fast_len(step + 2 * reach, real=True)
    covariance = model.autocovariance(reach + 1)
    kernel = np.zeros(size)
    kernel[:reach + 1] = covariance
    kernel[size - reach:] = covariance[:0:-1]
    spectrum = rfft(kernel).real
    padded = np.zeros((len(signals), pieces * step + 2 * reach))
    padded[:, reach:reach + span] = signals
    overlapping = sliding_window_view(padded, step + 2 * reach, axis=1)[:, ::step]  # (k, pieces, step + 2 reach)
    smooth = np.empty((len(signals), pieces, step))
    for some in _few(pieces, max(len(signals), 1) * size):
        smooth[:, some] = irfft(rfft(overlapping[:, some], size) * spectrum, size)[:, :, reach:reach + step]
    return smooth.reshape(len(signals), pieces * step)[:, :span]


def _few(count: int, size: int) -> list[slice]:
    """Slices of `count` rows of that size that fit the memory that one transform may take."""
    step = max(1, MOST_AT_ONCE // size)
    return [slice(k, k + step) for k in range(0, count, step)]


def coloured_noise(residuals: np.ndarray, rows: ResidualIndex, fitted: np.ndarray) -> ColouredNoise:
    """The noise behind the residuals of a fit that could explain the orthonormal columns `fitted` (rows, rank).

    Residuals are (I - F F') errors, so their autocovariances are too small, most so at the slow frequencies that the
    model can follow. We look for the noise whose residuals are expected to have the autocovariances that were seen:
    matched in the logarithm of the variance and the inverse tanh of the reflection coefficients, which keeps every
    model on the way stationary.
    """
    series = series_of(rows)
    target = [_free_form(s.autocovariance(residuals, s.order(residuals))) for s in series]
    found = target
    limits = [np.arctanh(1 - 1 / max(LONGEST_MEMORY * s.span, 2)) for s in series]
    noise = _noise(series, found)
    for _ in range(MOST_PASSES):
        expected = [_free_form(c) for c in _expected(noise, fitted)]
        change = [t - e for t, e in zip(target, expected, strict=True)]
        found = [np.append(min(f[0] + c[0], t[0] + np.log(MOST_HIDDEN)), np.clip(f[1:] + c[1:], -limit, limit))
                 for f, c, t, limit in zip(found, change, target, limits, strict=True)]
        noise = _noise(series, found)
        if all(np.max(np.abs(c)) <= SETTLED for c in change):
            break
    drifting = any(f[0] >= t[0] + np.log(MOST_HIDDEN) or np.any(np.abs(f[1:]) >= limit)
                   for f, t, limit in zip(found, target, limits, strict=True))
    return ColouredNoise(noise.series, noise.models, drifting)


def _free_form(autocovariance: np.ndarray) -> np.ndarray:
    """Any numbers are allowed here: logarithm of the variance, inverse tanh of the reflection coefficients."""
    variance, reflections = levinson(autocovariance)
    return np.append(np.log(max(variance, np.finfo(float).tiny)), np.arctanh(reflections))


def _noise(series: tuple[Series, ...], forms: list[np.ndarray]) -> ColouredNoise:
    return ColouredNoise(series, tuple(from_reflections(float(np.exp(f[0])), np.tanh(f[1:])) for f in forms))


def _expected(noise: ColouredNoise, fitted: np.ndarray) -> list[np.ndarray]:
    """Autocovariances that residuals are expected to show: lag sums of M Sigma M with M = I - F F', per series.

    M Sigma M = Sigma - F half' - half F' with half = Sigma F - F (F' Sigma F) / 2.
    """
    local = [series.signals(fitted) for series in noise.series]
    smoothed = [_coloured(signals, model) for (_, signals), model in zip(local, noise.models, strict=True)]
    alone = fitted[noise.others(len(fitted))]
    score_covariance = alone.T @ alone  # F' Sigma F
    for (touched, f), smooth in zip(local, smoothed, strict=True):
        score_covariance[np.ix_(touched, touched)] += f @ smooth.T
    expected = []
    for s, model, (touched, f), smooth in zip(noise.series, noise.models, local, smoothed, strict=True):
        half = np.zeros_like(f)
        half[:, s.places] = smooth[:, s.places] - 0.5 * score_covariance[np.ix_(touched, touched)] @ f[:, s.places]
        lost = s.lag_sums(f, half, model.order) + s.lag_sums(half, f, model.order)
        expected.append(s.tapered_autocovariance(model.start * s.pairs(model.order) - lost))
    return expected


def effective_dof(noise: ColouredNoise, weights: np.ndarray, one_minus_leverage: np.ndarray) -> np.ndarray:
    """(unknowns,) degrees of freedom of each variance, from how well its noise model is known (Satterthwaite).

    `weights` (rows, unknowns): how each error moves each unknown. `one_minus_leverage` (rows,): one minus the leverage. The
    variance of the variance follows from the asymptotic covariance of the autoregression by the delta method; for slow
    weights and AR(1) it gives half of the familiar n (1 - phi) / (1 + phi).
    """
    variance = np.zeros(weights.shape[1])
    doubt = np.zeros(weights.shape[1])
    for series, model in zip(noise.series, noise.models, strict=True):
        samples = max(float(np.sum(one_minus_leverage[series.rows])), 1.0)
        alike = _autocorrelations(series, weights, _memory(model, series.span))  # (lags, unknowns)
        own = model.autocovariance(alike.shape[0]) @ alike
        variance += own
        doubt += 2 / samples * own**2 + model.doubt(samples, alike)
    variance += np.sum(weights[noise.others(len(weights))] ** 2, axis=0)  # priors: known, so they add no doubt
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.maximum(np.where(doubt > 0, 2 * variance**2 / doubt, np.inf), FEWEST_DOF)


def _memory(model: Autoregression, span: int) -> int:
    covariance = np.abs(model.autocovariance(span))
    return int(np.flatnonzero(covariance >= FORGOTTEN * covariance[0])[-1]) + 1


def _autocorrelations(series: Series, weights: np.ndarray, lags: int) -> np.ndarray:
    """(lags, unknowns) sums over t of w[t] w[t + k], doubled for k > 0, so that variances are one product away."""
    alike = np.zeros((lags, weights.shape[1]))
    touched, signals = series.signals(weights)
    if lags <= FEW_LAGS:
        for k in range(lags):
            alike[k, touched] = np.einsum("ij,ij->i", signals[:, :series.span - k], signals[:, k:])
    else:
        size = next_fast_len(2 * series.span, real=True)
        for some in _few(touched.size, size):
            alike[:, touched[some]] = irfft(np.abs(rfft(signals[some], size)) ** 2, size)[:, :lags].T
    alike[1:] *= 2
    return alike
