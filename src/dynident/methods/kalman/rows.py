"""Rows: one step of an augmented model with its derivative, as C text that carries the derivative along row by row.

A scheme asks for the rates of the model at a few points, each a combination of the state and of earlier rates. Only the
rate and its slopes at a point are scalar code; from point to point the derivative goes by products of a slope with a
whole row (`AT` in filter_lanes.c). A Runge-Kutta step of the belt drive takes 546 operations one by one; here it is
some 240, and 110 on rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca

from dynident.integrators.scheme import Explicit
from dynident.kernels.jacobian import cheapest_jacobian
from dynident.methods.kalman import stages
from dynident.models.augmented import Augmented

SAME = 20  # how deep two expressions are compared
AT_ONCE = 4  # columns that `FOUR` writes
ONE = "1.0"
ARGUMENTS = ("t", "h", "a", "u0", "u1", "p")


@dataclass(frozen=True)
class Row:
    """A row of derivatives: factors times rows known by name, and numbers in single columns; all of it as C text."""

    rows: tuple[tuple[str, str], ...] = ()  # (factor, name)
    columns: tuple[tuple[str, int], ...] = ()  # (number, column)

    def plus(self, factor: str, other: Row) -> Row:
        return Row(self.rows + tuple((_product(factor, f), name) for f, name in other.rows),
                   self.columns + tuple((_product(factor, f), c) for f, c in other.columns))


@dataclass(frozen=True, eq=False)
class Point:
    """Where a scheme asks for the rates."""

    time: ca.SX
    state: ca.SX  # in the symbols of the augmented state and of earlier rates
    inputs: ca.SX
    values: ca.SX  # of the rates, in the same symbols
    own: ca.SX  # symbols of the rates here
    rates: ca.SX  # the same, but for rates that an earlier point had too


class Factors:
    """Numbers that generated code hands over, each once; a constant is written as it is."""

    def __init__(self, array: str):
        self.array = array
        self.expressions: list[ca.SX] = []

    def text(self, expression: ca.SX) -> str:
        if expression.is_constant():
            return repr(float(expression))
        place = next((k for k, e in enumerate(self.expressions) if ca.is_equal(e, expression, SAME)), None)
        if place is None:
            place = len(self.expressions)
            self.expressions.append(expression)
        return f"{self.array}[{place}]"

    def row(self, slopes: ca.SX, which: int) -> list[tuple[str, int]]:
        """The entries of one row of a sparse matrix: (number, column)."""
        pattern = slopes.sparsity()
        return [(self.text(slopes[which, c]), c) for c in range(slopes.shape[1]) if pattern.has_nz(which, c)]


def step_with_rows(augmented: Augmented, integrator: Explicit) -> tuple[list[ca.Function], str]:
    """Functions to generate, and the text of `dyn_next_rows(arg, next, F)` that calls them."""
    return _Writer(augmented, integrator).written()


def step_one_by_one(augmented: Augmented, integrator: Explicit) -> tuple[list[ca.Function], str]:
    """The same with the fewest operations, each on a single number: for processors that know no rows."""
    s = stages.symbols(augmented)
    after = stages.next_states(augmented, integrator, s)
    parts = ca.cse([after, cheapest_jacobian(after, s["a"]).T])
    text = ("MELT void dyn_next_rows(const double **arg, double *next, double *F) {\n  double *res[2] = {next, F};\n"
            "  dyn_next_jac(arg, res, 0, 0, 0);\n}\n")
    return [ca.Function("dyn_next_jac", [s[key] for key in ARGUMENTS], [ca.densify(part) for part in parts])], text


def outputs_with_slopes(augmented: Augmented) -> ca.Function:
    """`dyn_seen_jac`: the outputs and their derivative in the augmented state, row by row."""
    s = stages.symbols(augmented)
    value = stages.outputs(augmented, s)
    parts = ca.cse([value, cheapest_jacobian(value, s["a"]).T])
    return ca.Function("dyn_seen_jac", [s[k] for k in ("t", "a", "u0", "p")], [ca.densify(part) for part in parts])


def tables(augmented: Augmented) -> str:
    """What the kernels look up: unit rows, which entries stand still, which entries each output depends on."""
    s, n, nx = stages.symbols(augmented), augmented.size, len(augmented.model.states)
    uses = ca.sparsify(ca.jacobian(stages.outputs(augmented, s), s["a"])).sparsity()
    seen = [[int(uses.has_nz(j, i)) for i in range(n)] for j in range(uses.size1())]
    return "\n".join([f"#define UNIT_ROWS {_braces([_braces([int(i == j) for j in range(i + 1)]) for i in range(n)])}",
                      f"#define STILL {_braces([int(i >= nx) for i in range(n)])}",
                      f"#define SEEN_USES {_braces([_braces(row) for row in seen or [[0]]])}"])


def _braces(entries: Sequence[object]) -> str:
    return f"{{{', '.join(map(str, entries))}}}"


class _Writer:
    """Writes one step; `lines` grow from point to point."""

    def __init__(self, augmented: Augmented, integrator: Explicit):
        self.augmented, self.nx = augmented, len(augmented.model.states)
        self.symbols = stages.symbols(augmented)
        self.points: list[Point] = []
        self.next = stages.next_states(augmented, integrator, self.symbols, self._rate)
        self.functions: list[ca.Function] = []
        self.lines: list[str] = []
        self.names: dict[tuple[int, int], str] = {}  # (point, state) -> the row of that rate's derivative

    def _rate(self, t: ca.SX, x: ca.SX, u: ca.SX, p: ca.SX) -> ca.SX:
        """The rates at one more point, as symbols; those that an earlier point gave already are not new."""
        values = self.augmented.model.rate(t, x, u, p)
        own = ca.SX.sym(f"rates{len(self.points)}", self.nx)
        rates = ca.SX(own)
        for earlier in self.points:
            for r in range(self.nx):
                if ca.is_equal(earlier.values[r], values[r], SAME):
                    rates[r] = earlier.rates[r]
        self.points.append(Point(t, x, u, values, own, rates))
        return rates

    def written(self) -> tuple[list[ca.Function], str]:
        needed = self._needed()
        for k, point in enumerate(self.points):
            self._write_point(k, point, needed[k])
        factors = Factors("step")
        rows = [self._row_of(factors, self.next[r], len(self.points)) for r in range(self.nx)]
        self._call("dyn_step", self.next, factors, len(self.points), "next")
        for r, row in enumerate(rows):
            self._write_row(f"F + {r} * W", f"end{r}", row)
        head = "MELT void dyn_next_rows(const double **arg, double *next, double *restrict F) {\n  int c;\n"
        return self.functions, head + "\n".join(self.lines) + "\n}\n"

    def _needed(self) -> list[list[int]]:
        """Per point the rates that something later depends on."""
        wanted = self.next
        found: list[list[int]] = []
        for point in reversed(self.points):
            which = [r for r in range(self.nx) if ca.depends_on(wanted, point.own[r])]
            found.append(which)
            if which:
                wanted = ca.vertcat(wanted, point.values[which])
        return found[::-1]

    def _write_point(self, k: int, point: Point, needed: Sequence[int]) -> None:
        """Rates and slopes at a point, then the rows of what is needed of them."""
        _, p = self.augmented.split(self.symbols["a"], self.symbols["p"])
        x = ca.SX.sym("x", self.nx)
        rate = self.augmented.model.rate(point.time, x, point.inputs, p)
        by = ca.vertcat(x, self.symbols["a"][self.nx:])
        slopes = ca.substitute(ca.jacobian(rate, by), x, point.state)
        factors = Factors(f"slope{k}")
        entries = {r: factors.row(ca.sparsify(slopes), r) for r in needed}
        moved = {c: self._row_of(factors, point.state[c], k)
                 for c in sorted({c for row in entries.values() for _, c in row if c < self.nx})}
        self._call(f"dyn_rate{k}", ca.vertcat(*[point.values[r] if r in needed else 0 for r in range(self.nx)]), factors, k,
                   f"rate{k}")
        held = {c: self._named(f"at{k}_{c}", row) if row.rows else row for c, row in moved.items()}
        for r, row in entries.items():
            total = Row(columns=tuple((f, c) for f, c in row if c >= self.nx))
            for factor, c in row:
                total = total.plus(factor, held[c]) if c < self.nx else total
            again = len(total.rows) == 1 and total.rows[0][0] == ONE and not total.columns
            self.names[k, r] = total.rows[0][1] if again else self._named(f"rate{k}_{r}", total).rows[0][1]

    def _row_of(self, factors: Factors, value: ca.SX, points: int) -> Row:
        """The derivative of a value that depends on the augmented state and on the rates of the first points."""
        rows = [(factor, self.names[k, r]) for k in range(points)
                for factor, r in factors.row(ca.sparsify(ca.jacobian(value, self.points[k].own)), 0)]
        return Row(tuple(rows), tuple(factors.row(ca.sparsify(ca.jacobian(value, self.symbols["a"])), 0)))

    def _call(self, name: str, values: ca.SX, factors: Factors, points: int, result: str) -> None:
        """A function with values and factors, and the line that calls it."""
        inputs = [*(self.symbols[key] for key in ARGUMENTS), *(p.own for p in self.points[:points])]
        outputs = ca.cse([values, ca.vertcat(ca.SX(0, 1), *factors.expressions)])
        self.functions.append(ca.Function(name, inputs, [ca.densify(o) for o in outputs]))
        given = [f"arg[{k}]" for k in range(len(ARGUMENTS))] + [f"rate{k}" for k in range(points)]
        declared = "" if result == "next" else f"{result}[NX], "
        self.lines += [f"  double {declared}{factors.array}[SIZE({len(factors.expressions)})];",
                       f"  const double *in_{name}[] = {{{', '.join(given)}}};",
                       f"  double *out_{name}[] = {{{result}, {factors.array}}};", f"  {name}(in_{name}, out_{name}, 0, 0, 0);"]

    def _named(self, name: str, row: Row) -> Row:
        """The row written down under a name."""
        self.lines.append(f"  double {name}[W];")
        self._write_row(name, name, row)
        return Row(((ONE, name),))

    def _write_row(self, target: str, name: str, row: Row) -> None:
        terms = [f"AT({other} + c)" if factor == ONE else f"{factor} * AT({other} + c)" for factor, other in row.rows]
        if row.columns:
            self.lines.append(_numbers(f"{name}_on", row.columns, self.augmented.size))
            terms.append(f"AT({name}_on + c)")
        self.lines.append(f"  for (c = 0; c < N; c += LANE) AT({target} + c) = {' + '.join(terms) or 'NOTHING'};")


def _product(a: str, b: str) -> str:
    return b if a == ONE else a if b == ONE else f"{a} * {b}"


def _numbers(name: str, columns: Sequence[tuple[str, int]], size: int) -> str:
    """An array that is zero but for numbers in single columns."""
    entries: list[list[str]] = [[] for _ in range(-(-size // AT_ONCE) * AT_ONCE)]
    for number, column in columns:
        entries[column].append(number)
    texts = [" + ".join(entry) or "0.0" for entry in entries]
    if not any("[" in text for text in texts):
        return f"  static const double {name}[] = {{{', '.join(texts)}}};"
    parts = [f"FOUR({name} + {k}, {', '.join(texts[k:k + AT_ONCE])});" for k in range(0, len(texts), AT_ONCE)]
    return f"  double {name}[{len(texts)}]; {' '.join(parts)}"
