"""Symplectic Euler: order 1; the new velocity moves the position, eqs. (20), (21) of the filter paper."""

import casadi as ca

from dynident.integrators.scheme import Explicit, StepFunction


def next_state(step: StepFunction):
    slope = step.rate_at(step.x, 0)
    moved = ca.SX(step.x)
    for v in step.velocities:
        moved[v] = step.x[v] + step.h * slope[v]
    for q, v in zip(step.positions, step.velocities, strict=True):
        moved[q] = step.x[q] + step.h * moved[v]
    return moved


SYMPLECTIC_EULER = Explicit("symplectic_euler", 1, next_state, position_velocity=True,
                            summary="one evaluation; keeps the energy of an oscillator bounded")
