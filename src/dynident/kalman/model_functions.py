"""Model functions: one step and the measurement function of an augmented model, as symbols and as C with Jacobians.

A scheme asks for the rates of the model at a few points, each a combination of the state and of earlier rates. Only the
rate and its Jacobian at a point are scalar code; from point to point the derivative goes by products of an entry with a
whole row (`VEC` in filter_simd.c). A Runge-Kutta step of the belt drive takes 546 operations one by one; here it is
some 240, and 110 on rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca

from dynident.codegen.expression_graph import cheapest_jacobian
from dynident.integrators.scheme import Explicit, Rate, StepFunction
from dynident.integrators.tableau import COMPARED_DEPTH
from dynident.models.augmented import Augmented

STEP_ARGUMENTS = ("t", "h", "a", "u0", "u1", "p")
OUTPUT_ARGUMENTS = ("t", "a", "u0", "p")
COLUMNS_PER_STORE = 4  # columns that `STORE4` writes
ONE = "1.0"


def symbols(augmented: Augmented) -> dict[str, ca.SX]:
    """By the letters of the kernels: time, step length, augmented state, inputs at both ends, fixed parameters."""
    model = augmented.model
    nu = len(model.inputs)
    return {"t": ca.SX.sym("t"), "h": ca.SX.sym("h"), "a": ca.SX.sym("a", augmented.size), "u0": ca.SX.sym("u0", nu),
            "u1": ca.SX.sym("u1", nu), "p": ca.SX.sym("p", len(model.parameters))}


def next_states(augmented: Augmented, integrator: Explicit, s: dict[str, ca.SX], rate: Rate | None = None) -> ca.SX:
    """The states one step later; parameters stand still and are left out. `rate` may stand for the model's own."""
    model = augmented.model
    x, p = augmented.split(s["a"], s["p"])
    positions, velocities = model.position_velocity() if integrator.position_velocity else ((), ())
    return integrator.next_state(StepFunction(rate or model.rate, s["t"], s["h"], x, s["u0"], s["u1"], p, positions,
                                              velocities))


def measurement_function(augmented: Augmented, s: dict[str, ca.SX]) -> ca.SX:
    """The outputs as a function of the augmented state."""
    x, p = augmented.split(s["a"], s["p"])
    return augmented.model.output(s["t"], x, s["u0"], p)


def functions_without_derivatives(augmented: Augmented, integrator: Explicit) -> list[ca.Function]:
    """What a filter over sigma points calls: `dyn_next` and `dyn_output`."""
    s = symbols(augmented)
    parts = {"dyn_next": (STEP_ARGUMENTS, next_states(augmented, integrator, s)),
             "dyn_output": (OUTPUT_ARGUMENTS, measurement_function(augmented, s))}
    return [ca.Function(name, [s[key] for key in arguments], [ca.densify(ca.cse(value))])
            for name, (arguments, value) in parts.items()]


def functions_with_jacobians(augmented: Augmented, integrator: Explicit) -> tuple[ca.Function, ca.Function]:
    """Step and outputs, each with its derivative in the augmented state; for filters that run without a compiler."""
    s = symbols(augmented)
    after, y = next_states(augmented, integrator, s), measurement_function(augmented, s)
    return (ca.Function("next", [s[key] for key in STEP_ARGUMENTS], [after, ca.jacobian(after, s["a"])]),
            ca.Function("output", [s[key] for key in OUTPUT_ARGUMENTS], [y, ca.jacobian(y, s["a"])]))


@dataclass(frozen=True)
class JacobianRow:
    """A row of derivatives: factors times rows known by name, and numbers in single columns; all of it as C text."""

    rows: tuple[tuple[str, str], ...] = ()  # (factor, name)
    columns: tuple[tuple[str, int], ...] = ()  # (number, column)

    def plus(self, factor: str, other: JacobianRow) -> JacobianRow:
        return JacobianRow(self.rows + tuple((_product(factor, f), name) for f, name in other.rows),
                   self.columns + tuple((_product(factor, f), c) for f, c in other.columns))


@dataclass(frozen=True, eq=False)
class RateEvaluation:
    """Where a scheme asks for the rates."""

    time: ca.SX
    state: ca.SX  # in the symbols of the augmented state and of earlier rates
    inputs: ca.SX
    values: ca.SX  # of the rates, in the same symbols
    own: ca.SX  # symbols of the rates here
    rates: ca.SX  # the same, but for rates that an earlier point had too


