"""Stages: one step and the outputs of an augmented model, with derivatives, as the filter kernels name them."""

from __future__ import annotations

import casadi as ca

from dynident.errors import NotSupported
from dynident.integrators.scheme import Explicit, Integrator, Step
from dynident.kernels.jacobian import cheapest_jacobian
from dynident.models.augmented import Augmented


def symbols(augmented: Augmented) -> dict[str, ca.SX]:
    model = augmented.model
    nu = len(model.inputs)
    return {"t": ca.SX.sym("t"), "h": ca.SX.sym("h"), "a": ca.SX.sym("a", augmented.size), "u0": ca.SX.sym("u0", nu),
            "u1": ca.SX.sym("u1", nu), "p": ca.SX.sym("p", len(model.parameters))}


def next_states(augmented: Augmented, integrator: Explicit, s: dict[str, ca.SX]) -> ca.SX:
    """The states one step later; parameters stand still and are left out."""
    model = augmented.model
    x, p = augmented.split(s["a"], s["p"])
    positions, velocities = model.position_velocity() if integrator.position_velocity else ((), ())
    return integrator.next_state(Step(model.rate, s["t"], s["h"], x, s["u0"], s["u1"], p, positions, velocities))


def outputs(augmented: Augmented, s: dict[str, ca.SX]) -> ca.SX:
    x, p = augmented.split(s["a"], s["p"])
    return augmented.model.output(s["t"], x, s["u0"], p)


def stage_functions(augmented: Augmented, integrator: Explicit, jacobians: bool) -> list[ca.Function]:
    """The functions that the kernels call: with derivatives, or without for a filter that needs none."""
    s = symbols(augmented)
    stepping = [s["t"], s["h"], s["a"], s["u0"], s["u1"], s["p"]]
    seeing = [s["t"], s["a"], s["u0"], s["p"]]
    found = []
    for name, inputs, value in (("dyn_next", stepping, next_states(augmented, integrator, s)),
                                ("dyn_seen", seeing, outputs(augmented, s))):
        slope = cheapest_jacobian(value, s["a"])
        parts = [value, slope if name == "dyn_next" else slope.T] if jacobians else [value]
        shared = [ca.densify(part) for part in ca.cse(parts)]
        found.append(ca.Function(f"{name}_jac" if jacobians else name, inputs, shared))
    return found


def require_explicit(integrator: Integrator) -> Explicit:
    """A filter needs a formula for one step."""
    if not isinstance(integrator, Explicit):
        raise NotSupported(f"A Kalman filter needs a formula for one step, but '{integrator.name}' solves equations in "
                           "each. Use runge_kutta, symplectic_euler, leapfrog, simpson, heun or euler, with more "
                           "substeps where the model is stiff.")
    return integrator
