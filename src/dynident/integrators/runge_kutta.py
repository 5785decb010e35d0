"""Runge-Kutta: the classical scheme of order 4, eq. (19) of the filter paper; the default."""

from dynident.integrators.scheme import Explicit, StepFunction, runge_kutta_step


def next_state(step: StepFunction):
    return runge_kutta_step(step, c=[0, 1 / 2, 1 / 2, 1], a=[[], [1 / 2], [0, 1 / 2], [0, 0, 1]],
                            b=[1 / 6, 2 / 6, 2 / 6, 1 / 6])


RUNGE_KUTTA = Explicit("runge_kutta", 4, next_state, summary="four evaluations; the default")
