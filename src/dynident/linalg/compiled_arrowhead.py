"""Compiled arrowhead: the loops of `arrowhead.c` for stacks in NumPy arrays."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dynident.codegen.pointers import KeepsPointers, address, addresses
from dynident.linalg.arrowhead_interpreted import prior_rows
from dynident.tolerances import SINGULAR_VALUE

if TYPE_CHECKING:
    from dynident.linalg.arrowhead import ArrowheadLeastSquares


@dataclass(frozen=True, eq=False)
class PlacedBlocks(KeepsPointers):
    """Which of many triangles in (numbers | residual) make a stack, and where in its rows their numbers stand."""

    which: np.ndarray  # (blocks,) int64
    own: np.ndarray  # (blocks, k) int64: the unknowns of each alone
    numbers: np.ndarray  # (count,) int64: those that follow an unknown at all, the own ones first
    columns: np.ndarray  # (blocks, count) int64: of each
    width: int  # own and shared unknowns, and the residual

    @property
    def blocks(self) -> int:
        return self.own.shape[0]

    @property
    def k(self) -> int:
        return self.own.shape[1]

    @cached_property
    def pointers(self) -> list[int]:
        return addresses(self.which, self.numbers, self.columns, self.own)


class CompiledArrowhead:
    """`arrowhead.c` for stacks in NumPy arrays; its functions are those of `arrowhead_interpreted.py`."""

    def __init__(self, library: ctypes.CDLL):
        pointer: Any = ctypes.c_void_p
        stack: list[Any] = [ctypes.c_longlong, ctypes.c_int, ctypes.c_int, pointer]
        self.library = library
        library.dynident_arrowhead_reduce.argtypes = [ctypes.c_longlong, *[ctypes.c_int] * 3, *[pointer] * 5]
        library.dynident_arrowhead_condense.argtypes = [ctypes.c_longlong, pointer, *[ctypes.c_int] * 3, pointer, pointer,
                                                        ctypes.c_int, *[pointer] * 6]
        library.dynident_arrowhead_solve.argtypes = [*stack, *[pointer] * 4]
        library.dynident_arrowhead_solve_transposed.argtypes = [*stack, pointer, pointer]
        library.dynident_arrowhead_small_diagonal.argtypes = [*stack, pointer, pointer, ctypes.c_double]
        library.dynident_arrowhead_measures.argtypes = [*stack, *[pointer] * 3, ctypes.c_int, ctypes.c_double, *[pointer] * 2]
        library.dynident_damped_step.argtypes = [*stack, *[pointer] * 3, ctypes.c_int, *[pointer] * 3, ctypes.c_double,
                                                 *[pointer] * 4]
        for call in (library.dynident_arrowhead_squares, library.dynident_arrowhead_left):
            call.argtypes, call.restype = [*stack, *[pointer] * 3], ctypes.c_double

    def measures(self, arrow: ArrowheadLeastSquares) -> tuple[np.ndarray, float, bool]:
        if len(arrow.stacks) <= 1:  # in one call
            lengths, residual = np.empty(arrow.unknowns), ctypes.c_double()
            small = self.library.dynident_arrowhead_measures(
                *arrow.only_stack_pointers, *arrow.border_stack.pointers[3:], arrow.unknowns, SINGULAR_VALUE, address(lengths),
                ctypes.addressof(residual))
            return lengths, residual.value, bool(small)
        squares = np.zeros(arrow.unknowns)
        call, shared, into = self.library.dynident_arrowhead_squares, arrow.border_stack.pointers[4], address(squares)
        residual = sum(call(*stack.pointers, shared, into) for stack in arrow.all_stacks)
        lengths = np.sqrt(squares)
        return lengths, math.sqrt(residual), self._has_small_diagonal(arrow, np.where(lengths > 0, lengths, 1.0))

    def squares_left(self, arrow: ArrowheadLeastSquares, step: np.ndarray) -> float:
        step = np.ascontiguousarray(step)
        call, shared, at = self.library.dynident_arrowhead_left, arrow.border_stack.pointers[4], address(step)
        return sum(call(*stack.pointers, shared, at) for stack in arrow.all_stacks)

    def _has_small_diagonal(self, arrow: ArrowheadLeastSquares, lengths: np.ndarray) -> bool:
        call, at = self.library.dynident_arrowhead_small_diagonal, address(lengths)
        return any(call(*stack.pointers, at, SINGULAR_VALUE) for stack in arrow.all_stacks)

    def solve(self, arrow: ArrowheadLeastSquares) -> np.ndarray:
        return self._back_substitute(arrow, [None] * (1 + len(arrow.stacks)))

    def newton_step(self, arrow: ArrowheadLeastSquares, gradient: np.ndarray) -> np.ndarray:
        call, rights = self.library.dynident_arrowhead_solve_transposed, [-gradient[s.own] for s in arrow.stacks]
        passed = -gradient[arrow.shared]
        for stack, right in zip((*arrow.stacks, arrow.border_stack), (*rights, passed), strict=True):
            if call(*stack.pointers[:4], address(right), address(passed)):
                raise np.linalg.LinAlgError("Singular matrix")
        return self._back_substitute(arrow, [passed, *rights])

    def _back_substitute(self, arrow: ArrowheadLeastSquares, rights: Sequence[np.ndarray | None]) -> np.ndarray:
        """For right-hand sides of the border and of each stack; None: minus the residuals."""
        step = np.zeros(arrow.unknowns)
        call, shared, into = self.library.dynident_arrowhead_solve, arrow.border_stack.pointers[4], address(step)
        for stack, right in zip((arrow.border_stack, *arrow.stacks), rights, strict=True):
            if call(*stack.pointers, shared, None if right is None else address(right), into):
                raise np.linalg.LinAlgError("Singular matrix")
        return step

    def reduce(self, stacks: Sequence[tuple[np.ndarray, np.ndarray]], border_rows: np.ndarray, shared: int
               ) -> tuple[list[np.ndarray], np.ndarray]:
        call, border, tops = self.library.dynident_arrowhead_reduce, np.zeros((shared + 1, shared + 1)), []
        of_border = [(np.zeros((1, 0), np.int64), border_rows[None])] if shared else []
        for own, rows in (*stacks, *of_border):
            (blocks, k), rows = own.shape, np.ascontiguousarray(rows, float)
            tops.append(np.empty((blocks, k, rows.shape[2])))
            if call(blocks, rows.shape[1], k, shared, address(rows), address(own), None, address(tops[-1]), address(border)):
                raise MemoryError("the elimination of unknowns is out of memory")
        return tops[:len(stacks)], border[:shared]

    def condense(self, stacks: Sequence[PlacedBlocks], triangles: np.ndarray, derivative: np.ndarray, prior: np.ndarray | None,
                 shared: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        call, s, tops = self.library.dynident_arrowhead_condense, shared.size, []
        border = np.zeros((s + 1, s + 1))
        derivative = np.ascontiguousarray(derivative)
        given = None if prior is None else address(prior)
        of_rows = address(triangles), address(derivative)
        for each in stacks:
            tops.append(top := np.empty((each.blocks, each.k, each.k + s + 1)))
            which, numbers, columns, own = each.pointers
            if call(each.blocks, which, triangles.shape[1] - 1, each.k, s, *of_rows, each.numbers.size, numbers, columns, own,
                    given, address(top), address(border)):
                raise MemoryError("the elimination of unknowns is out of memory")
        if prior is not None and s:
            rows = prior_rows(prior[None, shared], s + 1)
            if self.library.dynident_arrowhead_reduce(1, s, 0, s, address(rows), 0, None, None, address(border)):
                raise MemoryError("the elimination of unknowns is out of memory")
        return tops, border[:s]
