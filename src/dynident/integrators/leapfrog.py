"""Leapfrog: kick, drift, kick; order 2, eq. (22) of the filter paper where forces depend on positions only.

As printed, the last kick uses the force at the half-step velocity, which is of order 1 as soon as there is damping.
Here each half kick is a Heun step in the velocity: the same formula where forces do not depend on the velocity, and of
order 2 where they do.
"""

import casadi as ca

from dynident.integrators.scheme import Explicit, StepFunction


def next_state(step: StepFunction):
    half = kicked(step, step.x, 0)
    for q, v in zip(step.positions, step.velocities, strict=True):
        half[q] = step.x[q] + step.h * half[v]
    return kicked(step, half, 1)


def kicked(step: StepFunction, x: ca.SX, fraction: int) -> ca.SX:
    """The state after half a step in the velocities alone, forces taken at one end of the step."""
    first = step.rate_at(x, fraction)
    predicted = ca.SX(x)
    for v in step.velocities:
        predicted[v] = x[v] + step.h / 2 * first[v]
    second = step.rate_at(predicted, fraction)
    after = ca.SX(x)
    for v in step.velocities:
        after[v] = x[v] + step.h / 4 * (first[v] + second[v])
    return after


LEAPFROG = Explicit("leapfrog", 2, next_state, position_velocity=True,
                    summary="two evaluations without damping, four with; energy stays bounded")
