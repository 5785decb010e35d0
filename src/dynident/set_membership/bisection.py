"""Bisection and merging of boxes: which box is bisected next, in which row and where; and which two become one again?

A strategy is any callable `(boxes, context) -> (rows, points)` or `(rows, points, urgency)` that names for each box the row
to bisect and the point; a row of -1 leaves the box alone. Urgent boxes come first; where nothing is said, large ones. Users
may write their own; soundness does not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, NamedTuple

import numpy as np

from dynident.errors import ProblemError, did_you_mean
from dynident.set_membership.flows.boxes import Boxes, concatenate
from dynident.set_membership.intervals.arithmetic import Interval

MORTON_BITS = 10  # per row of a Morton code: neighbours at a thousandth of the spread are neighbours in the list
MAX_MERGE_ROUNDS = 40


@dataclass(frozen=True, eq=False)
class BisectionContext:
    """What a strategy may look at: names of the rows, the first box, the coming step."""

    names: tuple[str, ...]  # of the rows: states, then parameters
    states: int
    first_width: np.ndarray  # (rows,) of the box that everything began with; 1 where it was unbounded or thin
    inputs: dict[str, float]
    influence: Callable[[Boxes], np.ndarray]  # (rows, boxes): how far the width of a row spreads the states in the step

    def row(self, name: str) -> int:
        if name not in self.names:
            raise ProblemError(f"the strategy bisects '{name}', which is neither a state nor a parameter of the model."
                               f"{did_you_mean(name, self.names)}")
        return self.names.index(name)

    def volume(self, boxes: Boxes) -> np.ndarray:
        """(boxes,) the pseudo volume (9), relative to the first box."""
        return np.prod((boxes.hi - boxes.lo) / self.first_width[:, None], axis=0)


class Bisections(NamedTuple):
    """What a strategy says, per box."""

    rows: np.ndarray
    points: np.ndarray
    urgency: np.ndarray | None = None  # none: the pseudo volume


Strategy = Callable[[Boxes, BisectionContext], Any]


def bisect_worthiest(boxes: Boxes, worth: np.ndarray) -> Bisections:
    """Each box in the middle of the row that is worth most, the most worthy first; boxes worth nothing are left."""
    rows = worth.argmax(axis=0)
    each = np.arange(boxes.count)
    points = 0.5 * (boxes.lo[rows, each] + boxes.hi[rows, each])
    most = worth[rows, each]
    return Bisections(np.where(most > 0, rows, -1), points, most)


@dataclass(frozen=True)
class LargestInfluence:
    """Bisect the parameter whose width spreads the states most in the coming step."""

    def __call__(self, boxes: Boxes, context: BisectionContext) -> Bisections:
        worth = context.influence(boxes)
        worth[:context.states] = 0
        return bisect_worthiest(boxes, worth)


@dataclass(frozen=True)
class WidestParameter:
    """Bisect the parameter that is widest in relation to where it began, among those that act in the coming step."""

    def __call__(self, boxes: Boxes, context: BisectionContext) -> Bisections:
        worth = (boxes.hi - boxes.lo) / context.first_width[:, None] * (context.influence(boxes) > 0)
        worth[:context.states] = 0
        rows, points, _ = bisect_worthiest(boxes, worth)
        return Bisections(rows, points)


@dataclass(frozen=True)
class AroundZero:
    """Split a state that may be zero into below, around and above zero (footnote 6); all other boxes as `then` says."""

    state: str = "speed"
    margin: float = 1e-3  # half the width of the middle part
    then: Strategy = LargestInfluence()

    def __call__(self, boxes: Boxes, context: BisectionContext) -> Bisections:
        row, (rows, points, urgency) = context.row(self.state), Bisections(*self.then(boxes, context))
        urgency = context.volume(boxes) if urgency is None else urgency
        above = (boxes.lo[row] < self.margin) & (self.margin < boxes.hi[row]) & (boxes.lo[row] <= 0)
        below = (boxes.lo[row] < -self.margin) & (-self.margin < boxes.hi[row]) & (boxes.hi[row] >= 0)
        both = above | below
        points = np.where(both, np.where(above, self.margin, -self.margin), points)
        return Bisections(np.where(both, row, rows), points, np.where(both, np.inf, urgency))


STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "influence": LargestInfluence, "widest": WidestParameter, "around_zero": AroundZero}
PAPER_STRATEGIES = {"paper": "dynident.papers.union_of_modes:PaperRules"}  # loaded when asked for


def resolve_strategy(given: Strategy | str | None, usual: str) -> Strategy:
    """A strategy by its name, or as it was written."""
    if given is None or isinstance(given, str):
        name = given or usual
        if name in PAPER_STRATEGIES:
            return resolve_name(PAPER_STRATEGIES[name])()
        if name not in STRATEGIES:
            known = [*STRATEGIES, *PAPER_STRATEGIES]
            raise ProblemError(f"strategy = '{name}' is not known.{did_you_mean(name, known)} Use one of "
                               f"{', '.join(known)}, or a function of (boxes, context).")
        return STRATEGIES[name]()
    return given


def bisect_most_urgent(boxes: Boxes, context: BisectionContext, strategy: Strategy, count: int) -> Boxes:
    """Bisect the most urgent boxes, `count` times in all; a box may be bisected again."""
    while count > 0 and boxes.count:
        rows, points, urgency = _check_bisections(strategy(boxes, context), boxes)
        urgency = context.volume(boxes) if urgency is None else urgency
        each = np.arange(boxes.count)
        can = (rows >= 0) & (urgency > 0) & (boxes.lo[rows, each] < points) & (points < boxes.hi[rows, each])
        chosen = np.flatnonzero(can)
        if not chosen.size:
            return boxes
        if chosen.size > count:
            chosen = chosen[np.argpartition(urgency[chosen], -count)[-count:]]
        count -= chosen.size
        boxes = bisect(boxes, chosen, rows[chosen], points[chosen])
    return boxes


def _check_bisections(result: Any, boxes: Boxes) -> Bisections:
    """What a strategy said, which a user may have written."""
    parts = [np.asarray(part) for part in result if part is not None] if isinstance(result, tuple) else []
    if len(parts) not in (2, 3) or any(part.shape != (boxes.count,) for part in parts):
        raise ProblemError(f"a strategy answers (rows, points) or (rows, points, urgency) with one entry per box; for "
                           f"{boxes.count} boxes it answered {[p.shape for p in parts] or type(result).__name__}.")
    if parts[0].size and not (np.all(parts[0] == np.floor(parts[0])) and parts[0].min() >= -1
                              and parts[0].max() < boxes.lo.shape[0]):
        raise ProblemError(f"a strategy names rows between -1 and {boxes.lo.shape[0] - 1}, the states and then the "
                           f"parameters; it named {parts[0].min():g} to {parts[0].max():g}.")
    return Bisections(parts[0].astype(int), parts[1], parts[2] if len(parts) == 3 else None)


def bisect(boxes: Boxes, chosen: np.ndarray, rows: np.ndarray, points: np.ndarray) -> Boxes:
    """Each chosen box becomes two that share the point."""
    return Boxes(*bisect_ends((boxes.lo, boxes.hi), chosen, rows, points), np.concatenate([boxes.mode, boxes.mode[chosen]]))


def bisect_ends(box: Interval, chosen: np.ndarray, rows: np.ndarray, points: np.ndarray) -> Interval:
    """The same of (rows, boxes) ends: the upper parts stand behind all others."""
    lo, hi = box[0], box[1].copy()
    other_lo, other_hi = lo[:, chosen].copy(), hi[:, chosen].copy()
    hi[rows, chosen] = points
    other_lo[rows, np.arange(chosen.size)] = points
    return np.concatenate([lo, other_lo], axis=1), np.concatenate([hi, other_hi], axis=1)


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
    return concatenate([boxes.select(kept), Boxes(lo, hi, np.full(slices, boxes.mode[widest]))], lo.shape[0])


def slice_wide(boxes: Boxes, row: int, slices: int, widest: float, room: int | None) -> Boxes:
    """All boxes that are wider than a bound in one row, cut into equal slices there (footnote 5); the widest first, and no
    more of them than there is room for."""
    width = boxes.hi[row] - boxes.lo[row]
    wide = np.flatnonzero((width > widest) & np.isfinite(width))
    if slices < 2 or not wide.size:
        return boxes
    if room is not None and wide.size * (slices - 1) > room:
        wide = wide[np.argsort(width[wide])[::-1][:max(room, 0) // (slices - 1)]]
    share = np.linspace(0, 1, slices + 1)[:, None]
    edges = boxes.lo[row, wide] + share * width[wide]  # (slices + 1, boxes)
    edges[0], edges[-1] = boxes.lo[row, wide], boxes.hi[row, wide]
    lo, hi = (np.repeat(ends[:, wide], slices, axis=1) for ends in (boxes.lo, boxes.hi))
    lo[row], hi[row] = edges[:-1].T.ravel(), edges[1:].T.ravel()
    kept = np.ones(boxes.count, bool)
    kept[wide] = False
    return concatenate([boxes.select(kept), Boxes(lo, hi, np.repeat(boxes.mode[wide], slices))], lo.shape[0])


def merge_boxes(boxes: Boxes, max_boxes: int, first_width: np.ndarray) -> Boxes:
    """At most `max_boxes` (or one per mode): neighbours in Morton order are joined, cheapest first."""
    for _ in range(MAX_MERGE_ROUNDS):
        if boxes.count <= max(max_boxes, 1):
            return boxes
        before = boxes.count
        boxes = _merge_neighbours(boxes, before - max_boxes, first_width)
        if boxes.count == before:
            return boxes
    return boxes


def _merge_neighbours(boxes: Boxes, surplus: int, first_width: np.ndarray) -> Boxes:
    boxes = boxes.select(np.lexsort((_morton_codes(boxes), boxes.mode)))
    lo, hi = np.minimum(boxes.lo[:, :-1], boxes.lo[:, 1:]), np.maximum(boxes.hi[:, :-1], boxes.hi[:, 1:])
    width = (boxes.hi - boxes.lo) / first_width[:, None]
    with np.errstate(invalid="ignore"):  # what is infinite before and after has not grown
        growth = np.nan_to_num((hi - lo) / first_width[:, None] - np.maximum(width[:, :-1], width[:, 1:]), nan=0.0)
    cost = np.sum(growth, axis=0)
    cost[boxes.mode[:-1] != boxes.mode[1:]] = np.inf
    chosen = _disjoint_cheapest_pairs(cost, surplus)
    if not chosen.size:
        return boxes
    joined = Boxes(lo[:, chosen], hi[:, chosen], boxes.mode[chosen])
    kept = np.ones(boxes.count, bool)
    kept[chosen] = kept[chosen + 1] = False
    return concatenate([boxes.select(kept), joined], boxes.lo.shape[0])


def _disjoint_cheapest_pairs(cost: np.ndarray, surplus: int) -> np.ndarray:
    """Positions of the cheapest pairs that share no box: each is cheaper than both of its neighbours."""
    left, right = np.append(np.inf, cost[:-1]), np.append(cost[1:], np.inf)
    order = np.arange(cost.size)
    lowest = np.isfinite(cost) & ((cost < left) | ((cost == left) & (order % 2 == 0))) & (
        (cost < right) | ((cost == right) & (order % 2 == 0)))
    pairs = np.flatnonzero(lowest)
    pairs = pairs[np.concatenate([[True], np.diff(pairs) > 1])] if pairs.size else pairs
    return pairs if pairs.size <= surplus else pairs[np.argpartition(cost[pairs], surplus)[:surplus]]


def _morton_codes(boxes: Boxes) -> np.ndarray:
    """One number per box in which the bits of all its (moving) midpoints alternate."""
    with np.errstate(invalid="ignore"):
        middle = 0.5 * (boxes.lo + boxes.hi)  # no number where a box has no end
    low, high = middle.min(axis=1), middle.max(axis=1)
    rows = np.flatnonzero(np.isfinite(low) & np.isfinite(high) & (high > low))[-6:]  # six rows of ten bits fill a code
    code = np.zeros(boxes.count, np.int64)
    for place, row in enumerate(rows):
        cell = ((middle[row] - low[row]) / (high[row] - low[row]) * (2**MORTON_BITS - 1)).astype(np.int64)
        for bit in range(MORTON_BITS):
            code |= ((cell >> bit) & 1) << (bit * len(rows) + place)
    return code
