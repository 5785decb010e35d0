"""Secant columns (piecewise constant parameters): which unknowns act on what is measured although no derivative shows it?

A condition that begins to hold from one sample to the next (a mode that an input switches which is held between samples,
the first argument of `where`) moves what is measured by steps: between two of them every derivative is zero.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dynident.errors import ProblemError, SimulationDiverged
from dynident.linalg.finite_problem import ResidualJacobian
from dynident.problem.problem import Problem
from dynident.statistics.covariance import typical_values
from dynident.tolerances import ZERO_SENSITIVITY

CHANGED = 1e-9  # of the residuals; a change by less is none
SIZES = (0.1, 1.0, 0.01)  # of a typical change, to either side: where a change is looked for


def with_secant_columns(problem: Problem, at: ResidualJacobian, linearize: Callable[[np.ndarray], ResidualJacobian]
                 ) -> tuple[np.ndarray, tuple[int, ...]]:
    """The Jacobian with differences over a step in the columns of unknowns that act in jumps only, and which these are."""
    lower, upper = (np.array([getattr(u, side) for u in problem.unknowns], float) for side in ("lower", "upper"))
    sizes = typical_values(problem, at.values)
    typical = np.where(np.isfinite(sizes) & (sizes > 0), sizes, np.where(at.values != 0, np.abs(at.values), 1.0))
    measured = at.rows.experiment >= 0
    jacobian, found = at.jacobian.copy(), []
    largest = float(np.max(np.abs(jacobian[measured]), initial=0.0))
    if not np.isfinite(largest):  # a course that blows up, which is said by whoever judges the sensitivities
        return jacobian, ()
    norms = np.linalg.norm(jacobian[measured] / (largest or 1.0), axis=0) * typical  # of squares that stay finite
    for i in np.flatnonzero(norms <= ZERO_SENSITIVITY * np.max(norms, initial=0.0)):
        secant = _secant(at, int(i), typical, lower, upper, linearize)
        if secant is not None:
            jacobian[measured, i] = secant[measured]
            found.append(int(i))
    return jacobian, tuple(found)


def _secant(at: ResidualJacobian, i: int, typical: np.ndarray, lower: np.ndarray, upper: np.ndarray,
            linearize: Callable[[np.ndarray], ResidualJacobian]) -> np.ndarray | None:
    """None where nothing changes with the unknown, or where its slope vanishes at this place only."""
    for size in (sign * size for size in SIZES for sign in (1, -1)):
        values = at.values.copy()
        values[i] = np.clip(values[i] + size * typical[i], lower[i], upper[i])
        step = values[i] - at.values[i]
        if not step:
            continue
        try:
            there = linearize(values)
        except (SimulationDiverged, ProblemError):
            continue
        change = np.where(at.rows.experiment >= 0, there.residuals - at.residuals, 0.0)
        if np.linalg.norm(change) > CHANGED * max(1.0, float(np.linalg.norm(at.residuals))):
            return None if np.any(there.jacobian[at.rows.experiment >= 0, i]) else change / step
    return None
