"""Arrow: least squares in which each block of rows has unknowns of its own beside those that all blocks share.

    minimise  sum over the blocks of |R own + S shared + r|^2  +  |R' shared + r'|^2

Each R is a triangle: the rows of a block are reflected until all but as many as it has own unknowns speak of shared
ones only; those go to the border. Time and memory are linear in the number of blocks, and nothing is squared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True, eq=False)
class Block:
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
class Arrow:
    """The whole problem in `unknowns` unknowns; those of no block and not shared do not occur in it."""

    unknowns: int
    blocks: tuple[Block, ...]
    last: Block  # the border: its own unknowns are the shared ones

    @property
    def shared(self) -> np.ndarray:
        return self.last.own

    @cached_property
    def column_norms(self) -> np.ndarray:
        squares = np.zeros(self.unknowns)
        for block in (*self.blocks, self.last):
            squares[block.own] += np.sum(block.triangle**2, axis=0)
        for block in self.blocks:
            squares[self.shared] += np.sum(block.border**2, axis=0)
        return np.sqrt(squares)

    @cached_property
    def length(self) -> float:
        """Of the residual at step = 0, as far as any step can change it."""
        return float(np.sqrt(sum(float(b.residual @ b.residual) for b in (*self.blocks, self.last))))

    def residuals(self, step: np.ndarray) -> list[np.ndarray]:
        """What a step leaves of the rows, block by block and the border last."""
        shared = step[self.shared]
        left = [b.triangle @ step[b.own] + b.border @ shared + b.residual for b in self.blocks]
        return [*left, self.last.triangle @ shared + self.last.residual]

    def fall(self, step: np.ndarray) -> float:
        """How much a step lowers the sum of squares."""
        return self.length**2 - sum(float(left @ left) for left in self.residuals(step))

    def slope(self, step: np.ndarray) -> np.ndarray:
        """Half the gradient of the sum of squares after a step."""
        slope = np.zeros(self.unknowns)
        left = self.residuals(step)
        for block, residual in zip((*self.blocks, self.last), left, strict=True):
            slope[block.own] += block.triangle.T @ residual
        for block, residual in zip(self.blocks, left, strict=False):  # all but the last
            slope[self.shared] += block.border.T @ residual
        return slope

    def damped(self, lengths: np.ndarray) -> Arrow:
        """With one more row per unknown: length * step."""
        blocks = [(b.own, np.vstack([b.rows, _diagonal(lengths[b.own], b.rows.shape[1])])) for b in self.blocks]
        border = np.vstack([self.last.rows, _diagonal(lengths[self.shared], self.last.rows.shape[1])])
        return arrow(self.unknowns, self.shared, blocks, border)

    def holding(self, held: np.ndarray, step: np.ndarray) -> Arrow:
        """The same rows in the free unknowns only, the held ones (a mask) resting where `step` has them."""
        if not np.any(held):
            return self
        resting = np.where(held, step, 0.0)
        free = ~held[self.shared]
        blocks, rest = [], [_held(self.last, held, resting, np.zeros(0, bool), np.zeros(0))]
        for block in self.blocks:
            rows = _held(block, held, resting, free, resting[self.shared])
            own = block.own[~held[block.own]]
            if own.size < block.own.size:
                rows, below = _reflected(rows, own.size)
                rest.append(below)
            blocks.append(Block(own, rows))
        shared = self.shared[free]
        return Arrow(self.unknowns, tuple(blocks), Block(shared, _reflected(np.vstack(rest), shared.size)[0]))

    def minimiser(self) -> np.ndarray:
        """The step with the smallest sum of squares, 0 for unknowns that do not occur; needs full column rank."""
        return self._substituted([-b.residual for b in self.blocks], -self.last.residual)

    def newton_step(self, gradient: np.ndarray) -> np.ndarray:
        """-(A'A)^-1 gradient, for the gradient of other residuals with the same rows A."""
        ahead = [np.linalg.solve(b.triangle.T, -gradient[b.own]) for b in self.blocks]
        passed = -gradient[self.shared]
        for block, part in zip(self.blocks, ahead, strict=True):
            passed = passed - block.border.T @ part
        return self._substituted(ahead, np.linalg.solve(self.last.triangle.T, passed))

    def _substituted(self, rights: list[np.ndarray], right: np.ndarray) -> np.ndarray:
        step = np.zeros(self.unknowns)
        shared = step[self.shared] = np.linalg.solve(self.last.triangle, right)
        for block, own in zip(self.blocks, rights, strict=True):
            step[block.own] = np.linalg.solve(block.triangle, own - block.border @ shared)
        return step


def arrow(unknowns: int, shared: np.ndarray, blocks: Iterable[tuple[np.ndarray, np.ndarray]], border: np.ndarray
          ) -> Arrow:
    """An arrow from any number of rows: per block its own unknowns and rows (m, own + shared + 1); border rows
    (m, shared + 1)."""
    tops, rest = [], [border]
    for own, rows in blocks:
        top, below = _reflected(rows, own.size)
        tops.append(Block(own, top))
        rest.append(below)
    return Arrow(unknowns, tuple(tops), Block(shared, _reflected(np.vstack(rest), shared.size)[0]))


def _reflected(rows: np.ndarray, own: int) -> tuple[np.ndarray, np.ndarray]:
    """The first `own` rows after reflection (missing ones are zero), and what is left for the columns beyond."""
    R = np.asarray(np.linalg.qr(rows, mode="r"))
    top = np.zeros((own, rows.shape[1]))
    top[:len(R)] = R[:own]
    return top, R[own:, own:]


def _diagonal(lengths: np.ndarray, width: int) -> np.ndarray:
    rows = np.zeros((lengths.size, width))
    np.fill_diagonal(rows, lengths)
    return rows


def _held(block: Block, held: np.ndarray, resting: np.ndarray, free_shared: np.ndarray, resting_shared: np.ndarray
          ) -> np.ndarray:
    """A block's rows without the held columns; what these contribute moves to the residual."""
    residual = block.residual + block.triangle @ resting[block.own] + block.border @ resting_shared
    return np.column_stack([block.triangle[:, ~held[block.own]], block.border[:, free_shared], residual])
