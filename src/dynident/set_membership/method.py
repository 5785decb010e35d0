"""Set membership: the option object behind the preset, and which algorithm answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np

from dynident.errors import NotSupported, ProblemError, did_you_mean
from dynident.estimate.estimate import Estimate
from dynident.problem.problem import Problem
from dynident.set_membership.bisection import Strategy, strategy_from
from dynident.set_membership.recursive import observer_of, recursed
from dynident.set_membership.result import assembled
from dynident.set_membership.setup import Question, question_of
from dynident.set_membership.smooth import inverted

ALGORITHMS = ("auto", "batch", "recursive", "paper")
MOST_ORDER = 20  # beyond it coefficients only round


@dataclass(frozen=True)
class SetMembership:
    """Bounds outside of which no value explains the data; see `presets.set_membership` for the options."""

    algorithm: str = "auto"
    cap: int = 300
    subdivisions: int | None = None
    velocity_subdivisions: int = 0
    velocity: str = ""
    runs: int = 1
    reset: Mapping[str, str] = field(default_factory=dict)
    standstill_time: float = 0.0
    forgive: int = 0
    input_error: Mapping[str, float] = field(default_factory=dict)
    tolerance: float = 0.02
    order: int | None = None
    degree: int = 1
    proved: bool = False
    strategy: Strategy | str | None = None

    kind = "set_membership"

    def __post_init__(self) -> None:
        faults = []
        if self.algorithm not in ALGORITHMS:
            faults.append(f"algorithm = '{self.algorithm}' is not known.{did_you_mean(self.algorithm, ALGORITHMS)}")
        for name, least in (("cap", 1), ("runs", 1), ("forgive", 0), ("velocity_subdivisions", 0),
                            ("degree", 1)):
            if not isinstance(getattr(self, name), (int, np.integer)) or getattr(self, name) < least:
                faults.append(f"{name} = {getattr(self, name)!r} must be a whole number of at least {least}.")
        if self.subdivisions is not None and not (isinstance(self.subdivisions, (int, np.integer)) and self.subdivisions >= 0):
            faults.append(f"subdivisions = {self.subdivisions!r} must be a whole number that is not negative.")
        if self.order is not None and not (isinstance(self.order, (int, np.integer)) and 1 <= self.order <= MOST_ORDER):
            faults.append(f"order = {self.order!r}: of a Taylor polynomial, from 1 to {MOST_ORDER}.")
        if not isinstance(self.proved, bool):
            faults.append(f"proved = {self.proved!r}; say true or false.")
        faults += _table_faults(self.reset, self.input_error)
        if not (isinstance(self.tolerance, Real) and 0 < self.tolerance < 1):
            faults.append(f"tolerance = {self.tolerance!r} is a share of the first box; use for instance 0.02.")
        if not isinstance(self.velocity, str):
            faults.append(f"velocity = {self.velocity!r}; give the name of a state.")
        if not (isinstance(self.standstill_time, Real) and self.standstill_time >= 0):
            faults.append(f"standstill_time = {self.standstill_time!r} is a number of seconds that is not negative.")
        if isinstance(self.strategy, str):
            strategy_from(self.strategy, "")
        if faults:
            raise ProblemError(faults)

    def options(self) -> dict[str, Any]:
        """What was set, as in a [method] table; a strategy written in Python has no name there."""
        told = {name: getattr(self, name) for name in (
            "algorithm", "cap", "subdivisions", "velocity_subdivisions", "velocity", "runs", "standstill_time",
            "forgive", "tolerance", "order", "degree", "proved") if getattr(self, name) not in (None, "")}
        told |= {"strategy": self.strategy} if isinstance(self.strategy, str) else {}
        told |= {name: dict(getattr(self, name)) for name in ("reset", "input_error") if getattr(self, name)}
        return {"kind": self.kind, **told}

    def refuse(self, problem: Problem) -> None:
        question, algorithm, smooth = self._asked(problem)
        if not smooth:
            observer_of(self, question, algorithm)

    def identify(self, problem: Problem, executor: Executor | None = None,
                 tell: Callable[..., object] = lambda *_: None) -> Estimate:
        began = time.perf_counter()
        question, algorithm, smooth = self._asked(problem)
        answer = inverted(self, question) if smooth else recursed(self, question, algorithm)
        return assembled(question, self, algorithm, answer, time.perf_counter() - began)

    def _asked(self, problem: Problem) -> tuple[Question, str, bool]:
        """The question, the algorithm that answers it, and whether it does so without modes."""
        question = question_of(problem, dict(self.input_error), self.proved)
        algorithm = "batch" if self.algorithm == "auto" else self.algorithm  # by far the tightest per second
        smooth = algorithm == "batch" and not question.model.hybrid
        states = question.model.states
        if self.velocity and self.velocity not in states:
            raise ProblemError(f"velocity = '{self.velocity}' is not a state.{did_you_mean(self.velocity, states)}")
        if self.reset and smooth:
            raise NotSupported("reset needs a model with modes, one of them at rest: this one has none, and its parameters "
                               "stay the same all along. Leave reset out, or cut the record where a parameter changes.")
        if self.forgive and algorithm == "paper":
            raise NotSupported("the published algorithm forgives no samples. Use algorithm=\"recursive\" or \"batch\".")
        return question, algorithm, smooth


def _table_faults(reset: Any, input_error: Any) -> list[str]:
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
