"""Smoother QR: a fixed-interval square-root smoother, the backward sweep where the model may err: links are missed at a price.

`smoother_qr.c` says how it is done; its twin `smoother_qr_interpreted.py` serves where there is no compiler, and as its check.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib

import numpy as np

from dynident.codegen.c_source import QUICK, kernel_text
from dynident.codegen.compiler import load_library, remembered
from dynident.codegen.pointers import addresses
from dynident.linalg import smoother_qr_interpreted
from dynident.linalg.finite_problem import LinkOffsets, SegmentChain, chain_shape

TEXTS = ("vectors.c", "linalg/smoother_qr.c")


class SmootherFactors:
    """A chain with model errors, factored: its triangle, and steps for these and for other right-hand sides."""

    def __init__(self, chain: SegmentChain, memory: dict[str, np.ndarray] | None = None):
        """`memory` holds the factors of another chain, which are not needed any more."""
        memory = {} if memory is None else memory
        self.chain = chain
        segments, nx, nf, ny = chain_shape(chain)
        n = nx + nf
        self.triangle = np.zeros((n + 1, n + 1))
        # per link and error: what it answers to (state behind the link, parameters, 1), to be subtracted, and its variance
        self.gains = _reused(memory, "gains", (*chain.process_std.shape, n + 2))
        self.triangles = _reused(memory, "triangles", (segments, n, n))
        self._library = library = _library(nx, nf, ny, chain.constant_states, tuple(chain.noisy_states.tolist()))
        if library is None:
            smoother_qr_interpreted.factor(chain, self.gains, self.triangles, self.triangle)
        else:
            self._places = addresses(chain.segment_starts, chain.jacobian, chain.weight, chain.transition,
                                     chain.process_std, self.gains, self.triangles)
            library.dynident_smooth_factor(segments, *self._places, *addresses(chain.rhs, chain.defect, self.triangle))
        # of the point at which the chain was linearised
        self.own = LinkOffsets(chain.defect, np.ascontiguousarray(self.gains[:, :, n]))

    def gradient(self, rhs: np.ndarray, defect: np.ndarray) -> tuple[np.ndarray, LinkOffsets]:
        """Gradient in (first state, parameters) for other residuals and defects, and what a step must close there."""
        segments, nx, nf, _ = chain_shape(self.chain)
        rhs, defect, process_noise = np.ascontiguousarray(rhs), np.ascontiguousarray(defect), np.zeros(self.gains.shape[:2])
        if self._library is None:
            g = smoother_qr_interpreted.back(self.chain, self.gains, self.triangles, rhs, defect, process_noise)
        else:
            g = np.empty(nx + nf)
            self._library.dynident_smooth_back(segments, *self._places, *addresses(rhs, defect, g, process_noise))
        return g, LinkOffsets(defect, process_noise)

    def expand(self, first_state: np.ndarray, parameters: np.ndarray, offsets: LinkOffsets) -> np.ndarray:
        """Increments of the states at the begin of every segment, (segments, states), model errors chosen best."""
        segments, nx, _, _ = chain_shape(self.chain)
        c, process_noise = offsets.defect, offsets.process_noise
        ds = np.empty((segments, nx))
        ds[0] = first_state
        p = np.ascontiguousarray(parameters, dtype=float)
        if self._library is None:
            smoother_qr_interpreted.expand(self.chain, self.gains, c, process_noise, p, ds)
        else:
            self._library.dynident_smooth_expand(segments, self._places[3], self._places[5],
                                                 *addresses(c, process_noise, p, ds))
        return ds

    def covariances(self, start: np.ndarray) -> np.ndarray:
        """Covariance of the state at each segment's begin, (segments, n, n) with the parameters, from that of the first."""
        moves, covariances = self._onward
        along = np.empty((len(moves) + 1, *start.shape))
        along[0] = start
        for i, move in enumerate(moves):
            along[i + 1] = move @ along[i] @ move.T + covariances[i]
        return along

    def error_variances(self, along: np.ndarray) -> np.ndarray:
        """(segments - 1, errors): what stays unknown of how far each link is missed, by the covariances along time.

        The next state is what the link says and the error; what it is found to be less what the link says is the error.
        """
        return np.einsum("kii->ki", self.error_covariances(along))

    def error_covariances(self, along: np.ndarray) -> np.ndarray:
        """The same with what goes together, (segments - 1, errors, errors)."""
        moves, covariances = self._onward
        noisy = self.chain.noisy_states
        answers = moves[:, noisy] - self.chain.transition[:len(moves), noisy]
        return answers @ along[:-1] @ answers.swapaxes(1, 2) + covariances[:, noisy[:, None], noisy]

    @functools.cached_property
    def _onward(self) -> tuple[np.ndarray, np.ndarray]:
        """From (state, parameters) at each segment's begin to the next one, errors chosen best: how it moves, and what is
        unknown of it where the first is known, each (segments - 1, n, n)."""
        segments, nx, nf, _ = chain_shape(self.chain)
        n = nx + nf
        moves = np.broadcast_to(np.eye(n), (segments - 1, n, n)).copy()
        moves[:, :nx] = self.chain.transition[:segments - 1]
        covariances = np.zeros((segments - 1, n, n))
        for j in reversed(range(self.chain.noisy_states.size)):  # state k turns into itself minus its error's answer
            k, K = self.chain.noisy_states[j], self.gains[:, j, :n]
            moves[:, k] -= (K[:, None] @ moves)[:, 0]
            answer = np.broadcast_to(np.eye(n), (segments - 1, n, n)).copy()
            answer[:, k] -= K
            covariances = answer @ covariances @ answer.swapaxes(1, 2)
            covariances[:, k, k] += self.gains[:, j, -1]
        return moves, covariances


def _reused(memory: dict[str, np.ndarray], name: str, shape: tuple[int, ...]) -> np.ndarray:
    """An array of some memory, where it fits: it is warm already."""
    if name not in memory or memory[name].shape != shape:
        memory[name] = np.empty(shape)
    return memory[name]


@remembered(maxsize=64)
def _library(nx: int, nf: int, ny: int, constant: int, noisy: tuple[int, ...]) -> ctypes.CDLL | None:
    """The kernels for one shape."""
    shape = {"NX": nx, "NF": nf, "NY": ny, "NW": len(noisy), "STILL": constant, "MISSED": "".join(f"{k}, " for k in noisy)}
    text = "".join(f"#define {name} {value}\n" for name, value in shape.items()) + kernel_text(*TEXTS)
    library = load_library(f"smooth {hashlib.sha256(text.encode()).hexdigest()}", lambda: text, QUICK)
    if library is not None:
        pointer, size = ctypes.c_void_p, ctypes.c_longlong
        for name, arrays in (("factor", 10), ("back", 11), ("expand", 6)):
            kernel = getattr(library, f"dynident_smooth_{name}")
            kernel.argtypes, kernel.restype = [size, *[pointer] * arrays], None
    return library
