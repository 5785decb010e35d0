"""Symplectic schemes: for models of the form q' = v, v' = f(q, v), whose energy they keep bounded.

Symplectic Euler is eqs. (20), (21) of the filter paper: the new velocity moves the position. Leapfrog (kick, drift, kick;
also velocity Verlet) is eq. (22) where forces depend on positions only. As printed, the last kick uses the force at the
half-step velocity, which is of order 1 as soon as there is damping. Here each half kick is a Heun step in the velocity: the
same formula where forces do not depend on the velocity, and of order 2 where they do.
"""

from __future__ import annotations

import casadi as ca

from dynident.integrators.scheme import Explicit, StepFunction


def symplectic_euler_step(step: StepFunction) -> ca.SX:
    rate = step.rate_at(step.x, 0)
    after = type(step.x)(step.x)
    for v in step.velocities:
        after[v] = step.x[v] + step.h * rate[v]
    for q, v in zip(step.positions, step.velocities, strict=True):
        after[q] = step.x[q] + step.h * after[v]
    return after


def leapfrog_step(step: StepFunction) -> ca.SX:
    half = half_kick(step, step.x, 0)
    for q, v in zip(step.positions, step.velocities, strict=True):  # the drift
        half[q] = step.x[q] + step.h * half[v]
    return half_kick(step, half, 1)


def half_kick(step: StepFunction, x: ca.SX, fraction: int) -> ca.SX:
    """The state after half a step in the velocities alone, forces taken at one end of the step."""
    first = step.rate_at(x, fraction)
    predicted = type(x)(x)
    for v in step.velocities:
        predicted[v] = x[v] + step.h / 2 * first[v]
    second = step.rate_at(predicted, fraction)
    after = type(x)(x)
    for v in step.velocities:
        after[v] = x[v] + step.h / 4 * (first[v] + second[v])
    return after


SYMPLECTIC_EULER = Explicit("symplectic_euler", 1, symplectic_euler_step, position_velocity=True,
                            summary="one evaluation; keeps the energy of an oscillator bounded")
LEAPFROG = Explicit("leapfrog", 2, leapfrog_step, position_velocity=True,
                    summary="two evaluations without damping, four with; energy stays bounded")
