"""Unscented Kalman filter in NumPy: means and covariances through sigma points (unscented transform).

The twin of filter_unscented.c.
"""

from __future__ import annotations

import numpy as np

from dynident.kalman.backend import NOT_FINITE, NOT_POSITIVE, TIME_GOES_BACK
from dynident.kalman.filter_common import (
    FilterFault,
    FilterModel,
    FilterState,
    FilterStep,
    check_finite,
    pack_fields,
    project_onto_bounds,
    semidefinite_cholesky,
)
from dynident.kalman.filter_linear import MeasurementUpdate

MIDDLE_WEIGHT = 2.0  # of the middle point in a covariance (alpha = 1, kappa = 0, beta = 2)


def update(model: FilterModel, state: FilterState, t: float, u: np.ndarray, y: np.ndarray, r: np.ndarray) -> FilterStep:
    """Predict to time t, then the measurements there, all at once."""
    if state.started and t < state.t:
        raise FilterFault(TIME_GOES_BACK)
    x, P, A = state.x, state.P, np.eye(model.layout.nx, model.layout.n)
    if state.started and t > state.t:
        x, P, A = predict(model, state, t, u)
    if not np.all(np.isfinite(x)):
        raise FilterFault(NOT_FINITE)
    predicted, measured = _correct(model, x, P, t, u, y, r)
    x, projected, _ = project_onto_bounds(model, measured.x, measured.P)
    variance = np.diag(measured.P)
    check_finite(x, variance)
    sample = pack_fields(model.layout.sample, x=x, variance=variance, predicted=predicted, whitened=measured.whitened,
                         used=measured.used, nis=measured.nis, loglik=measured.loglik, projected=projected)
    smoother_data = pack_fields(model.layout.smoother_data, P=measured.P, A=A, h=measured.h, c=measured.c, e=measured.e)
    return FilterStep(FilterState(t, True, np.array(u, float), x, measured.P), sample, smoother_data)


def draw_sigma_points(x: np.ndarray, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x, then x + sqrt(n) L and x - sqrt(n) L by columns, (2 n + 1, n); and the factor L that spreads them."""
    L = semidefinite_cholesky(P)
    reach = np.sqrt(len(x))
    return np.vstack([x, x + reach * L.T, x - reach * L.T]), L


def predict(model: FilterModel, state: FilterState, t: float, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and covariance at time t, and the states' transition by statistical linearisation."""
    n, nx, noise = model.layout.n, model.layout.nx, np.zeros(model.layout.n)
    points, L = draw_sigma_points(state.x, state.P)
    for begin, h, u0, u1, q in model.substeps(state.t, t, state.u, u):
        points = model.step_points(begin, h, points, u0, u1)
        noise = noise + q
    mean = points[1:].mean(axis=0)
    A = statistical_linearization(L, points[1:n + 1, :nx], points[n + 1:, :nx])
    return mean, point_covariance(points - mean) + np.diag(noise), A


def point_covariance(off: np.ndarray) -> np.ndarray:
    """Of quantities at the sigma points, (2 n + 1, quantities), less their mean."""
    return off[1:].T @ off[1:] / (len(off) - 1) + MIDDLE_WEIGHT * np.outer(off[0], off[0])


def statistical_linearization(L: np.ndarray, plus: np.ndarray, minus: np.ndarray) -> np.ndarray:
    """Slopes (quantities, size) of what became of the points x + sqrt(n) L and x - sqrt(n) L, (size, quantities)."""
    n = len(L)
    D = (plus - minus).T / (2 * np.sqrt(n))
    slope = np.zeros_like(D)
    for j in range(n - 1, -1, -1):
        if L[j, j] > 0:  # no spread, no slope: nothing depends on it
            slope[:, j] = (D[:, j] - slope[:, j + 1:] @ L[j + 1:, j]) / L[j, j]
    return slope


def _correct(model: FilterModel, x: np.ndarray, P: np.ndarray, t: float, u: np.ndarray, y: np.ndarray, r: np.ndarray
             ) -> tuple[np.ndarray, MeasurementUpdate]:
    """The predicted outputs, and all measurements of a sample together."""
    points, L = draw_sigma_points(x, P)
    n, ny, gate = len(x), len(y), model.settings["gate"]
    Y = model.output_points(t, points, u)
    mean = Y[1:].mean(axis=0)
    S = point_covariance(Y - mean) + np.diag(r)
    measured = np.isfinite(y)
    innovation = np.where(measured, y - mean, 0.0)
    used = np.where(measured, np.where((gate > 0) & (innovation**2 > gate**2 * np.diag(S)), 2.0, 1.0), 0.0)
    which = np.flatnonzero(used == 1)
    try:
        G = np.linalg.cholesky(S[np.ix_(which, which)])
    except np.linalg.LinAlgError:
        raise FilterFault(NOT_POSITIVE) from None
    C = np.linalg.solve(G, (Y - mean)[1:, which].T @ (points[1:] - x) / (2 * n))  # cross-covariance, whitened
    e = np.linalg.solve(G, innovation[which])
    loglik = -0.5 * (np.sum(e**2) + np.sum(np.log(2 * np.pi * np.diag(G) ** 2)))
    whitened, rows = np.full(ny, np.nan), np.linalg.solve(G, statistical_linearization(L, Y[1:n + 1, which], Y[n + 1:, which]))
    whitened[which] = e
    h_rows, c_rows, e_rows = np.zeros((ny, n)), np.zeros((ny, n)), np.zeros(ny)
    h_rows[:which.size], c_rows[:which.size], e_rows[:which.size] = rows, C, e  # in whitened order
    return mean, MeasurementUpdate(x + C.T @ e, P - C.T @ C, used, whitened, float(loglik), h_rows, c_rows, e_rows)
