"""Branch and prune: between which values must every unknown lie that explains a stretch of a record?

Boxes are bisected where their width acts most, their flows enclosed together along a beginning of the record, and contracted;
those that nothing is left of are gone. A box looks at twice as many samples once the error of its flow is small enough for
them to say something. What lies between points that are known to fit needs no more work, since the hull holds it anyway.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from dynident.set_membership.bisection import bisect_ends
from dynident.set_membership.flows.lohner import OutputEnclosure
from dynident.set_membership.intervals.arithmetic import Interval
from dynident.set_membership.setup import BoundedRecord, TimeLimit
from dynident.set_membership.stretch import SampleStretch
from dynident.set_membership.verified_lp import bound_by_lp, contract_boxes, half_widths
from dynident.tolerances import LP_ERROR, LP_SHARP_ERROR, USEFUL_ERROR

FIRST_PRUNING_SAMPLES = 16
MAX_DEPTH_BOXES = 32  # at a time, where any box that cannot be refuted ends the search
MAX_LP_BOXES = 6  # boxes at a time for which linear programs are worth their time although they may say little


@dataclass(frozen=True)
class PruneOptions:
    """How hard the search tries."""

    max_boxes: int = 256  # at a time
    rounds: int = 20  # so many times max_boxes are looked at in all
    tolerance: float = 0.02  # of the hull's width: what is closer to it is not told apart
    smallest: float = 1e-3  # of the first box: a smaller box is not divided
    max_outliers: int = 0  # samples that may be wrong
    first_is_enough: bool = False  # stop at the first box that cannot be refuted


@dataclass(frozen=True, eq=False)
class PrunedHull:
    """The smallest box that was found to hold everything that fits; none where nothing does."""

    hull: Interval | None
    examined: int = 0  # boxes
    left: int = 0  # boxes that would have been divided further


@dataclass(frozen=True, eq=False)
class _Queue:
    """Boxes that wait, and how many samples each looks at."""

    lo: np.ndarray  # (unknowns, boxes)
    hi: np.ndarray
    samples: np.ndarray  # (boxes,)

    @property
    def count(self) -> int:
        return self.lo.shape[1]

    def select(self, chosen: np.ndarray) -> _Queue:
        return _Queue(self.lo[:, chosen], self.hi[:, chosen], self.samples[chosen])

    def joined(self, other: _Queue) -> _Queue:
        return _Queue(np.concatenate([self.lo, other.lo], axis=1), np.concatenate([self.hi, other.hi], axis=1),
                      np.concatenate([self.samples, other.samples]))


@dataclass(frozen=True, eq=False)
class _Kept:
    """The hull of what fits or cannot be refuted; nothing at first."""

    low: np.ndarray
    high: np.ndarray
    any: bool = field(default=False)

    def with_boxes(self, lo: np.ndarray, hi: np.ndarray) -> _Kept:
        if not lo.shape[1]:
            return self
        return _Kept(np.minimum(self.low, lo.min(axis=1)), np.maximum(self.high, hi.max(axis=1)), True)

    def outside(self, lo: np.ndarray, hi: np.ndarray, width: np.ndarray) -> np.ndarray:
        """(boxes,) how far each box stands out, relative to `width`; infinite as long as nothing is kept."""
        if not self.any:
            return np.full(lo.shape[1], np.inf)
        beyond = np.maximum(self.low[:, None] - lo, hi - self.high[:, None])
        return np.max(beyond / width[:, None], axis=0, initial=0.0)


def prune_to_hull(stretch: SampleStretch, lo: np.ndarray, hi: np.ndarray, options: PruneOptions,
                  points: np.ndarray | None = None, limit: TimeLimit | None = None) -> PrunedHull:
    """What the stretch leaves of the box [lo, hi] (unknowns,); `points` (unknowns, points) are known to fit."""
    first, limit = np.where(hi > lo, hi - lo, 1.0), limit or TimeLimit()
    kept = _Kept(np.full(lo.size, np.inf), np.full(lo.size, -np.inf))
    kept = kept if points is None else kept.with_boxes(points, points)
    queue = _Queue(lo[:, None], hi[:, None], np.array([min(FIRST_PRUNING_SAMPLES, stretch.samples)]))
    near = _Kept(kept.low, kept.high)  # stands out too little to be worth work: part of the hull, but no measure for others
    examined = 0
    while queue.count and examined < options.rounds * options.max_boxes and not (options.first_is_enough and kept.any):
        if limit.reached:
            break
        queue, near = _set_aside(queue, near, kept, options, first)
        if not queue.count:
            break
        queue, batch = _take_worst(queue, kept, options, first)
        examined += batch.count
        kept, waiting = _examine(stretch, batch, kept, options, first)
        queue = queue.joined(waiting)
    left = queue.count
    kept = kept.with_boxes(queue.lo, queue.hi)
    kept = kept if not near.any else kept.with_boxes(near.low[:, None], near.high[:, None])
    return PrunedHull((kept.low, kept.high) if kept.any else None, examined, left)


def _slack(kept: _Kept, options: PruneOptions, first: np.ndarray) -> np.ndarray:
    """(unknowns,) how far something may stand out without work: a share of the hull, but not less than is divided at all."""
    width = kept.high - kept.low if kept.any else np.zeros(first.size)
    return np.maximum(options.tolerance * width, options.smallest * first)


def _set_aside(queue: _Queue, near: _Kept, kept: _Kept, options: PruneOptions, first: np.ndarray) -> tuple[_Queue, _Kept]:
    """The queue without boxes that stand out by less than the slack; nothing of these is lost."""
    little = kept.outside(queue.lo, queue.hi, _slack(kept, options, first)) <= 1
    return queue.select(~little), near.with_boxes(queue.lo[:, little], queue.hi[:, little])


def _take_worst(queue: _Queue, kept: _Kept, options: PruneOptions, first: np.ndarray) -> tuple[_Queue, _Queue]:
    """The boxes that stand out most and look at the same number of samples, behind all others."""
    beyond = kept.outside(queue.lo, queue.hi, _slack(kept, options, first))
    size = np.max((queue.hi - queue.lo) / first[:, None], axis=0)
    order = np.argsort(size) if options.first_is_enough else np.lexsort((-size, -beyond))  # depth first finds one soonest
    most = min(options.max_boxes, MAX_DEPTH_BOXES) if options.first_is_enough else options.max_boxes
    same = order[queue.samples[order] == queue.samples[order[0]]][:most]
    chosen = np.zeros(queue.count, bool)
    chosen[same] = True
    return queue.select(~chosen), queue.select(chosen)


def _examine(stretch: SampleStretch, batch: _Queue, kept: _Kept, options: PruneOptions, first: np.ndarray
             ) -> tuple[_Kept, _Queue]:
    """What is left of some boxes: kept where they are not to be divided, else in halves."""
    samples = int(batch.samples[0])
    rows = stretch.enclose_outputs(batch.lo, batch.hi, samples)
    record = stretch.record.part(0, samples)
    (lo, hi), _, left = contract_boxes(rows, record, (batch.lo, batch.hi), options.max_outliers)
    units = half_widths(record)
    units = units if rows.cells is None else units[rows.cells.owner]
    whole = samples == stretch.samples
    error = _error_at_end(rows, units)[left]
    if not options.max_outliers and record.windows is None and lo.shape[1]:
        lo, hi, alive, solved = _contract_by_lp(rows, record, (lo, hi), left, error, whole)
        left, error = left[alive], error[alive]
    else:
        solved = np.zeros(lo.shape[1], bool)
    small = np.max((hi - lo) / first[:, None], axis=0, initial=0.0) <= options.smallest
    done = small | solved
    kept = kept.with_boxes(lo[:, done], hi[:, done])
    more = np.where(error <= USEFUL_ERROR, min(2 * samples, stretch.samples), samples)
    influence = _influence(rows, units)[:, left][:, ~done]
    waiting = _Queue(lo[:, ~done], hi[:, ~done], more[~done])
    return kept, _halve(waiting, influence, first)


def _contract_by_lp(rows: OutputEnclosure, record: BoundedRecord, box: Interval, left: np.ndarray, error: np.ndarray,
                    whole: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Boxes after linear programs, where these are worth it: which are left, and which are as narrow as programs make them."""
    lo, hi = box[0].copy(), box[1].copy()
    sharp = whole & (error <= LP_SHARP_ERROR)
    worth = (whole & (error <= LP_ERROR)) | (lo.shape[1] <= MAX_LP_BOXES)
    alive = np.ones(lo.shape[1], bool)
    for j in np.flatnonzero(worth):
        bounds = bound_by_lp(rows, record, (lo[:, j], hi[:, j]), int(left[j]))
        alive[j] = bounds is not None
        if bounds is not None:
            lo[:, j], hi[:, j] = bounds
    return lo[:, alive], hi[:, alive], alive, sharp[alive]


