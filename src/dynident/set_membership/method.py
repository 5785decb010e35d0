"""Set membership: the options of the method, checked once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np

from dynident.errors import ProblemError, did_you_mean
from dynident.estimate.estimate import Estimate
from dynident.problem.problem import Problem
from dynident.set_membership.bisection import Strategy, resolve_strategy
from dynident.set_membership.run import check_supports, run

ALGORITHMS = ("auto", "batch", "recursive", "paper")
MAX_ORDER = 20  # beyond it coefficients only round


@dataclass(frozen=True)
class SetMembership:
    """Bounds outside of which no value explains the data; see `presets.set_membership` for the options."""

    algorithm: str = "auto"
    max_boxes: int = 300
    subdivisions: int | None = None
    velocity_subdivisions: int = 0
    velocity: str = ""
    passes: int = 1
    reset: Mapping[str, str] = field(default_factory=dict)
    standstill_time: float = 0.0
    max_outliers: int = 0
    input_error: Mapping[str, float] = field(default_factory=dict)
    tolerance: float = 0.02
    order: int | None = None
    taylor_degree: int = 1
    rigorous: bool = False
    strategy: Strategy | str | None = None

    kind = "set_membership"

    def __post_init__(self) -> None:
        faults = []
        if self.algorithm not in ALGORITHMS:
            faults.append(f"algorithm = '{self.algorithm}' is not known.{did_you_mean(self.algorithm, ALGORITHMS)}")
        for name, least in (("max_boxes", 1), ("passes", 1), ("max_outliers", 0), ("velocity_subdivisions", 0),
                            ("taylor_degree", 1)):
            if not isinstance(getattr(self, name), (int, np.integer)) or getattr(self, name) < least:
                faults.append(f"{name} = {getattr(self, name)!r} must be a whole number of at least {least}.")
        if self.subdivisions is not None and not (isinstance(self.subdivisions, (int, np.integer)) and self.subdivisions >= 0):
            faults.append(f"subdivisions = {self.subdivisions!r} must be a whole number that is not negative.")
        if self.order is not None and not (isinstance(self.order, (int, np.integer)) and 1 <= self.order <= MAX_ORDER):
            faults.append(f"order = {self.order!r}: of a Taylor polynomial, from 1 to {MAX_ORDER}.")
        if not isinstance(self.rigorous, bool):
            faults.append(f"rigorous = {self.rigorous!r}; say true or false.")
        faults += _check_tables(self.reset, self.input_error)
        if not (isinstance(self.tolerance, Real) and 0 < self.tolerance < 1):
            faults.append(f"tolerance = {self.tolerance!r} is a share of the first box; use for instance 0.02.")
        if not isinstance(self.velocity, str):
            faults.append(f"velocity = {self.velocity!r}; give the name of a state.")
        if not (isinstance(self.standstill_time, Real) and self.standstill_time >= 0):
            faults.append(f"standstill_time = {self.standstill_time!r} is a number of seconds that is not negative.")
        if isinstance(self.strategy, str):
            resolve_strategy(self.strategy, "")
        if faults:
            raise ProblemError(faults)

    def options(self) -> dict[str, Any]:
        """What was set, as in a [method] table; a strategy written in Python has no name there."""
        given = {name: getattr(self, name) for name in (
            "algorithm", "max_boxes", "subdivisions", "velocity_subdivisions", "velocity", "passes", "standstill_time",
            "max_outliers", "tolerance", "order", "taylor_degree", "rigorous") if getattr(self, name) not in (None, "")}
        given |= {"strategy": self.strategy} if isinstance(self.strategy, str) else {}
        given |= {name: dict(getattr(self, name)) for name in ("reset", "input_error") if getattr(self, name)}
        return {"kind": self.kind, **given}

    def refuse(self, problem: Problem) -> None:
        check_supports(self, problem)

    def identify(self, problem: Problem, executor: Executor | None = None,
                 tell: Callable[..., object] = lambda *_: None) -> Estimate:
        return run(self, problem)


def _check_tables(reset: Any, input_error: Any) -> list[str]:
    faults = []
    if not isinstance(reset, Mapping):
        faults.append(f"reset = {reset!r}; give a table from parameter to the output that stands still.")
    if not isinstance(input_error, Mapping):
        return [*faults, f"input_error = {input_error!r}; give a table from input to the radius of its errors."]
    for name, radius in input_error.items():
        number = isinstance(radius, (int, float, np.integer, np.floating)) and not isinstance(radius, bool)
        if not number or not np.isfinite(radius) or radius < 0:
            faults.append(f"input_error of '{name}' is {radius!r}; give the radius of its errors, which is not negative.")
    return faults
