"""Splitting: which box is cut next, in which direction, and where?

A strategy is any callable `(boxes, situation) -> (rows, points)` or `(rows, points, urgency)` that names for each box the
row to cut and the point; a row of -1 leaves the box alone. Urgent boxes come first; where nothing is said, large ones.
Users may write their own; soundness does not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, NamedTuple

import numpy as np

from dynident.errors import ProblemError, did_you_mean
from dynident.set_membership.flows.boxes import Boxes, gathered


@dataclass(frozen=True, eq=False)
class Situation:
    """What a strategy may look at: names of the rows, the first box, the coming step."""

    names: tuple[str, ...]  # of the rows: states, then parameters
    states: int
    first_width: np.ndarray  # (rows,) of the box that everything began with; 1 where it was unbounded or thin
    inputs: dict[str, float]
    influence: Callable[[Boxes], np.ndarray]  # (rows, boxes): how far the width of a row spreads the states in the step

    def row(self, name: str) -> int:
        if name not in self.names:
            raise ProblemError(f"the strategy cuts '{name}', which is neither a state nor a parameter of the model."
                               f"{did_you_mean(name, self.names)}")
        return self.names.index(name)

    def volume(self, boxes: Boxes) -> np.ndarray:
        """(boxes,) the pseudo volume (9), relative to the first box."""
        return np.prod((boxes.hi - boxes.lo) / self.first_width[:, None], axis=0)


class Cuts(NamedTuple):
    """What a strategy says, per box."""

    rows: np.ndarray
    points: np.ndarray
    urgency: np.ndarray | None = None  # none: the pseudo volume


Strategy = Callable[[Boxes, Situation], Any]


def halves(boxes: Boxes, worth: np.ndarray) -> Cuts:
    """Each box in the middle of the row that is worth most, the most worthy first; boxes worth nothing are left."""
    rows = worth.argmax(axis=0)
    each = np.arange(boxes.count)
    points = 0.5 * (boxes.lo[rows, each] + boxes.hi[rows, each])
    most = worth[rows, each]
    return Cuts(np.where(most > 0, rows, -1), points, most)


@dataclass(frozen=True)
class LargestInfluence:
    """Cut the parameter whose width spreads the states most in the coming step."""

    def __call__(self, boxes: Boxes, situation: Situation) -> Cuts:
        worth = situation.influence(boxes)
        worth[:situation.states] = 0
        return halves(boxes, worth)


@dataclass(frozen=True)
class WidestParameter:
    """Cut the parameter that is widest in relation to where it began, among those that act in the coming step."""

    def __call__(self, boxes: Boxes, situation: Situation) -> Cuts:
        worth = (boxes.hi - boxes.lo) / situation.first_width[:, None] * (situation.influence(boxes) > 0)
        worth[:situation.states] = 0
        rows, points, _ = halves(boxes, worth)
        return Cuts(rows, points)


@dataclass(frozen=True)
class AroundZero:
    """Cut a state that may be zero into below, around and above zero (footnote 6); all other boxes as `then` says."""

    state: str = "speed"
    margin: float = 1e-3  # half the width of the middle part
    then: Strategy = LargestInfluence()

    def __call__(self, boxes: Boxes, situation: Situation) -> Cuts:
        row, (rows, points, urgency) = situation.row(self.state), Cuts(*self.then(boxes, situation))
        urgency = situation.volume(boxes) if urgency is None else urgency
        above = (boxes.lo[row] < self.margin) & (self.margin < boxes.hi[row]) & (boxes.lo[row] <= 0)
        below = (boxes.lo[row] < -self.margin) & (-self.margin < boxes.hi[row]) & (boxes.hi[row] >= 0)
        both = above | below
        points = np.where(both, np.where(above, self.margin, -self.margin), points)
        return Cuts(np.where(both, row, rows), points, np.where(both, np.inf, urgency))


STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "influence": LargestInfluence, "widest": WidestParameter, "around_zero": AroundZero}
PAPER_STRATEGIES = {"paper": "dynident.papers.union_of_modes:PaperRules"}  # loaded when asked for


def strategy_from(given: Strategy | str | None, usual: str) -> Strategy:
    """A strategy by its name, or as it was written."""
    if given is None or isinstance(given, str):
        name = given or usual
        if name in PAPER_STRATEGIES:
            return resolve_name(PAPER_STRATEGIES[name])()
        if name not in STRATEGIES:
            known = [*STRATEGIES, *PAPER_STRATEGIES]
            raise ProblemError(f"strategy = '{name}' is not known.{did_you_mean(name, known)} Use one of "
                               f"{', '.join(known)}, or a function of (boxes, situation).")
        return STRATEGIES[name]()
    return given


def split(boxes: Boxes, situation: Situation, strategy: Strategy, cuts: int) -> Boxes:
    """Cut the most urgent boxes, `cuts` times in all; a box may be cut again."""
    while cuts > 0 and boxes.count:
        rows, points, urgency = _said(strategy(boxes, situation), boxes)
        urgency = situation.volume(boxes) if urgency is None else urgency
        each = np.arange(boxes.count)
        can = (rows >= 0) & (urgency > 0) & (boxes.lo[rows, each] < points) & (points < boxes.hi[rows, each])
        chosen = np.flatnonzero(can)
        if not chosen.size:
            return boxes
        if chosen.size > cuts:
            chosen = chosen[np.argpartition(urgency[chosen], -cuts)[-cuts:]]
        cuts -= chosen.size
        boxes = cut(boxes, chosen, rows[chosen], points[chosen])
    return boxes


def _said(answer: Any, boxes: Boxes) -> Cuts:
    """The answer of a strategy, which a user may have written."""
    parts = [np.asarray(part) for part in answer if part is not None] if isinstance(answer, tuple) else []
    if len(parts) not in (2, 3) or any(part.shape != (boxes.count,) for part in parts):
        raise ProblemError(f"a strategy answers (rows, points) or (rows, points, urgency) with one entry per box; for "
                           f"{boxes.count} boxes it answered {[p.shape for p in parts] or type(answer).__name__}.")
    if parts[0].size and not (np.all(parts[0] == np.floor(parts[0])) and parts[0].min() >= -1
                              and parts[0].max() < boxes.lo.shape[0]):
        raise ProblemError(f"a strategy names rows between -1 and {boxes.lo.shape[0] - 1}, the states and then the "
                           f"parameters; it named {parts[0].min():g} to {parts[0].max():g}.")
    return Cuts(parts[0].astype(int), parts[1], parts[2] if len(parts) == 3 else None)


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
