"""Setup: is this problem one that bounds can answer, with which intervals measured, and from which box?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from time import process_time
from typing import Any

import numpy as np

from dynident.errors import NotSupported, ProblemError
from dynident.models.equations import EquationModel
from dynident.problem.experiment import Experiment
from dynident.problem.noise import stated_bound
from dynident.problem.problem import Problem
from dynident.set_membership.flows.boxes import BoundedSample, IntervalStep, stack_rows
from dynident.set_membership.flows.interval_automaton import IntervalAutomaton
from dynident.set_membership.intervals.arithmetic import Interval, round_down, round_up

CELLS_PER_GAP, MAX_CELLS = 8, 24  # of the window in which the time of a sample lies
FIRST_PASSES = 20  # of contraction of the initial state by the first measurement


@dataclass(frozen=True, eq=False)
class BoundedRecord:
    """Samples 0 ... K: a step leads from each to the next; the last step has no length."""

    label: str
    time: np.ndarray  # (samples,)
    steps: tuple[IntervalStep, ...]  # (samples,)
    low: np.ndarray  # (outputs, samples): measured minus radius; -inf where not measured
    high: np.ndarray
    windows: np.ndarray | None = None  # (samples, 2) where times are open: steps between which each lies; else one a sample

    @property
    def samples(self) -> int:
        return self.time.size

    def sample(self, k: int) -> BoundedSample:
        return BoundedSample(self.steps[k], self.low[:, k], self.high[:, k])

    def part(self, begin: int, end: int) -> BoundedRecord:
        """The samples from `begin` on, before `end`."""
        own = slice(begin, end)
        if self.windows is not None:
            windows = self.windows[own]
            return replace(self, time=self.time[own], steps=self.steps[:windows.max() + 1], low=self.low[:, own],
                           high=self.high[:, own], windows=windows)
        return BoundedRecord(self.label, self.time[own], self.steps[own], self.low[:, own], self.high[:, own])

    def with_inflated_bounds(self, factor: float) -> BoundedRecord:
        """The same with every radius `factor` times as large."""
        with np.errstate(invalid="ignore"):
            centre, radius = 0.5 * (self.low + self.high), 0.5 * (self.high - self.low) * factor
        seen = np.isfinite(self.low)
        return replace(self, low=np.where(seen, round_down(centre - radius), -np.inf),
                       high=np.where(seen, round_up(centre + radius), np.inf))


def make_bounded_record(experiment: Experiment, model: Any, input_error: Mapping[str, float]) -> BoundedRecord:
    """The record with outward rounded bounds; `input_error` bounds each input's error, constant between samples."""
    time = np.asarray(experiment.time)
    inputs = np.array([experiment.inputs[name] for name in model.inputs]).reshape(len(model.inputs), time.size)
    linear = np.array([experiment.hold[name] == "linear" for name in model.inputs], bool)
    error = np.array([input_error.get(name, 0.0) for name in model.inputs], float)
    following = np.concatenate([inputs[:, 1:], inputs[:, -1:]], axis=1)
    ends = np.append(time[1:], time[-1] + (time[-1] - time[-2] if time.size > 1 else 1.0))
    steps = tuple(IntervalStep.from_samples(float(t), float(end), inputs[:, k], following[:, k], linear, error)
                  for k, (t, end) in enumerate(zip(time, ends, strict=True)))
    low = np.full((len(model.outputs), time.size), -np.inf)
    high = np.full((len(model.outputs), time.size), np.inf)
    for j, name in enumerate(model.outputs):
        if name not in experiment.outputs:
            continue
        measured, radius = np.asarray(experiment.outputs[name]), stated_bound(experiment.noise[name])
        assert radius is not None  # make_setup asks for it
        seen = np.isfinite(measured)
        low[j, seen] = round_down(measured - radius)[seen]
        high[j, seen] = round_up(measured + radius)[seen]
    if experiment.start is not None and experiment.start < time[0]:
        raise NotSupported(f"{experiment.label}: the initial state holds before the first sample. Add a sample at the "
                           "start with NaN in the measured signals.")
    record = BoundedRecord(experiment.name, time, steps, low, high)
    radius = np.broadcast_to(np.asarray(experiment.time_radius, float), time.shape)
    return with_time_windows(record, radius) if np.any(radius) else record


