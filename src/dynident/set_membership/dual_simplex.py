"""Dual simplex method for linear programs of few variables between bounds and many inequalities.

Sets ask thousands of such programs, each of a handful of unknowns and a row per measurement: a general solver spends more time
on reading one than on solving it. The method starts at the corner of the bounds that is best for the cost, where multipliers
are right but rows may be violated, and takes in the most violated row until none is. Only its multipliers are used, and what
they bound is proved afterwards; so it may stop anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynident.tolerances import LP_FEASIBILITY, LP_PIVOT

MAX_PIVOTS = 200  # such programs take 5 to 30
PERTURBATION = 1e-9  # of the cost, so that no two multipliers reach zero together; the last ones are those of the cost itself


@dataclass(frozen=True, eq=False)
class ScaledRows:
    """A d <= b with |d| <= radius, in variables d/radius and with rows of length one; bounds are rows, too."""

    table: np.ndarray  # (rows + 2 variables, variables)
    limits: np.ndarray
    length: np.ndarray  # (rows,) of the given rows, in the scaled variables
    radius: np.ndarray

    @classmethod
    def of(cls, a: np.ndarray, b: np.ndarray, radius: np.ndarray) -> ScaledRows:
        scaled = a * radius
        length = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
        length = np.where(length > 0, length, 1.0)
        eye = np.eye(radius.size)
        return cls(np.concatenate([scaled / length[:, None], eye, -eye]),
                   np.concatenate([b / length, np.ones(2 * radius.size)]), length, radius)


def dual_multipliers(rows: ScaledRows, cost: np.ndarray) -> np.ndarray | None:
    """(rows,) multipliers y >= 0 with cost + A' y = 0 up to bounds, of the least cost . d; None where it was not found."""
    count, size = rows.length.size, cost.size
    scaled = cost * rows.radius
    largest = float(np.max(np.abs(scaled), initial=0.0))
    if not largest > 0:
        return np.zeros(count)
    moved = scaled / largest + PERTURBATION * np.linspace(1.0, 2.0, size) * np.where(scaled < 0, -1.0, 1.0)
    basis = count + np.arange(size) + np.where(moved > 0, size, 0)
    multipliers = np.abs(moved)
    for _ in range(MAX_PIVOTS):
        inverse = np.linalg.inv(rows.table[basis])
        violation = rows.table @ (inverse @ rows.limits[basis]) - rows.limits
        worst = int(np.argmax(violation))
        if violation[worst] <= LP_FEASIBILITY:
            final = np.maximum(-(scaled @ inverse), 0.0)
            found = np.zeros(len(rows.limits))
            found[basis] = final
            return found[:count] / rows.length
        weights = rows.table[worst] @ inverse
        allowed = weights > LP_PIVOT
        if not allowed.any():
            return None  # nothing fits
        ratios = np.where(allowed, multipliers, np.inf) / np.where(allowed, weights, 1.0)
        leaving = int(np.argmin(ratios))
        step = float(ratios[leaving])
        multipliers = np.maximum(multipliers - step * weights, 0.0)
        multipliers[leaving], basis[leaving] = step, worst
    return None
