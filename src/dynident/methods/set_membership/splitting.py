"""Splitting: which box is cut next, in which direction, and where?

A strategy is any callable `(boxes, situation) -> (rows, points)` that names for each box the row to cut and the point;
a row of -1 leaves the box alone. Users may write their own; soundness does not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dynident.integrators.verified.boxes import Boxes, gathered


@dataclass(frozen=True, eq=False)
class Situation:
    """What a strategy may look at: names of the rows, the first box, the inputs of the coming step."""

    names: tuple[str, ...]  # of the rows: states, then parameters
    states: int
    first_width: np.ndarray  # (rows,) of the box that everything began with; 1 where it was unbounded or thin
    inputs: dict[str, float]
    acts: np.ndarray  # (modes, rows): whether a row acts on the motion in a mode

    def row(self, name: str) -> int:
        return self.names.index(name)


Strategy = Callable[[Boxes, Situation], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class WidestParameter:
    """Cut the parameter that is widest in relation to where it began, among those that act in the box's mode."""

    def __call__(self, boxes: Boxes, situation: Situation) -> tuple[np.ndarray, np.ndarray]:
        relative = (boxes.hi - boxes.lo) / situation.first_width[:, None] * situation.acts[boxes.mode].T
        relative[:situation.states] = 0
        rows = relative.argmax(axis=0)
        each = np.arange(boxes.count)
        points = 0.5 * (boxes.lo[rows, each] + boxes.hi[rows, each])
        return np.where(relative[rows, each] > 0, rows, -1), points


@dataclass(frozen=True)
class PaperRules:
    """Rules (10) to (12) of Rauh, Senkel and Aschemann, as printed; the fields say which name plays which part."""

    speed: str = "speed"
    torque: str = "torque"
    damping: str = "alpha"
    gain: str = "beta"
    breakaway: str = "T_Fs"
    margin: float = 1e-3  # epsilon: how far beyond the torque the breakaway torque is cut

    def __call__(self, boxes: Boxes, situation: Situation) -> tuple[np.ndarray, np.ndarray]:
        x2, a, b, t = (situation.row(n) for n in (self.speed, self.damping, self.gain, self.breakaway))
        u = situation.inputs[self.torque]
        middle = 0.5 * (boxes.lo + boxes.hi)
        width = boxes.hi - boxes.lo
        sticks = abs(u) <= boxes.hi[t]  # (10): the torque meets the hull of -T and T
        inside = (boxes.lo[t] < abs(u)) & (boxes.hi[t] > abs(u) + self.margin) & (u != 0)
        at_torque = np.where(inside, abs(u) + self.margin, middle[t])
        fast = width[x2] >= width[b]  # (11)
        braking = _product(boxes, a, (boxes.lo[x2], boxes.hi[x2]))
        pushing = _product(boxes, b, (u - boxes.hi[t], u - boxes.lo[t]))
        ambiguous = (braking[0] <= pushing[1]) & (pushing[0] <= braking[1])  # (12)
        rows = np.where(sticks, t, np.where(fast, x2, np.where(ambiguous, b, a)))
        each = np.arange(boxes.count)
        points = np.where(sticks, at_torque, middle[rows, each])
        return np.where(width[rows, each] > 0, rows, -1), points


def _product(boxes: Boxes, row: int, other: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    products = np.array([side * end for side in (boxes.lo[row], boxes.hi[row]) for end in other])
    return products.min(axis=0), products.max(axis=0)


def split(boxes: Boxes, situation: Situation, strategy: Strategy, cuts: int, everything: bool) -> Boxes:
    """Cut the largest boxes, `cuts` times in all; a box may be cut again. `everything`: states count for the size."""
    while cuts > 0 and boxes.count:
        size = _size(boxes, situation, everything)
        rows, points = strategy(boxes, situation)
        each = np.arange(boxes.count)
        can = (rows >= 0) & (size > 0) & (boxes.lo[rows, each] < points) & (points < boxes.hi[rows, each])
        chosen = np.flatnonzero(can)
        if not chosen.size:
            return boxes
        if chosen.size > cuts:
            chosen = chosen[np.argpartition(size[chosen], -cuts)[-cuts:]]
        cuts -= chosen.size
        boxes = cut(boxes, chosen, rows[chosen], points[chosen])
    return boxes


def _size(boxes: Boxes, situation: Situation, everything: bool) -> np.ndarray:
    """The pseudo volume (9), of all rows or of the parameters that had a width, relative to the first box."""
    relative = (boxes.hi - boxes.lo) / situation.first_width[:, None]
    if everything:
        return np.prod(relative, axis=0)
    parameters = relative[situation.states:]
    return np.prod(np.where(parameters > 0, parameters, 1e-12), axis=0)


def cut(boxes: Boxes, chosen: np.ndarray, rows: np.ndarray, points: np.ndarray) -> Boxes:
    """Each chosen box becomes two that share the point."""
    lo, hi = boxes.lo.copy(), boxes.hi.copy()
    other_lo, other_hi = lo[:, chosen].copy(), hi[:, chosen].copy()
    hi[rows, chosen] = points
    other_lo[rows, np.arange(chosen.size)] = points
    return gathered([Boxes(lo, hi, boxes.mode), Boxes(other_lo, other_hi, boxes.mode[chosen])], lo.shape[0])


def slice_widest(boxes: Boxes, row: int, slices: int) -> Boxes:
    """The box that is widest in one row, cut into equal slices there (footnote 5)."""
    if slices < 2 or not boxes.count:
        return boxes
    widest = int((boxes.hi[row] - boxes.lo[row]).argmax())
    edges = np.linspace(boxes.lo[row, widest], boxes.hi[row, widest], slices + 1)
    edges[0], edges[-1] = boxes.lo[row, widest], boxes.hi[row, widest]
    if not np.all(np.diff(edges) > 0):
        return boxes
    lo = np.repeat(boxes.lo[:, [widest]], slices, axis=1)
    hi = np.repeat(boxes.hi[:, [widest]], slices, axis=1)
    lo[row], hi[row] = edges[:-1], edges[1:]
    kept = np.arange(boxes.count) != widest
    return gathered([boxes.where(kept), Boxes(lo, hi, np.full(slices, boxes.mode[widest]))], lo.shape[0])
