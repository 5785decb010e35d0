"""Chain QR interpreted: `chain_qr.c` in NumPy, for computers without a C compiler and as its check."""

from __future__ import annotations

import numpy as np

from dynident.linalg.finite_problem import SegmentChain, chain_shape


def factor(chain: SegmentChain) -> np.ndarray:
    segments, nx, nf, _ = chain_shape(chain)
    n = nx + nf
    T = np.zeros((n + 1, n + 1))
    future = np.zeros((0, n + 1))
    for i in reversed(range(segments)):
        future = np.linalg.qr(np.vstack([future, segment_rows(chain, i)]), mode="r")  # type: ignore[assignment]
        if i:
            moved = np.vstack([np.column_stack([chain.transition[i - 1], chain.defect[i - 1]]),
                               np.column_stack([np.zeros((nf + 1, nx)), np.eye(nf + 1)])])
            future = future @ moved
    T[:future.shape[0]] = future
    return T


def segment_factors(chain: SegmentChain) -> np.ndarray:
    segments, nx, nf, _ = chain_shape(chain)
    T = np.zeros((segments, nx + nf + 1, nx + nf + 1))
    for i in range(segments):
        R = np.linalg.qr(segment_rows(chain, i), mode="r")
        T[i, :len(R)] = R
    return T


def gradient(chain: SegmentChain, rhs: np.ndarray, defect: np.ndarray) -> np.ndarray:
    segments, nx, nf, _ = chain_shape(chain)
    shift = follow_links(chain.transition, np.zeros(nx), np.zeros(nf), defect)
    g = np.zeros(nx + nf)
    for i in reversed(range(segments)):
        if i < segments - 1:
            g = np.concatenate([np.zeros(nx), g[nx:]]) + chain.transition[i].T @ g[:nx]
        own = _segment_nodes(chain, i)
        moved = rhs[own] + chain.weight[own] * (chain.jacobian[own][:, :, :nx] @ shift[i])
        g += np.tensordot(chain.weight[own] * moved, chain.jacobian[own], axes=2)
    return g


def follow_links(transition: np.ndarray, first_state: np.ndarray, parameters: np.ndarray, defect: np.ndarray) -> np.ndarray:
    segments, nx, _ = transition.shape
    ds = np.empty((segments, nx))
    ds[0] = first_state
    for i in range(segments - 1):
        ds[i + 1] = transition[i, :, :nx] @ ds[i] + transition[i, :, nx:] @ parameters + defect[i]
    return ds


def segment_rows(chain: SegmentChain, i: int, rhs: np.ndarray | None = None) -> np.ndarray:
    """The least squares rows of one segment in (its first state, parameters | right-hand side); only what is measured."""
    own = _segment_nodes(chain, i)
    weight = chain.weight[own].ravel()
    right = (chain.rhs if rhs is None else rhs)[own].ravel()
    rows = np.column_stack([chain.jacobian[own].reshape(weight.size, -1) * weight[:, None], right])
    return rows[weight != 0]


def _segment_nodes(chain: SegmentChain, i: int) -> slice:
    last = i == chain.transition.shape[0] - 1
    return slice(int(chain.segment_starts[i]), int(chain.segment_starts[i + 1]) + last)
