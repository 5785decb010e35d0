"""Task: what a worker does with one record, and what it sends back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dynident._util.blas_threads import single_thread
from dynident.errors import DynidentError
from dynident.estimate.estimate import Estimate
from dynident.fleet.fleet import TaskSpec
from dynident.fleet.records import FleetRecord
from dynident.problem.problem import Problem
from dynident.statistics.uncertainty import LEVEL

CONVERGED, NOT_CONVERGED, FAILED = "converged", "not converged", "failed"  # what can become of a record


class FitInterrupted(Exception):
    """The fit was stopped from outside; it has no result, and can be tried again."""


@dataclass(frozen=True, eq=False)
class TaskResult:
    """What became of one record, as plain data and arrays."""

    status: str
    reason: str  # a sentence
    values: Mapping[str, float] = field(default_factory=dict)
    std: Mapping[str, float] = field(default_factory=dict)
    low: Mapping[str, float] = field(default_factory=dict)
    high: Mapping[str, float] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)
    noise: Mapping[str, float] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)  # cost, reduced_chi2, fit_<output>, iterations
    notes: tuple[str, ...] = ()
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    stamp: str = ""  # of the record as it was read
    fingerprint: str = ""
    seconds: float = 0.0
    grade: str = ""  # of the verdict
    verdict: str = ""  # its sentence


def fit_record(spec: TaskSpec, record: FleetRecord) -> TaskResult:
    """The fit of one record by itself."""
    began = time.perf_counter()
    read = fingerprint(record)
    problem = spec.problem(record)
    estimate = fit(spec, problem, record.name)
    arrays = {}
    if spec.shared and estimate.converged:
        from dynident.fleet.variable_projection import reduce_record

        arrays = reduce_record(spec, problem, estimate).arrays()
    return task_result(estimate, arrays, read, time.perf_counter() - began)


def fingerprint(record: FleetRecord) -> tuple[str, str]:
    """Stamp and fingerprint of the record as it is now."""
    try:
        return record.stamp(), record.fingerprint()
    except OSError as error:
        raise DynidentError(f"{record.name} cannot be read: {error.strerror or error}.") from error


def fit(spec: TaskSpec, problem: Problem, record: str) -> Estimate:
    """The estimate, converged or not; ends between two iterations when it runs over its time."""
    method = spec.method_for(problem, record)
    with single_thread():
        estimate = method.identify(problem, None, _stopwatch(spec.limit))
    if estimate.counts.get("interrupted"):
        raise FitInterrupted(f"the fit of {record} was interrupted")
    return estimate


def _stopwatch(limit: float | None) -> Callable[..., object]:
    """For executors that cannot end a task."""
    end = time.monotonic() + (np.inf if limit is None else limit)

    def tell(_: Any) -> None:
        if time.monotonic() > end:
            raise TimeoutError

    return tell


def task_result(estimate: Estimate, arrays: Mapping[str, np.ndarray], read: tuple[str, str], seconds: float) -> TaskResult:
    """What is kept of an estimate; `read` are stamp and fingerprint of the record."""
    uncertainty = estimate.uncertainty
    names = estimate.problem.names
    intervals = {name: uncertainty.interval(name, LEVEL) for name in names}
    remarks = {name: uncertainty.remark(name) for name in names}
    covariance = uncertainty.covariance()
    numbers = {key: float(value) for key, value in estimate.statistics.items()
               if key == "reduced_chi2" or key.startswith("fit_")}
    own = {} if covariance is None else {"covariance": covariance}
    return TaskResult(
        CONVERGED if estimate.converged else NOT_CONVERGED, str(estimate.status),
        {name: float(estimate.values[name]) if uncertainty.is_informed(name) else np.nan for name in names},
        {name: float(uncertainty.std(name)) for name in names},
        {name: float(low) for name, (low, _) in intervals.items()},
        {name: float(high) for name, (_, high) in intervals.items()}, {name: words for name, words in remarks.items() if words},
        {name: float(size) for name, size in estimate.noise_std.items()},
        {"cost": float(estimate.cost), "iterations": float(estimate.counts.get("iterations", 0)), **numbers},
        tuple(estimate.notes), {**own, **arrays}, *read, seconds, estimate.verdict.grade.value, estimate.verdict.sentence)