def with_time_windows(record: BoundedRecord, radius: np.ndarray) -> BoundedRecord:
    """The record with samples somewhere within `radius` (samples,) of their times, but not before the first.

    Steps then lead along all ends of windows and all times at which inputs change; windows are divided into cells.
    """
    time = record.time
    low = np.where(radius > 0, np.maximum(round_down(time - radius), time[0]), time)
    high = np.where(radius > 0, round_up(time + radius), time)
    gap = float(np.median(np.diff(time))) if time.size > 1 else 1.0
    nodes = [time, low, high]
    for begin, end in zip(low, high, strict=True):
        cells = int(np.clip(np.ceil(CELLS_PER_GAP * (end - begin) / gap), 2, MAX_CELLS)) if end > begin else 1
        nodes.append(np.linspace(begin, end, cells + 1))
    grid = np.unique(np.concatenate(nodes))
    owner = np.clip(np.searchsorted(time, grid, side="right") - 1, 0, None)  # the step of the record in which a node lies
    ends = np.append(grid[1:], grid[-1] + gap)
    steps = tuple(record.steps[k].between(float(a), float(b)) for k, a, b in zip(owner, grid, ends, strict=True))
    windows = np.array([np.searchsorted(grid, low), np.searchsorted(grid, high)]).T
    return replace(record, steps=steps, windows=windows)


@dataclass(frozen=True)
class TimeLimit:
    """When to stop, on the clock of the process's CPU time; never, unless said."""

    seconds: float | None = None
    began: float = field(default_factory=process_time)

    @property
    def reached(self) -> bool:
        return self.seconds is not None and process_time() - self.began >= self.seconds

    @property
    def sentence(self) -> str:
        return (f"Converged as far as time_limit = {self.seconds:g} s of CPU time reach: what is proved by then stands, more "
                "time may exclude more.")


