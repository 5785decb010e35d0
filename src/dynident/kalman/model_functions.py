"""One step and the measurement function of an augmented model, as symbols and as the filter kernels name them."""

from __future__ import annotations

import casadi as ca

from dynident.integrators.scheme import Explicit, Rate, StepFunction
from dynident.models.augmented import Augmented

STEP_ARGUMENTS = ("t", "h", "a", "u0", "u1", "p")
OUTPUT_ARGUMENTS = ("t", "a", "u0", "p")


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
