"""Implicit schemes: trapezoidal rule, Hermite-Simpson, and collocation at the points of Gauss-Legendre and Radau.

The trapezoidal rule is that of the real robot in the direct-methods paper. The middle of a Hermite-Simpson step lies on the
cubic through its ends (collocation at the points of Lobatto, IIIA). Gauss-Legendre is collocation of the highest order at the
ends of steps (superconvergence) and keeps quadratic invariants; Radau IIA ends at the step's end (stiffly accurate) and damps
what is infinitely stiff (L-stable; the others are A-stable).
"""

from __future__ import annotations

import casadi as ca
import numpy as np
from scipy.special import roots_jacobi, roots_legendre

from dynident.integrators.scheme import Implicit, StepFunction

GAUSS_LEGENDRE_DEGREE, RADAU_DEGREE = 2, 3  # stages, where nothing is said


def trapezoid_equations(step: StepFunction, stages: ca.SX) -> ca.SX:
    return stages - step.x - step.h / 2 * (step.rate_at(step.x, 0) + step.rate_at(stages, 1))


def hermite_simpson_equations(step: StepFunction, stages: ca.SX) -> ca.SX:
    begin, end = step.rate_at(step.x, 0), step.rate_at(stages, 1)
    middle = (step.x + stages) / 2 + step.h / 8 * (begin - end)
    return stages - step.x - step.h / 6 * (begin + 4 * step.rate_at(middle, 0.5) + end)


def last_stage(step: StepFunction, stages: ca.SX) -> ca.SX:
    """The next state, where the only stage is the state at the end of the step."""
    return stages


def collocation_scheme(name: str, order: int, points: np.ndarray, summary: str) -> Implicit:
    """The state is a polynomial whose derivative is right at `points` (fractions of the step, ascending)."""
    weights, closing = collocation_weights(points)
    ends = bool(points[-1] == 1.0)

    def rates(step: StepFunction, stages: ca.SX) -> list[ca.SX]:
        n = step.x.numel()
        return [step.rate_at(stages[i * n:(i + 1) * n], float(c)) for i, c in enumerate(points)]

    def equations(step: StepFunction, stages: ca.SX) -> ca.SX:
        n, k = step.x.numel(), rates(step, stages)
        return ca.vertcat(*[
            stages[i * n:(i + 1) * n] - step.x - step.h * sum(float(w) * k[j] for j, w in enumerate(row))
            for i, row in enumerate(weights)])

    def next_state(step: StepFunction, stages: ca.SX) -> ca.SX:
        if ends:
            return stages[(len(points) - 1) * step.x.numel():]
        return step.x + step.h * sum(float(w) * k for w, k in zip(closing, rates(step, stages), strict=True))

    return Implicit(name, order, len(points), equations, next_state, points=tuple(float(c) for c in points),
                    summary=summary)


def collocation_weights(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Integrals of the Lagrange polynomials on `points`: from 0 to each point, and from 0 to 1."""
    d = len(points)
    weights, closing = np.empty((d, d)), np.empty(d)
    for j in range(d):
        others = np.delete(points, j)
        lagrange = np.polynomial.Polynomial(np.polynomial.polynomial.polyfromroots(others)) / np.prod(points[j] - others)
        integral = lagrange.integ()
        weights[:, j] = integral(points) - integral(0)
        closing[j] = integral(1) - integral(0)
    return weights, closing


def gauss_legendre(degree: int = GAUSS_LEGENDRE_DEGREE) -> Implicit:
    """`degree` stages, order 2 degree; one stage is the implicit midpoint rule."""
    points = (np.sort(roots_legendre(degree)[0]) + 1) / 2
    name = "gauss_legendre" if degree == GAUSS_LEGENDRE_DEGREE else f"gauss_legendre({degree})"
    return collocation_scheme(name, 2 * degree, points, "implicit collocation; symplectic, of the highest order")


def radau(degree: int = RADAU_DEGREE) -> Implicit:
    """`degree` stages, order 2 degree - 1; one stage is implicit Euler."""
    inner = (np.sort(roots_jacobi(degree - 1, 1, 0)[0]) + 1) / 2 if degree > 1 else np.zeros(0)
    name = "radau" if degree == RADAU_DEGREE else f"radau({degree})"
    return collocation_scheme(name, 2 * degree - 1, np.append(inner, 1.0), "implicit collocation; for stiff models")


TRAPEZOID = Implicit("trapezoid", 2, 1, trapezoid_equations, last_stage,
                     summary="implicit; for stiff models with smooth inputs")
HERMITE_SIMPSON = Implicit("hermite_simpson", 4, 1, hermite_simpson_equations, last_stage, points=(1.0,),
                           summary="implicit; the usual choice of direct collocation")
GAUSS_LEGENDRE, RADAU = gauss_legendre(), radau()
