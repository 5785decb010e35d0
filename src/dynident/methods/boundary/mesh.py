"""Mesh: at which times do segments begin, and which of them are cut?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import PchipInterpolator

from dynident.discretizations.segments import MarchSegments
from dynident.integrators.grid import Grid
from dynident.integrators.march import Diverged, March

STEPS = 2  # per segment; the state between them is known too
CHECKED = 4  # steps per segment in the check: those of half the length show how far off the others are
DENSE = 8  # points per segment between which the solution is interpolated
MOST_PIECES = 8  # into which one segment is cut at a time


def split(times: np.ndarray, pieces: np.ndarray) -> np.ndarray:
    """New nodes: segment i cut into pieces[i] of equal length; old nodes stay as they are, to the last bit."""
    segment = np.repeat(np.arange(len(pieces)), pieces)
    within = (np.arange(segment.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)) / pieces[segment]
    return np.append(times[segment] + within * np.diff(times)[segment], times[-1])


def moved_to(times: np.ndarray, nodes: np.ndarray, new: np.ndarray) -> np.ndarray:
    """States at new times between known ones, without overshoot."""
    return PchipInterpolator(times, nodes, axis=0)(new)


def too_short(times: np.ndarray) -> np.ndarray:
    """Segments that cannot be cut any more: their middle would drown in the rounding of time."""
    reach = np.maximum(np.abs(times[:-1]), np.abs(times[1:]))
    return np.diff(times) <= 1e3 * np.finfo(float).eps * np.maximum(reach, times[-1] - times[0])


@dataclass(frozen=True, eq=False)
class Stepper:
    """One march, on any mesh."""

    march: March
    order: int
    states: int
    parameters: int
    used: tuple[int, ...]  # places of the march's parameters among all

    def segments(self, times: np.ndarray, steps: int = STEPS) -> MarchSegments:
        """Every segment in `steps` steps, whose ends are nodes of the grid."""
        fine = split(times, np.full(len(times) - 1, steps))
        nothing = np.zeros((fine.size - 1, 0))
        grid = Grid(fine, 0, np.ones(fine.size - 1, np.int32), nothing, nothing, np.zeros((fine.size, 0)),
                    np.zeros(fine.size, np.uint8))
        used = list(self.used)
        return MarchSegments(self.march, grid, np.arange(0, fine.size, steps), self.states, self.parameters,
                             lambda p: p[used], used)

    def broken(self, times: np.ndarray, nodes: np.ndarray, p: np.ndarray) -> np.ndarray:
        """(segments,) whether the way from the begin of a segment to its end leaves the finite numbers."""
        bad = np.zeros(len(times) - 1, dtype=bool)
        begin = 0
        while begin < bad.size:
            try:
                self.segments(times[begin:]).run(nodes[begin:-1], p, False)
                break
            except Diverged as wall:
                begin += max(wall.node - 1, 0) // STEPS
                bad[begin] = True
                begin += 1
        return bad
