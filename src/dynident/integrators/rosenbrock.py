"""Rosenbrock: a linearly implicit step, whose next state is still a formula; for filters of stiff models.

Rodas3 (Sandu and others, Benchmarking stiff ODE solvers for atmospheric chemistry problems II, 1997): four stages, order 3,
L-stable. Each stage k solves (I - gamma h J) k = gamma (h f(...) + ...) with the Jacobian J at its begin, so that it
asks for no iteration: it can be differentiated, run over sigma points and exported like that of an explicit scheme.
"""

from __future__ import annotations

import casadi as ca

from dynident.integrators.scheme import Explicit, StepFunction

GAMMA = 0.5  # of the step, on the diagonal of the implicit stages
STAGE_ABSCISSAE = 0.0, 0.0, 1.0, 1.0  # fractions of the step at which each stage asks for the rate
STATES = ((), (0.0,), (2.0, 0.0), (2.0, 0.0, 1.0))  # weights of earlier stages in the state there
RATES = ((), (4.0,), (1.0, -1.0), (1.0, -1.0, -8 / 3))  # and beside h times the rate
DRIFT = 0.5, 1.5, 0.0, 0.0  # weights of h df/dt
END = 2.0, 0.0, 1.0, 1.0  # weights of the stages in the step


def rosenbrock_step(step: StepFunction) -> ca.SX:
    """The next state; inputs move linearly over the step, which counts as a derivative by time."""
    x, since = type(step.x).sym("x", step.x.numel()), type(step.x).sym("since")
    moving = step.rate(step.t + since * step.h, x, (1 - since) * step.u_begin + since * step.u_end, step.p)
    here = [x, since], [step.x, ca.SX(0)]
    J, h_drift = ca.substitute([ca.jacobian(moving, x), ca.jacobian(moving, since)], *here)
    matrix = ca.densify(ca.SX.eye(x.numel()) - GAMMA * step.h * J)  # a step of no length leads nowhere
    stages: list[ca.SX] = []
    for place, of_state, of_rate, of_drift in zip(STAGE_ABSCISSAE, STATES, RATES, DRIFT, strict=True):
        at = step.x + sum((w * k for w, k in zip(of_state, stages, strict=True) if w), ca.SX(0))
        right = step.h * (step.rate_at(at, place) + of_drift * h_drift)
        right = right + sum((w * k for w, k in zip(of_rate, stages, strict=True) if w), ca.SX(0))
        stages.append(ca.solve(matrix, GAMMA * right))
    return step.x + sum((w * k for w, k in zip(END, stages, strict=True) if w), ca.SX(0))


ROSENBROCK = Explicit("rosenbrock", 3, rosenbrock_step, linearly_implicit=True,
                      summary="linearly implicit, by a formula; for filters of stiff models")
