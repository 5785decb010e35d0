"""Block QR: the QR factorization of an arrowhead, for statistics, and what follows from it without a dense matrix.

Own unknowns leave by reflections within the rows of their experiment, the others meet afterwards: the elimination of
`arrowhead.py` with its orthogonal factor, which says what each row adds to the estimate. Time and memory are linear in the
number of experiments; the covariance is kept by blocks too, and has a number for every pair of unknowns once it is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg.lapack import dtrtri

from dynident.linalg.block_rows import BlockRows, RowBlock
from dynident.tolerances import RANK_MARGIN


@dataclass(frozen=True, eq=False)
class QRPart:
    """One experiment: its own unknowns, and as many rows of the triangle in these and in the shared ones."""

    own: np.ndarray  # (k,) columns
    first: int  # of its columns of the basis; after them come those that all share
    triangle: np.ndarray  # (m, k); m = k unless it has too few rows
    border: np.ndarray  # (m, shared)


@dataclass(frozen=True, eq=False)
class BlockQR:
    """matrix = basis @ triangle, the basis orthonormal and zero where it can be."""

    basis: BlockRows  # (rows, k); a block per part, its columns of the basis the own ones and then the shared ones
    parts: tuple[QRPart, ...]
    shared: np.ndarray  # (s,) columns that touch several experiments, or none
    last: np.ndarray  # (m, s) the border's triangle

    @cached_property
    def triangle(self) -> np.ndarray:
        """(k, columns), dense: for who cannot use the parts."""
        factor = np.zeros((self.basis.shape[1], self.shared.size + sum(p.own.size for p in self.parts)))
        for p in self.parts:
            rows = slice(p.first, p.first + len(p.triangle))
            factor[rows, p.own], factor[rows, self.shared] = p.triangle, p.border
        factor[factor.shape[0] - len(self.last):, self.shared] = self.last
        return factor

    def score_covariance(self, variance: np.ndarray) -> ScoreCovariance:
        """Of basis' @ errors, for independent errors of the given variances (rows,)."""
        return ScoreCovariance(self, tuple(b.entries.T @ (variance[b.rows, None] * b.entries) for b in self.basis.blocks))

    def inverse(self, tolerance: float) -> TriangleInverse | None:
        """Of the triangle, where its columns of length one are independent beyond doubt; else nothing.

        The smallest singular value is at least 1 / |inverse|, the largest at most the root of the number of columns: no
        singular value decomposition is needed to see that all are well above the tolerance.
        """
        if any(len(p.triangle) < p.own.size for p in self.parts) or len(self.last) < self.shared.size:
            return None
        diagonals = [np.diagonal(R) for R in (*(p.triangle for p in self.parts), self.last)]
        if not all(np.all(np.isfinite(d) & (d != 0)) for d in diagonals):
            return None
        border = _inverse_triangle(self.last)
        own = tuple(_inverse_triangle(p.triangle) for p in self.parts)
        across = tuple(-(inverse @ (p.border @ border)) for inverse, p in zip(own, self.parts, strict=True))
        squares = sum(float(np.sum(part * part)) for part in (border, *own, *across))
        unknowns = self.shared.size + sum(p.own.size for p in self.parts)
        certain = RANK_MARGIN * tolerance * np.sqrt(max(unknowns, 1) * squares)
        return TriangleInverse(self, own, across, border) if certain < 1 else None  # infinite or NaN: not certain


@dataclass(frozen=True, eq=False)
class ScoreCovariance:
    """Covariance of basis' @ errors (k, k), by the blocks of the basis: experiments meet in the shared columns only."""

    qr: BlockQR
    blocks: tuple[np.ndarray, ...]  # per block of the basis (columns, columns)

    def dense(self) -> np.ndarray:
        columns = self.qr.basis.shape[1]
        total = np.zeros((columns, columns))
        for block, own in zip(self.qr.basis.blocks, self.blocks, strict=True):
            total[np.ix_(block.columns, block.columns)] += own
        return total


