"""Arrowhead interpreted: `arrowhead.c` in NumPy, for computers without a C compiler and as its check."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg.lapack import dgeqrf, dtrtrs

from dynident.problem.noise import sum_of_squares
from dynident.tolerances import SINGULAR_VALUE

if TYPE_CHECKING:
    from dynident.linalg.arrowhead import ArrowheadLeastSquares
    from dynident.linalg.compiled_arrowhead import PlacedBlocks


def measures(arrow: ArrowheadLeastSquares) -> tuple[np.ndarray, float, bool]:
    """Lengths of the columns and of the residual, and whether a diagonal is small beside its column."""
    squares = np.zeros(arrow.unknowns)
    squares[arrow.shared] = np.sum(arrow.last.triangle**2, axis=0)
    for stack in arrow.stacks:
        squares[stack.own] = np.sum(stack.triangle**2, axis=1)
        squares[arrow.shared] += np.sum(stack.border**2, axis=(0, 1))
    parts = [*(s.residual for s in arrow.stacks), arrow.last.residual]
    lengths = np.sqrt(squares)
    small = has_small_diagonal(arrow, np.where(lengths > 0, lengths, 1.0))
    return lengths, math.sqrt(sum(sum_of_squares(part) for part in parts)), small


def squares_left(arrow: ArrowheadLeastSquares, step: np.ndarray) -> float:
    """What a step leaves of the sum of squares."""
    return sum(sum_of_squares(left) for left in arrow.residuals(step))


def has_small_diagonal(arrow: ArrowheadLeastSquares, lengths: np.ndarray) -> bool:
    """Whether a diagonal is small beside its column."""
    return any(bool(np.any(np.abs(np.diagonal(s.triangle, axis1=1, axis2=2)) < SINGULAR_VALUE * lengths[s.own]))
               for s in arrow.all_stacks)


def solve(arrow: ArrowheadLeastSquares) -> np.ndarray:
    """The step with the smallest sum of squares."""
    return _back_substitute(arrow, [-s.residual for s in arrow.stacks], -arrow.last.residual)


def newton_step(arrow: ArrowheadLeastSquares, gradient: np.ndarray) -> np.ndarray:
    """-(A'A)^-1 gradient."""
    ahead = [_triangular_solve(s.triangle, -gradient[s.own], transposed=True) for s in arrow.stacks]
    passed = -gradient[arrow.shared]
    for stack, part in zip(arrow.stacks, ahead, strict=True):
        if passed.size:
            passed = passed - np.tensordot(part, stack.border, axes=2)
    return _back_substitute(arrow, ahead, _triangular_solve(arrow.last.triangle[None], passed[None], transposed=True)[0])


def _back_substitute(arrow: ArrowheadLeastSquares, rights: list[np.ndarray], right: np.ndarray) -> np.ndarray:
    step = np.zeros(arrow.unknowns)
    shared = step[arrow.shared] = _triangular_solve(arrow.last.triangle[None], right[None])[0]
    for stack, own in zip(arrow.stacks, rights, strict=True):
        step[stack.own] = _triangular_solve(stack.triangle, own - stack.border @ shared)
    return step


def reduce(stacks: Sequence[tuple[np.ndarray, np.ndarray]], border: np.ndarray, shared: int
           ) -> tuple[list[np.ndarray], np.ndarray]:
    """Per stack as many rows as own unknowns, and the border with what is left."""
    tops, rest = [], [border]
    for own, rows in stacks:
        top, below = householder(rows, own.shape[1])
        tops.append(top)
        rest.append(below.reshape(-1, below.shape[2]))
    return tops, householder(np.vstack(rest), shared)[0] if shared else np.zeros((0, 1))


def condense(stacks: Sequence[PlacedBlocks], triangles: np.ndarray, derivative: np.ndarray, prior: np.ndarray | None,
             shared: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """The same for triangles in (numbers | residual), their numbers brought to the columns of their unknowns."""
    rows = triangles.copy()
    rows[:, :, :-1] *= derivative[:, None, :]
    placed = []
    for each in stacks:
        mine = rows[each.which]
        put = np.zeros((*mine.shape[:2], each.width))
        np.put_along_axis(put, each.columns[:, None, :], mine[:, :, each.numbers], axis=2)
        put[:, :, -1] = mine[:, :, -1]
        own = [] if prior is None else [prior_rows(prior[each.own], each.width)]
        placed.append((each.own, np.concatenate([put, *own], axis=1)))
    border = prior_rows((np.zeros((shared.size, 2)) if prior is None else prior[shared])[None], shared.size + 1)[0]
    return reduce(placed, border, shared.size)


def prior_rows(prior: np.ndarray, width: int) -> np.ndarray:
    """(blocks, k, width): the priors (blocks, k, weight and residual) of the first k columns."""
    rows = np.zeros((*prior.shape[:2], width))
    place = np.arange(prior.shape[1])
    rows[:, place, place], rows[:, :, -1] = prior[:, :, 0], prior[:, :, 1]
    return rows


def householder(rows: np.ndarray, own: int) -> tuple[np.ndarray, np.ndarray]:
    """The first `own` rows after reflection (missing ones are zero), and what is left for the columns beyond; of a block
    or of many."""
    R = _qr_triangle(rows.reshape(rows.shape[-2:]))[(None,) * (rows.ndim - 2)] if rows.ndim == 2 or len(rows) == 1 else (
        np.asarray(np.linalg.qr(rows, mode="r")))
    top = np.zeros((*rows.shape[:-2], own, rows.shape[-1]))
    top[..., :R.shape[-2], :] = R[..., :own, :]
    return top, R[..., own:, own:]


def times(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
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
