"""Arrowhead least squares (bordered block diagonal): blocks of rows with unknowns of their own and unknowns that all share.

    minimise  sum over the blocks of |R own + S shared + r|^2  +  |R' shared + r'|^2

Each R is a triangle: the rows of a block are reflected until all but as many as it has own unknowns speak of shared
ones only; those go to the border, where they add up to the Schur complement (as its square root: nothing is squared). Time
and memory are linear in the number of blocks. Blocks of the same shape stand in one stack and are worked on together.

`arrowhead.c` does what a solver asks in every iteration; its twin `arrowhead_interpreted.py` serves where there is no compiler.
`block_qr.py` is the same elimination with its orthogonal factor, for statistics: what each row adds to the estimate.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from dynident._util.frozen import frozen
from dynident.codegen.c_source import kernel_text
from dynident.codegen.compiler import load_library, remembered
from dynident.codegen.pointers import KeepsPointers, address
from dynident.linalg import arrowhead_interpreted
from dynident.linalg.arrowhead_interpreted import householder, times
from dynident.linalg.compiled_arrowhead import CompiledArrowhead, PlacedBlocks
from dynident.linalg.rank import truncated_svd
from dynident.tolerances import SINGULAR_VALUE_ROUNDING

FIRM = 1e6  # times what is called hardly seen: rows that let nothing through


@frozen
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


@frozen
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


@frozen
class ArrowheadLeastSquares(KeepsPointers):
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
        return self._measures[0]

    @property
    def length(self) -> float:
        """Of the residual at step = 0, as far as any step can change it."""
        return self._measures[1]

    @cached_property
    def _measures(self) -> tuple[np.ndarray, float, bool]:
        """Lengths of the columns and of the residual, and whether a diagonal is small beside its column."""
        return self.loops.measures(self)

    @cached_property
    def loops(self) -> Any:
        return arrowhead_loops()

    @property
    def only_stack_pointers(self) -> tuple[Any, ...]:
        """As compiled loops take the only stack, or none at all."""
        return self.stacks[0].pointers if self.stacks else (0, 0, self.shared.size, None, None)

    @property
    def all_stacks(self) -> tuple[ArrowheadStack, ...]:
        return (*self.stacks, self.border_stack) if self.shared.size else self.stacks

    def residuals(self, step: np.ndarray) -> list[np.ndarray]:
        """What a step leaves of the rows, stack by stack (blocks, k) and the border last."""
        shared = step[self.shared]
        left = [times(s.triangle, step[s.own]) + s.border @ shared + s.residual for s in self.stacks]
        return [*left, self.last.triangle @ shared + self.last.residual]

    def predicted_reduction(self, step: np.ndarray) -> float:
        """How much a step lowers the sum of squares."""
        return self.length**2 - self.loops.squares_left(self, step)

    def gradient(self, step: np.ndarray) -> np.ndarray:
        """Half the gradient of the sum of squares after a step."""
        gradient = np.zeros(self.unknowns)
        left = self.residuals(step)
        gradient[self.shared] = self.last.triangle.T @ left[-1]
        for stack, residual in zip(self.stacks, left, strict=False):  # all but the last
            gradient[stack.own] = times(stack.triangle.swapaxes(1, 2), residual)
            gradient[self.shared] += np.tensordot(residual, stack.border, axes=2)
        return gradient

    def to_dense(self) -> np.ndarray:
        """All rows as one triangle over all unknowns, (unknowns, unknowns + 1): for who cannot use the blocks."""
        return householder(self.stacked_rows(), self.unknowns)[0]

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
        if not self._measures[2]:  # else singular values are worth a look
            return self
        lengths = np.where(self.column_norms > 0, self.column_norms, 1.0)  # whole columns: what is left may be rounding
        blocks = [(b.own, np.vstack([b.rows, _null_rows(b, lengths[b.own])])) for b in self.blocks]
        border = np.vstack([self.last.rows, _null_rows(self.last, lengths[self.shared])])
        return arrowhead(self.unknowns, self.shared, blocks, border)

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
                rows, below = householder(_fix_columns(ArrowheadBlock(own, rows), fixed, at, free, at[self.shared]), left.size)
                rest.append(below)
                lessened.append((left, rows))
            stacks += [ArrowheadStack(*part) for part in _group_by_shape(lessened)]
        shared = self.shared[free]
        last = ArrowheadBlock(shared, householder(np.vstack(rest), shared.size)[0])
        return ArrowheadLeastSquares(self.unknowns, tuple(stacks), last)

    def solve(self) -> np.ndarray:
        """The step with the smallest sum of squares, 0 for unknowns that do not occur; needs full column rank."""
        return self.loops.solve(self)

    def newton_step(self, gradient: np.ndarray) -> np.ndarray:
        """-(A'A)^-1 gradient, for the gradient of other residuals with the same rows A."""
        return self.loops.newton_step(self, gradient)


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
    stacks = [(np.ascontiguousarray(own, np.int64), rows) for own, rows in stacks]
    tops, last = arrowhead_loops().reduce(stacks, border, shared.size)
    made = tuple(ArrowheadStack(own, top) for (own, _), top in zip(stacks, tops, strict=True))
    return ArrowheadLeastSquares(unknowns, made, ArrowheadBlock(shared, last))


def condensed_arrowhead(unknowns: int, shared: np.ndarray, stacks: Sequence[PlacedBlocks], triangles: np.ndarray,
                        derivative: np.ndarray, prior: np.ndarray | None) -> ArrowheadLeastSquares:
    """An arrow from triangles (experiments, n + 1, n + 1) in (numbers | residual), their numbers times `derivative`
    (experiments, n); `prior`: weight and residual (unknowns, 2) of each unknown, zero for none."""
    tops, last = arrowhead_loops().condense(stacks, triangles, derivative, prior, shared)
    made = tuple(ArrowheadStack(each.own, top) for each, top in zip(stacks, tops, strict=True) if each.k)  # else all is shared
    return ArrowheadLeastSquares(unknowns, made, ArrowheadBlock(shared, last))


@remembered()
def arrowhead_loops() -> Any:
    """What works on whole stacks: compiled, or its twin where there is no compiler."""
    text = kernel_text("vectors.c", "householder.c", "linalg/arrowhead.c", "linalg/bounded_least_squares.c")
    library = load_library(f"arrowhead {hashlib.sha256(text.encode()).hexdigest()}", lambda: text)
    return arrowhead_interpreted if library is None else CompiledArrowhead(library)


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
