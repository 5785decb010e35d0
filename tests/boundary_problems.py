"""Published two-point boundary value problems: what every solver of them meets.

Numbers T1 to T33 are those of the test set of Mazzia and Cash (A Fortran test set for boundary value problem solvers, AIP
Conference Proceedings 1648, 2015), the others are named after where they come from. Guesses are constants or straight lines
between what the conditions say, unless several solutions exist.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.integrate import solve_bvp
from scipy.optimize import brentq
from scipy.special import erf

from dynident.maths import cos, exp, pi, sin, sinh, tan


@dataclass(frozen=True)
class Published:
    """A problem with its guess; `exact` gives the first state where it is known in closed form."""

    name: str
    rate: Callable[..., Any]
    boundary: Callable[..., Any]
    interval: tuple[float, float]
    guess: Any
    exact: Callable[[np.ndarray], np.ndarray] | None = None
    parameters: Mapping[str, float] = field(default_factory=dict)
    parameter: float | None = None  # the first unknown parameter, where it is known


def line(y_begin: float, y_end: float, interval: tuple[float, float] = (0.0, 1.0), more: int = 0):
    """A straight line for y, its slope for y', zero for what follows."""
    a, b = interval
    slope = (y_end - y_begin) / (b - a)
    return lambda t: [y_begin + slope * (t - a), slope, *[0.0] * more]


def fixed(y_begin: float, y_end: float):
    """y given at both ends."""
    return lambda a, b: [a[0] - y_begin, b[0] - y_end]


def t1(eps):
    k = 1 / np.sqrt(eps)
    return Published(f"T1, two ends, eps {eps:g}", lambda t, y: [y[1], y[0] / eps], fixed(1, 0), (0, 1), line(1, 0),
                     lambda t: (np.exp(-t * k) - np.exp((t - 2) * k)) / (1 - np.exp(-2 * k)))


def t2(eps):
    return Published(f"T2, layer at the end, eps {eps:g}", lambda t, y: [y[1], y[1] / eps], fixed(1, 0), (0, 1), line(1, 0),
                     lambda t: (1 - np.exp((t - 1) / eps)) / (1 - np.exp(-1 / eps)))


def t3(eps):
    return Published(f"T3, smooth, eps {eps:g}", lambda t, y: [y[1], (y[0] - (2 + cos(pi * t)) * y[1] - (1 + eps * pi**2)
                     * cos(pi * t) - (2 + cos(pi * t)) * pi * sin(pi * t)) / eps], fixed(-1, -1), (-1, 1), [-1, 0],
                     lambda t: np.cos(np.pi * t))


def t4(eps):
    return Published(f"T4, layer and growth, eps {eps:g}", lambda t, y: [y[1], ((1 + eps) * y[0] - y[1]) / eps],
                     fixed(1 + np.exp(-2), 1 + np.exp(-2 * (1 + eps) / eps)), (-1, 1), [1, 0],
                     lambda t: np.exp(t - 1) + np.exp(-(1 + eps) * (1 + t) / eps))


def t6(eps):
    s = np.sqrt(2 * eps)
    return Published(f"T6, turning point, eps {eps:g}",
                     lambda t, y: [y[1], (-t * y[1] - eps * pi**2 * cos(pi * t) - pi * t * sin(pi * t)) / eps],
                     fixed(-2, 0), (-1, 1), line(-2, 0, (-1, 1)), lambda t: np.cos(np.pi * t) + erf(t / s) / erf(1 / s))


def t9(eps):
    return Published(f"T9, spike, eps {eps:g}", lambda t, y: [y[1], -(4 * t * y[1] + 2 * y[0]) / (eps + t**2)],
                     fixed(1 / (1 + eps), 1 / (1 + eps)), (-1, 1), [1, 0], lambda t: 1 / (eps + t**2))


def t19(eps):
    return Published(f"T19, eps {eps:g}", lambda t, y: [
        y[1], (-exp(y[0]) * y[1] + pi / 2 * sin(pi * t / 2) * exp(2 * y[0])) / eps], fixed(0, 0), (0, 1), [0, 0])


def t20(eps):
    def logcosh(x):
        return np.abs(x) + np.log1p(np.exp(-2 * np.abs(x))) - np.log(2)

    def exact(t):
        return 1 + eps * logcosh((t - 0.745) / eps)

    return Published(f"T20, corner, eps {eps:g}", lambda t, y: [y[1], (1 - y[1]**2) / eps],
                     fixed(float(exact(0.0)), float(exact(1.0))), (0, 1), line(float(exact(0.0)), float(exact(1.0))), exact)


def t21(eps):
    k = 1 / np.sqrt(eps)
    return Published(f"T21, nonlinear layer, eps {eps:g}", lambda t, y: [y[1], (y[0] + y[0]**2 - exp(-2 * k * t)) / eps],
                     fixed(1, np.exp(-k)), (0, 1), line(1, np.exp(-k)), lambda t: np.exp(-k * t))


