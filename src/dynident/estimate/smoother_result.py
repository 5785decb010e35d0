"""Smoothed: where along time does the model err, and what is known of states and drifting parameters there?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dynident._util.data_classes import short_fields

FEWEST_INTERVALS = 8  # intervals in a row over which errors are added up
NOTABLE = 3.0  # standard deviations; smoothed errors are smaller than those that acted


@dataclass(frozen=True, eq=False)
class SmootherRecord:
    """One experiment at the grid points; columns in the order of `names` (states, then drifting parameters)."""

    experiment: str
    time: np.ndarray  # (nodes,)
    names: tuple[str, ...]
    values: np.ndarray  # (nodes, names)
    std: np.ndarray  # (nodes, names); NaN where the weights are no variances
    model_error: np.ndarray  # (nodes, names): xi of (3.5), what the rate lacks from here to the next; NaN at the end
    error_std: np.ndarray  # (nodes, names) of the smoothed model error, if it errs as weighted; NaN as std, and at the end

    __repr__ = short_fields


@dataclass(frozen=True)
class PseudoTimeStep:
    """One iteration of a root finder, as the report draws it."""

    number: int
    phase: str  # "newton" or "time stepping"
    share: float  # of the Newton step; in time stepping the step in artificial time
    step: float  # largest change of an unknown
    residual: float
    fresh: bool  # a Jacobian was made for it
    accepted: bool


@dataclass(frozen=True, eq=False)
class SmootherResult:
    """All records, the weights they were smoothed with, and how a root finder went."""

    records: tuple[SmootherRecord, ...]
    weights: Mapping[str, float]  # W of what may err
    drifting: tuple[str, ...] = ()  # parameters among the names
    strides: tuple[PseudoTimeStep, ...] = field(default=())  # empty where the smoother alone found it

    __repr__ = short_fields

    def share_of_cost(self) -> dict[str, float]:
        """What the errors of each state or parameter cost, over all records: xi' W xi over time."""
        found = dict.fromkeys(self.weights, 0.0)
        for record in self.records:
            gaps = np.diff(record.time)
            for i, name in enumerate(record.names):
                if name in found:
                    found[name] += float(self.weights[name] * np.sum(gaps * record.model_error[:-1, i] ** 2))
        return found

    def largest(self) -> tuple[str, str, float, float] | None:
        """Where the model errs most against its weight: experiment, name, begin and end of that time.

        Over stretches of some intervals and of many, the sum of the errors is compared with the standard deviation that their
        weight expects; None where no stretch is notable.
        """
        best, where = NOTABLE, None
        for record in self.records:
            gaps = np.diff(record.time)
            for i, name in enumerate(record.names):
                if name not in self.weights:
                    continue
                pushed, width = np.append(0.0, np.cumsum(record.model_error[:-1, i] * gaps)), FEWEST_INTERVALS
                while width <= gaps.size // 4:
                    expected = np.sqrt((record.time[width:] - record.time[:-width]) / self.weights[name])
                    size = np.abs(pushed[width:] - pushed[:-width]) / expected
                    k = int(np.argmax(size))
                    if size[k] > best:
                        best, where = size[k], (record.experiment, name, float(record.time[k]), float(record.time[k + width]))
                    width *= 2
        return where
