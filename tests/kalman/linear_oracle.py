"""A textbook Kalman filter in matrices, and the same question as one least squares problem: oracles for the filters."""

from __future__ import annotations

import numpy as np

import dynident as di


def oscillator(samples: int, seed: int, process: float = 0.3, std: float = 0.05, free: tuple[str, ...] = ()):
    """A disturbed mass on a spring, simulated with the very transition that Heun makes; returns problem and pieces."""
    h, k, d = 0.05, 4.0, 0.4
    A_c, B_c = np.array([[0.0, 1.0], [-k, -d]]), np.array([0.0, 1.0])
    A = np.eye(2) + h * A_c + h**2 / 2 * A_c @ A_c  # Heun on a linear model with the input held
    B = h * B_c + h**2 / 2 * A_c @ B_c
    rng = np.random.default_rng(seed)
    u = np.sign(np.sin(0.7 * h * np.arange(samples)))
    x = np.zeros((samples, 2))
    x[0] = [1.0, 0.0] + np.array([0.2, 0.1]) * rng.standard_normal(2)
    Q = np.diag([0.0, process**2 * h])
    for i in range(1, samples):
        x[i] = A @ x[i - 1] + B * u[i - 1] + np.array([0.0, process * np.sqrt(h)]) * rng.standard_normal(2)
    y = x[:, 0] + std * rng.standard_normal(samples)
    model = di.EquationModel(states={"q": "v", "v": "F - k*q - d*v"}, outputs={"position": "q"}, inputs=["F"])
    record = di.Experiment(h * np.arange(samples), {"F": u}, {"position": y}, {"position": di.Gaussian(std)})
    problem = di.Problem(model, [record], [
        di.Parameter("k", start=k * (1.5 if "k" in free else 1), free="k" in free),
        di.Parameter("d", start=d * (2 if "d" in free else 1), free="d" in free),
        di.InitialState("q", start=1.0), di.InitialState("v", start=0.0)])
    return problem, A, B, Q, np.array([[1.0, 0.0]]), np.array([[std**2]]), u, y, x


def textbook_filter(A, B, Q, H, R, u, y, x, P):
    """Predict and correct with whole matrices; NaN is missing. States, covariances, normalised innovations squared."""
    means, covariances, nis = [], [], []
    for k in range(len(y)):
        if k:
            x, P = A @ x + B * u[k - 1], A @ P @ A.T + Q
        if np.isfinite(y[k]):
            S = H @ P @ H.T + R
            K = P @ H.T @ np.linalg.inv(S)
            e = np.atleast_1d(y[k]) - H @ x
            x, P = x + K @ e, (np.eye(len(x)) - K @ H) @ P
            nis.append(float(e @ np.linalg.solve(S, e)))
        means.append(x)
        covariances.append(P)
    return np.array(means), np.array(covariances), np.array(nis)


def batch_states(A, B, Q, H, R, u, y, x0, P0):
    """The trajectory that minimises prior, measurement and process terms together, with its covariance; Q regular."""
    n, samples = len(x0), len(y)
    rows, rhs = [], []

    def whiten(C):
        return np.linalg.inv(np.linalg.cholesky(C))

    def row(blocks, value):
        full = np.zeros((len(value), n * samples))
        for k, block in blocks.items():
            full[:, n * k:n * (k + 1)] = block
        rows.append(full)
        rhs.append(value)

    row({0: whiten(P0)}, whiten(P0) @ x0)
    for k in range(samples):
        if np.isfinite(y[k]):
            row({k: whiten(R) @ H}, whiten(R) @ np.atleast_1d(y[k]))
        if k:
            W = whiten(Q)
            row({k: W, k - 1: -W @ A}, W @ B * u[k - 1])
    J, z = np.vstack(rows), np.concatenate(rhs)
    solution = np.linalg.lstsq(J, z, rcond=None)[0]
    covariance = np.linalg.inv(J.T @ J)
    return solution.reshape(samples, n), np.sqrt(np.diag(covariance)).reshape(samples, n)