def t22(eps):
    return Published(f"T22, eps {eps:g}", lambda t, y: [y[1], -(y[1] + y[0]**2) / eps], fixed(0, 0.5), (0, 1), line(0, 0.5))


def troesch(mu):
    return Published(f"T23, Troesch, mu {mu:g}", lambda t, y: [y[1], mu * sinh(mu * y[0])], fixed(0, 1), (0, 1), line(0, 1))


def t24(eps, gamma=1.4):
    def rate(t, y):
        area, slope = 1 + t**2, 2 * t
        return [y[1], (((1 + gamma) / 2 - eps * slope) * y[0] * y[1] - y[1] / y[0]
                       - slope / area * (1 - (gamma - 1) / 2 * y[0]**2)) / (eps * area * y[0])]

    return Published(f"T24, shock in a nozzle, eps {eps:g}", rate, fixed(0.9129, 0.375), (0, 1), line(0.9129, 0.375))


def t25_to_30(number, eps, begin, end):
    return Published(f"T{number}, eps {eps:g}", lambda t, y: [y[1], (y[0] - y[0] * y[1]) / eps], fixed(begin, end), (0, 1),
                     line(begin, end))


def t31(eps):
    def rate(t, y):
        _, angle, moment, force = y
        bend = 1 / cos(angle) + eps * force * tan(angle)
        return [sin(angle), moment, -force / eps, ((y[0] - 1) * cos(angle) - moment * bend) / eps]

    return Published(f"T31, cantilever, eps {eps:g}", rate, lambda a, b: [a[0], b[0], a[2], b[2]], (0, 1), [0, 0, 0, 0])


def t32(reynolds):
    return Published(f"T32, channel flow, R {reynolds:g}",
                     lambda t, y: [y[1], y[2], y[3], reynolds * (y[1] * y[2] - y[0] * y[3])],
                     lambda a, b: [a[0], a[1], b[0] - 1, b[1]], (0, 1), line(0, 1, more=2))


def t33(eps):
    def rate(t, y):
        f, f1, f2, f3, g, g1 = y
        return [f1, f2, f3, (-f * f3 - g * g1) / eps, g1, (f1 * g - f * g1) / eps]

    return Published(f"T33, swirling flow, eps {eps:g}", rate,
                     lambda a, b: [a[0], a[1], b[0], b[1], a[4] + 1, b[4] - 1], (0, 1),
                     lambda t: [0, 0, 0, 0, 2 * t - 1, 2])


def bratu(upper):
    """y'' = -exp(y): two solutions, y = -2 log(cosh((t - 1/2) s/2) / cosh(s/4)) with s = sqrt(2) cosh(s/4)."""
    s = brentq(lambda s: s - np.sqrt(2) * np.cosh(s / 4), *((5, 20) if upper else (1, 2)), xtol=1e-14)
    return Published(f"Bratu, {'upper' if upper else 'lower'}", lambda t, y: [y[1], -exp(y[0])], fixed(0, 0), (0, 1),
                     (lambda t: [4 * np.sin(np.pi * t), 4 * np.pi * np.cos(np.pi * t)]) if upper else [0, 0],
                     lambda t: -2 * np.log(np.cosh((t - 0.5) * s / 2) / np.cosh(s / 4)))


def mathieu():
    """The eigenvalue a_2 of Mathieu's equation for q = 5, with the slope known at one end: an unknown parameter."""
    return Published("Mathieu's equation, q 5", lambda t, y, p: [y[1], -(p[0] - 10 * cos(2 * t)) * y[0]],
                     lambda a, b, p: [a[1], b[1], a[0] - 1], (0, np.pi), lambda t: [np.cos(4 * t), -4 * np.sin(4 * t)],
                     parameters={"a": 15.0}, parameter=17.096581684)


def blasius():
    """Blasius: f''' + f f''/2 = 0 on a long interval, f''(0) = 0.332057336."""
    return Published("Blasius", lambda t, y: [y[1], y[2], -y[0] * y[2] / 2], lambda a, b: [a[0], a[1], b[1] - 1], (0, 10),
                     lambda t: [t, 1, 0])


def measles():
    """A year of measles (Ascher, Mattheij and Russell, example 1.10): periodic, so that both ends are tied together."""
    mu, infection, latent, recovery = 0.02, 1575.0, 0.0279, 0.01

    def rate(t, y):
        beta = infection * (1 + cos(2 * pi * t))
        return [mu - beta * y[0] * y[2], beta * y[0] * y[2] - y[1] / latent, y[1] / latent - y[2] / recovery]

    return Published("measles", rate, lambda a, b: [a[k] - b[k] for k in range(3)], (0, 1),
                     [1 / (infection * recovery), mu * latent, mu * recovery])  # where it would stand still


