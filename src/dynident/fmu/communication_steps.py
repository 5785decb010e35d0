"""Communication steps: of which lengths are the steps of Co-Simulation, so that every sample is met?

An FMU that takes steps of one length only gets the longest that meets all samples. Any other gets the sub-steps of the
record, and behind each sample a settling step: so short that no state moves, with the input of the sample itself, so that
outputs which follow inputs at once belong to it.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from dynident.fmu.simulation_spec import FmuInputs, StepSettings

SETTLING_STEP = 1e-6  # of a sampling interval: the step that takes over the input of the sample itself
OFF_GRID = 1e-3  # of a step: how far a sample may lie beside the grid; time stamps are rounded
MOST_PARTS = 1000  # of the shortest interval; and as many steps per interval in the mean
TRIED_INTERVALS = 50  # on which a step length is tried before all are


@dataclass(frozen=True, eq=False)
class EqualSteps:
    """The longest step that meets all samples, and how many of them lie in each interval."""

    length: float
    counts: np.ndarray  # (nodes - 1,)

    def subdivided(self, per_step: int) -> np.ndarray:
        """Steps in each interval when each is divided again."""
        return (self.counts * per_step).astype(np.int32)


def equal_steps(time: np.ndarray) -> EqualSteps | None:
    """None where no step of sane length meets all samples."""
    return _equal_steps(np.ascontiguousarray(time, float).tobytes())


@functools.lru_cache(maxsize=64)
def _equal_steps(data: bytes) -> EqualSteps | None:
    time = np.frombuffer(data)
    gaps = np.diff(time)
    if not gaps.size:
        return EqualSteps(0.0, np.zeros(0))
    shortest = np.unique(gaps)[:TRIED_INTERVALS]
    for parts in range(1, MOST_PARTS + 1):
        ratio = shortest * (parts / shortest[0])
        if np.max(np.abs(ratio - np.rint(ratio))) > 4 * OFF_GRID:  # two ends, and as much for the shortest itself
            continue
        counts = np.rint(gaps * (parts / shortest[0]))
        reached = np.cumsum(counts)
        length = float(time[-1] - time[0]) / float(reached[-1])
        if np.max(np.abs(time[1:] - time[0] - length * reached)) <= OFF_GRID * length:
            return EqualSteps(length, counts) if reached[-1] <= MOST_PARTS * gaps.size else None
    return None


def steps_per_interval(time: np.ndarray, substeps: np.ndarray) -> int:
    """How many steps were asked for in an interval of median length; the others follow from it by their length."""
    gaps = np.diff(time)
    longest = int(np.argmax(gaps))
    return max(1, int(substeps[longest] * np.median(gaps) / gaps[longest] * (1 + 1e-6)))


@dataclass(frozen=True, eq=False)
class CommunicationSteps:
    """Steps in each interval, and the lengths of those that the samples do not give."""

    counts: np.ndarray  # (nodes - 1,) int32
    settle_first: float  # seconds: of the settling step at the first sample, 0 for none
    settle: float  # of an interval: the settling step behind its end, 0 for none
    equal: float  # seconds: of every step where they must be equal, else 0

    @classmethod
    def of(cls, inputs: FmuInputs, settings: StepSettings) -> CommunicationSteps | None:
        """None where steps must be equal and no length meets all samples."""
        time, counts, equal = inputs.time, inputs.substeps, 0.0
        if settings.equal and time.size > 1:
            found = equal_steps(time)
            if found is None:
                return None
            counts = found.subdivided(steps_per_interval(time, inputs.substeps))
            equal = float(time[-1] - time[0]) / int(np.sum(counts))
        interval = float(time[1] - time[0]) if time.size > 1 else 1.0
        return cls(counts, SETTLING_STEP * interval if settings.settle_first else 0.0,
                   SETTLING_STEP if settings.settle else 0.0, equal)

    def last_moment(self, time: np.ndarray) -> float | None:
        """The time that no step goes beyond; None where there is one sample only."""
        if time.size < 2:
            return None
        begin, end = float(time[0]), float(time[-1])
        if self.equal:
            return max(end, begin + (int(np.sum(self.counts)) - 1) * self.equal + self.equal)
        return past_end(end, self.settle * (end - float(time[-2]))) if self.settle else end


def past_end(now: float, h: float) -> float:
    """The end of a step of about this length that does go on: a time may be so large that adding it changes nothing."""
    return now + h if now + h > now else math.nextafter(now, math.inf)
