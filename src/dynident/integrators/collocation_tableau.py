"""Polynomial: implicit schemes by collocation at given points of the step."""

from __future__ import annotations

import casadi as ca
import numpy as np

from dynident.integrators.scheme import Implicit, StepFunction


def collocation_scheme(name: str, order: int, points: np.ndarray, summary: str) -> Implicit:
    """The state is a polynomial whose slope is right at `points` (fractions of the step, ascending)."""
    weights, closing = collocation_weights(points)
    ends = bool(points[-1] == 1.0)

    def slopes(step: StepFunction, stages: ca.SX) -> list[ca.SX]:
        n = step.x.numel()
        return [step.rate_at(stages[i * n:(i + 1) * n], float(c)) for i, c in enumerate(points)]

    def equations(step: StepFunction, stages: ca.SX) -> ca.SX:
        n, k = step.x.numel(), slopes(step, stages)
        return ca.vertcat(*[
            stages[i * n:(i + 1) * n] - step.x - step.h * sum(float(w) * k[j] for j, w in enumerate(row))
            for i, row in enumerate(weights)])

    def next_state(step: StepFunction, stages: ca.SX) -> ca.SX:
        if ends:
            return stages[(len(points) - 1) * step.x.numel():]
        return step.x + step.h * sum(float(w) * k for w, k in zip(closing, slopes(step, stages), strict=True))

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
