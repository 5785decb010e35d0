"""Batch set inversion (as SIVIA): which parts of a box can explain a stretch of a record, all samples at once?

Nothing is wrapped from sample to sample as in the recursion (the wrapping effect), so the result is far tighter. The hull comes
first (`branch_and_prune`), then points that are proved to fit (`feasible_points`); for a picture of one or two unknowns the
hull is paved with small boxes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dynident.estimate.enclosure import Refutation
from dynident.set_membership.bisection import bisect_ends
from dynident.set_membership.branch_and_prune import PruneOptions, prune_to_hull, refutes
from dynident.set_membership.feasible_points import PointSearch, StretchFits
from dynident.set_membership.flows.lohner import LohnerFlow, choose_substeps
from dynident.set_membership.flows.taylor_model_flow import TaylorModelFlow, make_flow
from dynident.set_membership.inflation import largest_refuted_factor
from dynident.set_membership.intervals.arithmetic import Interval
from dynident.set_membership.result import BoxLimit, SetMembershipResult
from dynident.set_membership.setup import SetMembershipSetup
from dynident.set_membership.stretch import SampleStretch
from dynident.set_membership.verified_lp import contract_boxes

if TYPE_CHECKING:
    from dynident.set_membership.method import SetMembership

BATCH_ORDER = 8  # of the Taylor polynomial
PAVING_ROUNDS = 40  # of bisection and contraction
MAX_HULL_PASSES = 3  # of the search for the hull, each within that of the one before
AGAIN_BELOW = 0.5  # of a width: a pass that leaves less is followed by another one
PROVED_POINTS = "as the enclosure of their solutions proves"
REFUTING_ROUNDS = 10  # of boxes, where many stretches are asked whether they are refuted


@dataclass(frozen=True, eq=False)
class Paving:
    """Subpaving: boxes that may explain the data, and boxes of which every point does; (unknowns, boxes)."""

    outer: Interval  # undecided boxes
    inner: Interval
    left: int = 0  # undecided boxes that are larger than the tolerance, for want of room

    def hull(self) -> Interval | None:
        low, high = _join([self.outer, self.inner])
        return None if not low.shape[1] else (low.min(axis=1), high.max(axis=1))


def _join(parts: Sequence[Interval]) -> Interval:
    return np.concatenate([part[0] for part in parts], axis=1), np.concatenate([part[1] for part in parts], axis=1)


def pave_set(stretch: SampleStretch, lo: np.ndarray, hi: np.ndarray, max_boxes: int, tolerance: float, max_outliers: int = 0
             ) -> Paving:
    """The part of the box [lo, hi] (unknowns,) that the stretch leaves, in at most `max_boxes` boxes; bisected to a tolerance
    that is relative to the box."""
    width = np.where(hi > lo, hi - lo, 1.0)
    nothing = np.zeros((lo.size, 0)), np.zeros((lo.size, 0))
    box: Interval = (lo[:, None], hi[:, None])
    inner, small = nothing, nothing
    for _ in range(PAVING_ROUNDS):
        rows = stretch.enclose_outputs(*box, stretch.samples)
        box, inside, _ = contract_boxes(rows, stretch.record, box, max_outliers)
        inner, box = _join([inner, _select(box, inside)]), _select(box, ~inside)
        done = np.max((box[1] - box[0]) / width[:, None], axis=0, initial=0) <= tolerance
        small, box = _join([small, _select(box, done)]), _select(box, ~done)
        room = max_boxes - inner[0].shape[1] - small[0].shape[1] - box[0].shape[1]
        if not box[0].shape[1] or room <= 0:
            break
        box = _bisect_largest(box, width, room)
    return Paving(_join([small, box]), inner, box[0].shape[1])


def _select(box: Interval, chosen: np.ndarray) -> Interval:
    return box[0][:, chosen], box[1][:, chosen]


def _bisect_largest(box: Interval, width: np.ndarray, room: int) -> Interval:
    """Halve the largest boxes along their relatively widest side, as long as there is room."""
    lo, hi = box
    relative = (hi - lo) / width[:, None]
    largest = np.argsort(-relative.max(axis=0))[:room]
    rows = relative[:, largest].argmax(axis=0)
    return bisect_ends(box, largest, rows, 0.5 * (lo[rows, largest] + hi[rows, largest]))


def first_inconsistent(stretch: SampleStretch, lo: np.ndarray, hi: np.ndarray, options: PruneOptions) -> int:
    """The first sample with which nothing fits any more, for a stretch that is refuted as a whole."""
    return bisect_first_true(lambda k: refutes(replace(stretch, record=stretch.record.part(0, k + 1)), lo, hi, options), 0,
                             stretch.samples - 1)

def bisect_first_true(holds: Callable[[int], bool], first: int, last: int) -> int:
    """The least number between first and last, by halving, for which something is found to hold that holds at the last."""
    while first < last:
        half = (first + last) // 2
        first, last = (first, half) if holds(half) else (half + 1, last)
    return last


def invert_batch(method: SetMembership, setup: SetMembershipSetup) -> SetMembershipResult:
    """Set inversion over the whole of each record in turn; each starts from what those before it left."""
    flow = _make_flow(method, setup)
    result = SetMembershipResult(setup.low, setup.high,
                                 frozenset({flow.mode_flow.natural.guarantee, flow.output.guarantee}))
    for e in range(len(setup.records)):
        result = _invert_record(method, setup, flow, result, e)
        if result.refutation is not None:
            return result
    if len(setup.records) > 1:  # a point has to explain all records
        return with_feasible_points(method, setup, result)
    return replace(result, points_by=PROVED_POINTS)


def with_feasible_points(method: SetMembership, setup: SetMembershipSetup, result: SetMembershipResult) -> SetMembershipResult:
    """The result with points between its bounds that are proved to explain all records of a model without modes."""
    whole = _whole_records(setup, _make_flow(method, setup), result.low, result.high)
    points = PointSearch(StretchFits(setup, whole, method.max_outliers), method.max_outliers).find(result.low, result.high)
    return replace(result, points=points, points_by=PROVED_POINTS)


def _invert_record(method: SetMembership, setup: SetMembershipSetup, flow: LohnerFlow | TaylorModelFlow,
                   result: SetMembershipResult, e: int) -> SetMembershipResult:
    """What one record leaves of the bounds."""
    record, (lo, hi) = setup.records[e], setup.box(e, result.low, result.high)
    stretch = SampleStretch(flow, record, substeps=choose_substeps(flow.mode_flow, lo, hi, record.steps))
    options, substeps = _prune_options(method), stretch.substeps
    points, first = np.zeros((result.low.size, 0)), (lo, hi)
    for _ in range(MAX_HULL_PASSES):  # in a smaller box points are found more easily, and flows are sharper
        search = PointSearch(StretchFits(setup, [(e, stretch)], method.max_outliers), method.max_outliers)
        more = search.find(result.low, result.high)
        points, before = np.concatenate([points, more], axis=1), (lo, hi)
        found = prune_to_hull(stretch, lo, hi, options, _points_of(setup, e, points), setup.limit)
        if found.hull is None:
            return _refuted(method, setup, result, e, replace(stretch, substeps=substeps), *first)
        result, (lo, hi) = _within(setup, e, result, found.hull), found.hull
        if setup.limit.reached or not np.any(hi - lo < AGAIN_BELOW * (before[1] - before[0])):
            break
        stretch = replace(stretch, substeps=choose_substeps(flow.mode_flow, lo, hi, record.steps))
    if found.left:
        limit = BoxLimit(method.max_boxes, f"{found.examined:,} were examined, and {found.left:,} were left to be divided",
                         2 * method.max_boxes)
        result = replace(result, limited_by=limit)
    if len(setup.problem.unknowns) <= 2 and len(setup.records) == 1 and not setup.limit.reached:
        return _paved(method, setup, stretch, replace(result, points=points))
    return replace(result, points=points)


def _points_of(setup: SetMembershipSetup, e: int, points: np.ndarray) -> np.ndarray | None:
    """(states + parameters, points) of one experiment, from values of the unknowns."""
    return np.array([setup.box(e, point, point)[0] for point in points.T]).T if points.shape[1] else None


def _within(setup: SetMembershipSetup, e: int, result: SetMembershipResult, hull: Interval) -> SetMembershipResult:
    """The result within the hull of one experiment."""
    rows, source = setup.unknown_rows(e)
    low, high = result.low.copy(), result.high.copy()
    low[source], high[source] = np.maximum(low[source], hull[0][rows]), np.minimum(high[source], hull[1][rows])
    return replace(result, low=low, high=high)


def _paved(method: SetMembership, setup: SetMembershipSetup, stretch: SampleStretch, result: SetMembershipResult
           ) -> SetMembershipResult:
    """With a paving of the hull, for a picture; what it leaves of the hull counts."""
    found = pave_set(stretch, *setup.box(0, result.low, result.high), method.max_boxes, method.tolerance, method.max_outliers)
    hull = found.hull()
    assert hull is not None  # the hull search was not refuted, and paving loses nothing that fits
    limit = result.limited_by if not found.left else BoxLimit(
        method.max_boxes, f"{found.left:,} boxes of the paving are undecided and larger than the tolerance",
        method.max_boxes + 2 * found.left)
    return replace(_within(setup, 0, result, hull), outer=setup.unknowns_of(0, found.outer),
                   inner=setup.unknowns_of(0, found.inner), limited_by=limit)


def _refuted(method: SetMembership, setup: SetMembershipSetup, result: SetMembershipResult, e: int, stretch: SampleStretch,
             lo: np.ndarray, hi: np.ndarray) -> SetMembershipResult:
    """The result where nothing fits: from which sample on, and by how much all radii must grow at least."""
    record = stretch.record
    when = float(record.time[first_inconsistent(stretch, lo, hi, _prune_options(method, REFUTING_ROUNDS))])
    inflation = largest_refuted_factor(lambda factor: _refuted_with(method, setup, stretch.flow, e, factor))
    return replace(result, refutation=Refutation(record.label, when, inflation, method.max_outliers))


def _refuted_with(method: SetMembership, setup: SetMembershipSetup, flow: LohnerFlow | TaylorModelFlow, last: int, factor: float
                  ) -> bool:
    """Whether the records up to the last one leave nothing where every radius is `factor` times as large."""
    wider, options = setup.with_inflated_bounds(factor), _prune_options(method, REFUTING_ROUNDS)
    result = SetMembershipResult(wider.low, wider.high, frozenset())
    for e, record in enumerate(wider.records[:last + 1]):
        lo, hi = wider.box(e, result.low, result.high)
        stretch = SampleStretch(flow, record, substeps=choose_substeps(flow.mode_flow, lo, hi, record.steps))
        if e == last:
            return refutes(stretch, lo, hi, options)
        hull = prune_to_hull(stretch, lo, hi, options).hull
        if hull is None:
            return True
        result = _within(wider, e, result, hull)
    return False


def _prune_options(method: SetMembership, rounds: int = PruneOptions.rounds) -> PruneOptions:
    return PruneOptions(method.max_boxes, rounds, method.tolerance, min(1e-3, 0.05 * method.tolerance), method.max_outliers)


def smallest_inflation(method: SetMembership, setup: SetMembershipSetup, least: float) -> float | None:
    """A factor on all radii, from `least` on, with which a point is proved to fit all records; None if none was found."""
    wider = setup.with_inflated_bounds(least)
    fits = StretchFits(wider, _whole_records(wider, _make_flow(method, wider), wider.low, wider.high))
    found = PointSearch(fits).smallest_inflation(wider.low, wider.high, fits.with_inflated_bounds)
    return None if found is None else least * found


def _make_flow(method: SetMembership, setup: SetMembershipSetup) -> LohnerFlow | TaylorModelFlow:
    return make_flow(setup.automaton.layout, setup.model.rate, setup.model.output, method.order or BATCH_ORDER,
                     method.taylor_degree, method.rigorous)


def _whole_records(setup: SetMembershipSetup, flow: LohnerFlow | TaylorModelFlow, low: np.ndarray, high: np.ndarray
                   ) -> list[tuple[int, SampleStretch]]:
    return [(e, SampleStretch(flow, record, substeps=choose_substeps(flow.mode_flow, *setup.box(e, low, high), record.steps)))
            for e, record in enumerate(setup.records)]
