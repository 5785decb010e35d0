"""Equal steps: on which grid of one step length do all samples of a record lie, for an FMU that takes no other?"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

BESIDE = 1e-3  # of a step: how far a sample may lie beside the grid; time stamps are rounded
MOST_PARTS = 1000  # of the shortest interval; and as many steps per interval in the mean
LOOKED_AT = 50  # intervals that a step length is tried on before all are


@dataclass(frozen=True, eq=False)
class EqualSteps:
    """The longest step that meets all samples, and how many of them lie in each interval."""

    length: float
    counts: np.ndarray  # (nodes - 1,)

    def parted(self, per_step: int) -> np.ndarray:
        """Steps in each interval when each is parted again."""
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
    shortest = np.unique(gaps)[:LOOKED_AT]
    for parts in range(1, MOST_PARTS + 1):
        ratio = shortest * (parts / shortest[0])
        if np.max(np.abs(ratio - np.rint(ratio))) > 4 * BESIDE:  # two ends, and as much for the shortest itself
            continue
        counts = np.rint(gaps * (parts / shortest[0]))
        reached = np.cumsum(counts)
        length = float(time[-1] - time[0]) / float(reached[-1])
        if np.max(np.abs(time[1:] - time[0] - length * reached)) <= BESIDE * length:
            return EqualSteps(length, counts) if reached[-1] <= MOST_PARTS * gaps.size else None
    return None


def per_interval(time: np.ndarray, substeps: np.ndarray) -> int:
    """How many steps were asked for in an interval of median length; the others follow from it by their length."""
    gaps = np.diff(time)
    longest = int(np.argmax(gaps))
    return max(1, int(substeps[longest] * np.median(gaps) / gaps[longest] * (1 + 1e-6)))
