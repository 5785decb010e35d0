"""The RTS smoother in NumPy, in Bryson and Frazier's form; the twin of filter_adjoint.c and of what filter_record.c calls."""

from __future__ import annotations

import numpy as np

from dynident.kalman.backend import AdjointState, FilterLayout, SmoothedSamples


def smooth(layout: FilterLayout, samples: np.ndarray, smoother_data: np.ndarray, future: AdjointState, jointly: bool
           ) -> SmoothedSamples:
    """Back over a record; `jointly`: the measurements of a sample were taken at once and not one after another."""
    n, nx = layout.n, layout.nx
    states, variances, P_smoothed = np.empty((len(samples), n)), np.empty((len(samples), n)), np.empty((n, n))
    A = np.eye(n)
    for k in range(len(samples) - 1, -1, -1):
        P = smoother_data[k, layout.smoother_data["P"]].reshape(n, n)
        states[k] = samples[k, layout.sample["x"]] - P @ future.vector
        P_smoothed = P - P @ future.matrix @ P
        variances[k] = np.diag(P_smoothed)
        before = adjoint_measurement(layout, smoother_data[k], future, jointly)
        A[:nx] = smoother_data[k, layout.smoother_data["A"]].reshape(nx, n)
        future = AdjointState(A.T @ before.vector, A.T @ before.matrix @ A)
    return SmoothedSamples(states, variances, P_smoothed, future)


def adjoint_measurement(layout: FilterLayout, data: np.ndarray, future: AdjointState, jointly: bool) -> AdjointState:
    """From after to before the measurements of one sample; `data` are the fields of `layout.smoother_data`."""
    n, ny = layout.n, layout.ny
    h, c = (data[layout.smoother_data[name]].reshape(ny, n) for name in "hc")
    e = data[layout.smoother_data["e"]]
    vector, matrix = future.vector, future.matrix
    for rows in ([slice(None)] if jointly else [slice(j, j + 1) for j in reversed(range(ny))]):
        B = np.eye(n) - c[rows].T @ h[rows]
        vector = B.T @ vector - h[rows].T @ e[rows]
        matrix = B.T @ matrix @ B + h[rows].T @ h[rows]
    return AdjointState(vector, matrix)
