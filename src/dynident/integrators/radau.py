"""Radau IIA: implicit collocation that ends at the step's end; damps what is infinitely stiff."""

import numpy as np
from scipy.special import roots_jacobi

from dynident.integrators.collocation_tableau import collocation_scheme
from dynident.integrators.scheme import Implicit

USUAL_DEGREE = 3


def radau(degree: int = USUAL_DEGREE) -> Implicit:
    """`degree` stages, order 2 degree - 1; one stage is implicit Euler."""
    inner = (np.sort(roots_jacobi(degree - 1, 1, 0)[0]) + 1) / 2 if degree > 1 else np.zeros(0)
    name = "radau" if degree == USUAL_DEGREE else f"radau({degree})"
    return collocation_scheme(name, 2 * degree - 1, np.append(inner, 1.0), "implicit collocation; for stiff models")


RADAU = radau()
