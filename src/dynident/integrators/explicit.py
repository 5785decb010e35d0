"""Explicit schemes: Runge-Kutta methods, each with its Butcher tableau; a new one is an entry and a name in INTEGRATORS.

Equations (16) to (19) of the filter paper.
"""

from __future__ import annotations

from functools import partial

from dynident.integrators.scheme import Explicit, runge_kutta_step

EULER = Explicit(
    "euler", 1, partial(runge_kutta_step, c=[0], a=[[]], b=[1]),
    summary="one evaluation; cheap and crude, unstable where h is large")

HEUN = Explicit(  # predicts with Euler and averages the two rates
    "heun", 2, partial(runge_kutta_step, c=[0, 1], a=[[], [1]], b=[1 / 2, 1 / 2]),
    summary="two evaluations")

SIMPSON = Explicit(  # Kutta's third-order scheme, RK3: Simpson's rule where the rate depends on time alone
    "simpson", 3, partial(runge_kutta_step, c=[0, 1 / 2, 1], a=[[], [1 / 2], [-1, 2]], b=[1 / 6, 4 / 6, 1 / 6]),
    summary="three evaluations")

RUNGE_KUTTA = Explicit(  # the classical scheme, RK4
    "runge_kutta", 4, partial(runge_kutta_step, c=[0, 1 / 2, 1 / 2, 1], a=[[], [1 / 2], [0, 1 / 2], [0, 0, 1]],
                              b=[1 / 6, 2 / 6, 2 / 6, 1 / 6]),
    summary="four evaluations; the default")
