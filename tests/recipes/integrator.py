"""Toy integrator: the explicit midpoint rule."""

from functools import partial

from dynident.integrators.scheme import Explicit, runge_kutta_step

MIDPOINT = Explicit("midpoint", 2, partial(runge_kutta_step, c=[0, 1 / 2], a=[[], [1 / 2]], b=[0, 1]), summary="a toy")
