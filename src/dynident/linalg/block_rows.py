"""Block rows: a tall matrix, each block of whose rows is zero outside of a few columns, as of experiments with own unknowns.

Memory is that of the entries, not rows times columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Rows that are zero outside of these columns."""

    rows: np.ndarray  # (m,) of the matrix
    columns: np.ndarray  # (k,)
    entries: np.ndarray  # (m, k)


@dataclass(frozen=True, eq=False)
class BlockRows:
    """The matrix: every row belongs to one block."""

    shape: tuple[int, int]
    blocks: tuple[RowBlock, ...]

    @classmethod
    def of(cls, matrix: np.ndarray, experiment: np.ndarray | None = None) -> BlockRows:
        """A dense matrix by experiments (rows,); rows of none (-1), and all rows without it, stand for themselves."""
        matrix = np.asarray(matrix, float)
        if experiment is None:
            return cls(matrix.shape, (RowBlock(np.arange(len(matrix)), np.arange(matrix.shape[1]), matrix),))
        found = [np.flatnonzero(experiment == e) for e in np.unique(experiment[experiment >= 0])]
        found += [np.array([row]) for row in np.flatnonzero(experiment < 0)]
        blocks = []
        for rows in found:
            columns = np.flatnonzero(np.any(matrix[rows] != 0, axis=0))
            blocks.append(RowBlock(rows, columns, matrix[np.ix_(rows, columns)]))
        return cls(matrix.shape, tuple(blocks))

    def dense(self) -> np.ndarray:
        matrix = np.zeros(self.shape)
        for block in self.blocks:
            matrix[np.ix_(block.rows, block.columns)] = block.entries
        return matrix

    def with_columns(self, factors: np.ndarray) -> BlockRows:
        """Each column (columns,) times its factor."""
        return BlockRows(self.shape, tuple(RowBlock(b.rows, b.columns, b.entries * factors[b.columns]) for b in self.blocks))

    def with_rows(self, factors: np.ndarray) -> BlockRows:
        """Each row (rows,) times its factor."""
        return BlockRows(self.shape, tuple(RowBlock(b.rows, b.columns, b.entries * factors[b.rows, None]) for b in self.blocks))

    def followed_by(self, matrix: np.ndarray) -> BlockRows:
        """With more rows at the end, each a block of its own."""
        first = self.shape[0]
        more = tuple(RowBlock(np.array([first + i]), own, row[None, own])
                     for i, row in enumerate(matrix) for own in [np.flatnonzero(row)])
        return BlockRows((first + len(matrix), self.shape[1]), self.blocks + more)

    def without_row(self, row: int) -> BlockRows:
        """With zeros in one row."""
        def kept(block: RowBlock) -> RowBlock:
            return RowBlock(block.rows, block.columns, np.where((block.rows == row)[:, None], 0.0, block.entries))

        return BlockRows(self.shape, tuple(kept(b) if row in b.rows else b for b in self.blocks))

    @cached_property
    def column_peaks(self) -> np.ndarray:
        """(columns,) largest magnitudes."""
        peaks = np.zeros(self.shape[1])
        for b in self.blocks:
            peaks[b.columns] = np.maximum(peaks[b.columns], np.max(np.abs(b.entries), axis=0, initial=0.0))
        return peaks

    @cached_property
    def column_lengths(self) -> np.ndarray:
        """(columns,) by which each is divided to have length one; 1 for a column that is zero."""
        safe = np.where(self.column_peaks > 0, self.column_peaks, 1.0)  # first: 1e-200 squared would vanish
        squares = np.zeros(self.shape[1])
        for b in self.blocks:
            squares[b.columns] += np.sum((b.entries / safe[b.columns]) ** 2, axis=0)
        lengths = safe * np.sqrt(squares)
        return np.where(lengths == 0, 1.0, lengths)

    @cached_property
    def row_squares(self) -> np.ndarray:
        """(rows,) sums of squares: of an orthonormal basis, the leverages."""
        squares = np.zeros(self.shape[0])
        for b in self.blocks:
            squares[b.rows] = np.einsum("ij,ij->i", b.entries, b.entries)
        return squares

    def met(self, products: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Products (columns, columns) of each block, summed over the blocks as far as they have columns in common."""
        users = np.zeros(self.shape[1], int)
        for b in self.blocks:
            users[b.columns] += 1
        place, count = np.cumsum(users > 1) - 1, int(np.sum(users > 1))
        total = np.zeros((count, count))
        inside = [(users[b.columns] > 1, place[b.columns[users[b.columns] > 1]]) for b in self.blocks]
        for (mine, there), product in zip(inside, products, strict=True):
            total[np.ix_(there, there)] += product[np.ix_(mine, mine)]
        found = []
        for (mine, there), product in zip(inside, products, strict=True):
            found.append(product.copy())
            found[-1][np.ix_(mine, mine)] = total[np.ix_(there, there)]
        return found

    def part(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Columns and entries of rows that lie in one block."""
        block = self.blocks[self._places[0][rows[0]]]
        return block.columns, block.entries[self._places[1][rows]]

    @property
    def block_of(self) -> np.ndarray:
        """(rows,) the block of each."""
        return self._places[0]

    @cached_property
    def _places(self) -> tuple[np.ndarray, np.ndarray]:
        """(rows,) the block of each, and its place there."""
        which, where = np.zeros(self.shape[0], int), np.zeros(self.shape[0], int)
        for i, b in enumerate(self.blocks):
            which[b.rows], where[b.rows] = i, np.arange(b.rows.size)
        return which, where


def stacked(parts: Sequence[tuple[np.ndarray, np.ndarray]], columns: int) -> BlockRows:
    """Parts (columns, entries) one below the other."""
    blocks, at = [], 0
    for own, entries in parts:
        blocks.append(RowBlock(np.arange(at, at + len(entries)), own, entries))
        at += len(entries)
    return BlockRows((at, columns), tuple(blocks))
