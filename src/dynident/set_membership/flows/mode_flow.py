"""Flow: where do all states of a box go in one step of one mode?

`ModeFlow.bound` encloses the whole step, `ModeFlow.end` its end, `ModeFlow.narrow` goes backward. Two ways to take the
polynomial over a box: "natural", as the paper does, and "monotone", which takes corners in every unknown whose
derivative has one sign over the box (verified by its interval, never trusted) and a mean-value term in the others. Where
the rate is not smooth there is no polynomial, and the end lies in x + h f(B).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import casadi
import numpy as np

from dynident.errors import ProblemError
from dynident.set_membership.flows.interval_automaton import Layout
from dynident.set_membership.flows.taylor import taylor_step
from dynident.set_membership.intervals import Rigour, interval_kernel
from dynident.set_membership.intervals.arithmetic import Ends, difference, join, meet, middle, times, total

FORMS = ("monotone", "natural")
PICARD_TRIES = 12
STRICT_TRIES = 40  # from a point at which a rate ends, a box grows by roots: slowly
GROWTH = 0.1  # of its width by which a failed bounding box grows before the next try
SMALLEST_GROWTH = 1e-12  # relative to the state: lets a thin box grow at all
NO_SPREAD = 1e-12  # of a state that all boxes agree on


@dataclass(frozen=True)
class FlowChoice:
    """How a step is enclosed: order of the Taylor polynomial, and how it is taken over a box."""

    order: int = 4
    form: str = "monotone"

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise ProblemError(f"form = '{self.form}' is not known; use one of {', '.join(FORMS)}.")
        if self.order < 1:
            raise ProblemError(f"order = {self.order}: a Taylor step needs at least order 1.")



class ModeFlow:
    """The step of one mode over arrays of boxes, rows ordered by the layout."""

    def __init__(self, layout: Layout, rate: casadi.Function, choice: FlowChoice, proved: bool = False):
        self.layout, self.choice = layout, choice
        step = taylor_step(rate, layout, choice.order, proved)
        self.affine, self.still, self.smooth = step.affine, step.still, step.smooth
        self.picard, self.jacobian, self.remainder, self.whole, self.closed, self.straight = (
            interval_kernel(f, proved) for f in (step.picard, step.jacobian, step.remainder, step.whole, step.closed,
                                                 step.straight))
        self.polynomial = [interval_kernel(f, proved) for f in step.polynomial]

    @property
    def rigours(self) -> set[Rigour]:
        return {k.rigour for k in (self.picard, self.jacobian, self.remainder, self.whole, self.closed, self.straight,
                                    *self.polynomial)}

    def bound(self, lo: np.ndarray, hi: np.ndarray) -> Ends:
        """States that a step can pass through, by Picard's iteration; infinite where none was found."""
        n = self.layout.states
        if self.still:
            return lo[:n], hi[:n]
        box = bounding_box(self, lo, hi)
        low, high = lo.copy(), hi.copy()
        low[self.layout.passed_rows], high[self.layout.passed_rows] = box
        rough = self.smooth.fails(low, high)
        if rough.any():  # there may be several solutions from one point: a box of all of them has room on every side
            box[0][:, rough], box[1][:, rough] = bounding_box(self, lo[:, rough], hi[:, rough], strictly=True)
        return box

    def end(self, lo: np.ndarray, hi: np.ndarray) -> Ends:
        """States at the end of a step whose passed states stand in the rows."""
        passed = lo[self.layout.passed_rows], hi[self.layout.passed_rows]
        if self.still:
            return lo[:self.layout.states], hi[:self.layout.states]
        rough = self._without_polynomial(lo, hi)
        if not rough.any():
            return self._smooth_end(lo, hi, passed)
        ends = np.array(meet(self.straight.evaluate(lo, hi), passed))
        if not rough.all():
            even = ~rough
            ends[:, :, even] = self._smooth_end(lo[:, even], hi[:, even], (passed[0][:, even], passed[1][:, even]))
        return ends[0], ends[1]

    def _without_polynomial(self, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
        """(boxes,) where the rate is not smooth, or the box has no end: what is infinite has no corners and no middle."""
        k = self.layout.unknowns
        with np.errstate(invalid="ignore", over="ignore"):
            unbounded = ~np.all(np.isfinite(hi[:k] - lo[:k]), axis=0)
        return self.smooth.fails(lo, hi) | unbounded

    def _smooth_end(self, lo: np.ndarray, hi: np.ndarray, passed: Ends) -> Ends:
        if self.choice.form == "natural":
            return meet(self.whole.evaluate(lo, hi), passed)
        ends, settled = self._by_corners(lo, hi)
        ends = total(ends, self.remainder.evaluate(lo, hi))
        if not settled:
            ends = meet(ends, self.whole.evaluate(lo, hi))
        return meet(ends, passed)

    def narrow(self, lo: np.ndarray, hi: np.ndarray, ends: Ends) -> tuple[Ends, Ends]:
        """Backward and forward again: (unknowns, boxes) without parts that cannot reach `ends`, and what is left of these.

        The remainder of each state is met at a moment of its own, and where the rate is not smooth its mean need not be met
        at all: so no state passed in between may be narrowed by what all of them ask for.
        """
        k, passed = self.layout.unknowns, self.layout.passed_rows
        even = ~self._without_polynomial(lo, hi)
        start, left = np.array([lo[:k], hi[:k]]), np.array(ends)
        rows = np.array([lo[:, even], hi[:, even]])
        rows[:, passed] = self.remainder.evaluate(rows[0], rows[1])
        rows = np.array(self.closed.contract(rows[0], rows[1], left[0][:, even], left[1][:, even]))
        start[:, :, even] = rows[:, :k]
        left[:, :, even] = meet(self.closed.evaluate(rows[0], rows[1]), (left[0][:, even], left[1][:, even]))
        return (start[0], start[1]), (left[0], left[1])

    def influence(self, lo: np.ndarray, hi: np.ndarray, spread: np.ndarray) -> np.ndarray:
        """(unknowns, boxes) how far the width of each unknown moves the states, in units of `spread` (states,)."""
        n, k = self.layout.states, self.layout.unknowns
        if self.still or not lo.shape[1]:
            return np.zeros((k, lo.shape[1]))
        first, last = self.jacobian.evaluate(lo, hi)
        slopes = np.fmax(np.abs(first), np.abs(last)).reshape(k, n, -1)
        return np.einsum("kib,i->kb", slopes, 1 / np.maximum(spread, NO_SPREAD)) * (hi[:k] - lo[:k])

    def _by_corners(self, lo: np.ndarray, hi: np.ndarray) -> tuple[Ends, bool]:
        """The polynomial over the boxes; and whether every derivative had one sign everywhere."""
        n, k, boxes = self.layout.states, self.layout.unknowns, lo.shape[1]
        first, last = self.jacobian.evaluate(lo, hi)  # by columns of the Jacobian
        first, last = np.where(np.isnan(first), -np.inf, first), np.where(np.isnan(last), np.inf, last)  # no derivative
        slopes = first.reshape(k, n, boxes), last.reshape(k, n, boxes)
        growing, falling = slopes[0] >= 0, slopes[1] <= 0
        open_ = ~(growing | falling)
        settled = not open_.any()
        centre = None if settled else middle((lo[:k], hi[:k]))
        ends = np.empty((2, n, boxes))
        for i, kernel in enumerate(self.polynomial):
            points = np.empty((2, self.layout.rows, 2 * boxes))
            points[:, :, :boxes] = lo, hi
            points[:, :, boxes:] = lo, hi
            low = np.where(growing[:, i], lo[:k], hi[:k])
            high = np.where(growing[:, i], hi[:k], lo[:k])
            if centre is not None:
                low, high = np.where(open_[:, i], centre, low), np.where(open_[:, i], centre, high)
            points[:, :k, :boxes], points[:, :k, boxes:] = low, high
            at = kernel.evaluate(points[0], points[1])
            ends[0, i], ends[1, i] = at[0][0, :boxes], at[1][0, boxes:]
        if centre is None:
            return (ends[0], ends[1]), settled
        return total((ends[0], ends[1]), self._spread(slopes, (lo[:k], hi[:k]), centre, open_)), settled

    @staticmethod
    def _spread(slopes: Ends, box: Ends, centre: np.ndarray, open_: np.ndarray) -> Ends:
        """Mean-value terms of the unknowns whose derivative may have either sign."""
        moved = difference(box, (centre, centre))
        each = times(slopes, (moved[0][:, None], moved[1][:, None]))
        lows, highs = np.where(open_, each[0], 0.0), np.where(open_, each[1], 0.0)
        spread = lows[0], highs[0]
        for j in range(1, len(lows)):
            spread = total(spread, (lows[j], highs[j]))
        return spread


def bounding_box(flow: ModeFlow, lo: np.ndarray, hi: np.ndarray, strictly: bool = False) -> Ends:
    """B with x + [0, h] f(B) inside B: then the solution of the step stays in B; `strictly` inside, all solutions do."""
    rows = np.array([lo, hi])
    passed, n = flow.layout.passed_rows, flow.layout.states

    def image(box: Ends) -> Ends:
        rows[0, passed], rows[1, passed] = box
        return flow.picard.evaluate(rows[0], rows[1])

    return mapped_into_itself(image, (lo[:n], hi[:n]), strictly)


def mapped_into_itself(image: Callable[[Ends], Ends], start: Ends, strictly: bool = False) -> Ends:
    """A box that `image` maps into itself, grown from the start (Picard); infinite where none was found in time.

    `strictly`: no end of the image may be one of the box.
    """
    box = join(start, image(start))
    for _ in range(STRICT_TRIES if strictly else PICARD_TRIES):
        tried = image(box)
        within = (tried[0] > box[0]) & (tried[1] < box[1]) if strictly else (tried[0] >= box[0]) & (tried[1] <= box[1])
        inside = np.all(within, axis=0)
        if inside.all():
            return tried
        wider = join(box, tried)
        with np.errstate(invalid="ignore", over="ignore"):
            grow = GROWTH * (wider[1] - wider[0]) + SMALLEST_GROWTH * (np.abs(wider[0]) + np.abs(wider[1])) + 1e-300
            box = np.where(inside, box[0], wider[0] - grow), np.where(inside, box[1], wider[1] + grow)
    return np.where(inside, tried[0], -np.inf), np.where(inside, tried[1], np.inf)
