"""Smoothed: where along time does the model err, and what is known of states and drifting parameters there?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

FEWEST = 8  # intervals in a row over which an error of one sign is worth naming


@dataclass(frozen=True, eq=False)
class SmoothedRecord:
    """One experiment at the grid points; columns in the order of `names` (states, then drifting parameters)."""

    experiment: str
    time: np.ndarray  # (nodes,)
    names: tuple[str, ...]
    values: np.ndarray  # (nodes, names)
    std: np.ndarray  # (nodes, names); NaN where the weights are no variances
    model_error: np.ndarray  # (nodes, names): xi of (3.5), what the rate lacks from here to the next; NaN at the end


@dataclass(frozen=True)
class Stride:
    """One iteration of a root finder, as the report draws it."""

    number: int
    phase: str  # "newton" or "time stepping"
    share: float  # of the Newton step; in time stepping the step in artificial time
    step: float  # largest change of an unknown
    residual: float
    fresh: bool  # a Jacobian was made for it
    accepted: bool


@dataclass(frozen=True, eq=False)
class Smoothed:
    """All records, the weights they were smoothed with, and how a root finder went."""

    records: tuple[SmoothedRecord, ...]
    weights: Mapping[str, float]  # W of what may err
    drifting: tuple[str, ...] = ()  # parameters among the names
    strides: tuple[Stride, ...] = field(default=())  # empty where the smoother alone found it

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
        """Where the model errs most, in units of what its weight expects: experiment, name, begin and end of that time."""
        best, where = 0.0, None
        for record in self.records:
            gaps = np.diff(record.time)
            width = min(FEWEST, gaps.size)
            for i, name in enumerate(record.names):
                if name not in self.weights or not gaps.size:
                    continue
                pushed = np.convolve(record.model_error[:-1, i] * gaps, np.ones(width), "valid")
                expected = np.sqrt(np.convolve(gaps, np.ones(width), "valid") / self.weights[name])
                k = int(np.argmax(np.abs(pushed) / expected))
                if abs(pushed[k]) / expected[k] > best:
                    best = abs(pushed[k]) / expected[k]
                    where = record.experiment, name, float(record.time[k]), float(record.time[k + width])
        return where
