"""Firm constraints: equalities and inequalities between parameters as rows that are far more exact than the data.

An equality is a measurement of its value, an inequality one only where it is not met. With weights of 1e4 over the standard
deviation that the data leave to a constraint's value, it is missed by 1e-8 of what its multiplier asks for, and every step of
the search, its Hessian and its intervals know of it without a word of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dynident.problem.parameter import transforms_of
from dynident.problem.problem import Problem
from dynident.tolerances import CONSTRAINT_WEIGHT
from dynident.transcription.parameter_constraints import ParameterConstraints, parameter_constraints


@dataclass(frozen=True, eq=False)
class FirmConstraints:
    """Constraints of a problem with the weight of each."""

    constraints: ParameterConstraints
    weights: np.ndarray  # (k,)
    counted: np.ndarray  # (k,) bool

    @classmethod
    def of(cls, problem: Problem, values: np.ndarray, covariance: np.ndarray) -> FirmConstraints | None:
        """Where a search begins; `covariance` of the coordinates, by the data. None without constraints."""
        transforms = transforms_of(problem, values)
        between, coordinates = parameter_constraints(problem, transforms), transforms.coordinates(values)
        if not between.count:
            return None
        at, jacobian = between.at(coordinates)
        spread = np.sqrt(np.maximum(np.einsum("ki,ij,kj->k", jacobian, covariance, jacobian), 0.0))
        size = np.abs(at) + np.sum(np.abs(jacobian * coordinates), axis=1)
        spread = np.where(spread > 0, spread, np.where(size > 0, size, 1.0))  # that of what the data do not see is not known
        return cls(between, CONSTRAINT_WEIGHT / spread, np.ones(between.count, bool))

    def rows(self, coordinates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(k,) by how much each is missed, weighted, and (k, unknowns) its derivative; zero where an inequality is met."""
        values, jacobian = self.constraints.at(coordinates)
        lower, upper = self.constraints.lower, self.constraints.upper
        off = np.minimum(values - lower, 0.0) + np.maximum(values - upper, 0.0)
        on = self.counted & ((off != 0) | (lower == upper))
        weights = np.where(on, self.weights, 0.0)
        return weights * off, weights[:, None] * jacobian

    def equalities(self) -> FirmConstraints:
        """Those alone that hold wherever the estimate ends: what an inequality takes from an interval is not known."""
        return replace(self, counted=self.constraints.lower == self.constraints.upper)

    def active(self, coordinates: np.ndarray) -> list[str]:
        """The inequalities that hold the estimate, as they were written."""
        missed, _ = replace(self, counted=self.constraints.lower != self.constraints.upper).rows(coordinates)
        return [text for text, off in zip(self.constraints.texts, missed, strict=True) if off]
