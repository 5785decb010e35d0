"""Inversion: which parts of a box can explain a stretch of a record, all samples at once?

Boxes are cut, their tubes computed together, narrowed row by row, and, once few are left, by linear programs. Nothing
is wrapped from sample to sample as in the recursion, so the answer is far tighter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dynident.set_membership.flows.boxes import Step
from dynident.set_membership.flows.lohner import ROUNDING, Rows, Tube
from dynident.set_membership.flows.taylor_model_flow import TaylorTube
from dynident.set_membership.intervals.arithmetic import Ends, down, up
from dynident.set_membership.verified_lp import bounded, certainly_inside, programmed

ENOUGH = 0.95  # widths that shrink by less than this factor in a round have settled
MOST_INFLATION = 1024.0
CLOSE_INFLATION = 1.05  # relative accuracy of the smallest inflation
FEW = 6  # boxes for which linear programs are worth their time


@dataclass(frozen=True)
class Effort:
    """How hard to try."""

    boxes: int = 256  # at most at a time
    rounds: int = 24
    tolerance: float = 0.0  # relative to the first box: boxes below it are cut no more
    forgive: int = 0  # samples that may be wrong
    programs: bool = True
    paving: bool = False  # cut to the tolerance for a picture of the set, not only for its hull


@dataclass(frozen=True, eq=False)
class Stretch:
    """Consecutive samples in one mode."""

    tube: Tube | TaylorTube
    steps: tuple[Step, ...]
    low: np.ndarray  # (outputs, samples)
    high: np.ndarray
    known: Ends | None = None  # (samples, states)
    substeps: int = 1

    @property
    def samples(self) -> int:
        return len(self.steps)

    def until(self, samples: int) -> Stretch:
        """Its first samples only."""
        return replace(self, steps=self.steps[:samples], low=self.low[:, :samples], high=self.high[:, :samples])

    def inflated(self, factor: float) -> Stretch:
        """Every radius `factor` times as large."""
        with np.errstate(invalid="ignore"):
            more = (factor - 1) * 0.5 * (self.high - self.low)
        more = np.where(np.isfinite(more), more, 0.0)
        return replace(self, low=down(self.low - more), high=up(self.high + more))

    def rows(self, lo: np.ndarray, hi: np.ndarray, samples: int) -> Rows:
        known = None if self.known is None else (self.known[0][:samples], self.known[1][:samples])
        return self.tube.rows(lo, hi, self.steps[:samples], self.substeps, known)


@dataclass(frozen=True, eq=False)
class Paving:
    """Boxes that may explain the data, and boxes of which every point does; (unknowns, boxes)."""

    outer: Ends  # undecided boxes
    inner: Ends
    full: bool = False  # boxes were left to be cut, and there was no room for their halves

    def hull(self) -> Ends | None:
        both = np.concatenate([self.outer[0], self.inner[0]], axis=1), np.concatenate(
            [self.outer[1], self.inner[1]], axis=1)
        return None if not both[0].shape[1] else (both[0].min(axis=1), both[1].max(axis=1))


def invert(stretch: Stretch, lo: np.ndarray, hi: np.ndarray, effort: Effort,
           tell: Callable[..., object] = lambda *_: None) -> Paving:
    """The part of the box [lo, hi] (unknowns,) that the stretch leaves; empty if it refutes all of it."""
    width = np.where(hi > lo, hi - lo, 1.0)
    box = lo[:, None], hi[:, None]
    empty = np.zeros((lo.size, 0))
    inner: list[Ends] = []
    small: list[Ends] = []
    samples = stretch.samples if effort.paving else min(stretch.samples, 16)
    for _ in range(effort.rounds):
        rows = stretch.rows(*box, samples)
        box, inside = _narrowed(stretch, rows, box, samples, effort)
        whole = samples == stretch.samples
        if effort.paving and whole:
            inner.append((box[0][:, inside], box[1][:, inside]))
            box = box[0][:, ~inside], box[1][:, ~inside]
            done = np.max((box[1] - box[0]) / width[:, None], axis=0, initial=0) <= effort.tolerance
            small.append((box[0][:, done], box[1][:, done]))
            box = box[0][:, ~done], box[1][:, ~done]
        if not box[0].shape[1]:
            break
        if whole and not effort.paving and _settled(rows, box) and 2 * box[0].shape[1] > effort.boxes:
            break
        tell(box[0].shape[1], samples)
        samples = min(stretch.samples, 2 * samples)
        box = _cut(box, width, effort)
    outer, full = [*small, box], 2 * box[0].shape[1] > effort.boxes
    return Paving((np.concatenate([b[0] for b in outer], axis=1), np.concatenate([b[1] for b in outer], axis=1)),
                  (np.concatenate([empty, *(b[0] for b in inner)], axis=1),
                   np.concatenate([empty, *(b[1] for b in inner)], axis=1)), full)


def _narrowed(stretch: Stretch, rows: Rows, box: Ends, samples: int, effort: Effort) -> tuple[Ends, np.ndarray]:
    """The boxes without what the rows exclude, and which of them are inside for certain."""
    low, high = stretch.low[:, :samples], stretch.high[:, :samples]
    inside = certainly_inside(rows, low, high)
    d_lo, d_hi = bounded(rows, low, high, effort.forgive)
    left = ~np.isnan(d_lo[0]) | inside
    if effort.programs and not effort.forgive and left.sum() <= FEW and not effort.paving:
        for j in np.flatnonzero(left):
            d_lo[:, j], d_hi[:, j] = programmed(rows, low, high, int(j))
            left[j] = not np.isnan(d_lo[0, j])
    error = ROUNDING * (np.abs(rows.centre) + rows.radius)
    new = np.maximum(box[0], rows.centre + d_lo - error), np.minimum(box[1], rows.centre + d_hi + error)
    new = np.where(inside, box[0], new[0]), np.where(inside, box[1], new[1])
    left &= np.all(new[0] <= new[1], axis=0)
    return (new[0][:, left], new[1][:, left]), inside[left]


def _settled(rows: Rows, box: Ends) -> bool:
    """Whether the last round hardly changed the hull."""
    before = (rows.centre + rows.radius).max(axis=1) - (rows.centre - rows.radius).min(axis=1)
    after = box[1].max(axis=1) - box[0].min(axis=1)
    moving = before > 0
    return bool(np.all(after[moving] >= ENOUGH * before[moving]))


def _cut(box: Ends, width: np.ndarray, effort: Effort) -> Ends:
    """Halve the largest boxes along their relatively widest side, as long as there is room."""
    lo, hi = box
    count = lo.shape[1]
    room = min(count, effort.boxes - count)
    if room <= 0:
        return box
    relative = (hi - lo) / width[:, None]
    largest = np.argsort(-relative.max(axis=0))[:room]
    return _halved(box, width, largest)


def _halved(box: Ends, width: np.ndarray, chosen: np.ndarray) -> Ends:
    lo, hi = box[0].copy(), box[1].copy()
    relative = (hi - lo) / width[:, None]
    rows = relative[:, chosen].argmax(axis=0)
    middle = 0.5 * (lo[rows, chosen] + hi[rows, chosen])
    other_lo, other_hi = lo[:, chosen].copy(), hi[:, chosen].copy()
    hi[rows, chosen] = middle
    other_lo[rows, np.arange(chosen.size)] = middle
    return np.concatenate([lo, other_lo], axis=1), np.concatenate([hi, other_hi], axis=1)


def first_inconsistent(stretch: Stretch, lo: np.ndarray, hi: np.ndarray, effort: Effort) -> int:
    """The first sample with which nothing fits any more, for a stretch that is refuted as a whole."""
    return first_true(lambda k: invert(stretch.until(k + 1), lo, hi, effort).hull() is None, 0, stretch.samples - 1)


def first_true(holds: Callable[[int], bool], first: int, last: int) -> int:
    """The least number between first and last, by halving, for which something is found to hold that holds at the last."""
    while first < last:
        half = (first + last) // 2
        first, last = (first, half) if holds(half) else (half + 1, last)
    return last


def smallest_inflation(stretch: Stretch, lo: np.ndarray, hi: np.ndarray, effort: Effort) -> float:
    """The largest factor on all radii with which the stretch is still refuted."""
    return largest_refuted(lambda factor: invert(stretch.inflated(factor), lo, hi, effort).hull() is None)


def largest_refuted(refuted: Callable[[float], bool], close: float = CLOSE_INFLATION, grow: float = 2.0) -> float:
    """The largest factor, to a ratio of `close`, at which what is refuted at 1 still is; infinite beyond 1024."""
    least, fits = 1.0, grow
    while refuted(fits):
        least, fits = fits, grow * fits
        if fits > MOST_INFLATION:
            return float("inf")
    while fits > close * least:
        tried = float(np.sqrt(least * fits))
        if refuted(tried):
            least = tried
        else:
            fits = tried
    return least
