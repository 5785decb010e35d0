"""Chain QR: a backward sweep along time eliminates the states of a chain of segments (a square-root Riccati recursion).

`chain_qr.c` says how it is done; its twin `chain_qr_interpreted.py` serves where there is no compiler, and as its check.
"""

from __future__ import annotations

import ctypes
import hashlib

import numpy as np

from dynident.codegen.c_source import kernel_text
from dynident.codegen.compiler import load_library, remembered
from dynident.codegen.pointers import addresses
from dynident.linalg import chain_qr_interpreted
from dynident.linalg.finite_problem import LinkOffsets, SegmentChain, chain_shape


def factor(chain: SegmentChain) -> np.ndarray:
    """Triangular factor of the whole chain in (first state, parameters | right-hand side), (n + 1, n + 1)."""
    segments, nx, nf, ny = chain_shape(chain)
    library = _library()
    if library is None:
        return chain_qr_interpreted.factor(chain)
    T = np.empty((nx + nf + 1, nx + nf + 1))
    if library.dynident_sweep_factor(segments, *addresses(chain.segment_starts), nx, nf, ny, *addresses(
            chain.jacobian, chain.weight, chain.rhs, chain.transition, chain.defect, T)):
        raise MemoryError("the sweep along time is out of memory")
    return T


def segment_factors(chain: SegmentChain) -> np.ndarray:
    """The same of each segment for itself in (its first state, parameters | right-hand side), (segments, n + 1, n + 1)."""
    segments, nx, nf, ny = chain_shape(chain)
    library = _library()
    if library is None:
        return chain_qr_interpreted.segment_factors(chain)
    T = np.empty((segments, nx + nf + 1, nx + nf + 1))
    if library.dynident_sweep_segments(segments, *addresses(chain.segment_starts), nx, nf, ny, *addresses(
            chain.jacobian, chain.weight, chain.rhs, T)):
        raise MemoryError("the sweep along time is out of memory")
    return T


def gradient(chain: SegmentChain, rhs: np.ndarray, defect: np.ndarray) -> np.ndarray:
    """Gradient in (first state, parameters) for other residuals and defects, with the derivatives of the chain."""
    segments, nx, nf, ny = chain_shape(chain)
    library = _library()
    if library is None:
        return chain_qr_interpreted.gradient(chain, rhs, defect)
    g, work, ds = np.empty(nx + nf), np.empty(nx + nf + 1), np.empty((segments, nx))
    rhs, defect = np.ascontiguousarray(rhs), np.ascontiguousarray(defect)
    library.dynident_sweep_gradient(segments, *addresses(chain.segment_starts), nx, nf, ny, *addresses(
        chain.jacobian, chain.weight, rhs, chain.transition, defect, ds, g, work))
    return g


def expand(chain: SegmentChain, first_state: np.ndarray, parameters: np.ndarray, defect: np.ndarray) -> np.ndarray:
    """Increments of the states at the begin of every segment, (segments, states)."""
    return follow_links(chain.transition, first_state, parameters, defect)


def follow_links(transition: np.ndarray, first_state: np.ndarray, parameters: np.ndarray, defect: np.ndarray) -> np.ndarray:
    """The same from the links alone, (segments, states, n), and what each adds, (segments - 1, states)."""
    (segments, nx, n), library = transition.shape, _library()
    if library is None:
        return chain_qr_interpreted.follow_links(transition, first_state, parameters, defect)
    ds = np.empty((segments, nx))
    ds[0] = first_state
    defect, parameters = np.ascontiguousarray(defect), np.ascontiguousarray(parameters, dtype=float)
    library.dynident_sweep_expand(segments, nx, n - nx, *addresses(transition, defect, parameters, ds))
    return ds


class ChainFactors:
    """A chain whose links are equalities, factored: its triangle, and steps for these and for other right-hand sides.

    Of segments that are not linked there is one triangle each, and no steps.
    """

    def __init__(self, chain: SegmentChain):
        self.chain = chain
        self.triangle = factor(chain) if chain.linked else segment_factors(chain)

    @property
    def own(self) -> LinkOffsets:
        """Those of the point at which the chain was linearised."""
        return LinkOffsets(self.chain.defect)

    def gradient(self, rhs: np.ndarray, defect: np.ndarray) -> tuple[np.ndarray, LinkOffsets]:
        """Gradient in (first state, parameters) for other residuals and defects, and what a step must close there."""
        return gradient(self.chain, rhs, defect), LinkOffsets(defect)

    def expand(self, first_state: np.ndarray, parameters: np.ndarray, offsets: LinkOffsets) -> np.ndarray:
        """Increments of the states at the begin of every segment, (segments, states)."""
        return expand(self.chain, first_state, parameters, offsets.defect)


@remembered()
def _library() -> ctypes.CDLL | None:
    text = kernel_text("vectors.c", "householder.c", "linalg/chain_qr.c")
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
