"""Chain QR: a backward sweep along time eliminates the states of a chain of segments (a square-root Riccati recursion).

`chain_qr.c` says how it is done; the same in NumPy serves where there is no compiler, and as its check.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib

import numpy as np

from dynident.codegen.c_source import kernel_text
from dynident.codegen.compiler import load_library
from dynident.codegen.pointers import addresses
from dynident.linalg.finite_problem import SegmentChain


def factor(chain: SegmentChain) -> np.ndarray:
    """Triangular factor of the whole chain in (first state, parameters | right-hand side), (n + 1, n + 1)."""
    segments, nx, nf, ny = chain_shape(chain)
    library = _library()
    if library is None:
        return _factor(chain)
    T = np.empty((nx + nf + 1, nx + nf + 1))
    if library.dynident_sweep_factor(segments, *addresses(chain.segment_starts), nx, nf, ny, *addresses(
            chain.jacobian, chain.weight, chain.rhs, chain.transition, chain.defect, T)):
        raise MemoryError("the sweep along time is out of memory")
    return T


def segment_factors(chain: SegmentChain) -> np.ndarray:
    """The same of each segment for itself in (its first state, parameters | right-hand side), (segments, n + 1, n + 1)."""
    segments, nx, nf, ny = chain_shape(chain)
    T, library = np.zeros((segments, nx + nf + 1, nx + nf + 1)), _library()
    if library is None:
        for i in range(segments):
            R = np.linalg.qr(segment_rows(chain, i), mode="r")
            T[i, :len(R)] = R
        return T
    if library.dynident_sweep_segments(segments, *addresses(chain.segment_starts), nx, nf, ny, *addresses(
            chain.jacobian, chain.weight, chain.rhs, T)):
        raise MemoryError("the sweep along time is out of memory")
    return T


def gradient(chain: SegmentChain, rhs: np.ndarray, defect: np.ndarray) -> np.ndarray:
    """Gradient in (first state, parameters) for other residuals and defects, with the derivatives of the chain."""
    segments, nx, nf, ny = chain_shape(chain)
    library = _library()
    if library is None:
        return _gradient(chain, rhs, defect)
    g, work, ds = np.empty(nx + nf), np.empty(nx + nf + 1), np.empty((segments, nx))
    rhs, defect = np.ascontiguousarray(rhs), np.ascontiguousarray(defect)
    library.dynident_sweep_gradient(segments, *addresses(chain.segment_starts), nx, nf, ny, *addresses(
        chain.jacobian, chain.weight, rhs, chain.transition, defect, ds, g, work))
    return g


def expand(chain: SegmentChain, first_state: np.ndarray, parameters: np.ndarray, defect: np.ndarray) -> np.ndarray:
    """Increments of the states at the begin of every segment, (segments, states)."""
    segments, nx, nf, _ = chain_shape(chain)
    ds = np.zeros((segments, nx))
    ds[0] = first_state
    library = _library()
    if library is None:
        for i in range(segments - 1):
            ds[i + 1] = chain.transition[i, :, :nx] @ ds[i] + chain.transition[i, :, nx:] @ parameters + defect[i]
        return ds
    defect, parameters = np.ascontiguousarray(defect), np.ascontiguousarray(parameters, dtype=float)
    library.dynident_sweep_expand(segments, nx, nf, *addresses(chain.transition, defect, parameters, ds))
    return ds


class ChainFactors:
    """A chain whose links are equalities, factored: its triangle, and steps for these and for other right-hand sides.

    Of segments that are not linked there is one triangle each, and no steps.
    """

    def __init__(self, chain: SegmentChain):
        self.chain = chain
        self.triangle = factor(chain) if chain.linked else segment_factors(chain)

    def gradient(self, rhs: np.ndarray, defect: np.ndarray) -> np.ndarray:
        return gradient(self.chain, rhs, defect)

    def expand(self, first_state: np.ndarray, parameters: np.ndarray, rhs: np.ndarray, defect: np.ndarray) -> np.ndarray:
        return expand(self.chain, first_state, parameters, defect)


def chain_shape(chain: SegmentChain) -> tuple[int, int, int, int]:
    """Segments, states, free parameters, outputs."""
    segments, nx, n = chain.transition.shape
    return segments, nx, n - nx, chain.jacobian.shape[1]


@functools.cache
def _library() -> ctypes.CDLL | None:
    text = kernel_text("vectors.c", "householder.c", "chain_qr.c")
    library = load_library(f"sweep {hashlib.sha256(text.encode()).hexdigest()}", lambda: text)
    if library is not None:
        pointer, size, number = ctypes.c_void_p, ctypes.c_longlong, ctypes.c_int
        library.dynident_sweep_factor.argtypes = [size, pointer, number, number, number, *[pointer] * 6]
        library.dynident_sweep_segments.argtypes = [size, pointer, number, number, number, *[pointer] * 4]
        library.dynident_sweep_gradient.argtypes = [size, pointer, number, number, number, *[pointer] * 8]
        library.dynident_sweep_gradient.restype = None
        library.dynident_sweep_expand.argtypes = [size, number, number, *[pointer] * 4]
        library.dynident_sweep_expand.restype = None
    return library


def _segment_nodes(chain: SegmentChain, i: int) -> slice:
    last = i == chain.transition.shape[0] - 1
    return slice(int(chain.segment_starts[i]), int(chain.segment_starts[i + 1]) + last)


def segment_rows(chain: SegmentChain, i: int, rhs: np.ndarray | None = None) -> np.ndarray:
    """The least squares rows of one segment in (its first state, parameters | right-hand side); only what is measured."""
    own = _segment_nodes(chain, i)
    weight = chain.weight[own].ravel()
    right = (chain.rhs if rhs is None else rhs)[own].ravel()
    rows = np.column_stack([chain.jacobian[own].reshape(weight.size, -1) * weight[:, None], right])
    return rows[weight != 0]


def _factor(chain: SegmentChain) -> np.ndarray:
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


def _gradient(chain: SegmentChain, rhs: np.ndarray, defect: np.ndarray) -> np.ndarray:
    segments, nx, nf, _ = chain_shape(chain)
    shift = expand(chain, np.zeros(nx), np.zeros(nf), defect)
    g = np.zeros(nx + nf)
    for i in reversed(range(segments)):
        if i < segments - 1:
            g = np.concatenate([np.zeros(nx), g[nx:]]) + chain.transition[i].T @ g[:nx]
        own = _segment_nodes(chain, i)
        moved = rhs[own] + chain.weight[own] * (chain.jacobian[own][:, :, :nx] @ shift[i])
        g += np.tensordot(chain.weight[own] * moved, chain.jacobian[own], axes=2)
    return g
