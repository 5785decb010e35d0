"""Elimination: how are the almost block diagonal equations of a chain solved whose two ends are tied?

`block_elimination.c` says how it is done; its twin
`block_elimination_interpreted.py` serves where there is no compiler, and as its check.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
from typing import Self

import numpy as np
import scipy.linalg.cython_lapack as lapack
from scipy.linalg.lapack import dgetrf, dgetrs

from dynident.boundary.solve_bvp.block_elimination_interpreted import InterpretedElimination, measure_links_interpreted
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
        compiled = _library()
        made = CompiledElimination.of(compiled, link) if compiled is not None else InterpretedElimination(link)
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
        self.small, pivots, _ = dgetrf(small)
        self.pivots = pivots + np.intc(1)  # LAPACK's own

    @classmethod
    def of_factors(cls, kept: np.ndarray, segments: int, small: np.ndarray, pivots: np.ndarray, row_size: np.ndarray, n: int
                   ) -> Self:
        """Made elsewhere, by the same C: `small` and `pivots` as LAPACK's dgetrf leaves them."""
        made = cls.__new__(cls)
        made.segments, made.n, made.m, made.row_size = segments, n, row_size.size - 2 * n, row_size
        made.small, made.pivots, made.chain = small, pivots, CompiledElimination(kept)
        return made

    def solve(self, defects: np.ndarray, conditions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """States at all nodes (segments + 1, n), and p, for right-hand sides c (segments, n) and d (n + m,), or many of each:
        then the first axis counts them."""
        if isinstance(self.chain, CompiledElimination):
            return self._compiled(self.chain, np.array(defects, dtype=float, order="C"), np.ascontiguousarray(conditions))
        if defects.ndim == 3:
            each = [self.solve(*both) for both in zip(defects, conditions, strict=True)]
            return np.array([s for s, _ in each]), np.array([p for _, p in each])
        kept, n = self.chain.forward(defects), self.n
        both = dgetrs(self.small, self.pivots - 1, np.concatenate([kept[-1], conditions]) / self.row_size)[0]
        s = np.empty((self.segments + 1, n))
        s[0], s[-1], p = both[:n], both[n:2 * n], both[2 * n:]
        self.chain.back(kept, s, p)
        return s, p

    def _compiled(self, chain: CompiledElimination, rhs: np.ndarray, conditions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        many, n, m = rhs.shape[:-2], self.n, self.m
        s, p, room = np.empty((*many, self.segments + 1, n)), np.empty((*many, m)), np.empty(2 * n + m)
        found = _library()
        assert found is not None
        found.dynident_eliminate_solve(
            self.segments, n, m, address(chain.kept), address(self.small), address(self.pivots), address(self.row_size),
            lapack_pointer("dgetrs"), many[0] if many else 1, address(rhs), address(conditions), address(s), address(p),
            address(room))
        return s, p


class CompiledElimination:
    """The chain's factors, as C keeps them."""

    singular = 0
    last = np.zeros((0, 0))

    def __init__(self, kept: np.ndarray):
        self.kept = kept

    @classmethod
    def of(cls, compiled: ctypes.CDLL, link: np.ndarray) -> Self:
        segments, n, columns = link.shape
        m = columns - n
        link = np.ascontiguousarray(link, dtype=float)
        made = cls(np.empty((max(segments - 1, 1), 2 * n * (3 * n + m) + 2 * n)))
        made.last = np.empty((n, 2 * n + m))
        made.singular = compiled.dynident_eliminate(segments, n, m, address(link), address(made.kept), address(made.last))
        if made.singular < 0:
            raise MemoryError("the elimination along time is out of memory")
        return made


@functools.cache
def lapack_pointer(name: str) -> int:
    """Where a routine of scipy's LAPACK stands: https://docs.scipy.org/doc/scipy/reference/linalg.cython_lapack.html."""
    named, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    named.restype, named.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsule = lapack.__pyx_capi__[name]
    return int(pointer(capsule, named(capsule)))


def measure_links(link: np.ndarray, stage: np.ndarray, z: np.ndarray, sizes: np.ndarray, rounding: float
                  ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of collocation at z: links in typical sizes, growth over each segment, what rounding leaves in each equation.

    `sizes`: of states and parameters; `rounding`: of a term. The equations at the ends are left out: 0 stands there.
    """
    (segments, n, width), inner = link.shape, stage.shape[1]
    found = _library()
    if found is None:
        return measure_links_interpreted(link, stage, z, sizes, rounding)
    scaled, growth, left, large = np.empty(link.shape), np.empty(segments), np.zeros(z.size), np.empty(width)
    link, stage, z, sizes = (np.ascontiguousarray(each, dtype=float) for each in (link, stage, z, sizes))
    found.dynident_measure(segments, n, width - n, inner, address(link), address(stage), address(z), address(sizes), rounding,
                           address(scaled), address(growth), address(left), address(large))
    return scaled, growth, left


@remembered()
def _library() -> ctypes.CDLL | None:
    text = kernel_text("boundary/solve_bvp/block_elimination.c")
    found = load_library(f"elimination {hashlib.sha256(text.encode()).hexdigest()}", lambda: text)
    if found is not None:
        pointer, size, number = ctypes.c_void_p, ctypes.c_longlong, ctypes.c_int
        found.dynident_eliminate.argtypes = [size, number, number, pointer, pointer, pointer]
        found.dynident_eliminate.restype = ctypes.c_longlong
        found.dynident_eliminate_solve.argtypes = [size, number, number, *[pointer] * 5, number, *[pointer] * 5]
        found.dynident_eliminate_solve.restype = None
        found.dynident_measure.argtypes = [size, number, number, number, *[pointer] * 4, ctypes.c_double, *[pointer] * 4]
        found.dynident_measure.restype = None
    return found
