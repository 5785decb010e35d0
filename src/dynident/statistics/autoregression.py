"""Autoregression: which stationary noise model has these autocovariances?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import toeplitz
from scipy.linalg.blas import dtbsv

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
        return from_reflections(self.innovation / float(np.prod(1 - reflections**2)), reflections)


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
    a, innovation, reflections = np.zeros(0), float(r[0]), np.zeros(r.size - 1)
    for k in range(1, r.size):
        if innovation <= 0:
            break  # what follows is determined by what came before; nothing is left to reflect
        reflections[k - 1] = np.clip((r[k] - a @ r[k - 1:0:-1]) / innovation, -LARGEST_REFLECTION, LARGEST_REFLECTION)
        a = np.append(a - reflections[k - 1] * a[::-1], reflections[k - 1])
        innovation *= 1 - reflections[k - 1] ** 2
    return float(r[0]), reflections


def from_reflections(variance: float, reflections: np.ndarray) -> Autoregression:
    """The stationary autoregression with this variance; stationary because every reflection lies inside (-1, 1)."""
    a, start, innovation = np.zeros(0), np.array([variance]), variance
    for reflection in reflections:
        start = np.append(start, a @ start[:0:-1] + reflection * innovation)
        a = np.append(a - reflection * a[::-1], reflection)
        innovation *= 1 - reflection**2
    return Autoregression(a, start, np.asarray(reflections, float))
