"""Set membership: the option object behind the preset, and which algorithm answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dynident.errors import NotSupported, ProblemError, did_you_mean
from dynident.estimate.estimate import Estimate
from dynident.methods.set_membership.answer import assembled
from dynident.methods.set_membership.question import question_of
from dynident.methods.set_membership.recursion import recursed
from dynident.methods.set_membership.smooth import inverted
from dynident.methods.set_membership.splitting import Strategy, strategy_from
from dynident.problem.problem import Problem

ALGORITHMS = ("auto", "batch", "recursive", "paper")


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
        if self.subdivisions is not None and self.subdivisions < 0:
            faults.append(f"subdivisions = {self.subdivisions} must not be negative.")
        if not 0 < self.tolerance < 1:
            faults.append(f"tolerance = {self.tolerance} is a share of the first box; use for instance 0.02.")
        if not self.standstill_time >= 0:
            faults.append(f"standstill_time = {self.standstill_time} is a number of seconds that is not negative.")
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

    def identify(self, problem: Problem, executor: Executor | None = None,
                 tell: Callable[..., object] = lambda *_: None) -> Estimate:
        began = time.perf_counter()
        question = question_of(problem, dict(self.input_error), self.proved)
        algorithm = "batch" if self.algorithm == "auto" else self.algorithm  # by far the tightest per second
        smooth = algorithm == "batch" and not question.model.hybrid
        if self.forgive and algorithm == "paper":
            raise NotSupported("the published algorithm forgives no samples. Use algorithm=\"recursive\" or \"batch\".")
        answer = inverted(self, question) if smooth else recursed(self, question, algorithm)
        return assembled(question, self, algorithm, answer, time.perf_counter() - began)
