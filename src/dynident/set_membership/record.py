"""Record: an experiment as steps between samples and intervals of what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dynident.errors import NotSupported
from dynident.problem.experiment import Experiment
from dynident.problem.noise import stated_bound
from dynident.set_membership.flows.boxes import Step
from dynident.set_membership.flows.measurement_update import Sample
from dynident.set_membership.intervals.arithmetic import down, up


@dataclass(frozen=True, eq=False)
class BoundedRecord:
    """Samples 0 ... K: a step leads from each to the next; the last step has no length."""

    label: str
    time: np.ndarray  # (samples,)
    steps: tuple[Step, ...]  # (samples,)
    low: np.ndarray  # (outputs, samples): measured minus radius; -inf where not measured
    high: np.ndarray

    @property
    def samples(self) -> int:
        return self.time.size

    def sample(self, k: int) -> Sample:
        return Sample(self.steps[k], self.low[:, k], self.high[:, k])

    def until(self, samples: int) -> BoundedRecord:
        """Its first samples only."""
        return BoundedRecord(self.label, self.time[:samples], self.steps[:samples], self.low[:, :samples],
                             self.high[:, :samples])

    def inflated(self, factor: float) -> BoundedRecord:
        """The same with every radius `factor` times as large."""
        with np.errstate(invalid="ignore"):
            centre, radius = 0.5 * (self.low + self.high), 0.5 * (self.high - self.low) * factor
        seen = np.isfinite(self.low)
        return BoundedRecord(self.label, self.time, self.steps, np.where(seen, down(centre - radius), -np.inf),
                             np.where(seen, up(centre + radius), np.inf))


def bounded_record(experiment: Experiment, model: Any, input_error: dict[str, float]) -> BoundedRecord:
    """The record with outward rounded bounds; `input_error` bounds each input's error, constant between samples."""
    time = np.asarray(experiment.time)
    inputs = np.array([experiment.inputs[name] for name in model.inputs]).reshape(len(model.inputs), time.size)
    linear = np.array([experiment.hold[name] == "linear" for name in model.inputs], bool)
    error = np.array([input_error.get(name, 0.0) for name in model.inputs], float)
    following = np.concatenate([inputs[:, 1:], inputs[:, -1:]], axis=1)
    ends = np.append(time[1:], time[-1] + (time[-1] - time[-2] if time.size > 1 else 1.0))
    steps = tuple(Step.between(float(t), float(end), inputs[:, k], following[:, k], linear, error)
                  for k, (t, end) in enumerate(zip(time, ends, strict=True)))
    low = np.full((len(model.outputs), time.size), -np.inf)
    high = np.full((len(model.outputs), time.size), np.inf)
    for j, name in enumerate(model.outputs):
        if name not in experiment.outputs:
            continue
        measured, radius = np.asarray(experiment.outputs[name]), stated_bound(experiment.noise[name])
        assert radius is not None  # question_of asks for it
        seen = np.isfinite(measured)
        low[j, seen] = down(measured - radius)[seen]
        high[j, seen] = up(measured + radius)[seen]
    if experiment.start is not None and experiment.start < time[0]:
        raise NotSupported(f"{experiment.label}: the initial state holds before the first sample. Add a sample at the "
                           "start with NaN in the measured signals.")
    return BoundedRecord(experiment.name, time, steps, low, high)
