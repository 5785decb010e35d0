"""Simpson (Runge-Kutta 3): order 3, eq. (18) of the filter paper."""

from dynident.integrators.scheme import Explicit, StepFunction, runge_kutta_step


def next_state(step: StepFunction):
    return runge_kutta_step(step, c=[0, 1 / 2, 1], a=[[], [1 / 2], [-1, 2]], b=[1 / 6, 4 / 6, 1 / 6])


SIMPSON = Explicit("simpson", 3, next_state, summary="three evaluations")
