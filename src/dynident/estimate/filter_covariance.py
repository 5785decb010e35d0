"""Filter covariance: which interval does a filter promise at the end of the record?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dynident.models.augmented import ParameterTransform
from dynident.statistics.distributions import normal_quantile
from dynident.statistics.uncertainty import LEVEL, Uncertainty, check_level, check_single_kind, index_of

ASSUMED = "as assumed, not estimated"


@dataclass(frozen=True, eq=False)
class FilterCovariance(Uncertainty):
    """Means and covariance in the filter's coordinates, per unknown of the problem."""

    names: tuple[str, ...]
    mean: np.ndarray  # (unknowns,) in coordinates
    matrix: np.ndarray  # (unknowns, unknowns) in coordinates
    coordinates: tuple[ParameterTransform, ...]
    remarks: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, float] = field(default_factory=dict)
    consistent: bool = True  # the verdict on the innovations

    @property
    def meaning(self) -> str:
        """What is promised, and under which assumptions."""
        promise = ("The interval holds the value at the end of the record with the stated probability, if the model, "
                   "its discretization and the assumed noise are right and the model is nearly linear over the "
                   "interval.")
        return promise if self.consistent else (
            f"{promise} The innovations say that they are not: do not rely on these intervals.")

    def std(self, name: str, kind: str | None = None) -> float:
        """Standard deviation in the user's units; zero where fixed."""
        check_single_kind(kind)
        if name in self.fixed:
            return 0.0
        i = index_of(name, self.names)
        return float(abs(self.coordinates[i].slope(self.mean[i])) * np.sqrt(max(self.matrix[i, i], 0.0)))

    def interval(self, name: str, level: float = LEVEL, kind: str | None = None) -> tuple[float, float]:
        """(low, high) from the normal distribution in the filter's coordinates."""
        check_level(level)
        check_single_kind(kind)
        if name in self.fixed:
            return self.fixed[name], self.fixed[name]
        i = index_of(name, self.names)
        reach = normal_quantile((1 + level) / 2) * float(np.sqrt(max(self.matrix[i, i], 0.0)))
        low, high = (float(self.coordinates[i].value(self.mean[i] + side * reach)) for side in (-1, 1))
        return low, high

    def remark(self, name: str) -> str:
        if name in self.fixed:
            return "fixed"
        index_of(name, self.names)
        return self.remarks.get(name, "")

    def correlation(self, kind: str | None = None) -> np.ndarray:
        """(unknowns, unknowns); NaN in the rows of unknowns without a variance."""
        check_single_kind(kind)
        variance = np.diag(self.matrix)
        std = np.sqrt(np.where(variance > 0, variance, np.nan))
        with np.errstate(invalid="ignore"):  # an infinite variance has no correlation
            return np.asarray(self.matrix / std / std[:, None])

    def covariance(self) -> np.ndarray:
        """In the filter's coordinates."""
        return self.matrix
