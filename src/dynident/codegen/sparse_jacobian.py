"""Sparse Jacobian: C text for the product K = J X, printed from the sparsity of J, and the order in which J is a band.

X and K stand row by row, `w` numbers in a row. J are the entries alone: those of the states first, row by row, then those of
the parameters. An entry that is always the same number is written as that number.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

WORTH_A_BAND = 0.5  # of the matrix; a wider band is not worth its indices
PRINTED_ROWS = 32  # up to so many rows each has its own loop; beyond, tables are shorter and the compiler is sooner done
FUSED_ROWS = 8  # up to so many rows share one loop, which reads each row of X once
PRINTED_ENTRIES = 2000  # of the parameters; the same


@dataclass(frozen=True, eq=False)
class SparseJacobian:
    """Derivatives by states and by parameters: their entries that are not always zero, as one column of expressions."""

    shape: tuple[int, int]  # rows, states
    entries: ca.SX  # (n, 1); none where C computes them (algebraic.c)
    states: tuple[tuple[int, int], ...]  # (row, column) of the first entries
    parameters: tuple[tuple[int, int], ...]  # of the others
    constants: tuple[float | None, ...]  # of each entry, where it is a number

    @classmethod
    def of(cls, value: ca.SX, states: ca.SX, parameters: ca.SX) -> SparseJacobian:
        by_states, by_parameters = ca.jacobian(value, states), ca.jacobian(value, parameters)
        entries = ca.vertcat(_nonzeros(by_states), _nonzeros(by_parameters))
        numbers = [entries[k] for k in range(entries.numel())]
        return cls((value.numel(), states.numel()), entries, _places(by_states), _places(by_parameters),
                   tuple(float(e) if e.is_constant() else None for e in numbers))

    @classmethod
    def of_all(cls, values: Sequence[ca.SX], states: ca.SX, parameters: ca.SX) -> list[SparseJacobian]:
        """Derivatives of several values in the same places: those where one of them may have an entry."""
        pairs = [(ca.jacobian(value, states), ca.jacobian(value, parameters)) for value in values]
        patterns = [functools.reduce(ca.Sparsity.unite, (pair[k].sparsity() for pair in pairs)) for k in (0, 1)]
        made = []
        for pair in pairs:
            whole = [_filled(matrix, pattern) for matrix, pattern in zip(pair, patterns, strict=True)]
            entries = ca.vertcat(*(_nonzeros(matrix) for matrix in whole))
            made.append(cls((values[0].numel(), states.numel()), entries, _places(whole[0]), _places(whole[1]),
                            (None,) * entries.numel()))
        return made

    @classmethod
    def of_matrix(cls, matrix: ca.SX) -> SparseJacobian:
        """A matrix that is a derivative already."""
        return cls(matrix.shape, _nonzeros(matrix), _places(matrix), (), (None,) * matrix.nnz())

    @property
    def size(self) -> int:
        """How many entries there are."""
        return len(self.states) + len(self.parameters)


def _filled(matrix: ca.SX, pattern: ca.Sparsity) -> ca.SX:
    """With an entry at each place of the pattern, which may be 0."""
    dense = ca.densify(matrix)
    rows, columns = pattern.get_triplet()
    return ca.SX(pattern, ca.vertcat(*[dense[r, c] for r, c in zip(rows, columns, strict=True)])) if rows else matrix


def _nonzeros(matrix: ca.SX) -> ca.SX:
    """Row by row."""
    return ca.reshape(ca.SX(matrix.T.nz[:]), matrix.nnz(), 1) if matrix.nnz() else ca.SX(0, 1)


def _places(matrix: ca.SX) -> tuple[tuple[int, int], ...]:
    columns, rows = matrix.T.sparsity().get_triplet()
    return tuple(zip(rows, columns, strict=True))


def product_source(name: str, jacobian: SparseJacobian, qualifier: str) -> str:
    """`name`(J, X, w, K): K = J_x X; `name`_parameters(J, w, m, K): add J_p to K from column m on; `name`_place: write it."""
    return "\n".join([_states_source(name, jacobian, qualifier),
                      _parameters_source(name, jacobian, qualifier, "parameters", "+="),
                      _parameters_source(name, jacobian, qualifier, "place", "=")])


def _states_source(name: str, jacobian: SparseJacobian, qualifier: str) -> str:
    rows = jacobian.shape[0]
    head = f"{qualifier} void {name}(const double *restrict J, const double *restrict X, int w, double *restrict K) {{"
    if rows > PRINTED_ROWS:
        starts = [sum(row < r for row, _ in jacobian.states) for r in range(rows + 1)]
        columns = [column for _, column in jacobian.states]
        return "\n".join([int_table(f"{name}_start", starts), int_table(f"{name}_column", columns), head,
                          f"  sparse_product({rows}, {name}_start, {name}_column, J, X, w, K);", "}"])
    lines = [f"K[{row} * w + j] = {row_sum(jacobian, row)};" for row in range(rows)]
    if rows <= FUSED_ROWS:
        body = ["  for (j = 0; j < w; j++) {", *(f"    {line}" for line in lines), "  }"]
    else:
        body = [f"  for (j = 0; j < w; j++) {line}" for line in lines]
    return "\n".join([head, "  int j;", *body, "}"])


def row_sum(jacobian: SparseJacobian, row: int, entry: str = "J[{}]", factor: str = "X[{} * w + j]") -> str:
    """One row of J X, by how an entry and a number of X are written."""
    terms = [_term(jacobian.constants[k], entry.format(k), factor.format(column))
             for k, (own, column) in enumerate(jacobian.states) if own == row]
    return " + ".join(terms) or "0"


def _term(constant: float | None, entry: str, factor: str) -> str:
    if constant == 1.0:
        return factor
    return f"{entry if constant is None else f'({constant!r})'} * {factor}"


def _parameters_source(name: str, jacobian: SparseJacobian, qualifier: str, does: str, sign: str) -> str:
    first = len(jacobian.states)
    head = f"{qualifier} void {name}_{does}(const double *restrict J, int w, int m, double *restrict K) {{"
    if len(jacobian.parameters) > PRINTED_ENTRIES:
        rows, columns = ([place[i] for place in jacobian.parameters] for i in (0, 1))
        row, column = f"{name}_{does}_row", f"{name}_{does}_column"
        return "\n".join([int_table(row, rows), int_table(column, columns), head, "  int q;",
                          f"  for (q = 0; q < {len(rows)}; q++) K[{row}[q] * w + m + {column}[q]] {sign} J[{first} + q];", "}"])
    return "\n".join([head, *(f"  K[{row} * w + m + {column}] {sign} J[{first + k}];"
                              for k, (row, column) in enumerate(jacobian.parameters)), "}"])


def int_table(name: str, numbers: Sequence[int]) -> str:
    """C text of a constant array; one without numbers holds a 0 that nobody reads."""
    return f"static const int {name}[] = {{{', '.join(str(n) for n in numbers) or '0'}}};"


@dataclass(frozen=True)
class BandOrder:
    """The place of each state, and how far entries lie below and above the diagonal then."""

    place: tuple[int, ...]
    lower: int
    upper: int


def band_order(size: int, places: Sequence[tuple[int, int]], squared: bool = False) -> BandOrder:
    """By reverse Cuthill-McKee; as they stand, in a full band, where that is not narrow. `squared`: of the square."""
    full = BandOrder(tuple(range(size)), max(size - 1, 0), max(size - 1, 0))
    if size < 3:
        return full
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    rows, columns = np.array([*places, *((i, i) for i in range(size))]).T
    pattern = coo_array((np.ones(rows.size), (rows, columns)), shape=(size, size)).tocsr()
    pattern = pattern @ pattern if squared else pattern
    order = reverse_cuthill_mckee((pattern + pattern.T).tocsr())
    place = np.empty(size, int)
    place[order] = np.arange(size)
    entries = pattern.tocoo()
    below = place[entries.row] - place[entries.col]
    lower, upper = int(max(below.max(), 0)), int(max((-below).max(), 0))
    if 2 * lower + upper + 1 > WORTH_A_BAND * size:
        return full
    return BandOrder(tuple(int(k) for k in place), lower, upper)
