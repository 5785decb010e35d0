"""Innovations interpreted: `innovations.c` in CasADi's own machine, for computers without a C compiler."""

from __future__ import annotations

import casadi as ca
import numpy as np


def run_interpreted(step: ca.Function, forward: ca.Function, columns: np.ndarray, p: np.ndarray, noise: np.ndarray,
                    dp: np.ndarray, dnoise: np.ndarray, z: np.ndarray, dz: np.ndarray) -> tuple[np.ndarray, ...]:
    """Over the rows of a record: innovations and variances, their derivatives along the seeds, the filter's memory."""
    rows, directions, ne = len(columns), len(dp), step.size1_out(1)
    out, dout, course = np.empty((rows, ne)), np.empty((rows, directions, ne)), np.empty((rows, z.size))
    along = forward.map(directions) if directions else None
    for k, column in enumerate(columns):
        if along is not None:
            dnext, dout_k = along(z, column, p, noise, dz.T, dp.T, dnoise.T)
            dz, dout[k] = np.asarray(dnext).T, np.asarray(dout_k).T
        following, out_k = step(z, column, p, noise)
        z, out[k] = np.asarray(following).ravel(), np.asarray(out_k).ravel()
        course[k] = z
    return out, dout, course
