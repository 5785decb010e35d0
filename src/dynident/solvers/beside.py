"""Beside: has a solver found a minimum, or was it put where the slope with respect to an unknown happens to vanish?

Where an unknown acts through a product or a power (m*l, a**2) and starts at 0, nothing measured changes with it to first
order, no solver moves it, and every test of a small step is passed. Such unknowns are moved beside their start, and the
solver is asked again.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dynident.discretizations.finite import FiniteProblem, Point
from dynident.integrators.march import Diverged
from dynident.solvers.outcome import SETTLED, Outcome, standard_errors
from dynident.solvers.reduced import Reduced

NO_SLOPE = 1e-13  # of the largest column, each for a typical change of its unknown
SIZES = (1.0, 1e-2, 1e-4)  # of a typical change: how far beside


def unless_between_slopes(finite: FiniteProblem, outcome: Outcome, begin: np.ndarray, solve: Callable[[Point], Outcome]
                          ) -> tuple[Outcome, str]:
    """The outcome, or a better one from beside and where that began; `begin` are the unknowns at the start."""
    unmoved = (outcome.point.unknowns == begin) & (outcome.held == 0)
    if not outcome.converged or not np.any(unmoved):
        return outcome, ""
    stuck = unmoved & _without_slope(finite, outcome.point)
    for away in (size * typical_change(finite, begin) for size in SIZES if np.any(stuck)):
        c = finite.coordinates
        aside = np.where(stuck, np.where(begin + away <= c.upper, begin + away, begin - away), outcome.point.unknowns)
        try:
            there = solve(Point(np.clip(aside, c.lower, c.upper), outcome.point.nodes))
        except Diverged:
            continue
        gain = outcome.evaluation.cost - there.evaluation.cost
        if there.interrupted or (there.converged and standard_errors(gain, outcome.evaluation.cost, finite) > SETTLED):
            named = ", ".join(name for name, was in zip(finite.names, stuck, strict=True) if was)
            return there, f" (begun beside the start of {named}, where nothing changes with it)"
    return outcome, ""


def typical_change(finite: FiniteProblem, begin: np.ndarray) -> np.ndarray:
    """Of each unknown; 1 where nothing is known of it."""
    scale = finite.coordinates.scale
    return np.where(np.isfinite(scale) & (scale > 0), scale, np.where(begin != 0, np.abs(begin), 1.0))


def _without_slope(finite: FiniteProblem, point: Point) -> np.ndarray:
    try:
        norms = Reduced(finite.linearize(point)).rows.column_norms * typical_change(finite, point.unknowns)
    except Diverged:
        return np.zeros(len(finite.names), bool)
    return norms <= NO_SLOPE * max(float(np.max(norms)), np.sqrt(finite.floor))
