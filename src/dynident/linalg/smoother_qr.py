"""Smoother QR: the backward sweep along time where the model may err (square-root smoother): links are missed at a price.

`smoother_qr.c` says how it is done; the same in NumPy serves where there is no compiler, and as its check.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib

import numpy as np

from dynident.codegen.c_source import QUICK, kernel_text
from dynident.codegen.compiler import load_library, remembered
from dynident.codegen.pointers import addresses
from dynident.linalg.chain_qr import chain_shape, segment_rows
from dynident.linalg.finite_problem import SegmentChain

TEXTS = ("vectors.c", "smoother_qr.c")


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
            self._factor()
        else:
            self._places = addresses(chain.segment_starts, chain.jacobian, chain.weight, chain.transition,
                                     chain.process_std, self.gains, self.triangles)
            library.dynident_smooth_factor(segments, *self._places, *addresses(chain.rhs, chain.defect, self.triangle))
        self._last_noise = chain.rhs, chain.defect, np.ascontiguousarray(self.gains[:, :, n])

    def gradient(self, rhs: np.ndarray, defect: np.ndarray) -> np.ndarray:
        """Gradient in (first state, parameters) for other residuals and defects, with the derivatives of the chain."""
        segments, nx, nf, _ = chain_shape(self.chain)
        rhs, defect, process_noise = np.ascontiguousarray(rhs), np.ascontiguousarray(defect), np.zeros(self.gains.shape[:2])
        if self._library is None:
            g = self._back(rhs, defect, process_noise)
        else:
            g = np.empty(nx + nf)
            self._library.dynident_smooth_back(segments, *self._places, *addresses(rhs, defect, g, process_noise))
        self._last_noise = rhs, defect, process_noise
        return g

    def expand(self, first_state: np.ndarray, parameters: np.ndarray, rhs: np.ndarray, defect: np.ndarray) -> np.ndarray:
        """Increments of the states at the begin of every segment, (segments, states), model errors chosen best."""
        chain = self.chain
        segments, nx, _, _ = chain_shape(chain)
        if not (self._last_noise[0] is rhs and self._last_noise[1] is defect):
            self.gradient(rhs, defect)
        _, c, process_noise = self._last_noise
        ds = np.empty((segments, nx))
        ds[0] = first_state
        p = np.ascontiguousarray(parameters, dtype=float)
        if self._library is None:
            for i in range(segments - 1):
                ds[i + 1] = chain.transition[i] @ np.append(ds[i], p) + c[i]
                noise = process_noise[i] + self.gains[i, :, :-2] @ np.append(ds[i + 1], p)
                ds[i + 1, chain.noisy_states] -= self._apart[i] @ noise
            return ds
        self._library.dynident_smooth_expand(segments, self._places[3], self._places[5], *addresses(c, process_noise, p, ds))
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
        moves, covariances = self._onward
        noisy = self.chain.noisy_states
        answers = moves[:, noisy] - self.chain.transition[:len(moves), noisy]
        return np.einsum("kia,kab,kib->ki", answers, along[:-1], answers) + covariances[:, noisy, noisy]

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

    # the same in NumPy

    def _factor(self) -> None:
        chain, noisy = self.chain, self.chain.noisy_states
        segments, nx, nf, _ = chain_shape(chain)
        n, nw = nx + nf, noisy.size
        T = np.zeros((n + 1, n + 1))
        for i in reversed(range(segments)):
            if i < segments - 1:  # all errors leave at once: the rows above say what they answer, those below what is left
                rows = np.block([[np.eye(nw), np.zeros((nw, n + 1))], [T[:, noisy] * chain.process_std[i], T]])
                R = np.asarray(np.linalg.qr(rows, mode="r"))
                gain = chain.process_std[i] / np.diag(R)[:nw]
                self.gains[i] = np.column_stack([gain[:, None] * R[:nw, nw:], gain**2])
                T = R[nw:, nw:]
                T[:, nx:] += T[:, :nx] @ np.column_stack([chain.transition[i, :, nx:], chain.defect[i]])
                T[:, :nx] = T[:, :nx] @ chain.transition[i, :, :nx]
            R = np.asarray(np.linalg.qr(np.vstack([T, segment_rows(chain, i)]), mode="r"))
            T = np.zeros((n + 1, n + 1))
            T[:len(R)] = R
            self.triangles[i] = T[:n, :n]
        self.triangle[:] = T

    @functools.cached_property
    def _apart(self) -> np.ndarray:
        """(segments - 1, errors, errors): the errors from what each would be if the later ones were none."""
        return np.linalg.inv(np.eye(self.chain.noisy_states.size) + np.triu(self.gains[:, :, self.chain.noisy_states], 1))

    def _back(self, rhs: np.ndarray, defect: np.ndarray, process_noise: np.ndarray) -> np.ndarray:
        chain = self.chain
        segments, nx, nf, _ = chain_shape(chain)
        g = np.zeros(nx + nf)
        for i in reversed(range(segments)):
            if i < segments - 1:
                R, K = self.triangles[i + 1], self.gains[i]
                g = g + R.T @ (R[:, :nx] @ defect[i])
                pulls = self._apart[i].T @ g[chain.noisy_states]
                process_noise[i] = K[:, -1] * pulls - K[:, :nx] @ defect[i]  # the defect is among the states that K sees
                g = g - K[:, :-2].T @ pulls
                g = np.append(np.zeros(nx), g[nx:]) + chain.transition[i].T @ g[:nx]
            own = segment_rows(chain, i, rhs)
            g = g + own[:, :-1].T @ own[:, -1]
        return g


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
