"""Autocorrelation: how wide is the interval when the errors of neighbouring samples are alike?

The least-squares estimate stays what it is; only its covariance changes: pinv(J) Sigma pinv(J)' with Sigma from an
autoregressive model of each residual series (in the place of the kernel weights of Newey and West). Sigma is
applied by FFT, series by series and column by column.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.fft import irfft, rfft
from numpy.lib.stride_tricks import sliding_window_view
from scipy.linalg import toeplitz
from scipy.linalg.blas import dtbsv

from dynident.linalg.block_rows import BlockRows
from dynident.linalg.finite_problem import ResidualIndex
from dynident.tolerances import NOISE_MODEL_TOLERANCE

MAX_BIAS_PASSES = 4  # the bias depends on the model it corrects; where four do not settle it, more chase the noise
FORGOTTEN = 1e-9  # of the variance; autocovariances below it are left out
MOST_HIDDEN = 4.0  # noise variance over residual variance; noise of which a fit hides more cannot be told from it
LONGEST_MEMORY = 0.5  # of the record; a longer correlation time cannot be seen in it
PIECES = 8  # memories of the noise per piece of a long transform; the overlap is then a fifth of it
FEW_LAGS = 64  # up to here sums are quicker than transforms
SHORTEST_PIECE = 2**12  # samples
MOST_AT_ONCE = 2**20  # numbers in one batch of transforms; 16 MB
FEWEST_VARIANCE_DOF = 2.0  # of a variance; the delta method says nothing below
ORDER_PER_DECADE = 10  # highest order tried: ten per decade of samples (the usual bound for order selection)
SAMPLES_PER_ORDER = 10  # and never fewer samples than this per coefficient
SMALL_MOVE = 1e-4  # of an inverse tanh, for central differences: error 1e-8, rounding 1e-12
BLOCK = 2**12  # values of a recursion that are computed at once
LARGEST_REFLECTION = 1 - 1e-12  # rounding may carry a reflection coefficient of one past it


@dataclass(frozen=True, eq=False)
class Autoregression:
    """e[t] = coefficients @ (e[t-1], ..., e[t-q]) + white noise; stationary by construction."""

    coefficients: np.ndarray  # (order,)
    start: np.ndarray  # (order + 1,) autocovariances at lags 0..order
    reflections: np.ndarray  # (order,) partial autocorrelations, each inside (-1, 1)

    @property
    def order(self) -> int:
        return int(self.coefficients.size)

    @property
    def innovation(self) -> float:
        """Variance of the white noise that drives it."""
        return float(self.start[0] * np.prod(1 - self.reflections**2))

    def autocovariance(self, count: int) -> np.ndarray:
        """(count,) at lags 0, 1, ...; from lag `order` on they follow the recursion of the model itself."""
        values = np.zeros(max(count, self.order + 1))
        values[:self.order + 1] = self.start
        c, done = self.coefficients, self.order + 1
        band = np.tile(np.append(1.0, -c)[:, None], (1, min(BLOCK, max(count - done, 0))))
        while done < count and self.order:  # each block is a triangular system whose solution is the recursion itself
            latest = values[done - self.order:done][::-1]
            known = np.zeros(min(BLOCK, count - done))
            for i in range(min(self.order, known.size)):
                known[i] = c[i:] @ latest[:self.order - i]
            values[done:done + known.size] = dtbsv(self.order, band[:, :known.size], known, lower=1, diag=1)
            done += known.size
        return values[:count]

    def coefficient_covariance(self, samples: float) -> np.ndarray:
        """(order, order) of the estimated coefficients: innovation * inverse autocovariance matrix / samples.

        The inverse by Gohberg and Semencul from the coefficients themselves, so nothing is inverted.
        """
        a = np.concatenate([[1.0], -self.coefficients])
        early = toeplitz(a[:-1], np.zeros(self.order))
        late = toeplitz(a[:0:-1], np.zeros(self.order))
        return (early @ early.T - late @ late.T) / samples

    def doubt(self, samples: float, weights: np.ndarray) -> np.ndarray:
        """(unknowns,) variance of autocovariance @ weights (lags, unknowns) that the estimated coefficients cause.

        Differences are taken in the inverse tanh of the reflections, where every neighbour is stationary.
        """
        slopes = np.zeros((self.order, weights.shape[1]))
        moves = np.zeros((self.order, self.order))
        for i in range(self.order):
            up, down = (self._moved(i, sign * SMALL_MOVE) for sign in (1, -1))
            lags = weights.shape[0]
            slopes[i] = (up.autocovariance(lags) - down.autocovariance(lags)) @ weights / (2 * SMALL_MOVE)
            moves[i] = (up.coefficients - down.coefficients) / (2 * SMALL_MOVE)
        gradient = np.linalg.solve(moves, slopes)  # (order, unknowns) with respect to the coefficients
        return np.sum(gradient * (self.coefficient_covariance(samples) @ gradient), axis=0)

    def _moved(self, i: int, step: float) -> Autoregression:
        """The same innovations through another reflection i."""
        reflections = self.reflections.copy()
        reflections[i] = np.tanh(np.arctanh(reflections[i]) + step)
        left = max(float(np.prod(1 - reflections**2)), np.finfo(float).tiny)  # that of many near one is zero by rounding
        return from_reflections(self.innovation / left, reflections)


def highest_order(samples: int) -> int:
    """How many coefficients a series of this length can bear."""
    return max(0, min(int(ORDER_PER_DECADE * np.log10(max(samples, 1))), samples // SAMPLES_PER_ORDER - 1))


def choose_order(autocovariance: np.ndarray, samples: int) -> int:
    """BIC decides whether there is memory at all, AIC how long it is.

    BIC alone stops short where slow errors hide under white ones (there the worst interval covers about 75 % at 200
    samples and 84 % at 500; with both 81 and 89 %). AIC alone sees memory in one white series out of three.
    """
    variance, reflections = levinson(autocovariance)
    if variance <= 0:
        return 0
    fit = np.concatenate([[0.0], samples * np.log(np.cumprod(1 - reflections**2))])
    orders = np.arange(fit.size)
    if int(np.argmin(fit + orders * np.log(samples))) == 0:
        return 0
    return int(np.argmin(fit + orders * 2))


def levinson(autocovariance: np.ndarray) -> tuple[float, np.ndarray]:
    """Variance and reflection coefficients (lags,) of positive definite autocovariances at lags 0..lags."""
    r = np.asarray(autocovariance, float)
    a, innovation, reflections = np.zeros(r.size - 1), float(r[0]), np.zeros(r.size - 1)
    for k in range(1, r.size):
        if innovation <= 0:
            break  # what follows is determined by what came before; nothing is left to reflect
        known = a[:k - 1]
        found = float(r[k] - known @ r[k - 1:0:-1]) / innovation
        reflections[k - 1] = reflection = min(max(found, -LARGEST_REFLECTION), LARGEST_REFLECTION)
        if abs(found) > 1:
            break  # no autocovariances: with gaps some are of few pairs; what was found before them stands
        a[:k - 1] = known - reflection * known[::-1]
        a[k - 1] = reflection
        innovation *= 1 - reflection**2
    return float(r[0]), reflections


def from_reflections(variance: float, reflections: np.ndarray) -> Autoregression:
    """The stationary autoregression with this variance; stationary because every reflection lies inside (-1, 1)."""
    a, start, innovation = np.zeros(0), np.array([variance]), variance
    for reflection in reflections:
        start = np.append(start, a @ start[:0:-1] + reflection * innovation)
        a = np.append(a - reflection * a[::-1], reflection)
        innovation *= 1 - reflection**2
    return Autoregression(a, start, np.asarray(reflections, float))


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

    def on_grid(self, column: np.ndarray) -> np.ndarray:
        """(span,) the entries of one column at their samples, zero where missing."""
        grid = np.zeros(self.span)
        grid[self.places] = column[self.rows]
        return grid

    def signals(self, columns: BlockRows) -> tuple[np.ndarray, np.ndarray]:
        """Which of the columns (rows, k) may be other than zero here, and these over the samples, (touched, span)."""
        touched, entries = columns.part(self.rows)
        grid = np.zeros((touched.size, self.span))
        grid[:, self.places] = entries.T
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
        grid = self.on_grid(column)
        return choose_order(self.lag_sums(grid, grid, highest_order(self.rows.size)), self.rows.size)

    def autocovariance(self, column: np.ndarray, lags: int) -> np.ndarray:
        grid = self.on_grid(column)
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
        product, whole = columns.copy(), BlockRows.of(columns)
        for series, model in zip(self.series, self.models, strict=True):
            product[series.rows] = _coloured(series.signals(whole)[1], model)[:, series.places].T
        return product

    def covariance_of(self, columns: np.ndarray) -> np.ndarray:
        """columns' @ Sigma @ columns (k, k), of dense columns (rows, k)."""
        return self.covariances_of(BlockRows.of(columns))[0]

    def covariances_of(self, columns: BlockRows) -> tuple[np.ndarray, ...]:
        """columns' @ Sigma @ columns, by the blocks of the columns: what the rows of each add to it."""
        return self.summed(columns, [self.product(i, series.signals(columns)[1]) for i, series in enumerate(self.series)])

    def product(self, i: int, signals: np.ndarray) -> np.ndarray:
        """signals @ Sigma @ signals' (k, k) of signals (k, span) over series i."""
        return np.asarray(signals @ _coloured(signals, self.models[i]).T)

    def summed(self, columns: BlockRows, products: list[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Per block of the columns, the products of its series and those of its rows that belong to none."""
        found = [block.entries[alone].T @ block.entries[alone]
                 for block, alone in zip(columns.blocks, self.alone(columns), strict=True)]
        for series, product in zip(self.series, products, strict=True):
            found[columns.block_of[series.rows[0]]] += product
        return tuple(found)

    def alone(self, columns: BlockRows) -> list[np.ndarray]:
        """Per block the mask of its rows that belong to no series."""
        others = self.others(columns.shape[0])
        return [others[block.rows] for block in columns.blocks]

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
    pieces, size = -(-span // step), fast_length(step + 2 * reach)
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


@functools.cache
def fast_length(least: int) -> int:
    """The smallest product of 2, 3 and 5 from there on, which are quick to transform."""
    odd = [3**i * 5**j for i in range(least.bit_length()) for j in range(least.bit_length())]
    return min(each << max(0, (-(-least // each) - 1).bit_length()) for each in odd)


def _few(count: int, size: int) -> list[slice]:
    """Slices of `count` rows of that size that fit the memory that one transform may take."""
    step = max(1, MOST_AT_ONCE // size)
    return [slice(k, k + step) for k in range(0, count, step)]


def coloured_noise(residuals: np.ndarray, rows: ResidualIndex, fitted: BlockRows) -> ColouredNoise:
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
    for _ in range(MAX_BIAS_PASSES):
        expected = [_free_form(c) for c in _expected(noise, fitted)]
        change = [t - e for t, e in zip(target, expected, strict=True)]
        if not all(np.all(np.isfinite(c)) for c in change):
            break  # with many gaps what is expected need be no autocovariance; the model so far stands
        found = [np.append(min(f[0] + c[0], t[0] + np.log(MOST_HIDDEN)), np.clip(f[1:] + c[1:], -limit, limit))
                 for f, c, t, limit in zip(found, change, target, limits, strict=True)]
        noise = _noise(series, found)
        if all(np.max(np.abs(c)) <= NOISE_MODEL_TOLERANCE for c in change):
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


def _expected(noise: ColouredNoise, fitted: BlockRows) -> list[np.ndarray]:
    """Autocovariances that residuals are expected to show: lag sums of M Sigma M with M = I - F F', per series.

    M Sigma M = Sigma - F half' - half F' with half = Sigma F - F (F' Sigma F) / 2.
    """
    local = [series.signals(fitted) for series in noise.series]
    smoothed = [_coloured(signals, model) for (_, signals), model in zip(local, noise.models, strict=True)]
    products = [f @ smooth.T for (_, f), smooth in zip(local, smoothed, strict=True)]
    score_covariances = fitted.met(noise.summed(fitted, products))  # F' Sigma F, as each block sees it
    expected = []
    for s, model, (_, f), smooth in zip(noise.series, noise.models, local, smoothed, strict=True):
        half = np.zeros_like(f)
        half[:, s.places] = smooth[:, s.places] - 0.5 * score_covariances[fitted.block_of[s.rows[0]]] @ f[:, s.places]
        lost = s.lag_sums(f, half, model.order) + s.lag_sums(half, f, model.order)
        expected.append(s.tapered_autocovariance(model.start * s.pairs(model.order) - lost))
    return expected


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # squares of squares
def effective_dof(noise: ColouredNoise, basis: BlockRows, gain: Callable[[np.ndarray], np.ndarray],
                  one_minus_leverage: np.ndarray) -> np.ndarray:
    """(unknowns,) degrees of freedom of each variance, from how well its noise model is known (Satterthwaite).

    basis @ gain' (rows, unknowns) is how each error moves each unknown; `gain` gives some of its columns, (unknowns, some).
    `one_minus_leverage` (rows,): one minus the leverage.
    The variance of the variance follows from the asymptotic covariance of the autoregression by the delta method; for slow
    weights and AR(1) it gives half of the familiar n (1 - phi) / (1 + phi).
    """
    unknowns = len(gain(np.zeros(0, int)))
    variance, doubt = np.zeros(unknowns), np.zeros(unknowns)
    for series, model in zip(noise.series, noise.models, strict=True):
        samples = max(float(np.sum(one_minus_leverage[series.rows])), 1.0)
        alike = _autocorrelations(series, basis, gain, _memory(model, series.span))  # (lags, unknowns)
        own = model.autocovariance(alike.shape[0]) @ alike
        variance += own
        doubt += 2 / samples * own**2 + model.doubt(samples, alike)
    for block, alone in zip(basis.blocks, noise.alone(basis), strict=True):  # priors: known, so they add no doubt
        if not np.any(alone):
            continue
        variance += np.sum((block.entries[alone] @ gain(block.columns).T) ** 2, axis=0)
    return np.maximum(np.where(doubt > 0, 2 * variance**2 / doubt, np.inf), FEWEST_VARIANCE_DOF)


def _memory(model: Autoregression, span: int) -> int:
    covariance = np.abs(model.autocovariance(span))
    return int(np.flatnonzero(covariance >= FORGOTTEN * covariance[0])[-1]) + 1


def _autocorrelations(series: Series, basis: BlockRows, gain: Callable[[np.ndarray], np.ndarray], lags: int) -> np.ndarray:
    """(lags, unknowns) sums over t of w[t] w[t + k], doubled for k > 0, so that variances are one product away.

    w = basis @ gain'. With few lags from the products of the basis' columns at each lag: unknowns cost no sums over time.
    """
    touched, signals = series.signals(basis)
    own = gain(touched)
    alike = np.zeros((lags, len(own)))
    if lags <= FEW_LAGS:
        for k in range(lags):
            alike[k] = np.einsum("ij,ij->i", own @ (signals[:, :series.span - k] @ signals[:, k:].T), own)
    else:
        size = fast_length(2 * series.span)
        moving = np.flatnonzero(np.any(own != 0, axis=1))
        for some in _few(moving.size, size):
            alike[:, moving[some]] = irfft(np.abs(rfft(own[moving[some]] @ signals, size)) ** 2, size)[:, :lags].T
    alike[1:] *= 2
    return alike
