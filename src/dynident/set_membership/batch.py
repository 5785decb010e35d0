"""Batch set inversion (as SIVIA): which parts of a box can explain a stretch of a record, all samples at once?

Boxes are bisected, their flows enclosed together, contracted row by row, and, once few are left, by linear programs.
Nothing is wrapped from sample to sample as in the recursion (the wrapping effect), so the result is far tighter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dynident.estimate.enclosure import Refutation
from dynident.set_membership.bisection import bisect_ends
from dynident.set_membership.flows.boxes import IntervalStep
from dynident.set_membership.flows.lohner import ROUNDING, LohnerFlow, OutputEnclosure
from dynident.set_membership.flows.taylor_model_flow import TaylorModelFlow, make_flow
from dynident.set_membership.intervals.arithmetic import Interval
from dynident.set_membership.result import SetMembershipResult
from dynident.set_membership.setup import BoundedRecord, SetMembershipSetup
from dynident.set_membership.verified_lp import bound_by_lp, bound_by_rows, certainly_inside
from dynident.tolerances import HULL_SHRINKAGE, INFLATION_RATIO

if TYPE_CHECKING:
    from dynident.set_membership.method import SetMembership

MAX_INFLATION = 1024.0
MAX_LP_BOXES = 6  # boxes for which linear programs are worth their time
BATCH_ORDER = 8  # of the Taylor polynomial
ROUNDS, PAVING_ROUNDS = 20, 40  # of bisection and contraction
MAX_PAVING_BOXES = 20_000  # boxes
SUBSTEPS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class InversionOptions:
    """How hard a set inversion tries."""

    max_boxes: int = 256  # at a time
    max_rounds: int = 24
    tolerance: float = 0.0  # relative to the first box: boxes below it are bisected no more
    max_outliers: int = 0  # samples that may be wrong
    linear_programs: bool = True
    paving: bool = False  # bisect to the tolerance for a picture of the set, not only for its hull


@dataclass(frozen=True, eq=False)
class SampleStretch:
    """Consecutive samples in one mode."""

    flow: LohnerFlow | TaylorModelFlow
    record: BoundedRecord  # or a part of one
    known: Interval | None = None  # (samples, states)
    substeps: int = 1

    @property
    def samples(self) -> int:
        return self.record.samples

    def enclose_outputs(self, lo: np.ndarray, hi: np.ndarray, samples: int) -> OutputEnclosure:
        known = None if self.known is None else (self.known[0][:samples], self.known[1][:samples])
        return self.flow.enclose_outputs(lo, hi, self.record.steps[:samples], self.substeps, known)


@dataclass(frozen=True, eq=False)
class Paving:
    """Subpaving: boxes that may explain the data, and boxes of which every point does; (unknowns, boxes)."""

    outer: Interval  # undecided boxes
    inner: Interval
    full: bool = False  # boxes were left to be bisected, and there was no room for their halves

    def hull(self) -> Interval | None:
        low, high = _join([self.outer, self.inner])
        return None if not low.shape[1] else (low.min(axis=1), high.max(axis=1))


def _join(parts: Sequence[Interval]) -> Interval:
    return np.concatenate([part[0] for part in parts], axis=1), np.concatenate([part[1] for part in parts], axis=1)


def invert_set(stretch: SampleStretch, lo: np.ndarray, hi: np.ndarray, options: InversionOptions) -> Paving:
    """The part of the box [lo, hi] (unknowns,) that the stretch leaves; empty if it refutes all of it."""
    width = np.where(hi > lo, hi - lo, 1.0)
    box = lo[:, None], hi[:, None]
    inner: list[Interval] = [(np.zeros((lo.size, 0)), np.zeros((lo.size, 0)))]
    small: list[Interval] = []
    samples = stretch.samples if options.paving else min(stretch.samples, 16)
    for _ in range(options.max_rounds):
        rows = stretch.enclose_outputs(*box, samples)
        box, inside = _contract_boxes(stretch, rows, box, samples, options)
        whole = samples == stretch.samples
        if options.paving and whole:
            inner.append((box[0][:, inside], box[1][:, inside]))
            box = box[0][:, ~inside], box[1][:, ~inside]
            done = np.max((box[1] - box[0]) / width[:, None], axis=0, initial=0) <= options.tolerance
            small.append((box[0][:, done], box[1][:, done]))
            box = box[0][:, ~done], box[1][:, ~done]
        if not box[0].shape[1]:
            break
        if whole and not options.paving and _hull_converged(rows, box) and 2 * box[0].shape[1] > options.max_boxes:
            break
        samples = min(stretch.samples, 2 * samples)
        box = _bisect_largest(box, width, options)
    return Paving(_join([*small, box]), _join(inner), 2 * box[0].shape[1] > options.max_boxes)


def _contract_boxes(stretch: SampleStretch, rows: OutputEnclosure, box: Interval, samples: int,
                    options: InversionOptions) -> tuple[Interval, np.ndarray]:
    """The boxes without what the rows exclude, and which of them are inside for certain."""
    low, high = stretch.record.low[:, :samples], stretch.record.high[:, :samples]
    inside = certainly_inside(rows, low, high)
    d_lo, d_hi = bound_by_rows(rows, low, high, options.max_outliers)
    left = ~np.isnan(d_lo[0]) | inside
    if options.linear_programs and not options.max_outliers and left.sum() <= MAX_LP_BOXES and not options.paving:
        for j in np.flatnonzero(left):
            d_lo[:, j], d_hi[:, j] = bound_by_lp(rows, low, high, int(j))
            left[j] = not np.isnan(d_lo[0, j])
    error = ROUNDING * (np.abs(rows.centre) + rows.radius)
    new = np.maximum(box[0], rows.centre + d_lo - error), np.minimum(box[1], rows.centre + d_hi + error)
    new = np.where(inside, box[0], new[0]), np.where(inside, box[1], new[1])
    left &= np.all(new[0] <= new[1], axis=0)
    return (new[0][:, left], new[1][:, left]), inside[left]


def _hull_converged(rows: OutputEnclosure, box: Interval) -> bool:
    """Whether the last round hardly changed the hull."""
    before = (rows.centre + rows.radius).max(axis=1) - (rows.centre - rows.radius).min(axis=1)
    after = box[1].max(axis=1) - box[0].min(axis=1)
    moving = before > 0
    return bool(np.all(after[moving] >= HULL_SHRINKAGE * before[moving]))


def _bisect_largest(box: Interval, width: np.ndarray, options: InversionOptions) -> Interval:
    """Halve the largest boxes along their relatively widest side, as long as there is room."""
    lo, hi = box
    count = lo.shape[1]
    room = min(count, options.max_boxes - count)
    if room <= 0:
        return box
    relative = (hi - lo) / width[:, None]
    largest = np.argsort(-relative.max(axis=0))[:room]
    rows = relative[:, largest].argmax(axis=0)
    return bisect_ends(box, largest, rows, 0.5 * (lo[rows, largest] + hi[rows, largest]))


def first_inconsistent(stretch: SampleStretch, lo: np.ndarray, hi: np.ndarray, options: InversionOptions) -> int:
    """The first sample with which nothing fits any more, for a stretch that is refuted as a whole."""
    def refuted(k: int) -> bool:
        return invert_set(replace(stretch, record=stretch.record.part(0, k + 1)), lo, hi, options).hull() is None

    return bisect_first_true(refuted, 0, stretch.samples - 1)


def bisect_first_true(holds: Callable[[int], bool], first: int, last: int) -> int:
    """The least number between first and last, by halving, for which something is found to hold that holds at the last."""
    while first < last:
        half = (first + last) // 2
        first, last = (first, half) if holds(half) else (half + 1, last)
    return last


def smallest_inflation(stretch: SampleStretch, lo: np.ndarray, hi: np.ndarray, options: InversionOptions) -> float:
    """The largest factor on all radii with which the stretch is still refuted."""
    def refuted(factor: float) -> bool:
        return invert_set(replace(stretch, record=stretch.record.with_inflated_bounds(factor)), lo, hi, options).hull() is None

    return largest_refuted_factor(refuted)


def largest_refuted_factor(refuted: Callable[[float], bool], close: float = INFLATION_RATIO, grow: float = 2.0) -> float:
    """The largest factor, to a ratio of `close`, at which what is refuted at 1 still is; infinite beyond 1024."""
    least, fits = 1.0, grow
    while refuted(fits):
        least, fits = fits, grow * fits
        if fits > MAX_INFLATION:
            return float("inf")
    while fits > close * least:
        tried = float(np.sqrt(least * fits))
        if refuted(tried):
            least = tried
        else:
            fits = tried
    return least


def invert_batch(method: SetMembership, setup: SetMembershipSetup) -> SetMembershipResult:
    """Set inversion over the whole of each record in turn; each starts from what those before it left."""
    flow = make_flow(setup.automaton.layout, setup.model.rate, setup.model.output, method.order or BATCH_ORDER,
                     method.taylor_degree, method.rigorous)
    result = SetMembershipResult(setup.low, setup.high,
                                 frozenset({flow.mode_flow.natural.guarantee, flow.output.guarantee}))
    for e in range(len(setup.records)):
        result = _invert_record(method, setup, flow, result, e)
        if result.refutation is not None:
            return result
    return result


def _invert_record(method: SetMembership, setup: SetMembershipSetup, flow: LohnerFlow | TaylorModelFlow,
                   result: SetMembershipResult, e: int) -> SetMembershipResult:
    """What one record leaves of the bounds."""
    record, (lo, hi) = setup.records[e], setup.box(e, result.low, result.high)
    stretch = SampleStretch(flow, record, substeps=_choose_substeps(flow, record.steps[0], lo, hi))
    options = InversionOptions(method.max_boxes, ROUNDS, method.tolerance, method.max_outliers)
    found = invert_set(stretch, lo, hi, options)
    hull, limit = found.hull(), f"max_boxes = {method.max_boxes} boxes"
    paving = len(setup.problem.unknowns) <= 2 and len(setup.records) == 1
    if paving and hull is not None:  # only within the hull: what is cut away by then needs no small boxes
        fine = replace(options, max_boxes=MAX_PAVING_BOXES, paving=True, max_rounds=PAVING_ROUNDS)
        found = invert_set(stretch, *hull, fine)
        hull, limit = found.hull(), f"{MAX_PAVING_BOXES} boxes"
    result = replace(result, limited_by=limit if found.full else result.limited_by)
    if hull is None:
        when = float(record.time[first_inconsistent(stretch, lo, hi, options)])
        inflation = smallest_inflation(stretch, lo, hi, options)
        return replace(result, refutation=Refutation(record.label, when, inflation))
    rows, source = setup.unknown_rows(e)
    low, high = result.low.copy(), result.high.copy()
    low[source], high[source] = np.maximum(low[source], hull[0][rows]), np.minimum(high[source], hull[1][rows])
    outer, inner = (setup.unknowns_of(e, part) if paving else None for part in (found.outer, found.inner))
    return replace(result, low=low, high=high, outer=outer, inner=inner)


def _choose_substeps(flow: LohnerFlow | TaylorModelFlow, step: IntervalStep, lo: np.ndarray, hi: np.ndarray) -> int:
    """The fewest parts of a step for which a first enclosure exists."""
    for count in SUBSTEPS:
        rows = flow.enclose_outputs(lo[:, None], hi[:, None], (step, step), count)
        if np.all(np.isfinite(rows.error)):
            return count
    return SUBSTEPS[-1]
