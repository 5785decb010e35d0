"""Kalman peers: the belt drive of kalman_belt_drive.py, written as their users would for NumPy, filterpy and dynamax.

    python kalman_peers.py filterpy|dynamax case.json     ->  a line RESULT {"seconds": per sample, "last": estimate}

Run by a Python that has them. All filter the same record with the same model, noise and start; seconds are of CPU, the
best of several runs, dynamax after its compilation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from timing import answer_as_peer, best

Case = dict[str, Any]  # h, parameters, start, std of the start, variances q and r, inputs, outputs: numbers and lists

STIFFNESS, OFFSET, RADIUS = 50.0, 0.13, 0.0159  # of the friction's tanh, of the belt, of the pulley
SEEN = np.array([[1.0, 0, 0, 0, 0, 0], [0, 0, 1.0, 0, 0, 0]])  # motor angle and speed


def step_of(case: Case) -> Callable[[np.ndarray, float], tuple[np.ndarray, np.ndarray]]:
    """One Runge-Kutta step of (phi, z, omega, v, c, d) and its Jacobian, by hand."""
    h, eye, k, z0, r1 = case["h"], np.eye(6), STIFFNESS, OFFSET, RADIUS
    inertia, m, mu_v, mu_c = (case["parameters"][name] for name in ("inertia", "m", "mu_v", "mu_c"))

    def rate(a: np.ndarray, u: float) -> tuple[np.ndarray, np.ndarray]:
        phi, z, omega, v, c, d = a
        stretch, soft = phi * r1 - z, 1 + 1 / (z0 + z)
        force, slip = d * (omega * r1 - v) + c * soft * stretch, np.tanh(k * v)
        f = np.array([omega, v, (u - r1 * force) / inertia, (force - mu_v * v - mu_c * slip) / m, 0.0, 0.0])
        by = np.array([c * soft * r1, -c * soft - c * stretch / (z0 + z) ** 2, d * r1, -d, soft * stretch,
                       omega * r1 - v])
        J = np.zeros((6, 6))
        J[0, 2] = J[1, 3] = 1
        J[2], J[3] = -r1 / inertia * by, by / m
        J[3, 3] -= (mu_v + mu_c * k * (1 - slip**2)) / m
        return f, J

    def step(a: np.ndarray, u: float) -> tuple[np.ndarray, np.ndarray]:
        f1, J1 = rate(a, u)
        f2, J2 = rate(a + h / 2 * f1, u)
        J2 = J2 @ (eye + h / 2 * J1)
        f3, J3 = rate(a + h / 2 * f2, u)
        J3 = J3 @ (eye + h / 2 * J2)
        f4, J4 = rate(a + h * f3, u)
        J4 = J4 @ (eye + h * J3)
        return a + h / 6 * (f1 + 2 * f2 + 2 * f3 + f4), eye + h / 6 * (J1 + 2 * J2 + 2 * J3 + J4)

    return step


def by_numpy(case: Case) -> Callable[[], np.ndarray]:
    step = step_of(case)

    def run() -> np.ndarray:
        x, P = np.array(case["start"]), np.diag(np.square(case["std"]))
        Q, R, eye, H = np.diag(case["q"]) * case["h"], np.diag(case["r"]), np.eye(6), SEEN
        inputs, outputs = np.array(case["inputs"]), np.array(case["outputs"])
        for k in range(len(outputs)):
            if k:
                x, A = step(x, inputs[k - 1])
                P = A @ P @ A.T + Q
            S = H @ P @ H.T + R
            K = P @ H.T @ np.linalg.inv(S)
            x = x + K @ (outputs[k] - H @ x)
            left = eye - K @ H
            P = left @ P @ left.T + K @ R @ K.T
        return x

    return run


def by_filterpy(case: Case) -> Callable[[], np.ndarray]:
    from filterpy.kalman import ExtendedKalmanFilter

    step = step_of(case)

    class Belt(ExtendedKalmanFilter):
        def predict_x(self, u: Any = 0) -> None:
            self.x, self.F = step(self.x, u)

    def run() -> np.ndarray:
        belt = Belt(dim_x=6, dim_z=2)
        belt.x, belt.P = np.array(case["start"]), np.diag(np.square(case["std"]))
        belt.Q, belt.R = np.diag(case["q"]) * case["h"], np.diag(case["r"])
        inputs, outputs = np.array(case["inputs"]), np.array(case["outputs"])
        for k in range(len(outputs)):
            if k:
                belt.predict(inputs[k - 1])
            belt.update(outputs[k], HJacobian=lambda x: SEEN, Hx=lambda x: SEEN @ x)
        return belt.x

    return run


def by_dynamax(case: Case) -> Callable[[], np.ndarray]:
    """Outputs over their standard deviation: dynamax adds 1e-9 to the variance of each, which is that of our encoder."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    from dynamax.nonlinear_gaussian_ssm import ParamsNLGSSM, extended_kalman_filter

    h, inertia, m, mu_v, mu_c = case["h"], *(case["parameters"][name] for name in ("inertia", "m", "mu_v", "mu_c"))
    scaled = jnp.array(SEEN / np.sqrt(case["r"])[:, None])

    def rates(a, u):
        phi, z, omega, v, c, d = a
        force = d * (omega * RADIUS - v) + c * (1 + 1 / (OFFSET + z)) * (phi * RADIUS - z)
        return jnp.array([omega, v, (u - RADIUS * force) / inertia,
                          (force - mu_v * v - mu_c * jnp.tanh(STIFFNESS * v)) / m, 0, 0])

    def moved(a, u):
        f1 = rates(a, u[0])
        f2 = rates(a + h / 2 * f1, u[0])
        f3 = rates(a + h / 2 * f2, u[0])
        f4 = rates(a + h * f3, u[0])
        return a + h / 6 * (f1 + 2 * f2 + 2 * f3 + f4)

    params = ParamsNLGSSM(
        initial_mean=jnp.array(case["start"]), initial_covariance=jnp.diag(jnp.square(jnp.array(case["std"]))),
        dynamics_function=moved, dynamics_covariance=jnp.diag(jnp.array(case["q"])) * h,
        emission_function=lambda a, u: scaled @ a, emission_covariance=jnp.eye(2))
    filtered = jax.jit(lambda y, u: extended_kalman_filter(params, y, inputs=u).filtered_means)
    y = jnp.array(case["outputs"]) / jnp.sqrt(jnp.array(case["r"]))
    u = jnp.array(case["inputs"])[:, None]
    later = jnp.concatenate([u[:1], u[:-1]])  # this dynamax predicts a sample with the input that stands beside it
    return lambda: np.asarray(filtered(y, later)[-1])


PEERS = {"filterpy": by_filterpy, "dynamax": by_dynamax}


def timed(run: Callable[[], np.ndarray], case: Case) -> dict[str, Any]:
    """Seconds per sample, and the last estimate."""
    return {"seconds": best(run, 3) / len(case["outputs"]), "last": run().tolist()}


if __name__ == "__main__":
    answer_as_peer(lambda peer, case: timed(PEERS[peer](case), case))