@dataclass(frozen=True, eq=False)
class SetMembershipSetup:
    """A problem with bounded errors and bounded unknowns."""

    problem: Problem
    model: EquationModel
    automaton: IntervalAutomaton
    records: tuple[BoundedRecord, ...]
    low: np.ndarray  # (unknowns of the problem,)
    high: np.ndarray
    limit: TimeLimit = field(default_factory=TimeLimit)

    def box(self, experiment: int, low: np.ndarray, high: np.ndarray) -> Interval:
        """(states + parameters,) of one experiment, from bounds of the problem's unknowns."""
        ends = []
        for bounds in (low, high):
            p, x = self.problem.parameters_and_initial_state(bounds, experiment)
            ends.append(np.concatenate([x, p]))
        return ends[0], ends[1]

    def with_inflated_bounds(self, factor: float) -> SetMembershipSetup:
        """The same with every radius `factor` times as large, from the first box on."""
        return with_first_samples(replace(self, records=tuple(own.with_inflated_bounds(factor) for own in self.records)))

    def unknown_rows(self, experiment: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows of a box that are unknowns of the problem, and which ones."""
        b = self.problem.bindings[experiment]
        source = np.concatenate([b.initial_unknown, b.parameter_unknown])
        rows = np.flatnonzero(source >= 0)
        return rows, source[rows]

    def unknowns_of(self, experiment: int, boxes: Interval) -> np.ndarray:
        """(2, unknowns, boxes) in the order of the problem's names, from (states + parameters, boxes) of one experiment."""
        rows, source = self.unknown_rows(experiment)
        ends = np.repeat(np.array([self.low, self.high])[:, :, None], boxes[0].shape[1], axis=2)
        ends[:, source] = np.array([boxes[0][rows], boxes[1][rows]])
        return ends


def make_setup(problem: Problem, input_error: Mapping[str, float], rigorous: bool, inflation: float = 1.0
               ) -> SetMembershipSetup:
    """Every radius `inflation` times as large as stated; everything that could be wrong is said in one error."""
    model = _checked_model(problem, input_error)
    automaton = IntervalAutomaton(model, rigorous)
    records = tuple(make_bounded_record(e, model, input_error) for e in problem.experiments)
    if inflation != 1:
        records = tuple(own.with_inflated_bounds(inflation) for own in records)
    return with_first_samples(SetMembershipSetup(problem, model, automaton, records, np.zeros(0), np.zeros(0)))


def with_first_samples(setup: SetMembershipSetup) -> SetMembershipSetup:
    """The setup with its first box: the bounds of the unknowns, and what the first samples leave of initial states."""
    problem = setup.problem
    setup = replace(setup, low=np.array([u.lower for u in problem.unknowns], float),
                    high=np.array([u.upper for u in problem.unknowns], float))
    for k in range(len(setup.records)):
        setup = _contract_initial_state(setup, k)
    unbounded = [u.name for u, a, b in zip(problem.unknowns, setup.low, setup.high, strict=True) if not np.isfinite(b - a)]
    if unbounded:
        raise ProblemError(f"the initial state {', '.join(unbounded)} has no bounds, and the first sample does not bound "
                           "it. Give InitialState(..., lower=, upper=), or `initial` in the experiment if it is known.")
    return setup


def _checked_model(problem: Problem, input_error: Mapping[str, float]) -> EquationModel:
    model = problem.model
    assert isinstance(model, EquationModel)  # as the capabilities say
    faults = _noise_faults(problem) + _bound_faults(problem)
    faults += [f"input_error names '{name}', which is not an input of the model." for name in input_error
               if name not in model.inputs]
    if faults:
        raise ProblemError(faults)
    return model


def _noise_faults(problem: Problem) -> list[str]:
    open_ = sorted({name for e in problem.experiments for name, n in e.noise.items() if stated_bound(n) is None})
    return [f"set_membership needs a bound on the errors of {', '.join(open_)}, but these are Gaussian. A standard "
            "deviation bounds nothing: say Bounded(radius) or Gaussian(std, bound=radius) if you know one, or use "
            "multiple_shooting()."] if open_ else []


def _bound_faults(problem: Problem) -> list[str]:
    open_ = [u.name for u in problem.unknowns if not u.initial and not np.isfinite(u.upper - u.lower)]
    return [f"set_membership starts from a box, but {', '.join(open_)} "
            f"{'has' if len(open_) == 1 else 'have'} no bounds. Give Parameter(..., lower=, upper=)."] if open_ else []


def _contract_initial_state(setup: SetMembershipSetup, experiment: int) -> SetMembershipSetup:
    """The initial state contracted by what the first sample measured; refused where that leaves nothing."""
    record, layout = setup.records[experiment], setup.automaton.layout
    if record.windows is not None and record.windows[0, 1] > 0:
        return setup  # the first sample may have been taken later
    lo, hi = setup.box(experiment, setup.low, setup.high)
    rows = stack_rows(layout, lo[:, None], hi[:, None], record.steps[0])
    low, high = setup.automaton.output.contract(*rows, record.low[:, [0]], record.high[:, [0]], FIRST_PASSES)
    if np.isnan(low).any():
        raise ProblemError(f"{record.label}: the first sample (t = {record.time[0]:g}) lies outside of every initial state "
                           "within its bounds. Widen the bounds of the initial state, or those of the errors (inflate=2 "
                           "doubles them).")
    own, source = setup.unknown_rows(experiment)
    initial, first, last = own < layout.states, setup.low.copy(), setup.high.copy()
    first[source[initial]] = np.maximum(first[source[initial]], low[own[initial], 0])
    last[source[initial]] = np.minimum(last[source[initial]], high[own[initial], 0])
    return replace(setup, low=first, high=last)
