"""Parameter transforms: the unknowns as a solver sees them (logarithms where asked for), and the way back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynident.problem.problem import Problem


@dataclass(frozen=True, eq=False)
class Transforms:
    """One solver coordinate per unknown: its value, or the logarithm of its value."""

    log: np.ndarray  # (unknowns,) bool
    lower: np.ndarray  # in solver coordinates
    upper: np.ndarray
    scale: np.ndarray  # typical size of a change, NaN where nothing is known yet

    def values(self, xi: np.ndarray) -> np.ndarray:
        values = np.array(xi, dtype=float)
        with np.errstate(over="ignore"):  # an overflow becomes inf, and that a rejected step
            return np.exp(values, out=values, where=self.log)

    def coordinates(self, values: np.ndarray) -> np.ndarray:
        return np.where(self.log, np.log(np.where(self.log, values, 1.0)), values)

    def derivative(self, xi: np.ndarray) -> np.ndarray:
        """d value / d coordinate."""
        return np.where(self.log, self.values(xi), 1.0)


def transforms_of(problem: Problem, start: np.ndarray) -> Transforms:
    """Coordinates for a problem; `start` are the values to begin with, since some come from the data."""
    log = np.array([u.log for u in problem.unknowns], dtype=bool)
    lower = np.array([u.lower for u in problem.unknowns], dtype=float)
    upper = np.array([u.upper for u in problem.unknowns], dtype=float)
    scale = np.array([u.scale if u.scale is not None else np.nan for u in problem.unknowns], dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(np.isnan(scale) & (start != 0), np.abs(start), scale)
        span = upper - lower
        scale = np.where(np.isnan(scale) & np.isfinite(span), span / 10, scale)
        lower = np.where(log, np.log(np.where(log, np.maximum(lower, 0), 1)), lower)
        upper = np.where(log, np.log(np.where(log, upper, 1)), upper)
    return Transforms(log, lower, upper, np.where(log, 1.0, scale))