@dataclass(frozen=True, eq=False)
class TriangleInverse:
    """The inverse of a triangle by its parts: own unknowns = own @ own scores + across @ shared scores."""

    qr: BlockQR
    own: tuple[np.ndarray, ...]  # per part (k, k)
    across: tuple[np.ndarray, ...]  # per part (k, s)
    border: np.ndarray  # (s, s)

    def dense(self) -> np.ndarray:
        """(columns, k)."""
        inverse = np.zeros((len(gain := self.shared_gain), self.qr.basis.shape[1]))
        last = slice(inverse.shape[1] - len(self.border), None)
        inverse[:, last] = gain
        for p, own in zip(self.qr.parts, self.own, strict=True):
            inverse[p.own, p.first:p.first + p.own.size] = own
        return inverse

    @cached_property
    def shared_gain(self) -> np.ndarray:
        """(columns, s): how each unknown follows the shared scores."""
        gain = np.zeros((self.qr.shared.size + sum(p.own.size for p in self.qr.parts), self.qr.shared.size))
        for p, across in zip(self.qr.parts, self.across, strict=True):
            gain[p.own] = across
        gain[self.qr.shared] = self.border
        return gain

    def columns(self, some: np.ndarray) -> np.ndarray:
        """(columns, some) of the dense inverse."""
        gain, first = self.shared_gain, self.qr.basis.shape[1] - self.qr.shared.size
        found = np.zeros((len(gain), some.size))
        late = some >= first
        found[:, late] = gain[:, some[late] - first]
        for i in np.unique(self._part_of[some[~late]]):
            p = self.qr.parts[i]
            mine = ~late & (some >= p.first) & (some < p.first + p.own.size)
            found[np.ix_(p.own, mine)] = self.own[i][:, some[mine] - p.first]
        return found

    @cached_property
    def _part_of(self) -> np.ndarray:
        """(k - s,) the part that each own column of the basis belongs to."""
        return np.repeat(np.arange(len(self.qr.parts)), [p.own.size for p in self.qr.parts])

    def sandwich(self, scores: ScoreCovariance, lengths: np.ndarray | None = None) -> SandwichBlocks:
        """inverse @ scores @ inverse' (columns, columns), symmetric; each unknown over its length."""
        gain, s = self.shared_gain, self.qr.shared.size
        crossed = np.zeros_like(gain)  # own gain times the covariance of own and shared scores
        both = np.zeros((s, s))
        unit = np.ones(len(gain)) if lengths is None else lengths
        own_parts = []
        for p, own, block in zip(self.qr.parts, self.own, scores.blocks, strict=True):
            k = p.own.size
            crossed[p.own] = own @ block[:k, k:]
            both += block[k:, k:]
            covariance = own @ block[:k, :k] @ own.T
            own_parts.append((p.own, 0.5 * (covariance + covariance.T) / unit[p.own] / unit[p.own, None]))
        gain, crossed = gain / unit[:, None], crossed / unit[:, None]
        return SandwichBlocks(gain, 0.5 * gain @ (both + both.T) + crossed, crossed, tuple(own_parts))


@dataclass(frozen=True, eq=False)
class SandwichBlocks:
    """A covariance of all unknowns that is linear in their number: left @ gain' + gain @ crossed' + the own blocks."""

    gain: np.ndarray  # (columns, s)
    left: np.ndarray  # (columns, s)
    crossed: np.ndarray  # (columns, s)
    own: tuple[tuple[np.ndarray, np.ndarray], ...]  # columns (k,) and covariance (k, k)

    def diagonal(self) -> np.ndarray:
        """(columns,) variances."""
        return self._diagonal

    @cached_property
    def _diagonal(self) -> np.ndarray:
        variances = np.sum((self.left + self.crossed) * self.gain, axis=1)
        for columns, covariance in self.own:
            variances[columns] += np.diagonal(covariance)
        return np.asarray(variances)

    def dense(self) -> np.ndarray:
        """(columns, columns): a number for every pair, made once."""
        return self._dense

    @cached_property
    def _dense(self) -> np.ndarray:
        total = np.hstack([self.left, self.gain]) @ np.hstack([self.gain, self.crossed]).T
        for columns, covariance in self.own:
            total[np.ix_(columns, columns)] += covariance
        total += total.T
        total *= 0.5
        return total


class DenseOnDemand:
    """A field for a matrix that may be given by its blocks: the number for every pair is made when somebody asks for it."""

    def __init__(self, *default: None) -> None:
        self._default = default  # empty: the field has none

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            if not self._default:
                raise AttributeError(self._name)  # so a dataclass hears that there is no default
            return self._default[0]
        held = vars(instance)[self._name]
        return held.dense() if isinstance(held, SandwichBlocks) else held

    def __set__(self, instance: Any, value: np.ndarray | SandwichBlocks | None) -> None:
        vars(instance)[self._name] = value


