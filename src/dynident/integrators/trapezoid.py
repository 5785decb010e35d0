"""Trapezoid: implicit, order 2, stable for stiff decay; used for the real robot of the direct-methods paper."""

import casadi as ca

from dynident.integrators.scheme import Implicit, StepFunction


def equations(step: StepFunction, stages: ca.SX) -> ca.SX:
    return stages - step.x - step.h / 2 * (step.rate_at(step.x, 0) + step.rate_at(stages, 1))


def next_state(step: StepFunction, stages: ca.SX) -> ca.SX:
    return stages


TRAPEZOID = Implicit("trapezoid", 2, 1, equations, next_state, summary="implicit; for stiff models with smooth inputs")
