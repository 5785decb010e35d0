"""Explicit Euler: order 1, eq. (16) of the filter paper."""

from dynident.integrators.scheme import Explicit, StepFunction, runge_kutta_step


def next_state(step: StepFunction):
    return runge_kutta_step(step, c=[0], a=[[]], b=[1])


EULER = Explicit("euler", 1, next_state, summary="one evaluation; cheap and crude, unstable where h is large")
