"""Rate functions: what is generated of a model: its rate, its outputs, and the entries of their sparse Jacobians."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import casadi as ca

from dynident.codegen.c_source import kernel_text, static_source
from dynident.codegen.sparse_elimination import sparse_elimination
from dynident.codegen.sparse_jacobian import FUSED_ROWS, BandOrder, SparseJacobian, band_order, product_source
from dynident.integrators.algebraic_functions import eliminated_functions
from dynident.integrators.scheme import Explicit, Implicit
from dynident.integrators.step_functions import symbols
from dynident.integrators.tableau import Tableau, tableau_of
from dynident.integrators.tableau_source import column_source, newton_tables, tableau_source
from dynident.models.equations import EquationModel

UNROLLED_INSTRUCTIONS = 1000  # of the rate with its Jacobian; below it all of a step is made one function
STEP_TEXTS = ("integrators/stages.c", "integrators/implicit_stages.c")
ALGEBRAIC_TEXT = "integrators/algebraic.c"
SPARSE_TEXT = "sparse_elimination.c"
FOR_STAGES = ("dyn_rate_x", "dyn_motion_x")  # functions that only an implicit scheme calls


@dataclass(frozen=True, eq=False)
class RateFunctions:
    """The functions that `stages.c` names, and where the entries of their Jacobians belong."""

    plain: tuple[ca.Function, ...]  # dyn_rate, dyn_rate_x, dyn_out
    derivatives: tuple[ca.Function, ...]  # dyn_rate_q, dyn_out_q
    rate: SparseJacobian
    output: SparseJacobian
    algebraic: str = "#define NA 0\n#define OUTPUT_Z 0"  # tables of `algebraic.c`

    @property
    def small(self) -> bool:
        return max(f.n_instructions() for f in (*self.plain, *self.derivatives)) < UNROLLED_INSTRUCTIONS


def rate_functions(model: EquationModel, free: tuple[int, ...], derivatives: bool) -> RateFunctions:
    """Derivatives by the states and the free parameters; without, only those that an implicit step needs."""
    if model.algebraic_system is not None:
        made = eliminated_functions(model, model.algebraic_system, free, derivatives)
        return RateFunctions(made.plain, made.derivatives, made.rate, made.output, made.tables)
    s = symbols(model)
    place = [s["t"], s["x"], s["u0"], s["p"]]
    f, y = ca.densify(model.rate(*place)), ca.densify(model.output(*place))
    by = s["p"][list(free), 0] if derivatives else ca.SX(0, 1)
    rate, output = SparseJacobian.of(f, s["x"], by), SparseJacobian.of(y, s["x"] if derivatives else ca.SX(0, 1), by)
    by_states = rate.entries[:len(rate.states)]
    plain = (_function("dyn_rate", place, [f]), _function("dyn_rate_x", place, [f, by_states]),
             _function("dyn_out", place, [y]))
    more = (_function("dyn_rate_q", place, [f, rate.entries]), _function("dyn_out_q", place, [y, output.entries]))
    return RateFunctions(plain, more if derivatives else (), rate, output)


def _function(name: str, inputs: list[ca.SX], outputs: list[ca.SX]) -> ca.Function:
    """Common subexpressions shared."""
    return ca.Function(name, inputs, ca.cse(outputs))


def step_source(model: EquationModel, integrator: Explicit | Implicit, free: tuple[int, ...], derivatives: bool,
                sparse: bool = False) -> str:
    """C text up to one step of the scheme and the outputs, with their sensitivities; a loop over time stands behind it."""
    made = rate_functions(model, free, derivatives)
    tableau, positions, velocities = model_tableau(model, integrator, made.rate)
    functions = [f for f in (*made.plain, *made.derivatives) if tableau.stages or f.name() not in FOR_STAGES]
    sizes = {"NX": len(model.states), "NU": len(model.inputs), "NP": len(model.parameters), "NF": len(free),
             "NY": len(model.outputs), "NJ": len(made.rate.states), "NJQ": made.rate.size, "NYQ": made.output.size,
             "WITH_RATE_X": int(bool(tableau.stages)), "UNROLLED": int(made.small), "DERIVATIVES": int(derivatives), "MODAL": 0,
             "COLUMNS": int(not tableau.stages and len(model.states) <= FUSED_ROWS)}
    parts = ["\n".join(f"#define {name} {size}" for name, size in sizes.items()), kernel_text("sparse_algebra.c"),
             made.algebraic, static_source(functions, "INLINE"), *([kernel_text(ALGEBRAIC_TEXT)] if model.algebraic else []),
             tableau_source(tableau, positions, velocities)]
    if derivatives or tableau.nested:
        parts.append(product_source("rate_product", made.rate, "INLINE"))
    if derivatives:
        parts.append(product_source("output_product", made.output, "INLINE"))
    if derivatives and sizes["COLUMNS"]:
        parts.append(column_source(tableau, made.rate, positions, velocities))
    if tableau.stages:
        order = band_order(len(model.states), made.rate.states, tableau.nested)
        parts += [newton_tables(tableau, made.rate.states, order), elimination_source(order, made.rate.states, sparse)]
    return "\n".join([*parts, kernel_text(*STEP_TEXTS[:1 + bool(tableau.stages)])])


def elimination_source(order: BandOrder, places: Sequence[tuple[int, int]], sparse: bool = True) -> str:
    """How the equations of a step are solved: within a band, or where that is full, place by place if it pays."""
    size = len(order.place)
    found = sparse_elimination(size, places) if sparse and order.lower + 1 >= size else None
    if found is None:
        return "#define SPARSE 0"
    return "\n".join(["#define SPARSE 1", found.source(places), kernel_text(SPARSE_TEXT)])


def model_tableau(model: EquationModel, integrator: Explicit | Implicit, rate: SparseJacobian
                  ) -> tuple[Tableau, tuple[int, ...], tuple[int, ...]]:
    """The scheme's tableau for a model, and which of its states are positions and velocities where the scheme asks."""
    if not integrator.position_velocity:
        return tableau_of(integrator), (), ()
    positions, velocities = (tuple(each) for each in model.position_velocity())
    moving = set(velocities)
    by_position = not any(row in moving and column in moving for row, column in rate.states)
    return tableau_of(integrator, by_position), positions, velocities
