"""Plan: the input to run next, what it promises, and whether the promise was kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dynident._util import hooks
from dynident.errors import ProblemError
from dynident.estimate.estimate import Estimate
from dynident.problem.experiment import Experiment
from dynident.problem.noise import Noise

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEPT_WITHIN = 1.25  # times the promised standard deviation; noise levels are rarely known better
FAR_OFF = 3.0  # promised standard deviations between believed and found: the plan was made for another machine


@dataclass(frozen=True)
class Use:
    """How much of a limit a plan takes up, in a simulation at ten times finer steps."""

    text: str
    lower: float
    upper: float
    least: float
    most: float
    slack: float = 0.0  # rounding, or how closely an equality must be met

    @property
    def holds(self) -> bool:
        return self.lower - self.slack <= self.least and self.most <= self.upper + self.slack


@dataclass(frozen=True, eq=False)
class PlannedRecord:
    """One record to be run: time, inputs, and what the machine is expected to do."""

    name: str
    time: np.ndarray
    inputs: Mapping[str, np.ndarray]
    states: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]
    hold: Mapping[str, str]
    initial: Mapping[str, float]
    noise: Mapping[str, Noise]
    coefficients: Mapping[str, float]
    mode: str = ""  # of a hybrid model: the one in which it begins and stays

    @property
    def duration(self) -> float:
        return float(self.time[-1])

    def experiment(self, outputs: Mapping[str, np.ndarray], time: np.ndarray | None = None) -> Experiment:
        """The record once it was run: what was measured, with this plan's inputs."""
        missing = [name for name in self.noise if name not in outputs]
        if missing:
            raise ProblemError(f"the plan counts on a measurement of {', '.join(missing)}.")
        return Experiment(self.time if time is None else time, dict(self.inputs), dict(outputs),
                          {n: noise for n, noise in self.noise.items() if n in outputs}, dict(self.initial),
                          hold=dict(self.hold), name=self.name, mode=self.mode)

    def to_csv(self, path: str | Path) -> Path:
        """Time and inputs, one row per sample, as a controller reads them."""
        columns = {"time": self.time, **{n: np.asarray(u) for n, u in self.inputs.items()}}
        return Path(hooks.call("write_columns", columns, path))


@dataclass(frozen=True)
class Kept:
    """Whether an estimate made with the new records is as sharp as the plan promised."""

    promised: Mapping[str, float]
    found: Mapping[str, float]
    moved: Mapping[str, float]  # distance between believed and found, in promised standard deviations before the run
    reasons: tuple[str, ...]

    @property
    def kept(self) -> bool:
        return all(self.found[name] <= KEPT_WITHIN * std for name, std in self.promised.items())

    def __str__(self) -> str:
        lines = [f"The promise was {'kept' if self.kept else 'NOT kept'}:"]
        lines += [f"  {name}: std {self.found[name]:.3g}, promised {std:.3g} ({self.found[name] / std:.2f} times)"
                  for name, std in self.promised.items()]
        return "\n".join([*lines, *(f"  {reason}" for reason in self.reasons)])


@dataclass(frozen=True, eq=False)
class Plan:
    """What to run next. Standard deviations are those of the linearised problem at the values believed now."""

    records: tuple[PlannedRecord, ...]
    criterion: str
    cost: float
    values: Mapping[str, float]  # believed now
    std_before: Mapping[str, float]  # infinite where the records so far say nothing
    std_after: Mapping[str, float]
    noise_std: Mapping[str, float]
    limits: tuple[Use, ...]
    converged: bool
    status: str  # a sentence
    notes: tuple[str, ...] = ()
    width_after: Mapping[str, float] = field(default_factory=dict)  # predicted verified width, for bounded errors
    width_before: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    times: Mapping[str, float] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)

    @property
    def record(self) -> PlannedRecord:
        """The planned record, where there is one."""
        if len(self.records) != 1:
            raise ProblemError(f"the plan holds {len(self.records)} records; take one of plan.records.")
        return self.records[0]

    @property
    def time(self) -> np.ndarray:
        return self.record.time

    @property
    def inputs(self) -> Mapping[str, np.ndarray]:
        return self.record.inputs

    def experiment(self, outputs: Mapping[str, np.ndarray]) -> Experiment:
        return self.record.experiment(outputs)

    def to_csv(self, path: str | Path) -> Path:
        return self.record.to_csv(path)

    def kept(self, estimate: Estimate) -> Kept:
        """Compare the promise with an estimate that was made with the planned records."""
        found, moved, reasons = {}, {}, []
        for name in self.std_after:
            if name not in estimate.problem.names:
                raise ProblemError(f"the estimate has no unknown '{name}', which the plan speaks of.")
            found[name] = float(estimate.uncertainty.std(name))
            reach = self.std_before[name] if np.isfinite(self.std_before[name]) else abs(self.values[name])
            moved[name] = abs(float(estimate.values[name]) - self.values[name]) / reach if reach > 0 else 0.0
        ran = {e.name for e in estimate.problem.experiments}
        absent = [r.name for r in self.records if r.name not in ran]
        if absent:
            reasons.append(f"The estimate holds no record called '{absent[0]}': was the plan run?")
        for name, std in self.noise_std.items():
            seen = estimate.noise_std.get(name, std)
            if seen > KEPT_WITHIN * std:
                reasons.append(f"The noise of '{name}' is {seen / std:.2g} times what the plan counted on.")
        far = [name for name, steps in moved.items() if steps > FAR_OFF]
        if far:
            reasons.append(f"{', '.join(far)} turned out far from what was believed, so that the input was planned for "
                           "another machine; plan again from this estimate, or with robust=\"average\".")
        return Kept(dict(self.std_after), found, moved, tuple(reasons))

    def plot(self) -> Figure:
        """Inputs and expected outputs over time."""
        return hooks.call("plan_figure", self)

    def __str__(self) -> str:
        return str(hooks.call("plan_text", self))


def promise(names: Sequence[str], std: np.ndarray, wanted: np.ndarray) -> dict[str, float]:
    return {names[i]: float(std[i]) for i in wanted}