def by_blocks(*default: None) -> Any:
    """Such a field, for its user an array."""
    return DenseOnDemand(*default)


def block_qr(matrix: BlockRows, experiment: np.ndarray) -> BlockQR:
    """The factors of a matrix; `experiment` (rows,) says to which one each row belongs, -1 for rows of none.

    A column that touches one experiment only (its initial states, parameters of its own) is reflected within its rows.
    """
    owner, homes = _owners(matrix, experiment)
    shared = np.flatnonzero(owner < 0)
    place = np.zeros(owner.size, int)  # of a column in the rows of its experiment
    place[shared] = np.arange(shared.size)
    owned: dict[int, np.ndarray] = {}
    order = np.argsort(owner, kind="stable")
    for own in np.split(order, np.flatnonzero(np.diff(owner[order])) + 1):
        if own.size and owner[own[0]] >= 0:
            owned[int(owner[own[0]])] = own
            place[own] = np.arange(own.size)
    factored, parts, first = [], [], 0
    for home in sorted(homes):
        own = owned.get(home, np.zeros(0, int))
        rows, local = _local_rows([matrix.blocks[i] for i in homes[home]], home, owner, place, own.size, shared.size)
        Q, R = np.linalg.qr(local)
        top = min(own.size, len(R))
        factored.append((rows, Q, R[top:, own.size:]))
        parts.append(QRPart(own, first, R[:top, :own.size], R[:top, own.size:]))
        first += top
    meeting, last = np.linalg.qr(np.vstack([np.zeros((0, shared.size)), *[rest for *_, rest in factored]]))
    columns = first + len(last)
    blocks, below = [], 0
    for part, (rows, Q, rest) in zip(parts, factored, strict=True):
        top = len(part.triangle)
        entries = np.hstack([Q[:, :top], Q[:, top:] @ meeting[below:below + len(rest)]])
        blocks.append(RowBlock(rows, np.append(np.arange(part.first, part.first + top), np.arange(first, columns)), entries))
        below += len(rest)
    return BlockQR(BlockRows((matrix.shape[0], columns), tuple(blocks)), tuple(parts), shared, last)


def _local_rows(blocks: list[RowBlock], home: int, owner: np.ndarray, place: np.ndarray, own: int, shared: int
                ) -> tuple[np.ndarray, np.ndarray]:
    """Rows of one experiment in its own columns and, after them, the shared ones; what stands in others is zero."""
    rows = np.concatenate([b.rows for b in blocks])
    local, at = np.zeros((rows.size, own + shared)), 0
    for b in blocks:
        mine = (owner[b.columns] == home) | (owner[b.columns] < 0)
        places = place[b.columns[mine]] + own * (owner[b.columns[mine]] < 0)
        local[at:at + b.rows.size, places] = b.entries[:, mine]
        at += b.rows.size
    return rows, local


def _owners(matrix: BlockRows, experiment: np.ndarray) -> tuple[np.ndarray, dict[int, list[int]]]:
    """Per column the one experiment that it touches (-1: several or none), and where each block is reflected."""
    owner, users = np.full(matrix.shape[1], -1), np.zeros(matrix.shape[1], int)
    homes: dict[int, list[int]] = {}
    loose = []
    for i, b in enumerate(matrix.blocks):
        if not b.rows.size:
            continue
        e = int(experiment[b.rows[0]])
        if e < 0:
            loose.append(i)
            continue
        homes.setdefault(e, []).append(i)
        used = b.columns[np.any(b.entries != 0, axis=0)]
        users[used] += owner[used] != e  # several blocks may be of one experiment
        owner[used] = e
    owner[users != 1] = -1
    for i in loose:
        b = matrix.blocks[i]
        touched = b.columns[np.any(b.entries != 0, axis=0)]
        mine = np.unique(owner[touched][owner[touched] >= 0])
        if mine.size > 1:  # a row that ties experiments together: what it ties is shared
            owner[touched] = -1
        homes.setdefault(int(mine[0]) if mine.size == 1 else -1, []).append(i)
    return owner, homes


def _inverse_triangle(R: np.ndarray) -> np.ndarray:
    if R.shape == (0, 0):
        return R
    return np.asarray(dtrtri(R)[0])
