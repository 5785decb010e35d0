"""Arrowhead least squares (bordered block diagonal): blocks of rows with unknowns of their own and unknowns that all share.

    minimise  sum over the blocks of |R own + S shared + r|^2  +  |R' shared + r'|^2

Each R is a triangle: the rows of a block are reflected until all but as many as it has own unknowns speak of shared
ones only; those go to the border, where they add up to the Schur complement (as its square root: nothing is squared). Time
and memory are linear in the number of blocks. Blocks of the same shape stand in one stack and are worked on together.

`arrowhead.c` does what a solver asks in every iteration; the same in NumPy serves where there is no compiler, and as its check.
`block_qr.py` is the same elimination with its orthogonal factor, for statistics: what each row adds to the estimate.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.linalg.lapack import dgeqrf, dtrtrs

from dynident.codegen.pointers import KeepsPointers, address
from dynident.linalg.arrowhead_library import arrowhead_library, raise_if_singular, reduce_blocks
from dynident.linalg.rank import truncated_svd
from dynident.problem.noise import sum_of_squares
from dynident.tolerances import SINGULAR_VALUE, SINGULAR_VALUE_ROUNDING

FIRM = 1e6  # times what is called hardly seen: rows that let nothing through


@dataclass(frozen=True, eq=False)
class ArrowheadBlock:
    """As many rows as own unknowns: rows @ (own, shared, 1), triangular in the own ones."""

    own: np.ndarray  # (k,) unknowns that no other block touches
    rows: np.ndarray  # (k, k + shared + 1); the last column is the residual

    @property
    def triangle(self) -> np.ndarray:
        return self.rows[:, :self.own.size]

    @property
    def border(self) -> np.ndarray:
        return self.rows[:, self.own.size:-1]

    @property
    def residual(self) -> np.ndarray:
        return self.rows[:, -1]


@dataclass(frozen=True, eq=False)
class ArrowheadStack(KeepsPointers):
    """Blocks of the same shape, one behind the other."""

    own: np.ndarray  # (blocks, k)
    rows: np.ndarray  # (blocks, k, k + shared + 1)

    @property
    def triangle(self) -> np.ndarray:
        return self.rows[:, :, :self.own.shape[1]]

    @property
    def border(self) -> np.ndarray:
        return self.rows[:, :, self.own.shape[1]:-1]

    @property
    def residual(self) -> np.ndarray:
        return self.rows[:, :, -1]

    @cached_property
    def pointers(self) -> tuple[int, int, int, int, int]:
        """As the compiled loops take a stack: blocks, own and shared unknowns, and where rows and own unknowns stand."""
        blocks, k, w = self.rows.shape
        return blocks, k, w - k - 1, address(self.rows), address(self.own)


@dataclass(frozen=True, eq=False)
class ArrowheadLeastSquares:
    """The whole problem in `unknowns` unknowns; those of no block and not shared do not occur in it."""

    unknowns: int
    stacks: tuple[ArrowheadStack, ...]
    last: ArrowheadBlock  # the border: its own unknowns are the shared ones

    @property
    def blocks(self) -> list[ArrowheadBlock]:
        return [ArrowheadBlock(own, rows) for stack in self.stacks for own, rows in zip(stack.own, stack.rows, strict=True)]

    @property
    def shared(self) -> np.ndarray:
        return self.last.own

    @cached_property
    def border_stack(self) -> ArrowheadStack:
        """The border as a stack of one block that shares nothing."""
        return ArrowheadStack(np.ascontiguousarray(self.shared[None], np.int64), np.ascontiguousarray(self.last.rows[None]))

    @property
    def column_norms(self) -> np.ndarray:
        return self._norms[0]

    @property
    def length(self) -> float:
        """Of the residual at step = 0, as far as any step can change it."""
        return self._norms[1]

    @cached_property
    def _norms(self) -> tuple[np.ndarray, float]:
        squares, library = np.zeros(self.unknowns), arrowhead_library()
        if library is not None:
            into, shared = address(squares), self.border_stack.pointers[4]
            residual = sum(library.dynident_arrowhead_squares(*stack.pointers, shared, into) for stack in self._all_stacks)
            return np.sqrt(squares), math.sqrt(residual)
        squares[self.shared] = np.sum(self.last.triangle**2, axis=0)
        for stack in self.stacks:
            squares[stack.own] = np.sum(stack.triangle**2, axis=1)
            squares[self.shared] += np.sum(stack.border**2, axis=(0, 1))
        parts = [*(s.residual for s in self.stacks), self.last.residual]
        return np.sqrt(squares), math.sqrt(sum(sum_of_squares(part) for part in parts))

    @property
    def _all_stacks(self) -> tuple[ArrowheadStack, ...]:
        return (*self.stacks, self.border_stack) if self.shared.size else self.stacks

    def residuals(self, step: np.ndarray) -> list[np.ndarray]:
        """What a step leaves of the rows, stack by stack (blocks, k) and the border last."""
        shared = step[self.shared]
        left = [_times(s.triangle, step[s.own]) + s.border @ shared + s.residual for s in self.stacks]
        return [*left, self.last.triangle @ shared + self.last.residual]

    def predicted_reduction(self, step: np.ndarray) -> float:
        """How much a step lowers the sum of squares."""
        library = arrowhead_library()
        if library is None:
            return self.length**2 - sum(sum_of_squares(left) for left in self.residuals(step))
        at, shared = address(step), self.border_stack.pointers[4]
        return self.length**2 - sum(library.dynident_arrowhead_left(*stack.pointers, shared, at) for stack in self._all_stacks)

    def gradient(self, step: np.ndarray) -> np.ndarray:
        """Half the gradient of the sum of squares after a step."""
        gradient = np.zeros(self.unknowns)
        left = self.residuals(step)
        gradient[self.shared] = self.last.triangle.T @ left[-1]
        for stack, residual in zip(self.stacks, left, strict=False):  # all but the last
            gradient[stack.own] = _times(stack.triangle.swapaxes(1, 2), residual)
            gradient[self.shared] += np.tensordot(residual, stack.border, axes=2)
        return gradient

    def to_dense(self) -> np.ndarray:
        """All rows as one triangle over all unknowns, (unknowns, unknowns + 1): for who cannot use the blocks."""
        return _householder(self.stacked_rows(), self.unknowns)[0]

    def stacked_rows(self) -> np.ndarray:
        """All rows over all unknowns and the residual, (rows, unknowns + 1), as they are."""
        placed = []
        for block in (*self.blocks, self.last):
            rows = np.zeros((len(block.rows), self.unknowns + 1))
            rows[:, block.own], rows[:, -1] = block.triangle, block.residual
            if block is not self.last:
                rows[:, self.shared] = block.border
            placed.append(rows)
        return np.vstack(placed)

    def with_damping(self, lengths: np.ndarray) -> ArrowheadLeastSquares:
        """With one more row per unknown: length * step."""
        stacks = [(s.own, np.concatenate([s.rows, _diagonals(lengths[s.own], s.rows.shape[2])], axis=1)) for s in self.stacks]
        border = np.vstack([self.last.rows, _diagonals(lengths[None, self.shared], self.last.rows.shape[1])[0]])
        return arrowhead_of_stacks(self.unknowns, self.shared, stacks, border)

    def freeze_unobservable(self, lengths: np.ndarray, least: float) -> ArrowheadLeastSquares:
        """Without steps along what the data hardly see: a truncated SVD, for which the null space need not be exact.

        Rows keep still each direction in which going by these lengths changes the rows by less than `least` and lowers the
        sum of squares by less than the square of that. First what a block sees of its own unknowns, then what all blocks
        together see of the shared ones: a direction that the whole does not see shows in one of the two.
        """
        blocks = [(b.own, np.vstack([b.rows, _unobservable_rows(b, lengths, least)])) for b in self.blocks]
        border = np.vstack([self.last.rows, _unobservable_rows(self.last, lengths, least)])
        return arrowhead(self.unknowns, self.shared, blocks, border)

    def freeze_null_space(self) -> ArrowheadLeastSquares:
        """With rows that keep still each direction that is null to rounding (rank deficient triangles).

        Along such a direction the least squares step is one rounding error divided by another: it would lead somewhere else
        on every processor.
        """
        return self._without_null_space

    @cached_property
    def _without_null_space(self) -> ArrowheadLeastSquares:
        lengths = np.where(self.column_norms > 0, self.column_norms, 1.0)  # whole columns: what is left may be rounding
        if not self._may_be_rank_deficient(lengths):
            return self
        blocks = [(b.own, np.vstack([b.rows, _null_rows(b, lengths[b.own])])) for b in self.blocks]
        border = np.vstack([self.last.rows, _null_rows(self.last, lengths[self.shared])])
        return arrowhead(self.unknowns, self.shared, blocks, border)

    def _may_be_rank_deficient(self, lengths: np.ndarray) -> bool:
        """Whether a diagonal is so small beside its column that singular values are worth a look."""
        library = arrowhead_library()
        if library is None:
            diagonals = [(np.diagonal(s.triangle, axis1=1, axis2=2), s.own) for s in (*self.stacks, self.border_stack)]
            return any(bool(np.any(np.abs(found) < SINGULAR_VALUE * lengths[own])) for found, own in diagonals)
        at = address(lengths)
        return any(library.dynident_arrowhead_small_diagonal(*stack.pointers, at, SINGULAR_VALUE) for stack in self._all_stacks)

    def with_fixed(self, fixed: np.ndarray, step: np.ndarray) -> ArrowheadLeastSquares:
        """The same rows in the free unknowns only, the fixed ones (a mask) where `step` has them."""
        if not np.any(fixed):
            return self
        at = np.where(fixed, step, 0.0)
        free = ~fixed[self.shared]
        stacks, rest = [], [_fix_columns(self.last, fixed, at, np.zeros(0, bool), np.zeros(0))]
        for stack in self.stacks:
            if not np.any(fixed[stack.own]):
                residual = stack.residual + stack.border @ at[self.shared]
                rows = np.concatenate([stack.triangle, stack.border[:, :, free], residual[:, :, None]], axis=2)
                stacks.append(ArrowheadStack(stack.own, rows))
                continue
            lessened = []
            for own, rows in zip(stack.own, stack.rows, strict=True):
                left = own[~fixed[own]]
                rows, below = _householder(_fix_columns(ArrowheadBlock(own, rows), fixed, at, free, at[self.shared]), left.size)
                rest.append(below)
                lessened.append((left, rows))
            stacks += [ArrowheadStack(*part) for part in _group_by_shape(lessened)]
        shared = self.shared[free]
        last = ArrowheadBlock(shared, _householder(np.vstack(rest), shared.size)[0])
        return ArrowheadLeastSquares(self.unknowns, tuple(stacks), last)

    def solve(self) -> np.ndarray:
        """The step with the smallest sum of squares, 0 for unknowns that do not occur; needs full column rank."""
        if arrowhead_library() is None:
            return self._back_substitute([-s.residual for s in self.stacks], -self.last.residual)
        return self._back_substitute([None] * len(self.stacks), None)

    def newton_step(self, gradient: np.ndarray) -> np.ndarray:
        """-(A'A)^-1 gradient, for the gradient of other residuals with the same rows A."""
        ahead, passed = [-gradient[s.own] for s in self.stacks], -gradient[self.shared]
        if (library := arrowhead_library()) is not None:
            solve, at = library.dynident_arrowhead_solve_transposed, address(passed)
            for stack, part in zip(self.stacks, ahead, strict=True):
                raise_if_singular(solve(*stack.pointers[:4], address(part), at))
            raise_if_singular(solve(*self.border_stack.pointers[:4], at, None))
            return self._back_substitute(ahead, passed)
        ahead = [_triangular_solve(s.triangle, part, transposed=True) for s, part in zip(self.stacks, ahead, strict=True)]
        for stack, part in zip(self.stacks, ahead, strict=True):
            if passed.size:
                passed = passed - np.tensordot(part, stack.border, axes=2)
        return self._back_substitute(ahead, _triangular_solve(self.last.triangle[None], passed[None], transposed=True)[0])

    def _back_substitute(self, rights: Sequence[Any], right: Any) -> np.ndarray:
        """For right-hand sides (blocks, k) of each stack and (shared,); None, compiled: minus the residuals."""
        step, library = np.zeros(self.unknowns), arrowhead_library()
        if library is not None:
            shared, into = self.border_stack.pointers[4], address(step)
            for stack, own in zip((self.border_stack, *self.stacks), (right, *rights), strict=True):
                given = None if own is None else address(own)
                raise_if_singular(library.dynident_arrowhead_solve(*stack.pointers, shared, given, into))
            return step
        known = step[self.shared] = _triangular_solve(self.last.triangle[None], right[None])[0]
        for stack, own in zip(self.stacks, rights, strict=True):
            step[stack.own] = _triangular_solve(stack.triangle, own - stack.border @ known)
        return step


def arrowhead(unknowns: int, shared: np.ndarray, blocks: Iterable[tuple[np.ndarray, np.ndarray]], border: np.ndarray
          ) -> ArrowheadLeastSquares:
    """An arrow from any number of rows: per block its own unknowns and rows (m, own + shared + 1); border rows
    (m, shared + 1)."""
    return arrowhead_of_stacks(unknowns, shared, _group_by_shape(blocks), border)


def _group_by_shape(blocks: Iterable[tuple[np.ndarray, np.ndarray]]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Blocks of the same shape together: own (blocks, k), rows (blocks, m, ...)."""
    alike: dict[tuple[int, ...], list[tuple[np.ndarray, np.ndarray]]] = {}
    for own, rows in blocks:
        alike.setdefault((own.size, *rows.shape), []).append((own, rows))
    return [(np.stack([own for own, _ in some]), np.stack([rows for _, rows in some])) for some in alike.values()]


def arrowhead_of_stacks(unknowns: int, shared: np.ndarray, stacks: Iterable[tuple[np.ndarray, np.ndarray]],
                    border: np.ndarray) -> ArrowheadLeastSquares:
    """The same from blocks that are stacked already: own unknowns (blocks, k), rows (blocks, m, k + shared + 1)."""
    stacks, library = list(stacks), arrowhead_library()
    if library is not None:
        return _arrowhead_of_stacks(library, unknowns, shared, stacks, border)
    tops, rest = [], [border]
    for own, rows in stacks:
        top, below = _householder(rows, own.shape[1])
        tops.append(ArrowheadStack(own, top))
        rest.append(below.reshape(-1, below.shape[2]))
    if not shared.size:
        return ArrowheadLeastSquares(unknowns, tuple(tops), ArrowheadBlock(shared, np.zeros((0, 1))))
    return ArrowheadLeastSquares(unknowns, tuple(tops), ArrowheadBlock(shared, _householder(np.vstack(rest), shared.size)[0]))


def _arrowhead_of_stacks(library: ctypes.CDLL, unknowns: int, shared: np.ndarray, stacks: list[tuple[np.ndarray, np.ndarray]],
                         border_rows: np.ndarray) -> ArrowheadLeastSquares:
    size, tops = shared.size, []
    border = np.zeros((size + 1, size + 1))
    for own, rows in stacks:
        (blocks, k), rows, own = own.shape, np.ascontiguousarray(rows, float), np.ascontiguousarray(own, np.int64)
        top = np.empty((blocks, k, rows.shape[2]))
        reduce_blocks(library, blocks, rows.shape[1], k, size, address(rows), address(own), 0, top, border)
        tops.append(ArrowheadStack(own, top))
    if size and len(border_rows):
        border_rows = np.ascontiguousarray(border_rows, float)
        reduce_blocks(library, 1, len(border_rows), 0, size, address(border_rows), 0, 0, None, border)
    return ArrowheadLeastSquares(unknowns, tuple(tops), ArrowheadBlock(shared, border[:size]))


def _householder(rows: np.ndarray, own: int) -> tuple[np.ndarray, np.ndarray]:
    """The first `own` rows after reflection (missing ones are zero), and what is left for the columns beyond; of a block
    or of many."""
    R = _qr_triangle(rows.reshape(rows.shape[-2:]))[(None,) * (rows.ndim - 2)] if rows.ndim == 2 or len(rows) == 1 else (
        np.asarray(np.linalg.qr(rows, mode="r")))
    top = np.zeros((*rows.shape[:-2], own, rows.shape[-1]))
    top[..., :R.shape[-2], :] = R[..., :own, :]
    return top, R[..., own:, own:]


def _times(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """(blocks, m, k) @ (blocks, k)."""
    return (matrices @ vectors[:, :, None])[:, :, 0]


def _qr_triangle(rows: np.ndarray) -> np.ndarray:
    """The triangular factor of one small block; NumPy's own way takes five times as long around the same few sums."""
    if not rows.size:
        return np.zeros((min(rows.shape), rows.shape[1]))
    R = dgeqrf(rows)[0][:min(rows.shape)]
    R[_below(R.shape)] = 0
    return R


@lru_cache(maxsize=64)
def _below(shape: tuple[int, int]) -> np.ndarray:
    return np.tri(*shape, -1, dtype=bool)


def _triangular_solve(triangles: np.ndarray, vectors: np.ndarray, transposed: bool = False) -> np.ndarray:
    """Triangles (blocks, k, k) or their transposes, solved for vectors (blocks, k)."""
    if not vectors.size:
        return vectors
    if len(triangles) > 1:
        return np.linalg.solve(triangles.swapaxes(1, 2) if transposed else triangles, vectors[:, :, None])[:, :, 0]
    found, singular = dtrtrs(triangles[0], vectors[0], trans=transposed)
    if singular:
        raise np.linalg.LinAlgError("Singular matrix")
    return found[None]


def _diagonals(lengths: np.ndarray, width: int) -> np.ndarray:
    """(blocks, k, width) with lengths (blocks, k) on the diagonals."""
    rows = np.zeros((*lengths.shape, width))
    place = np.arange(lengths.shape[1])
    rows[:, place, place] = lengths
    return rows


def _unobservable_rows(block: ArrowheadBlock, lengths: np.ndarray, least: float) -> np.ndarray:
    """Heavy rows along each direction of a block's own unknowns that is to rest."""
    own = lengths[block.own]
    if not own.size:
        return np.zeros((0, block.rows.shape[1]))
    rotation, seen, directions = np.linalg.svd(block.triangle * own)
    slope = seen * (rotation.T @ block.residual)
    still = directions[(seen < least) & (np.abs(slope) < least**2)]
    rows = np.zeros((len(still), block.rows.shape[1]))
    rows[:, :own.size] = max(float(seen[0]), FIRM * least) * still / own
    return rows


def _fix_columns(block: ArrowheadBlock, fixed: np.ndarray, at: np.ndarray, free_shared: np.ndarray, resting_shared: np.ndarray
          ) -> np.ndarray:
    """A block's rows without the fixed columns; what these contribute moves to the residual."""
    residual = block.residual + block.triangle @ at[block.own] + block.border @ resting_shared
    return np.column_stack([block.triangle[:, ~fixed[block.own]], block.border[:, free_shared], residual])


def _null_rows(block: ArrowheadBlock, lengths: np.ndarray) -> np.ndarray:
    """Rows of unit weight along the null space of a block's own unknowns, for columns of length one."""
    rows = np.zeros((0, block.rows.shape[1]))
    if block.own.size:
        null = truncated_svd(block.triangle / lengths, SINGULAR_VALUE_ROUNDING, null_space=True).null_space.T
        rows = np.zeros((len(null), block.rows.shape[1]))
        rows[:, :block.own.size] = null * lengths
    return rows
