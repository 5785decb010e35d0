"""Covariance through a linear step (time update) and a linear measurement (measurement update by the Kalman gain), in NumPy;
the twin of filter_linear.c."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dynident.kalman.filter_common import semidefinite_cholesky


class CovarianceForm(Protocol):
    """How a covariance is kept."""

    def keep(self, P: np.ndarray) -> np.ndarray:
        """The covariance as it is kept."""
        ...

    def full(self, kept: np.ndarray) -> np.ndarray:
        """The covariance that is kept."""
        ...

    def predict(self, kept: np.ndarray, A: np.ndarray, q: np.ndarray) -> np.ndarray:
        """A P A' + diag(q)"""
        ...

    def times(self, kept: np.ndarray, h: np.ndarray) -> np.ndarray:
        """P h"""
        ...

    def update(self, kept: np.ndarray, h: np.ndarray, gain: np.ndarray, r: float) -> np.ndarray:
        """After a measurement with this gain."""
        ...


@dataclass(frozen=True)
class FullCovariance:
    """The symmetric matrix; updated in Joseph form, (I - k h') P (I - k h')' + r k k', or plainly, P - k h' P."""

    joseph: bool = True

    def keep(self, P: np.ndarray) -> np.ndarray:
        return P.copy()

    def full(self, kept: np.ndarray) -> np.ndarray:
        return kept

    def predict(self, kept: np.ndarray, A: np.ndarray, q: np.ndarray) -> np.ndarray:
        P = A @ kept @ A.T + np.diag(q)
        return (P + P.T) / 2

    def times(self, kept: np.ndarray, h: np.ndarray) -> np.ndarray:
        return kept @ h

    def update(self, kept: np.ndarray, h: np.ndarray, gain: np.ndarray, r: float) -> np.ndarray:
        if not self.joseph:
            return kept - np.outer(gain, kept @ h)
        W = np.eye(len(h)) - np.outer(gain, h)
        return W @ kept @ W.T + r * np.outer(gain, gain)


@dataclass(frozen=True)
class SquareRootCovariance:
    """Square-root filter, a matrix L with L L' = P: steps by an orthogonal factorisation, measurements by Potter's formula."""

    def keep(self, P: np.ndarray) -> np.ndarray:
        return semidefinite_cholesky(P)

    def full(self, kept: np.ndarray) -> np.ndarray:
        return kept @ kept.T

    def predict(self, kept: np.ndarray, A: np.ndarray, q: np.ndarray) -> np.ndarray:
        _, upper = np.linalg.qr(np.vstack([(A @ kept).T, np.diag(np.sqrt(q))]))
        return upper.T

    def times(self, kept: np.ndarray, h: np.ndarray) -> np.ndarray:
        return kept @ (kept.T @ h)

    def update(self, kept: np.ndarray, h: np.ndarray, gain: np.ndarray, r: float) -> np.ndarray:
        w = kept.T @ h
        return kept - np.outer(gain, w) / (1 + np.sqrt(r / (w @ w + r)))


FORMS: dict[str, CovarianceForm] = {"plain": FullCovariance(joseph=False), "joseph": FullCovariance(),
                                    "square_root": SquareRootCovariance()}  # by the option covariance_update


@dataclass(frozen=True, eq=False)
class MeasurementUpdate:
    """Mean and covariance after the measurements of one sample, and what the sample says of the filter."""

    x: np.ndarray
    P: np.ndarray  # as its form keeps it
    used: np.ndarray  # (outputs,) 1 used, 0 missing, 2 left out by the gate
    whitened: np.ndarray  # (outputs,) innovations, independent and of variance 1; NaN where there is none
    loglik: float
    h: np.ndarray  # (outputs, size) rows of the measurements, whitened; 0 if not used
    c: np.ndarray  # (outputs, size) gains
    e: np.ndarray  # (outputs,) innovations

    @property
    def nis(self) -> float:
        """Normalised innovations squared."""
        return float(np.nansum(self.whitened**2))


def update_with_measurements(form: CovarianceForm, x: np.ndarray, P: np.ndarray, at: np.ndarray, output: np.ndarray,
                             H: np.ndarray, y: np.ndarray, r: np.ndarray, gate: float, used: np.ndarray | None = None
                             ) -> MeasurementUpdate:
    """All measurements of one sample, one after another (sequential processing).

    They are linear in x around `at`: y = output + H (x - at) + error.

    `used` says which are used, as the gate said before; None asks the gate, a Mahalanobis distance (0: there is none).
    """
    decided = np.zeros(len(y)) if used is None else used
    whitened, loglik = np.full(len(y), np.nan), 0.0
    h_rows, c_rows, e = np.zeros((len(y), len(x))), np.zeros((len(y), len(x))), np.zeros(len(y))
    for j in map(int, np.flatnonzero(np.isfinite(y))):
        h, innovation = H[j], y[j] - output[j] - H[j] @ (x - at)
        d = form.times(P, h)
        s = h @ d + r[j]
        if used is None:
            decided[j] = 2 if gate > 0 and innovation**2 > gate**2 * s else 1
        if decided[j] != 1:
            continue
        whitened[j] = innovation / np.sqrt(s)
        loglik -= 0.5 * (np.log(2 * np.pi * s) + whitened[j] ** 2)
        h_rows[j], c_rows[j], e[j] = h / np.sqrt(s), d / np.sqrt(s), innovation / np.sqrt(s)
        x, P = x + d / s * innovation, form.update(P, h, d / s, r[j])
    return MeasurementUpdate(x, P, decided, whitened, loglik, h_rows, c_rows, e)
