"""Stages: one step and the outputs of an augmented model, as the filter kernels name them."""

from __future__ import annotations

import casadi as ca

from dynident.errors import NotSupported
from dynident.integrators.scheme import Explicit, Integrator, Rate, Step
from dynident.models.augmented import Augmented


def symbols(augmented: Augmented) -> dict[str, ca.SX]:
    model = augmented.model
    nu = len(model.inputs)
    return {"t": ca.SX.sym("t"), "h": ca.SX.sym("h"), "a": ca.SX.sym("a", augmented.size), "u0": ca.SX.sym("u0", nu),
            "u1": ca.SX.sym("u1", nu), "p": ca.SX.sym("p", len(model.parameters))}


def next_states(augmented: Augmented, integrator: Explicit, s: dict[str, ca.SX], rate: Rate | None = None) -> ca.SX:
    """The states one step later; parameters stand still and are left out. `rate` may stand for the model's own."""
    model = augmented.model
    x, p = augmented.split(s["a"], s["p"])
    positions, velocities = model.position_velocity() if integrator.position_velocity else ((), ())
    return integrator.next_state(Step(rate or model.rate, s["t"], s["h"], x, s["u0"], s["u1"], p, positions, velocities))


def outputs(augmented: Augmented, s: dict[str, ca.SX]) -> ca.SX:
    x, p = augmented.split(s["a"], s["p"])
    return augmented.model.output(s["t"], x, s["u0"], p)


def stage_functions(augmented: Augmented, integrator: Explicit) -> list[ca.Function]:
    """What a filter calls that needs no derivatives."""
    s = symbols(augmented)
    return [ca.Function("dyn_next", [s[k] for k in ("t", "h", "a", "u0", "u1", "p")],
                        [ca.densify(ca.cse(next_states(augmented, integrator, s)))]),
            ca.Function("dyn_seen", [s[k] for k in ("t", "a", "u0", "p")], [ca.densify(ca.cse(outputs(augmented, s)))])]


def require_explicit(integrator: Integrator) -> Explicit:
    """A filter needs a formula for one step."""
    if not isinstance(integrator, Explicit):
        raise NotSupported(f"A Kalman filter needs a formula for one step, but '{integrator.name}' solves equations in "
                           "each. Use runge_kutta, symplectic_euler, leapfrog, simpson, heun or euler, with more "
                           "substeps where the model is stiff.")
    return integrator