def _error_at_end(rows: OutputEnclosure, units: np.ndarray) -> np.ndarray:
    """(boxes,) the error of the flow in the last quarter of the samples that were looked at, in radii of the measurement."""
    last = slice(3 * len(rows.error) // 4, None)
    with np.errstate(invalid="ignore", over="ignore"):
        relative = rows.error[last] / units[last][:, :, None]
    return np.where(np.isnan(relative), 0.0, relative).max(axis=(0, 1), initial=0.0)  # NaN: not measured


def _influence(rows: OutputEnclosure, units: np.ndarray) -> np.ndarray:
    """(unknowns, boxes) how far the width of each unknown moves outputs, in radii, where the flow is known well enough."""
    with np.errstate(invalid="ignore", over="ignore"):
        useful = rows.error <= 4 * USEFUL_ERROR * units[:, :, None]
        moved = np.abs(rows.a) * rows.radius / units[:, :, None, None]
    moved = np.where(useful[:, :, None] & np.isfinite(moved), moved, 0.0)
    return moved.max(axis=(0, 1), initial=0.0)


def _halve(queue: _Queue, influence: np.ndarray, first: np.ndarray) -> _Queue:
    """Each box in two, where its width acts most; along its relatively widest side where nothing is known to act."""
    if not queue.count:
        return queue
    relative = (queue.hi - queue.lo) / first[:, None]
    worth = np.where(influence.max(axis=0) > 0, influence, relative)
    worth = np.where(relative > 0, worth, -1.0)
    rows, each = worth.argmax(axis=0), np.arange(queue.count)
    middle = 0.5 * (queue.lo[rows, each] + queue.hi[rows, each])
    lo, hi = bisect_ends((queue.lo, queue.hi), each, rows, middle)
    return _Queue(lo, hi, np.tile(queue.samples, 2))


def refutes(stretch: SampleStretch, lo: np.ndarray, hi: np.ndarray, options: PruneOptions) -> bool:
    """Whether nothing in a box explains the stretch, as far as the search can prove it."""
    return prune_to_hull(stretch, lo, hi, replace(options, first_is_enough=True)).hull is None
