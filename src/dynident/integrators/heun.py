"""Heun: order 2, predict with Euler and average the two slopes, eq. (17) of the filter paper."""

from dynident.integrators.scheme import Explicit, StepFunction, runge_kutta_step


def next_state(step: StepFunction):
    return runge_kutta_step(step, c=[0, 1], a=[[], [1]], b=[1 / 2, 1 / 2])


HEUN = Explicit("heun", 2, next_state, summary="two evaluations")
