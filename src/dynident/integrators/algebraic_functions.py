"""Algebraic functions: what `integrators/algebraic.c` needs of a model: functions, and where their entries belong.

The eliminated rate has the Jacobian df/dx - df/dz (dg/dz)^-1 dg/dx. Its entries are computed in C; here is printed which of
them there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import casadi as ca
import numpy as np

from dynident.codegen.sparse_jacobian import SparseJacobian, int_table
from dynident.integrators.step_functions import symbols
from dynident.models.algebraic import AlgebraicSystem
from dynident.models.equations import EquationModel
from dynident.tolerances import ALGEBRAIC_ZERO


@dataclass(frozen=True, eq=False)
class EliminatedFunctions:
    """The functions that `algebraic.c` names, the Jacobians of the eliminated model, and the tables between them."""

    plain: tuple[ca.Function, ...]
    derivatives: tuple[ca.Function, ...]
    rate: SparseJacobian
    output: SparseJacobian
    tables: str


@dataclass(frozen=True, eq=False)
class _Slopes:
    """Derivatives of one function by states and parameters, by z, and of both where z is eliminated."""

    direct: SparseJacobian
    by_z: ca.SX
    eliminated: SparseJacobian

    def results(self, value: ca.SX, zero: SparseJacobian, states_only: bool) -> list[ca.SX]:
        own, g = self.direct.entries, zero.entries
        if states_only:
            own, g = own[:len(self.direct.states)], g[:len(zero.states)]
        links = SparseJacobian.of_matrix(self.by_z).entries
        return [value, own, links, g]


def eliminated_functions(model: EquationModel, system: AlgebraicSystem, free: tuple[int, ...], derivatives: bool
                         ) -> EliminatedFunctions:
    """Derivatives by the states and the free parameters; without, only those that an implicit step needs."""
    s = symbols(model, ca.SX)
    z = ca.SX.sym("z", len(system.names))
    place, reduced = [s["t"], s["x"], z, s["u0"], s["p"]], [s["t"], s["x"], s["u0"], s["p"]]
    by = s["p"][list(free), 0] if derivatives else ca.SX(0, 1)
    g, f, y = system.residual(*place), system.motion(*place), system.measured(*place)
    lack, matrix = system.linear_form(*place)
    zero = SparseJacobian.of(g, s["x"], by)
    seen = s["x"] if derivatives else ca.SX(0, 1)
    rate, output = _slopes(f, z, s["x"], by, matrix, zero), _slopes(y, z, seen, by, matrix, zero)
    entries = SparseJacobian.of_matrix(ca.tril(matrix) if system.symmetric else matrix)
    plain = [_function("dyn_zero", place, [ca.densify(lack), entries.entries]), _function("dyn_motion", place, [f]),
             _function("dyn_guess", reduced, [system.guess(*reduced)]),
             _function("dyn_motion_x", place, rate.results(f, zero, True))]
    more = [_function("dyn_motion_q", place, rate.results(f, zero, False))]
    with_z = output.by_z.nnz() > 0
    if with_z:
        plain.append(_function("dyn_seen", place, [y]))
        more.append(_function("dyn_seen_q", place, output.results(y, zero, False)))
    else:
        plain.append(_function("dyn_out", reduced, [y]))
        more.append(_function("dyn_out_q", reduced, [y, output.direct.entries]))
    sizes = {"NA": len(system.names), "NM": len(entries.states), "AFFINE": int(system.affine),
             "SYMMETRIC": int(system.symmetric), "ATTEMPTS": system.guess.size2_out(0), "OUTPUT_Z": int(with_z),
             "NGX": len(zero.states), "NG": len(zero.states) + len(zero.parameters)}
    tables = [*(f"#define {name} {size}" for name, size in sizes.items()),
              *_columns("MATRIX", entries.states), *_columns("ZERO", _wide(zero)),
              *_places("RATE", rate), *(_places("OUTPUT", output) if with_z and derivatives else ())]
    return EliminatedFunctions(tuple(plain), tuple(more) if derivatives else (), rate.eliminated, output.eliminated,
                               "\n".join(tables))


def _function(name: str, inputs: list[ca.SX], outputs: list[ca.SX]) -> ca.Function:
    return ca.Function(name, inputs, ca.cse(outputs))


def _slopes(value: ca.SX, z: ca.SX, states: ca.SX, parameters: ca.SX, matrix: ca.SX, zero: SparseJacobian) -> _Slopes:
    direct, by_z = SparseJacobian.of(value, states, parameters), ca.jacobian(value, z)
    nx = zero.shape[1]
    width = nx + parameters.numel()
    rng = np.random.default_rng(1)

    def filled(shape: tuple[int, int], places: Iterable[tuple[int, int]]) -> np.ndarray:
        made = np.zeros(shape)
        for row, column in places:
            made[row, column] = rng.uniform(0.5, 1.5)
        return made

    links = SparseJacobian.of_matrix(by_z).states
    structure = filled(matrix.shape, SparseJacobian.of_matrix(matrix).states)
    response = np.linalg.solve(structure, filled((z.numel(), width), _wide(zero)))
    through = np.abs(filled(by_z.shape, links)) @ (np.abs(response) > ALGEBRAIC_ZERO) > 0
    reached = through | (filled((value.numel(), width), _wide(direct, nx)) > 0)
    touched = set(zip(*np.nonzero(through), strict=True))
    constants = dict(zip(_wide(direct, nx), direct.constants, strict=True))
    places = [(int(r), int(c)) for r, c in zip(*np.nonzero(reached), strict=True)]
    states_first = [*(place for place in places if place[1] < nx), *(place for place in places if place[1] >= nx)]
    known = tuple(None if place in touched else constants.get(place) for place in states_first)
    eliminated = SparseJacobian((value.numel(), nx), ca.SX(0, 1), tuple(place for place in states_first if place[1] < nx),
                                tuple((r, c - nx) for r, c in states_first if c >= nx), known)
    return _Slopes(direct, by_z, eliminated)


def _wide(jacobian: SparseJacobian, states: int | None = None) -> list[tuple[int, int]]:
    """Places of all entries, parameters to the right of the states."""
    nx = jacobian.shape[1] if states is None else states
    return [*jacobian.states, *((row, nx + column) for row, column in jacobian.parameters)]


def _columns(name: str, places: Sequence[tuple[int, int]]) -> list[str]:
    return [int_table(f"{name}_ROW", [r for r, _ in places]), int_table(f"{name}_COLUMN", [c for _, c in places])]


def _places(name: str, slopes: _Slopes) -> list[str]:
    """The members of Places in algebraic.c."""
    whole, rows = slopes.eliminated, slopes.eliminated.shape[0]
    wide, nx = _wide(whole), whole.shape[1]
    first = len(whole.states)
    starts = [[offset + sum(row < r for row, _ in places) for r in range(rows + 1)]
              for offset, places in ((0, whole.states), (first, whole.parameters))]
    at = {place: k for k, place in enumerate(wide)}
    direct = [at[place] for place in _wide(slopes.direct, nx)]
    links = SparseJacobian.of_matrix(slopes.by_z).states
    named = {"state": starts[0], "parameter": starts[1], "column": [c for _, c in wide], "direct": direct,
             "link_row": [r for r, _ in links], "link_column": [c for _, c in links]}
    return [f"#define {name}_DIRECTS {len(direct)}", f"#define {name}_LINKS {len(links)}",
            *(int_table(f"{name}_AT_{member}", numbers) for member, numbers in named.items()),
            f"#define {name}_PLACES ((Places){{{rows}, {len(direct)}, {len(links)}, "
            f"{', '.join(f'{name}_AT_{member}' for member in named)}}})"]
