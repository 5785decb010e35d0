"""Taylor: the polynomial in time of one mode's flow, its derivatives and its remainder, as expressions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import casadi

from dynident.set_membership.flows.interval_automaton import Layout, Symbols
from dynident.set_membership.flows.nonsmooth import Smoothness


@dataclass(frozen=True, eq=False)
class TaylorStep:
    """x(t + h) = polynomial(x, p, u, slope, t, h) + remainder, the remainder taken over all passed states.

    Formulas (4) and (5) of Rauh, Senkel and Aschemann for any order. Inputs run as u + slope*tau within the step.
    """

    picard: casadi.Function  # x + [0, h] f over the passed states
    polynomial: tuple[casadi.Function, ...]  # one per state, so that each can be taken at its own corner
    jacobian: casadi.Function  # of the polynomial, by columns, with respect to (x, p)
    remainder: casadi.Function
    whole: casadi.Function  # polynomial and remainder together
    closed: casadi.Function  # the polynomial plus what stands in the rows of the passed states: the remainder, once known
    straight: casadi.Function  # x + h f over the passed states, whether smooth or not
    smooth: Smoothness  # where all of this but `picard` and `straight` may be used
    still: bool  # the rate is zero
    affine: bool  # the rate is affine in the state


def taylor_step(rate: casadi.Function, layout: Layout, order: int, proved: bool = False) -> TaylorStep:
    """The step of one mode; `order` is the highest power of h in the polynomial."""
    s = layout.symbols()
    derivatives = _time_derivatives(rate, s, order + 1)
    f = derivatives[1]
    polynomial = s.x + _horner(derivatives[1:-1], s.h)
    remainder = s.meanwhile(derivatives[-1]) * s.h**(order + 1) / float(math.factorial(order + 1))
    jacobian = casadi.jacobian(polynomial, casadi.vertcat(s.x, s.p))
    return TaylorStep(
        s.function(s.x + s.s * s.meanwhile(f)), tuple(s.function(part) for part in casadi.vertsplit(polynomial)),
        s.function(jacobian), s.function(remainder), s.function(polynomial + remainder),
        s.function(polynomial + s.b), s.function(s.x + s.h * s.meanwhile(f)), Smoothness(f, s, proved),
        still=f.is_zero(), affine=not casadi.depends_on(casadi.vec(casadi.jacobian(f, s.x)), s.x))


def _horner(derivatives: list[casadi.SX], h: casadi.SX) -> casadi.SX:
    """h d1 + h^2/2 d2 + ... = h (d1 + h/2 (d2 + h/3 (...))); whole numbers divide exactly as written."""
    total = derivatives[-1]
    for k in range(len(derivatives) - 1, 0, -1):
        total = derivatives[k - 1] + h / float(k + 1) * total
    return h * total


def _time_derivatives(rate: casadi.Function, s: Symbols, count: int) -> list[casadi.SX]:
    """x, x', x'', ... along the solution, with inputs that move with constant slope."""
    f = rate(s.t, s.x, s.u, s.p)
    found = [s.x, f]
    for _ in range(count - 1):
        last = found[-1]
        found.append(casadi.jtimes(last, s.x, f) + casadi.jtimes(last, s.u, s.slope)
                     + casadi.jtimes(last, s.t, casadi.SX(1)))
    return found
