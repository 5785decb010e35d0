"""Hermite-Simpson: implicit, order 4; the middle of the step lies on the cubic through its ends."""

import casadi as ca

from dynident.integrators.scheme import Implicit, StepFunction


def equations(step: StepFunction, stages: ca.SX) -> ca.SX:
    begin, end = step.rate_at(step.x, 0), step.rate_at(stages, 1)
    middle = (step.x + stages) / 2 + step.h / 8 * (begin - end)
    return stages - step.x - step.h / 6 * (begin + 4 * step.rate_at(middle, 0.5) + end)


def next_state(step: StepFunction, stages: ca.SX) -> ca.SX:
    return stages


HERMITE_SIMPSON = Implicit("hermite_simpson", 4, 1, equations, next_state, points=(1.0,),
                           summary="implicit; the usual choice of direct collocation")