class SharedFactors:
    """Numbers that generated code hands over, each once; a constant is written as it is."""

    def __init__(self, array: str):
        self.array = array
        self.expressions: list[ca.SX] = []

    def text(self, expression: ca.SX) -> str:
        if expression.is_constant():
            return repr(float(expression))
        place = next((k for k, e in enumerate(self.expressions) if ca.is_equal(e, expression, COMPARED_DEPTH)), None)
        if place is None:
            place = len(self.expressions)
            self.expressions.append(expression)
        return f"{self.array}[{place}]"

    def row(self, jacobian: ca.SX, which: int) -> list[tuple[str, int]]:
        """The entries of one row of a sparse matrix: (number, column)."""
        pattern = jacobian.sparsity()
        return [(self.text(jacobian[which, c]), c) for c in range(jacobian.shape[1]) if pattern.has_nz(which, c)]


def step_jacobian_by_rows(augmented: Augmented, integrator: Explicit) -> tuple[list[ca.Function], str]:
    """Functions to generate, and the text of `dyn_next_jacobian(arg, next, F)` that calls them."""
    return _StepWriter(augmented, integrator).write()


def step_jacobian_scalar(augmented: Augmented, integrator: Explicit) -> tuple[list[ca.Function], str]:
    """The same with the fewest operations, each on a single number: for processors that know no rows."""
    s = symbols(augmented)
    after = next_states(augmented, integrator, s)
    parts = ca.cse([after, cheapest_jacobian(after, s["a"]).T])
    text = ("INLINE void dyn_next_jacobian(const double **arg, double *next, double *F) {\n  double dense[NX * N];\n"
            "  double *res[2] = {next, dense};\n  int r, c;\n  dyn_next_dense(arg, res, 0, 0, 0);\n"
            "  for (r = 0; r < NX; r++) for (c = 0; c < W; c++) F[r * W + c] = c < N ? dense[r * N + c] : 0;\n}\n")
    return [ca.Function("dyn_next_dense", [s[key] for key in STEP_ARGUMENTS], [ca.densify(part) for part in parts])], text


def output_jacobian(augmented: Augmented) -> ca.Function:
    """`dyn_output_jacobian`: the outputs and their derivative in the augmented state, row by row."""
    s = symbols(augmented)
    value = measurement_function(augmented, s)
    parts = ca.cse([value, cheapest_jacobian(value, s["a"]).T])
    return ca.Function("dyn_output_jacobian", [s[key] for key in OUTPUT_ARGUMENTS], [ca.densify(part) for part in parts])


def sparsity_tables(augmented: Augmented) -> str:
    """What the kernels look up: unit rows, which entries stand still, which entries each output depends on."""
    s, n, nx = symbols(augmented), augmented.size, len(augmented.model.states)
    pattern = ca.sparsify(ca.jacobian(measurement_function(augmented, s), s["a"])).sparsity()
    dependence = [[int(pattern.has_nz(j, i)) for i in range(n)] for j in range(pattern.size1())]
    return "\n".join([f"#define IDENTITY_ROWS {_braces([_braces([int(i == j) for j in range(i + 1)]) for i in range(n)])}",
                      f"#define CONSTANT_ENTRIES {_braces([int(i >= nx) for i in range(n)])}",
                      f"#define OUTPUT_SPARSITY {_braces([_braces(row) for row in dependence or [[0]]])}"])


def _braces(entries: Sequence[object]) -> str:
    return f"{{{', '.join(map(str, entries))}}}"


