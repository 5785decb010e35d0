"""Linearised constraints: conditions between the unknowns in the small least squares problem of a step.

Each condition gets an unknown of its own, its value after the step, which has bounds like any other; heavy rows tie it to
the step. So the box solver decides which conditions hold the step, and a start that does not meet them is no special case.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynident.linalg.arrowhead import FIRM, ArrowheadLeastSquares, arrowhead
from dynident.tolerances import CONSTRAINT_TOLERANCE
from dynident.transcription.parameter_constraints import ParameterConstraints


@dataclass(frozen=True, eq=False)
class LinearizedConstraints:
    """Conditions linearised at a point: lower <= values + slopes @ step <= upper."""

    between: ParameterConstraints
    values: np.ndarray  # (k,)
    slopes: np.ndarray  # (k, unknowns)
    sizes: np.ndarray  # (k,) of the terms that make a value, to compare rounding with
    weights: np.ndarray  # (k,) of the rows that tie a condition to the step

    def tied(self, rows: ArrowheadLeastSquares) -> ArrowheadLeastSquares:
        """The rows in the unknowns and, after them, the changes of the conditions' values."""
        n, k = rows.unknowns, self.values.size
        below = np.column_stack([self.weights[:, None] * self.slopes, -np.diag(self.weights), np.zeros(k)])
        above = np.zeros((n, n + k + 1))
        triangle = rows.to_dense()
        above[:, :n], above[:, -1] = triangle[:, :n], triangle[:, -1]
        return arrowhead(n + k, np.arange(n + k), [], np.vstack([below, above]))

    def bounds(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of a step, continued for the changes of the conditions' values."""
        return (np.concatenate([lower, self.between.lower - self.values]),
                np.concatenate([upper, self.between.upper - self.values]))

    def pull(self, held: np.ndarray, values: np.ndarray) -> np.ndarray:
        """What the conditions that hold a step (-1 below, +1 above) add to the gradient where their values are these."""
        goal = np.where(held < 0, self.between.lower, np.where(held > 0, self.between.upper, values))
        return self.slopes.T @ (self.weights**2 * (values - goal))

    @property
    def excess(self) -> np.ndarray:
        """(k,) by how much each is not met; 0 where it is, to rounding."""
        beyond = np.maximum(self.between.lower - self.values, self.values - self.between.upper)
        return np.where(beyond > CONSTRAINT_TOLERANCE * self.sizes, beyond, 0.0)

    @property
    def complaint(self) -> str:
        """What is not met, as a clause."""
        worst = int(np.argmax(self.excess / self.sizes))
        return f"'{self.between.texts[worst]}' is off by {self.excess[worst]:.3g}"


def linearize_constraints(between: ParameterConstraints, at: np.ndarray, units: np.ndarray, seen: float
                          ) -> LinearizedConstraints:
    """At these unknowns, of these typical sizes; `seen`: how much the rows see of the unknown that they see best."""
    values, slopes = between.at(at)
    reach = np.linalg.norm(slopes * units, axis=1)
    limits = np.where(np.isfinite(between.lower), between.lower, between.upper)
    sizes = np.abs(values) + np.abs(limits) + np.sum(np.abs(slopes * at), axis=1) + 1e-300
    return LinearizedConstraints(between, values, slopes, sizes, FIRM * seen / np.where(reach > 0, reach, seen * FIRM))
