"""Smoother QR interpreted: `smoother_qr.c` in NumPy, for computers without a C compiler and as its check."""

from __future__ import annotations

import numpy as np

from dynident.linalg.chain_qr_interpreted import segment_rows
from dynident.linalg.finite_problem import SegmentChain, chain_shape


def factor(chain: SegmentChain, gains: np.ndarray, triangles: np.ndarray, triangle: np.ndarray) -> None:
    """Written into the last three: gains per link and error, triangles per segment, and that of the whole chain."""
    noisy = chain.noisy_states
    segments, nx, nf, _ = chain_shape(chain)
    n, nw = nx + nf, noisy.size
    T = np.zeros((n + 1, n + 1))
    for i in reversed(range(segments)):
        if i < segments - 1:  # all errors leave at once: the rows above say what they answer, those below what is left
            rows = np.block([[np.eye(nw), np.zeros((nw, n + 1))], [T[:, noisy] * chain.process_std[i], T]])
            R = np.asarray(np.linalg.qr(rows, mode="r"))
            gain = chain.process_std[i] / np.diag(R)[:nw]
            gains[i] = np.column_stack([gain[:, None] * R[:nw, nw:], gain**2])
            T = R[nw:, nw:]
            T[:, nx:] += T[:, :nx] @ np.column_stack([chain.transition[i, :, nx:], chain.defect[i]])
            T[:, :nx] = T[:, :nx] @ chain.transition[i, :, :nx]
        R = np.asarray(np.linalg.qr(np.vstack([T, segment_rows(chain, i)]), mode="r"))
        T = np.zeros((n + 1, n + 1))
        T[:len(R)] = R
        triangles[i] = T[:n, :n]
    triangle[:] = T


def back(chain: SegmentChain, gains: np.ndarray, triangles: np.ndarray, rhs: np.ndarray, defect: np.ndarray,
         process_noise: np.ndarray) -> np.ndarray:
    """The gradient for other right-hand sides; the model errors that are best for them are written into the last one."""
    segments, nx, nf, _ = chain_shape(chain)
    g, apart = np.zeros(nx + nf), _apart(chain, gains)
    for i in reversed(range(segments)):
        if i < segments - 1:
            R, K = triangles[i + 1], gains[i]
            g = g + R.T @ (R[:, :nx] @ defect[i])
            pulls = apart[i].T @ g[chain.noisy_states]
            process_noise[i] = K[:, -1] * pulls - K[:, :nx] @ defect[i]  # the defect is among the states that K sees
            g = g - K[:, :-2].T @ pulls
            g = np.append(np.zeros(nx), g[nx:]) + chain.transition[i].T @ g[:nx]
        own = segment_rows(chain, i, rhs)
        g = g + own[:, :-1].T @ own[:, -1]
    return g


def expand(chain: SegmentChain, gains: np.ndarray, defect: np.ndarray, process_noise: np.ndarray, parameters: np.ndarray,
           ds: np.ndarray) -> None:
    """The states behind the first one, written into the last argument."""
    apart = _apart(chain, gains)
    for i in range(len(ds) - 1):
        ds[i + 1] = chain.transition[i] @ np.append(ds[i], parameters) + defect[i]
        noise = process_noise[i] + gains[i, :, :-2] @ np.append(ds[i + 1], parameters)
        ds[i + 1, chain.noisy_states] -= apart[i] @ noise


def _apart(chain: SegmentChain, gains: np.ndarray) -> np.ndarray:
    """(segments - 1, errors, errors): the errors from what each would be if the later ones were none."""
    return np.linalg.inv(np.eye(chain.noisy_states.size) + np.triu(gains[:, :, chain.noisy_states], 1))
