"""Sparse elimination: in which order are states eliminated so that few zeros fill, and which products are then left?

Markowitz' count with pivots on the diagonal, found once per model; `sparse_algebra.c` works the tables off, with a number or a
small block (the stages of a step) at each place. What it finds is checked there, as nothing is exchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

FEWEST_STATES = 6  # below, the whole matrix is unrolled and quicker
MOST_STATES = 100  # above, the tables are longer than what they save
WORTH = 0.25  # of the products of the whole matrix: more, and its straight loops are quicker


@dataclass(frozen=True)
class SparseElimination:
    """Pivots in their order, and places of the matrix with what fills in; each place is (row, column)."""

    pivots: tuple[int, ...]
    places: tuple[tuple[int, int], ...]
    below: tuple[tuple[int, ...], ...]  # rows below each pivot
    right: tuple[tuple[int, ...], ...]  # columns to the right of it

    @property
    def products(self) -> int:
        """How many blocks are multiplied."""
        return sum(len(rows) * len(columns) for rows, columns in zip(self.below, self.right, strict=True))

    def source(self, entries: Sequence[tuple[int, int]]) -> str:
        """C tables; `entries` are the places of the Jacobian in its own order."""
        at = {place: k for k, place in enumerate(self.places)}
        steps = list(zip(self.pivots, self.below, self.right, strict=True))
        products = [(at[i, j], at[i, k], at[k, j]) for k, rows, columns in steps for i in rows for j in columns]
        tables = {"PIVOT": self.pivots, "PIVOT_PLACE": [at[k, k] for k in self.pivots],
                  "BELOW_START": _starts(self.below), "BELOW_ROW": [i for rows in self.below for i in rows],
                  "BELOW_PLACE": [at[i, k] for k, rows, _ in steps for i in rows],
                  "RIGHT_START": _starts(self.right), "RIGHT_COLUMN": [j for columns in self.right for j in columns],
                  "RIGHT_PLACE": [at[k, j] for k, _, columns in steps for j in columns],
                  "PRODUCT_START": _starts([[0] * (len(r) * len(c)) for _, r, c in steps]),
                  "PRODUCT": [number for product in products for number in product],
                  "ENTRY_PLACE": [at[place] for place in entries], "PLACE_ROW": [i for i, _ in self.places],
                  "PLACE_COLUMN": [j for _, j in self.places]}
        lines = [f"static const int {name}[] = {{{', '.join(map(str, numbers)) or '0'}}};" for name, numbers in tables.items()]
        return "\n".join([f"#define PLACES {len(self.places)}", *lines])


def sparse_elimination(size: int, entries: Iterable[tuple[int, int]]) -> SparseElimination | None:
    """None where there is little to save."""
    if not FEWEST_STATES <= size <= MOST_STATES:
        return None
    rows = [{k} for k in range(size)]
    columns = [{k} for k in range(size)]
    for i, j in entries:
        rows[i].add(j)
        columns[j].add(i)
    left, found = set(range(size)), []
    while left:
        k = min(left, key=lambda k: ((len(columns[k] & left) - 1) * (len(rows[k] & left) - 1), k))
        left.remove(k)
        below, right = sorted(columns[k] & left), sorted(rows[k] & left)
        found.append((k, tuple(below), tuple(right)))
        for i in below:
            rows[i].update(right)
        for j in right:
            columns[j].update(below)
    places = tuple((i, j) for i in range(size) for j in sorted(rows[i]))
    order = SparseElimination(tuple(k for k, _, _ in found), places, tuple(below for _, below, _ in found),
                              tuple(right for _, _, right in found))
    whole = size * (size - 1) * (2 * size - 1) / 6
    return order if order.products < WORTH * whole else None


def _starts(groups: Iterable[Sequence[int]]) -> list[int]:
    starts = [0]
    for group in groups:
        starts.append(starts[-1] + len(group))
    return starts
