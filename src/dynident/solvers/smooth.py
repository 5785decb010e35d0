"""Smooth: the sweep along time where the model may err, so that its links are missed at a price.

`smooth.c` says how it is done; the same in NumPy serves where there is no compiler, and as its check.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
from typing import Any

import numpy as np

from dynident.discretizations.finite import Chain
from dynident.kernels.address import addresses
from dynident.kernels.compiler import load_library
from dynident.kernels.generate import kernel_text
from dynident.solvers.sweep import own_rows, sizes

TEXTS = ("sweep.c", "smooth.c")


class SmoothSweep:
    """A chain with model errors, factored: its triangle, and steps for these and for other right-hand sides."""

    def __init__(self, chain: Chain):
        self.chain = chain
        segments, nx, nf, _ = sizes(chain)
        n = nx + nf
        self.triangle = np.zeros((n + 1, n + 1))
        # per link and error: what it answers to (state behind the link, parameters, 1), to be subtracted, and its variance
        self.gains = np.empty((*chain.noise.shape, n + 2))
        self.triangles = np.empty((segments, n, n))
        library = _library()
        if library is None:
            self._factor()
        elif library.dynident_smooth_factor(*self._front(), *addresses(
                chain.rhs, chain.link, chain.defect, chain.missed, chain.noise, self.triangle, self.gains, self.triangles)):
            raise MemoryError("the sweep along time is out of memory")
        self._lacks = chain.rhs, chain.defect, np.ascontiguousarray(self.gains[:, :, n])

    def gradient(self, rhs: np.ndarray, defect: np.ndarray) -> np.ndarray:
        """Gradient in (first state, parameters) for other residuals and defects, with the derivatives of the chain."""
        _, nx, nf, _ = sizes(self.chain)
        rhs, defect = np.ascontiguousarray(rhs), np.ascontiguousarray(defect)
        library, lacks = _library(), np.zeros(self.gains.shape[:2])
        if library is None:
            g = self._back(rhs, defect, lacks)
        else:
            g, work = np.empty(nx + nf), np.empty(nx + self.chain.missed.size)
            library.dynident_smooth_back(*self._front(), *addresses(rhs, self.chain.link, defect, self.chain.missed,
                                                                    self.gains, self.triangles, g, lacks, work))
        self._lacks = rhs, defect, lacks
        return g

    def expand(self, first_state: np.ndarray, parameters: np.ndarray, rhs: np.ndarray, defect: np.ndarray) -> np.ndarray:
        """Increments of the states at the begin of every segment, (segments, states), model errors chosen best."""
        chain = self.chain
        segments, nx, nf, _ = sizes(chain)
        if not (self._lacks[0] is rhs and self._lacks[1] is defect):
            self.gradient(rhs, defect)
        _, c, lacks = self._lacks
        ds = np.empty((segments, nx))
        ds[0] = first_state
        p, library = np.ascontiguousarray(parameters, dtype=float), _library()
        if library is None:
            for i in range(segments - 1):
                ds[i + 1] = chain.link[i] @ np.append(ds[i], p) + c[i]
                for j in reversed(range(chain.missed.size)):
                    ds[i + 1, chain.missed[j]] -= lacks[i, j] + self.gains[i, j, :nx] @ ds[i + 1] + self.gains[i, j, nx:-2] @ p
            return ds
        work = np.empty(nx + nf + chain.missed.size)
        library.dynident_smooth_expand(segments, nx, nf, chain.missed.size, *addresses(
            chain.link, c, chain.missed, self.gains, lacks, p, ds, work))
        return ds

    def covariances(self, start: np.ndarray) -> np.ndarray:
        """Covariance of the state at each segment's begin, (segments, n, n) with the parameters, from that of the first."""
        segments, nx, _, _ = sizes(self.chain)
        n = start.shape[0]
        found = np.empty((segments, n, n))
        found[0] = start
        moves = np.broadcast_to(np.eye(n), (segments - 1, n, n)).copy()
        moves[:, :nx] = self.chain.link[:segments - 1]
        spreads = np.zeros((segments - 1, n, n))  # of what the errors add
        for j in reversed(range(self.chain.missed.size)):  # state k turns into itself minus its error's answer
            k, K = self.chain.missed[j], self.gains[:, j, :n]
            moves[:, k] -= (K[:, None] @ moves)[:, 0]
            answer = np.broadcast_to(np.eye(n), (segments - 1, n, n)).copy()
            answer[:, k] -= K
            spreads = answer @ spreads @ answer.swapaxes(1, 2)
            spreads[:, k, k] += self.gains[:, j, -1]
        for i, move in enumerate(moves):
            found[i + 1] = move @ found[i] @ move.T + spreads[i]
        return found

    def _front(self) -> list[int]:
        segments, nx, nf, ny = sizes(self.chain)
        return [segments, *addresses(self.chain.first), nx, nf, ny, self.chain.missed.size,
                *addresses(self.chain.jacobian, self.chain.weight)]

    # the same in NumPy

    def _factor(self) -> None:
        chain = self.chain
        segments, nx, nf, _ = sizes(chain)
        n = nx + nf
        T = np.zeros((n + 1, n + 1))
        for i in reversed(range(segments)):
            if i < segments - 1:
                for j, (k, g) in enumerate(zip(chain.missed, chain.noise[i], strict=True)):
                    T, self.gains[i, j] = _left(T, k, g)
                T[:, nx:] += T[:, :nx] @ np.column_stack([chain.link[i, :, nx:], chain.defect[i]])
                T[:, :nx] = T[:, :nx] @ chain.link[i, :, :nx]
            R = np.asarray(np.linalg.qr(np.vstack([T, own_rows(chain, i)]), mode="r"))
            T = np.zeros((n + 1, n + 1))
            T[:len(R)] = R
            self.triangles[i] = T[:n, :n]
        self.triangle[:] = T

    def _back(self, rhs: np.ndarray, defect: np.ndarray, lacks: np.ndarray) -> np.ndarray:
        chain = self.chain
        segments, nx, nf, _ = sizes(chain)
        g = np.zeros(nx + nf)
        for i in reversed(range(segments)):
            if i < segments - 1:
                R = self.triangles[i + 1]
                g = g + R.T @ (R[:, :nx] @ defect[i])
                for j, k in enumerate(chain.missed):
                    lacks[i, j] = self.gains[i, j, -1] * g[k] - self.gains[i, j, :nx] @ defect[i]  # which is among the states
                    g = g - self.gains[i, j, :-2] * g[k]
                g = np.append(np.zeros(nx), g[nx:]) + chain.link[i].T @ g[:nx]
            own = own_rows(chain, i, rhs)
            g = g + own[:, :-1].T @ own[:, -1]
        return g


def _left(T: np.ndarray, k: int, g: float) -> tuple[np.ndarray, np.ndarray]:
    """The rows T without the error of state k, which adds g times itself to it, and what that error answers, (n + 2,)."""
    seen = g * T[:, k]
    square = 1 + float(seen @ seen)
    told = seen @ T
    root = np.sqrt(square)
    return T - np.outer(seen, told / (root * (1 + root))), np.append(g / square * told, g**2 / square)


@functools.cache
def _library() -> ctypes.CDLL | None:
    text = kernel_text(*TEXTS)
    library = load_library(f"smooth {hashlib.sha256(text.encode()).hexdigest()}", lambda: text, ("-O3",))  # 1.2 times faster
    if library is not None:
        pointer, size, number = ctypes.c_void_p, ctypes.c_longlong, ctypes.c_int
        front: list[Any] = [size, pointer, number, number, number, number]
        library.dynident_smooth_factor.argtypes = [*front, *[pointer] * 10]
        library.dynident_smooth_back.argtypes = [*front, *[pointer] * 11]
        library.dynident_smooth_back.restype = None
        library.dynident_smooth_expand.argtypes = [size, number, number, number, *[pointer] * 8]
        library.dynident_smooth_expand.restype = None
    return library
