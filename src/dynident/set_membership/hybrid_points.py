"""Points of hybrid records: does a point explain every measurement, through all modes that it passes, proved?

Points are followed as boxes without width that no measurement contracts. All solutions that begin in a point lie in its boxes;
where these lie within the bounds of every measurement, the point fits. Parameters do not change along a record, so that boxes
are told apart by them. Slopes for the search are differences between points nearby: they only say where to look.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynident.set_membership.flows.boxes import BoundedSample, Boxes, IntervalStep, stack_rows
from dynident.set_membership.flows.hybrid_step import HybridStep
from dynident.set_membership.intervals.arithmetic import Interval
from dynident.set_membership.setup import BoundedRecord, SetMembershipSetup

BOX_DIFFERENCE_STEP = 0.03  # of the width of the bounds: a larger one bends, a smaller one is lost in the width of an enclosure
PARTS = 16  # of a step in which a mode changes: the error of the moment goes with its square
MOST_BOXES = 12  # in which one point may be at a time; more say that it is lost
MAX_ROWS = 4000  # of a record that linear programs see; how far off a point is, and whether it fits, is asked of all


@dataclass(frozen=True, eq=False)
class HybridFits:
    """Records through modes that a point has to explain together; points are values of the problem's unknowns."""

    setup: SetMembershipSetup
    step: HybridStep
    width: np.ndarray  # (unknowns,) of the bounds between which points are sought
    max_outliers: int = 0

    def linearize(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """As `PointFits` asks for, by following each point and those beside it."""
        size, count = points.shape
        change = np.where(self.width > 0, BOX_DIFFERENCE_STEP * self.width, 1.0)
        moved = [points + np.outer(change * own, np.ones(count)) for own in np.eye(size)]
        every = np.concatenate([points, *moved], axis=1)
        slopes, ends, violation, fits = [], [], np.zeros(count), np.ones(count, bool)
        for e, record in enumerate(self.setup.records):
            boxes = np.array([self.setup.box(e, point, point)[0] for point in every.T]).T
            low, high = enclose_points(self.step, record, boxes)  # (samples, outputs, points)
            inside = np.all((low[..., :count] >= record.low.T[:, :, None]) & (high[..., :count] <= record.high.T[:, :, None])
                            | ~np.isfinite(record.low.T)[:, :, None], axis=1)
            fits &= (np.sum(~inside, axis=0) <= self.max_outliers) & np.isfinite(low[..., :count]).all(axis=(0, 1))
            violation = np.maximum(violation, _violation(record, low[..., :count], high[..., :count]))
            seen = _thinned(np.isfinite(record.low.T))
            middle = 0.5 * (low + high)[seen]
            base = middle[:, :count]
            radius = 0.5 * (high - low)[seen][:, :count]
            slopes.append(np.stack([(middle[:, (j + 1) * count:(j + 2) * count] - base) / own
                                    for j, own in enumerate(change)], axis=1))
            wanted = record.low.T[seen][:, None], record.high.T[seen][:, None]
            ends.append(np.array([wanted[0] - base + radius, wanted[1] - base - radius]))
        return np.concatenate(slopes), np.concatenate(ends, axis=1), violation, fits


def _violation(record: BoundedRecord, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """(points,) the furthest that an end of an enclosure is from a measurement, in radii; infinite where a point is lost."""
    with np.errstate(invalid="ignore"):
        middle, radius = 0.5 * (record.low + record.high).T[:, :, None], 0.5 * (record.high - record.low).T[:, :, None]
        off = np.maximum(high - middle, middle - low) / radius
    off = np.where(np.isfinite(record.low.T)[:, :, None], np.where(np.isnan(off), np.inf, off), 0.0)
    return off.max(axis=(0, 1), initial=0.0)


def _thinned(seen: np.ndarray) -> np.ndarray:
    """Of (samples, outputs) that are measured, as many as linear programs may see, spread evenly."""
    places = np.flatnonzero(seen)
    chosen = np.zeros(seen.size, bool)
    chosen[places[np.unique(np.linspace(0, places.size - 1, min(places.size, MAX_ROWS)).astype(int))] if places.size else places
           ] = True
    return chosen.reshape(seen.shape)


def enclose_points(step: HybridStep, record: BoundedRecord, points: np.ndarray) -> Interval:
    """(samples, outputs, points) low and high of all solutions from points (states + parameters, points); NaN where lost."""
    low, high = np.full((2, record.samples, record.low.shape[0], points.shape[1]), np.nan)
    keys = _keys(points[step.layout.states:])
    turn = np.zeros(points.shape[1], int)  # points with the same parameters go one after another
    for own in np.unique(keys):
        same = np.flatnonzero(keys == own)
        turn[same] = np.arange(same.size)
    for number in range(turn.max(initial=-1) + 1):
        chosen = np.flatnonzero(turn == number)
        chosen = chosen[np.argsort(keys[chosen])]
        low[..., chosen], high[..., chosen] = _follow(step, record, points[:, chosen], keys[chosen])
    return low, high


def _keys(parameters: np.ndarray) -> np.ndarray:
    """(points,) a number for each column, the same for the same parameters: element by element, to the last bit."""
    weights = np.random.default_rng(0).uniform(1, 2, len(parameters))
    key = np.zeros(parameters.shape[1])
    for weight, row in zip(weights, parameters, strict=True):
        key = key + weight * row
    return key


def _follow(step: HybridStep, record: BoundedRecord, points: np.ndarray, keys: np.ndarray) -> Interval:
    """The same for points that differ in their parameters, whose keys rise."""
    n, count = step.layout.states, points.shape[1]
    low = np.full((record.samples, record.low.shape[0], count), np.inf)
    high, lost = -low, np.zeros(count, bool)
    nothing = np.full(record.low.shape[0], np.inf)
    boxes = step.start(Boxes(points.copy(), points.copy(), np.zeros(count, int)), record.steps[0])
    for k in range(record.samples):
        if k:
            boxes = _advance(step, boxes, record.steps[k - 1], record.steps[k], nothing)
        owner = np.searchsorted(keys, _keys(boxes.lo[n:]))
        whole = np.isfinite(boxes.lo).all(axis=0) & np.isfinite(boxes.hi).all(axis=0)
        np.logical_or.at(lost, owner[~whole], True)
        lost |= np.bincount(owner, minlength=count) > MOST_BOXES
        boxes, owner = boxes.select(~lost[owner]), owner[~lost[owner]]
        if boxes.count > 2 * count:
            boxes, owner = _one_a_mode(boxes, owner)
        ends = step.automaton.output.evaluate(*stack_rows(step.layout, boxes.lo, boxes.hi, record.steps[k]))
        for j in range(low.shape[1]):
            np.minimum.at(low[k, j], owner, ends[0][j])
            np.maximum.at(high[k, j], owner, ends[1][j])
    gone = lost | ~np.isfinite(low).all(axis=(0, 1)) | ~np.isfinite(high).all(axis=(0, 1))
    return np.where(gone, np.nan, low), np.where(gone, np.nan, high)


def _advance(step: HybridStep, boxes: Boxes, here: IntervalStep, following: IntervalStep, nothing: np.ndarray) -> Boxes:
    """The boxes a sample later; in small parts where a mode may change within the step, whose moment is known to a part."""
    found, single_mode = step.advance(boxes, here, BoundedSample(following, -nothing, nothing), False)
    if single_mode:
        return found
    parts = here.subdivide(PARTS)
    for part, after in zip(parts, [*parts[1:], following], strict=True):
        boxes, _ = step.advance(boxes, part, BoundedSample(after, -nothing, nothing), False)
    return boxes


def _one_a_mode(boxes: Boxes, owner: np.ndarray) -> tuple[Boxes, np.ndarray]:
    """Of each point one box in each mode, which holds all that it had there."""
    pairs, index = np.unique(np.array([owner, boxes.mode]), axis=1, return_inverse=True)
    lo, hi = np.full((boxes.lo.shape[0], pairs.shape[1]), np.inf), np.full((boxes.lo.shape[0], pairs.shape[1]), -np.inf)
    for row in range(boxes.lo.shape[0]):
        np.minimum.at(lo[row], index.ravel(), boxes.lo[row])
        np.maximum.at(hi[row], index.ravel(), boxes.hi[row])
    return Boxes(lo, hi, pairs[1]), pairs[0]
