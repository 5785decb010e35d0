"""Mode functions: the rates of a hybrid model's modes, with the entries of their Jacobians in the same places."""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca

from dynident.codegen.sparse_jacobian import SparseJacobian, band_order, product_source
from dynident.integrators.implicit import RADAU
from dynident.integrators.rate_functions import elimination_source
from dynident.integrators.step_functions import symbols
from dynident.integrators.tableau import tableau_of
from dynident.integrators.tableau_source import newton_tables, tableau_source
from dynident.models.equations import EquationModel


@dataclass(frozen=True, eq=False)
class ModeRates:
    """The functions that `mode_rates.c` names, over the modes, and where the entries of their Jacobians belong."""

    functions: dict[str, list[ca.Function]]  # rate, rate_x, rate_q
    jacobian: SparseJacobian  # by the states, and by the free parameters and the time that the inputs move with

    def stage_source(self) -> str:
        """Tables and products in front of `stages.c`, for steps of Radau IIA."""
        tableau, places = tableau_of(RADAU), self.jacobian.states
        order = band_order(self.jacobian.shape[1], places, tableau.nested)
        return "\n".join([tableau_source(tableau, (), ()), product_source("rate_product", self.jacobian, "INLINE"),
                          newton_tables(tableau, places, order), elimination_source(order, places)])

    def sizes(self) -> dict[str, int]:
        """What `stages.c` needs to know of them; calls by mode are not unrolled."""
        return {"NJ": len(self.jacobian.states), "NJQ": self.jacobian.size, "NA": 0, "UNROLLED": 0, "COLUMNS": 0,
                "DERIVATIVES": 1, "MODAL": 1, "ADAPTIVE": 1}


def mode_rates(model: EquationModel, free: tuple[int, ...]) -> ModeRates:
    """Derivatives by the states, the free parameters and time."""
    s = symbols(model)
    t, x, u, p = s["t"], s["x"], s["u0"], s["p"]
    du, since = ca.SX.sym("du", u.numel()), ca.SX.sym("s")
    rates = [ca.densify(model.mode(name).rate(t + since, x, u + since * du, p)) for name in model.modes]
    jacobians = SparseJacobian.of_all(rates, x, ca.vertcat(p[list(free), 0], since))
    functions: dict[str, list[ca.Function]] = {"rate": [], "rate_x": [], "rate_q": []}
    for mode, (moving, jacobian) in enumerate(zip(rates, jacobians, strict=True)):
        f, entries = ca.substitute([moving, jacobian.entries], [since], [ca.SX(0)])
        by_states = entries[:len(jacobian.states)]
        for name, place, results in (("rate", [t, x, u, p], [f]), ("rate_x", [t, x, u, p], [f, by_states]),
                                     ("rate_q", [t, x, u, du, p], [f, entries])):
            functions[name].append(ca.Function(f"dyn_{name}_{mode}", place, ca.cse([ca.densify(r) for r in results])))
    return ModeRates(functions, jacobians[0])
