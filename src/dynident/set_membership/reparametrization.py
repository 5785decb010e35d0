"""Reparametrization: which products of parameters make a mode's rate less curved?

beta*(u - T) is bilinear in beta and T, but linear in beta and w = beta*T. Where a parameter acts only through its product
with another one, the product takes its place, and bounds of the parameter follow from those of both.
"""

from __future__ import annotations

from dataclasses import dataclass

import casadi
import numpy as np


@dataclass(frozen=True, eq=False)
class ReparametrizedMode:
    """A rate and an output in which some parameters are replaced by their product with another one."""

    rate: casadi.Function
    output: casadi.Function
    products: dict[int, int]  # parameter -> the factor that it is multiplied by
    curving: np.ndarray  # (states + parameters,): whether the Jacobian of the rate depends on it


def reparametrize(rate: casadi.Function, output: casadi.Function, positive: np.ndarray) -> ReparametrizedMode:
    """The mode with every possible product put in; `positive` are parameters that are so for certain."""
    t, x, u, p = (casadi.SX.sym(n, rate.size1_in(k)) for k, n in enumerate("txup"))
    f, y = rate(t, x, u, p), output(t, x, u, p)
    products: dict[int, int] = {}
    for k in range(p.numel()):
        slope = casadi.jacobian(f, p[k])
        if casadi.depends_on(slope, p[k]) or casadi.depends_on(y, p[k]):
            continue
        factor = next((j for j in range(p.numel()) if j != k and positive[j] and j not in products
                       and k not in products.values() and _is_only_factor(slope, p, j)), None)
        if factor is not None:
            products[k] = factor
            f = casadi.substitute(f, p[k], 0) + p[k] * casadi.jacobian(slope, p[factor])
    unknowns = casadi.vertcat(x, p)
    curvature = casadi.vec(casadi.jacobian(f, unknowns))
    curving = np.array([casadi.depends_on(curvature, unknowns[k]) for k in range(unknowns.numel())], bool)
    return ReparametrizedMode(casadi.Function("rate", [t, x, u, p], [casadi.densify(f)]), output, products, curving)


def _is_only_factor(slope: casadi.SX, p: casadi.SX, j: int) -> bool:
    """Whether slope = p[j] * (something without parameters)."""
    second = casadi.jacobian(slope, p[j])
    rest = casadi.simplify(casadi.substitute(slope, p[j], 0))
    return bool(second.nnz()) and not casadi.depends_on(second, p) and casadi.densify(rest).is_zero()
