"""Step functions: one step of a scheme and the outputs of a model as CasADi functions, with their derivatives."""

from __future__ import annotations

from typing import Any

import casadi as ca

from dynident.errors import NotSupported
from dynident.integrators.scheme import Adaptive, Explicit, Implicit, Integrator, Multistep, StepFunction
from dynident.models.equations import EquationModel


def symbols(model: EquationModel, kind: Any = None) -> dict[str, ca.SX]:
    """Scalar symbols (SX), unless the model's rate takes only matrices (MX) or a kind is asked for."""
    nu, of = len(model.inputs), kind or symbol_kind(model)
    return {"t": of.sym("t"), "h": of.sym("h"), "x": of.sym("x", len(model.states)),
            "u0": of.sym("u0", nu), "u1": of.sym("u1", nu), "p": of.sym("p", len(model.parameters))}


def symbol_kind(model: EquationModel) -> Any:
    """CasADi's SX, or MX where the rate looks for algebraic variables by Newton's method."""
    return ca.SX if model.algebraic_system is None or model.algebraic_system.affine else ca.MX


def symbolic_step(model: EquationModel, integrator: Explicit | Implicit | Multistep, s: dict[str, ca.SX]) -> StepFunction:
    positions, velocities = model.position_velocity() if integrator.position_velocity else ((), ())
    return StepFunction(model.rate, s["t"], s["h"], s["x"], s["u0"], s["u1"], s["p"], tuple(positions), tuple(velocities))


def stage_functions(model: EquationModel, integrator: Integrator, free: tuple[int, ...]) -> list[ca.Function]:
    """The functions that propagation.c names, derivatives with respect to the state and the free parameters."""
    s = symbols(model)
    functions = [*output_functions(model, s, free)]
    if isinstance(integrator, Adaptive):
        raise NotSupported(f"'{integrator.name}' chooses its own steps; there is no formula for one step.")
    if isinstance(integrator, Multistep):
        raise NotSupported(f"'{integrator.name}' reaches back over two steps; there is no formula for one step.")
    step = symbolic_step(model, integrator, s)
    if isinstance(integrator, Explicit):
        inputs = [s["t"], s["h"], s["x"], s["u0"], s["u1"], s["p"]]
        nxt = integrator.next_state(step)
        functions += [dense_function("dyn_step", inputs, [nxt]),
                      dense_function("dyn_step_jac", inputs, [nxt, unknowns_jacobian(nxt, s, free)])]
    else:
        z = symbol_kind(model).sym("z", integrator.stages * len(model.states))
        inputs = [s["t"], s["h"], s["x"], z, s["u0"], s["u1"], s["p"]]
        G, nxt = integrator.equations(step, z), integrator.next_state(step, z)
        functions += [dense_function("dyn_imp", inputs, [G, ca.jacobian(G, z), nxt]),
                      dense_function("dyn_imp_jac", inputs, [ca.jacobian(G, z), unknowns_jacobian(G, s, free),
                                                        ca.jacobian(nxt, z), unknowns_jacobian(nxt, s, free)])]
    return functions


def output_functions(model: EquationModel, s: dict[str, ca.SX], free: tuple[int, ...]) -> list[ca.Function]:
    y = model.output(s["t"], s["x"], s["u0"], s["p"])
    inputs = [s["t"], s["x"], s["u0"], s["p"]]
    return [dense_function("dyn_out", inputs, [y]), dense_function("dyn_out_jac", inputs, [y, unknowns_jacobian(y, s, free)])]


def unknowns_jacobian(value: ca.SX, s: dict[str, ca.SX], free: tuple[int, ...]) -> ca.SX:
    """Derivative by the states and the free parameters."""
    if isinstance(value, ca.SX):
        return ca.jacobian(value, ca.vertcat(s["x"], s["p"][list(free), 0]))
    return ca.horzcat(ca.jacobian(value, s["x"]), ca.jacobian(value, s["p"])[:, list(free)])  # MX: by whole symbols only


def dense_function(name: str, inputs: list[ca.SX], outputs: list[ca.SX]) -> ca.Function:
    """Dense outputs, common subexpressions shared."""
    return ca.Function(name, inputs, [ca.densify(o) for o in ca.cse(outputs)])
