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
from dynident.kernels.compiler import load_library
from dynident.kernels.generate import kernel_text
from dynident.solvers.sweep import addresses, own_rows, sizes

TEXTS = ("sweep.c", "smooth.c")


class SmoothSweep:
    """A chain with model errors, factored: its triangle, and steps for these and for other right-hand sides."""

    def __init__(self, chain: Chain):
        self.chain = chain
        segments, nx, nf, _ = sizes(chain)
        nw, n = chain.noise.shape[2], nx + nf
        self.triangle = np.zeros((n + 1, n + 1))
        self.gains = np.empty((segments - 1, nw, nw + n + 1))  # which model error is best for a state and parameters
        self.triangles = np.empty((segments, n, n))
        library = _library()
        if library is None:
            self._factor()
        elif library.dynident_smooth_factor(*self._front(), *addresses(chain.rhs, chain.link, chain.defect, chain.noise,
                                                                       self.triangle, self.gains, self.triangles)):
            raise MemoryError("the sweep along time is out of memory")
        self._lacks = chain.rhs, chain.defect, np.ascontiguousarray(self.gains[:, :, -1])

    def gradient(self, rhs: np.ndarray, defect: np.ndarray) -> np.ndarray:
        """Gradient in (first state, parameters) for other residuals and defects, with the derivatives of the chain."""
        _, nx, nf, _ = sizes(self.chain)
        rhs, defect = np.ascontiguousarray(rhs), np.ascontiguousarray(defect)
        library, lacks = _library(), np.zeros(self.gains.shape[:2])
        if library is None:
            g = self._back(rhs, defect, lacks)
        else:
            g, work = np.empty(nx + nf), np.empty(2 * (nx + nf))
            library.dynident_smooth_back(*self._front(), *addresses(rhs, self.chain.link, defect, self.chain.noise,
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
        ds = np.zeros((segments, nx))
        ds[0] = first_state
        p, library = np.ascontiguousarray(parameters, dtype=float), _library()
        if library is None:
            for i, w in enumerate(self._errors(ds, p, lacks)):
                ds[i + 1] = chain.link[i] @ np.append(ds[i], p) + c[i] + chain.noise[i] @ w
            return ds
        nw = self.gains.shape[1]
        library.dynident_smooth_expand(segments, nx, nf, nw, *addresses(
            chain.link, np.ascontiguousarray(c), chain.noise, self.gains, lacks, p, ds, np.empty(nw)))
        return ds

    def covariances(self, start: np.ndarray) -> np.ndarray:
        """Covariance of the state at each segment's begin, (segments, n, n) with the parameters, from that of the first."""
        segments, nx, _, _ = sizes(self.chain)
        nw, n = self.gains.shape[1], start.shape[0]
        found = np.empty((segments, n, n))
        found[0] = start
        right = np.concatenate([self.gains[:, :, nw:-1], np.broadcast_to(np.eye(nw), (segments - 1, nw, nw))], axis=2)
        answers = self.chain.noise @ np.linalg.solve(self.gains[:, :, :nw], right)  # best errors by state, and their spread
        moves = np.broadcast_to(np.eye(n), (segments - 1, n, n)).copy()
        moves[:, :nx] = self.chain.link[:segments - 1] - answers[:, :, :n]
        spreads = answers[:, :, n:] @ answers[:, :, n:].swapaxes(1, 2)
        for i, move in enumerate(moves):
            found[i + 1] = move @ found[i] @ move.T
            found[i + 1, :nx, :nx] += spreads[i]
        return found

    def _front(self) -> list[int]:
        segments, nx, nf, ny = sizes(self.chain)
        return [segments, *addresses(self.chain.first), nx, nf, ny, self.chain.noise.shape[2],
                *addresses(self.chain.jacobian, self.chain.weight)]

    # the same in NumPy

    def _factor(self) -> None:
        chain = self.chain
        segments, nx, nf, _ = sizes(chain)
        nw, n = self.gains.shape[1], nx + nf
        for i in reversed(range(segments)):
            rows = own_rows(chain, i)
            if i == segments - 1:
                R = np.asarray(np.linalg.qr(rows, mode="r"))
                self.triangle[:len(R)] = R
            else:
                a, rest = self.triangle[:, :nx], self.triangle[:, nx:].copy()
                rest[:, -1] += a @ chain.defect[i]
                rest[:, :nf] += a @ chain.link[i, :, nx:]
                future = np.column_stack([a @ chain.noise[i], a @ chain.link[i, :, :nx], rest])
                R = np.asarray(np.linalg.qr(np.vstack([np.eye(nw, nw + n + 1), future, np.column_stack([
                    np.zeros((len(rows), nw)), rows])]), mode="r"))
                self.gains[i], rest = R[:nw], R[nw:nw + n + 1]
                self.triangle[:] = 0
                self.triangle[:len(rest)] = rest[:, nw:]
            self.triangles[i] = self.triangle[:n, :n]

    def _back(self, rhs: np.ndarray, defect: np.ndarray, lacks: np.ndarray) -> np.ndarray:
        chain = self.chain
        segments, nx, nf, _ = sizes(chain)
        nw, n = self.gains.shape[1], nx + nf
        g = np.zeros(n)
        for i in reversed(range(segments)):
            if i < segments - 1:
                R = self.triangles[i + 1]
                v = g + R.T @ (R[:, :nx] @ defect[i])
                lacks[i] = np.linalg.solve(self.gains[i, :, :nw].T, chain.noise[i].T @ v[:nx])
                g = np.append(np.zeros(nx), v[nx:]) + chain.link[i].T @ v[:nx] - self.gains[i, :, nw:-1].T @ lacks[i]
            own = own_rows(chain, i, rhs)
            g = g + own[:, :-1].T @ own[:, -1]
        return g

    def _errors(self, ds: np.ndarray, p: np.ndarray, lacks: np.ndarray):
        nw = self.gains.shape[1]
        for i, gain in enumerate(self.gains):
            yield -np.linalg.solve(gain[:, :nw], gain[:, nw:-1] @ np.append(ds[i], p) + lacks[i])


@functools.cache
def _library() -> ctypes.CDLL | None:
    text = kernel_text(*TEXTS)
    library = load_library(f"smooth {hashlib.sha256(text.encode()).hexdigest()}", lambda: text)
    if library is not None:
        pointer, size, number = ctypes.c_void_p, ctypes.c_longlong, ctypes.c_int
        front: list[Any] = [size, pointer, number, number, number, number]
        library.dynident_smooth_factor.argtypes = [*front, *[pointer] * 9]
        library.dynident_smooth_back.argtypes = [*front, *[pointer] * 11]
        library.dynident_smooth_back.restype = None
        library.dynident_smooth_expand.argtypes = [size, number, number, number, *[pointer] * 8]
        library.dynident_smooth_expand.restype = None
    return library
