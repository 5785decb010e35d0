"""Plan: the input to run next, its predicted standard deviations, and how the estimate made with it compares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dynident._util import hooks
from dynident._util.data_classes import short_text
from dynident.errors import ProblemError
from dynident.estimate.estimate import Estimate
from dynident.problem.experiment import Experiment
from dynident.problem.noise import Noise
from dynident.tolerances import PLAN_NOMINAL_SHIFT, PLAN_STD_ACHIEVED

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class ConstraintUse:
    """Between which values a plan moves within a constraint, in a simulation at ten times finer steps."""

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
    measured: np.ndarray | None = None  # (samples,) which samples are to be measured; None: all

    @property
    def duration(self) -> float:
        return float(self.time[-1])

    def experiment(self, outputs: Mapping[str, np.ndarray], time: np.ndarray | None = None) -> Experiment:
        """The record once it was run: what was measured, with this plan's inputs.

        Of a plan with a budget of samples: a value for each sample, or for those alone that were to be measured.
        """
        missing = [name for name in self.noise if name not in outputs]
        if missing:
            raise ProblemError(f"the plan counts on a measurement of {', '.join(missing)}.")
        if self.measured is not None:
            outputs = {name: self._at_samples(np.asarray(values, float)) for name, values in outputs.items()}
        return Experiment(self.time if time is None else time, dict(self.inputs), dict(outputs),
                          {n: noise for n, noise in self.noise.items() if n in outputs}, dict(self.initial),
                          hold=dict(self.hold), name=self.name, mode=self.mode)

    def _at_samples(self, values: np.ndarray) -> np.ndarray:
        assert self.measured is not None
        if values.size != int(self.measured.sum()) or values.size == self.time.size:
            return values
        whole = np.full(self.time.size, np.nan)
        whole[self.measured] = values
        return whole

    def to_csv(self, path: str | Path) -> Path:
        """Time and inputs, one row per sample, as a controller reads them; 1 in `measure` where a sample is to be measured."""
        columns = {"time": self.time, **{n: np.asarray(u) for n, u in self.inputs.items()}}
        if self.measured is not None:
            columns["measure"] = self.measured.astype(float)
        return Path(hooks.call("write_columns", columns, path))


@dataclass(frozen=True)
class PlanCheck:
    """Predicted and achieved standard deviations: is an estimate made with the new records as sharp as planned?"""

    predicted: Mapping[str, float]
    achieved: Mapping[str, float]
    shift: Mapping[str, float]  # distance between nominal and found value, in standard deviations before the run
    reasons: tuple[str, ...]

    @property
    def as_predicted(self) -> bool:
        return all(self.achieved[name] <= PLAN_STD_ACHIEVED * std for name, std in self.predicted.items())

    def __str__(self) -> str:
        lines = [f"The predicted standard deviations were {'achieved' if self.as_predicted else 'NOT achieved'}:"]
        lines += [f"  {name}: std {self.achieved[name]:.3g}, predicted {std:.3g} ({self.achieved[name] / std:.2f} times)"
                  for name, std in self.predicted.items()]
        return "\n".join([*lines, *(f"  {reason}" for reason in self.reasons)])


@dataclass(frozen=True, eq=False)
class Plan:
    """What to run next; predicted standard deviations are those of the linearised problem at the nominal values.

    See the manual, methods/design.

    Attributes
    ----------
    records : tuple of PlannedRecord
        Time, inputs and expected states and outputs of each planned record.
    criterion : str
        What was minimised.
    cost : float
        Its value.
    values : mapping of str to float
        Nominal values of the parameters.
    std_before : mapping of str to float
        Standard deviations from the records at hand; infinite where these say nothing.
    std_after : mapping of str to float
        Predicted with the planned records.
    noise_std : mapping of str to float
        Standard deviations of the measurements that the plan counts on.
    constraints : tuple of ConstraintUse
        Between which values the plan moves within each constraint.
    converged : bool
        Whether an optimum was reached.
    status : str
        How the search ended, a sentence.
    interrupted : bool
        Whether Ctrl-C ended it; the plan is the best of the starts that were verified by then.
    notes : tuple of str
        What the reader must know beside the numbers, as sentences.
    width_after : mapping of str to float
        Predicted widths of the verified set, for bounded errors.
    width_before : mapping of str to float
        The same from the records at hand.
    counts : mapping of str to int
        Evaluations, starts, ...
    times : mapping of str to float
        Seconds by part of the work.
    units : mapping of str to str
        By signal and parameter.
    noncentrality : float or None
        Where a rival was given: by how much its sum of squares will be larger, in units of the noise, however it adapts.
    shape : str
        Of the input, and how many coefficients it has.
    shapes : mapping of str to float
        The cost by shape, where several were tried; infinite for one that met no constraint.

    Examples
    --------
    >>> import dynident as di
    >>> lag = di.EquationModel(states={"x": "(K*u - x)/T"}, inputs=["u"])
    >>> record = di.Experiment([0, 1, 2, 3], inputs={"u": [1, 1, 1, 1]}, outputs={"x": [0.0, 0.6, 0.9, 0.95]},
    ...                        noise={"x": di.Gaussian(0.1)}, initial={"x": 0})
    >>> problem = di.Problem(lag, [record], [di.Parameter("K", start=1), di.Parameter("T", start=1)])
    >>> plan = di.design_input(problem, di.signals.PiecewiseConstant(2), constraints=["abs(u) <= 2"], starts=1)
    >>> plan.to_csv("next_input.csv").name, plan.record.duration
    ('next_input.csv', 3.0)
    """

    records: tuple[PlannedRecord, ...]
    criterion: str
    cost: float
    values: Mapping[str, float]  # nominal
    std_before: Mapping[str, float]  # infinite where the records so far say nothing
    std_after: Mapping[str, float]
    noise_std: Mapping[str, float]
    constraints: tuple[ConstraintUse, ...]
    converged: bool
    status: str  # a sentence
    interrupted: bool = False  # by Ctrl-C: the best of the starts that were verified by then
    notes: tuple[str, ...] = ()
    width_after: Mapping[str, float] = field(default_factory=dict)  # predicted width of the verified set, for bounded errors
    width_before: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    times: Mapping[str, float] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    noncentrality: float | None = None  # of the test against a rival model, where one was given
    shape: str = ""  # of the input
    shapes: Mapping[str, float] = field(default_factory=dict)  # cost by shape that was tried; infinite where none was found

    @property
    def record(self) -> PlannedRecord:
        """The planned record, where there is one."""
        if len(self.records) != 1:
            raise ProblemError(f"the plan holds {len(self.records)} records; take one of plan.records.")
        return self.records[0]

    @property
    def time(self) -> np.ndarray:
        """Times of the planned record, where there is one."""
        return self.record.time

    @property
    def inputs(self) -> Mapping[str, np.ndarray]:
        """Inputs of the planned record, where there is one."""
        return self.record.inputs

    def experiment(self, outputs: Mapping[str, np.ndarray]) -> Experiment:
        """The planned record once it was run: what was measured, with the plan's inputs."""
        return self.record.experiment(outputs)

    def to_csv(self, path: str | Path) -> Path:
        """Time and inputs, one row per sample, as a controller reads them."""
        return self.record.to_csv(path)

    def compare(self, estimate: Estimate) -> PlanCheck:
        """Predicted standard deviations beside those of an estimate that was made with the planned records."""
        missing = [name for name in self.std_after if name not in estimate.problem.names]
        if missing:
            raise ProblemError(f"the estimate has no unknown '{missing[0]}', which the plan speaks of.")
        achieved = {name: float(estimate.uncertainty.std(name)) for name in self.std_after}
        shift = {name: self._shift(name, float(estimate.values[name])) for name in self.std_after}
        return PlanCheck(dict(self.std_after), achieved, shift, tuple(self._reasons(estimate, shift)))

    def _shift(self, name: str, found: float) -> float:
        before = self.std_before[name] if np.isfinite(self.std_before[name]) else abs(self.values[name])
        return abs(found - self.values[name]) / before if before > 0 else 0.0

    def _reasons(self, estimate: Estimate, shift: Mapping[str, float]) -> list[str]:
        """Why an estimate may be less sharp than predicted."""
        reasons = []
        ran = {e.name for e in estimate.problem.experiments}
        absent = [r.name for r in self.records if r.name not in ran]
        if absent:
            reasons.append(f"The estimate holds no record called '{absent[0]}': was the plan run?")
        for name, std in self.noise_std.items():
            found = estimate.noise_std.get(name, std)
            if found > PLAN_STD_ACHIEVED * std:
                reasons.append(f"The noise of '{name}' is {found / std:.2g} times what the plan counted on.")
        far = [name for name, steps in shift.items() if steps > PLAN_NOMINAL_SHIFT]
        if far:
            reasons.append(f"{', '.join(far)} turned out far from the nominal value, so that the input was planned for "
                           "another machine; plan again from this estimate, or with robust=\"average\".")
        return reasons

    def plot(self) -> Figure:
        """Inputs and expected outputs over time."""
        return hooks.call("plan_figure", self)

    def __repr__(self) -> str:
        return short_text(self)

    def __str__(self) -> str:
        return str(hooks.call("plan_text", self))
