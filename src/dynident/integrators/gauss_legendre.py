"""Gauss-Legendre: implicit collocation of the highest order; keeps quadratic invariants, for models that hardly damp."""

import numpy as np
from scipy.special import roots_legendre

from dynident.integrators.collocation_tableau import collocation_scheme
from dynident.integrators.scheme import Implicit

USUAL_DEGREE = 2


def gauss_legendre(degree: int = USUAL_DEGREE) -> Implicit:
    """`degree` stages, order 2 degree; one stage is the implicit midpoint rule."""
    points = (np.sort(roots_legendre(degree)[0]) + 1) / 2
    name = "gauss_legendre" if degree == USUAL_DEGREE else f"gauss_legendre({degree})"
    return collocation_scheme(name, 2 * degree, points, "implicit collocation; symplectic, of the highest order")


GAUSS_LEGENDRE = gauss_legendre()