class _StepWriter:
    """Writes one step; `lines` grow from point to point."""

    def __init__(self, augmented: Augmented, integrator: Explicit):
        self.augmented, self.nx = augmented, len(augmented.model.states)
        self.symbols = symbols(augmented)
        self.points: list[RateEvaluation] = []
        self.next = next_states(augmented, integrator, self.symbols, self._rate)
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
                if ca.is_equal(earlier.values[r], values[r], COMPARED_DEPTH):
                    rates[r] = earlier.rates[r]
        self.points.append(RateEvaluation(t, x, u, values, own, rates))
        return rates

    def write(self) -> tuple[list[ca.Function], str]:
        needed = self._needed_rates()
        for k, point in enumerate(self.points):
            self._write_point(k, point, needed[k])
        factors = SharedFactors("step")
        rows = [self._derivative_row(factors, self.next[r], len(self.points)) for r in range(self.nx)]
        self._call("dyn_step", self.next, factors, len(self.points), "next")
        for r, row in enumerate(rows):
            self._write_row(f"F + {r} * W", f"end{r}", row)
        head = "INLINE void dyn_next_jacobian(const double **arg, double *next, double *restrict F) {\n  int c;\n"
        return self.functions, head + "\n".join(self.lines) + "\n}\n"

    def _needed_rates(self) -> list[list[int]]:
        """Per point the rates that something later depends on."""
        wanted = self.next
        found: list[list[int]] = []
        for point in reversed(self.points):
            which = [r for r in range(self.nx) if ca.depends_on(wanted, point.own[r])]
            found.append(which)
            if which:
                wanted = ca.vertcat(wanted, point.values[which])
        return found[::-1]

    def _write_point(self, k: int, point: RateEvaluation, needed: Sequence[int]) -> None:
        """Rates and their Jacobian at a point, then the rows of what is needed of them."""
        _, p = self.augmented.split(self.symbols["a"], self.symbols["p"])
        x = ca.SX.sym("x", self.nx)
        rate = self.augmented.model.rate(point.time, x, point.inputs, p)
        by = ca.vertcat(x, self.symbols["a"][self.nx:])
        jacobian = ca.substitute(ca.jacobian(rate, by), x, point.state)
        factors = SharedFactors(f"slope{k}")
        entries = {r: factors.row(ca.sparsify(jacobian), r) for r in needed}
        moved = {c: self._derivative_row(factors, point.state[c], k)
                 for c in sorted({c for row in entries.values() for _, c in row if c < self.nx})}
        self._call(f"dyn_rate{k}", ca.vertcat(*[point.values[r] if r in needed else 0 for r in range(self.nx)]), factors, k,
                   f"rate{k}")
        written = {c: self._write_named(f"at{k}_{c}", row) if row.rows else row for c, row in moved.items()}
        for r, row in entries.items():
            total = JacobianRow(columns=tuple((f, c) for f, c in row if c >= self.nx))
            for factor, c in row:
                total = total.plus(factor, written[c]) if c < self.nx else total
            again = len(total.rows) == 1 and total.rows[0][0] == ONE and not total.columns
            self.names[k, r] = total.rows[0][1] if again else self._write_named(f"rate{k}_{r}", total).rows[0][1]

    def _derivative_row(self, factors: SharedFactors, value: ca.SX, points: int) -> JacobianRow:
        """The derivative of a value that depends on the augmented state and on the rates of the first points."""
        rows = [(factor, self.names[k, r]) for k in range(points)
                for factor, r in factors.row(ca.sparsify(ca.jacobian(value, self.points[k].own)), 0)]
        return JacobianRow(tuple(rows), tuple(factors.row(ca.sparsify(ca.jacobian(value, self.symbols["a"])), 0)))

    def _call(self, name: str, values: ca.SX, factors: SharedFactors, points: int, result: str) -> None:
        """A function with values and factors, and the line that calls it."""
        inputs = [*(self.symbols[key] for key in STEP_ARGUMENTS), *(p.own for p in self.points[:points])]
        outputs = ca.cse([values, ca.vertcat(ca.SX(0, 1), *factors.expressions)])
        self.functions.append(ca.Function(name, inputs, [ca.densify(o) for o in outputs]))
        given = [f"arg[{k}]" for k in range(len(STEP_ARGUMENTS))] + [f"rate{k}" for k in range(points)]
        declared = "" if result == "next" else f"{result}[NX], "
        self.lines += [f"  double {declared}{factors.array}[SIZE({len(factors.expressions)})];",
                       f"  const double *in_{name}[] = {{{', '.join(given)}}};",
                       f"  double *out_{name}[] = {{{result}, {factors.array}}};", f"  {name}(in_{name}, out_{name}, 0, 0, 0);"]

    def _write_named(self, name: str, row: JacobianRow) -> JacobianRow:
        """The row written down under a name."""
        self.lines.append(f"  double {name}[W];")
        self._write_row(name, name, row)
        return JacobianRow(((ONE, name),))

    def _write_row(self, target: str, name: str, row: JacobianRow) -> None:
        terms = [f"VEC({other} + c)" if factor == ONE else f"{factor} * VEC({other} + c)" for factor, other in row.rows]
        if row.columns:
            self.lines.append(_column_array(f"{name}_on", row.columns, self.augmented.size))
            terms.append(f"VEC({name}_on + c)")
        self.lines.append(f"  for (c = 0; c < N; c += LANE) VEC({target} + c) = {' + '.join(terms) or 'ZERO_VEC'};")


def _product(a: str, b: str) -> str:
    return b if a == ONE else a if b == ONE else f"{a} * {b}"


def _column_array(name: str, columns: Sequence[tuple[str, int]], size: int) -> str:
    """An array that is zero but for numbers in single columns."""
    entries: list[list[str]] = [[] for _ in range(-(-size // COLUMNS_PER_STORE) * COLUMNS_PER_STORE)]
    for number, column in columns:
        entries[column].append(number)
    texts = [" + ".join(entry) or "0.0" for entry in entries]
    if not any("[" in text for text in texts):
        return f"  static const double {name}[] = {{{', '.join(texts)}}};"
    parts = [f"STORE4({name} + {k}, {', '.join(texts[k:k + COLUMNS_PER_STORE])});"
             for k in range(0, len(texts), COLUMNS_PER_STORE)]
    return f"  double {name}[{len(texts)}]; {' '.join(parts)}"
