"""Elimination: how are the almost block diagonal equations of a chain solved whose two ends are tied?

`block_elimination.c` says how it is done; its twin
`block_elimination_interpreted.py` serves where there is no compiler, and as its check.
"""

from __future__ import annotations

import ctypes
import hashlib

import numpy as np
from scipy.linalg.lapack import dgetrf, dgetrs

from dynident.boundary.solve_bvp.block_elimination_interpreted import InterpretedElimination
from dynident.boundary.solve_bvp.root_finding import ILL_POSED, SINGULAR_BLOCK, Singular
from dynident.codegen.c_source import kernel_text
from dynident.codegen.compiler import load_library, remembered
from dynident.codegen.pointers import address
from dynident.tolerances import BLOCK_PIVOT, HELD_DIRECTION


class BlockElimination:
    """Factors of: link_i (s_i, p) - s_{i+1} = c_i for all segments, and begin s_0 + end s_N + shared p = d.

    `regular`: refuse conditions that do not determine the solution to rounding. Where it is False, such a direction is held as
    if it were stiff by `HELD_DIRECTION`, about what rounding does on a few segments: no bit decides between an answer and a
    refusal.
    """

    def __init__(self, link: np.ndarray, begin: np.ndarray, end: np.ndarray, shared: np.ndarray, regular: bool = True):
        self.segments, self.n, columns = link.shape
        self.m = columns - self.n
        library = _library()
        made = CompiledElimination(library, link) if library is not None else InterpretedElimination(link)
        self.chain: CompiledElimination | InterpretedElimination = made
        if made.singular:
            where = f"node {made.singular} of {self.segments + 1}"
            raise Singular(f"because the linearised equations are singular at {where}", SINGULAR_BLOCK)
        small = np.vstack([made.last, np.hstack([begin, end, shared])])
        sizes = np.max(np.abs(small), axis=1)
        if not np.all(np.isfinite(sizes)) or np.any(sizes == 0):
            raise Singular("because a condition at the ends, linearised, depends on nothing", ILL_POSED)
        self.row_size = sizes  # rows of unlike units would spoil the choice of pivots
        small /= sizes[:, None]
        if regular:
            singular = np.linalg.svd(small, compute_uv=False)
            if not singular[-1] > BLOCK_PIVOT * singular[0]:
                raise Singular("because the linearised conditions at the ends do not determine the solution", ILL_POSED)
        else:
            left, singular, right = np.linalg.svd(small)
            small += (left * np.maximum(HELD_DIRECTION * singular[0] - singular, 0)) @ right
        self.ends = dgetrf(small)[:2]

    def solve(self, defects: np.ndarray, conditions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """States at all nodes (segments + 1, n), and p, for right-hand sides c (segments, n) and d (n + m,)."""
        kept = self.chain.forward(defects)
        both = dgetrs(*self.ends, np.concatenate([kept[-1], conditions]) / self.row_size)[0]
        n = self.n
        s = np.empty((self.segments + 1, n))
        s[0], s[-1], p = both[:n], both[n:2 * n], both[2 * n:]
        self.chain.back(kept, s, p)
        return s, p


class CompiledElimination:
    def __init__(self, library: ctypes.CDLL, link: np.ndarray):
        self.library = library
        self.segments, self.n, columns = link.shape
        n, m = self.n, columns - self.n
        self.m = m
        link = np.ascontiguousarray(link, dtype=float)
        self.kept = np.empty((max(self.segments - 1, 1), 2 * n * (3 * n + m) + 2 * n))
        self.last = np.empty((n, 2 * n + m))
        self.singular = library.dynident_eliminate(self.segments, n, m, address(link), address(self.kept),
                                                   address(self.last))
        if self.singular < 0:
            raise MemoryError("the elimination along time is out of memory")

    def forward(self, defects: np.ndarray) -> np.ndarray:
        rhs = np.array(defects, dtype=float, order="C")
        self.library.dynident_eliminate_forward(self.segments, self.n, self.m, address(self.kept), address(rhs))
        return rhs

    def back(self, kept: np.ndarray, s: np.ndarray, p: np.ndarray) -> None:
        p = np.ascontiguousarray(p)
        self.library.dynident_eliminate_back(self.segments, self.n, self.m, address(self.kept), address(kept),
                                             address(p), address(s))


@remembered()
def _library() -> ctypes.CDLL | None:
    text = kernel_text("boundary/solve_bvp/block_elimination.c")
    library = load_library(f"elimination {hashlib.sha256(text.encode()).hexdigest()}", lambda: text)
    if library is not None:
        pointer, size, number = ctypes.c_void_p, ctypes.c_longlong, ctypes.c_int
        library.dynident_eliminate.argtypes = [size, number, number, pointer, pointer, pointer]
        library.dynident_eliminate.restype = ctypes.c_longlong
        library.dynident_eliminate_forward.argtypes = [size, number, number, pointer, pointer]
        library.dynident_eliminate_forward.restype = None
        library.dynident_eliminate_back.argtypes = [size, number, number, pointer, pointer, pointer, pointer]
        library.dynident_eliminate_back.restype = None
    return library
