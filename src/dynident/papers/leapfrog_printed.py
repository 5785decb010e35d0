"""Filter paper (Beckmann, Dagen, Ortmaier), eq. (22): leapfrog as printed, half the cost of `leapfrog` with damping.

The last kick takes its force at the velocity of the half step, v_k = v_{k-1/2} + h/2 Psi(s_k, v_{k-1/2}). That is
explicit for every force, of order 2 where forces depend on positions only, and of order 1 as soon as they depend on the
velocity.
"""

import casadi as ca

from dynident.integrators.scheme import Explicit, StepFunction


def next_state(step: StepFunction):
    half = kick(step, step.x, 0)
    for q, v in zip(step.positions, step.velocities, strict=True):
        half[q] = step.x[q] + step.h * half[v]
    return kick(step, half, 1)


def kick(step: StepFunction, x: ca.SX, fraction: int) -> ca.SX:
    slope = step.rate_at(x, fraction)
    after = ca.SX(x)
    for v in step.velocities:
        after[v] = x[v] + step.h / 2 * slope[v]
    return after


LEAPFROG_PRINTED = Explicit("leapfrog_printed", 1, next_state, position_velocity=True,
                            summary="two evaluations; order 2 only where forces do not depend on velocities")