def thesis_linear():
    """Sec. 6.3.1 of the thesis: y1 = sin(4 pi t)/2."""
    return Published("linear problem of the thesis", lambda t, y: [y[1], -16 * pi**2 * y[0]],
                     lambda a, b: [a[0], b[1] - 2 * pi], (0, 1), [0, 0], lambda t: np.sin(4 * np.pi * t) / 2)


def painleve():
    """y'' = y^2 - t on [0, 10] with y(0) = 0 and y(10) = sqrt(10): two solutions; this one begins upwards (Holmes)."""
    return Published("Painleve", lambda t, y: [y[1], y[0]**2 - t], fixed(0, np.sqrt(10)), (0, 10),
                     line(0, np.sqrt(10), (0, 10)))


def kink(a, above=0.0, guess=None):
    """y'' = 2 a^2 y (y^2 - 1) with y(-1) = -1, y(1) = 1 + above: a layer inside that hardly anything holds in its place.

    Times y', it says that y'^2 - a^2 (y^2 - 1)^2 is a constant c. Where y grows, the time from -1 to y is therefore the
    integral of 1/sqrt(a^2 (y^2 - 1)^2 + c); c follows from the time 2 up to 1 + above.
    """
    return Published(f"kink, a {a:g}, above {above:g}", lambda t, y: [y[1], 2 * a**2 * y[0] * (y[0]**2 - 1)],
                     fixed(-1, 1 + above), (-1, 1), guess or line(-1, 1, (-1, 1)))


def kink_times(a, above, values):
    """The times at which the kink passes `values`, by quadrature on panels that shrink towards the peaks at -1 and 1."""
    points, weights = np.polynomial.legendre.leggauss(20)
    near = np.append(0.0, np.logspace(-14, np.log10(0.5), 120))
    every = np.concatenate([-1 + near, 1 - near, 1 + near])

    def duration(c, y):
        panels = np.unique(np.append(every[(every > -1) & (every < y)], [-1.0, y]))
        half = np.diff(panels)[:, None] / 2
        at = panels[:-1, None] + half * (1 + points)
        return float(np.sum(half * weights / np.sqrt((a * (at - 1) * (at + 1)) ** 2 + c)))

    c = np.exp(brentq(lambda log: duration(np.exp(log), 1 + above) - 2, -80, 5, xtol=1e-13))
    return np.array([duration(c, y) - 1 for y in values])


def steady_burgers(eps, guess):
    """eps y'' = y y', y(-1) = 1, y(1) = -1: y = -c tanh(c t / 2 eps) with c tanh(c / 2 eps) = 1."""
    c = brentq(lambda c: c * np.tanh(c / (2 * eps)) - 1, 1e-3, 10, xtol=1e-15)
    return Published(f"steady Burgers, eps {eps:g}", lambda t, y: [y[1], y[0] * y[1] / eps], fixed(1, -1), (-1, 1), guess,
                     lambda t: -c * np.tanh(c * t / (2 * eps)))


PUBLISHED = (
    thesis_linear(), t1(1e-2), t2(1e-2), t3(1e-3), t4(1e-2), t6(1e-3), t9(1e-1), t19(1e-2), t20(0.1), t21(1e-2), t22(1e-2),
    troesch(5), t24(5e-2), t25_to_30(25, 1e-2, -1 / 3, 1 / 3), t25_to_30(26, 1e-2, 1, -1 / 3), t25_to_30(27, 1e-2, 1, 1 / 3),
    t25_to_30(30, 5e-2, -7 / 6, 1.5), t31(0.05), t32(100), t33(1e-2), bratu(False), bratu(True), mathieu(), blasius(),
    measles(), painleve())
HARDER = (t1(1e-6), t2(1e-3), t4(1e-3), t9(1e-3), t19(1e-3), t20(0.03), t20(0.01), t21(1e-4), t22(1e-3), t24(1e-2),
          t25_to_30(26, 1e-3, 1, -1 / 3), t25_to_30(27, 1e-3, 1, 1 / 3), t25_to_30(28, 1e-2, 1, 1.5),
          t25_to_30(29, 1e-2, 0, 1.5), t25_to_30(30, 1e-2, -7 / 6, 1.5), t31(0.01), t32(1000), t33(1e-3))


def by_scipy(problem: Published, tolerance: float, nodes: int = 17):
    """The same by scipy's solve_bvp; y stands row by row there."""
    time = np.linspace(*problem.interval, nodes)
    guess = problem.guess if callable(problem.guess) else (lambda t: problem.guess)

    def rate(t, y, *p):
        return np.array([np.broadcast_to(np.asarray(each, float), t.shape) for each in problem.rate(t, y, *p)])

    def boundary(a, b, *p):
        return np.array(problem.boundary(a, b, *p), float)

    start = list(problem.parameters.values()) or None
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return solve_bvp(rate, boundary, time, np.array([guess(t) for t in time], float).T, p=start, tol=tolerance,
                         max_nodes=100_000)
