"""Mode flow: the interval Taylor series method of one mode, from a box of states to all of them after one step.

`ModeFlow.enclose_step` bounds the whole step (Picard), `ModeFlow.enclose_end` its end, `ModeFlow.contract` goes backward.
Two ways to take the Taylor polynomial over a box: "natural", as the paper does, and "monotone", which takes corners in every
unknown whose derivative has one sign over the box (verified by its interval, never trusted) and the mean value form in the
others. Where the rate is not smooth there is no polynomial, and the end lies in x + h f(B).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import casadi
import numpy as np

from dynident.errors import ProblemError
from dynident.set_membership.flows.interval_automaton import StepSymbols, VariableLayout
from dynident.set_membership.flows.nonsmooth import Smoothness
from dynident.set_membership.intervals import Guarantee, make_interval_kernel
from dynident.set_membership.intervals.arithmetic import TINY, Interval, add, hull, intersect, midpoint, mul, sub

FORMS = ("monotone", "natural")
PICARD_TRIES = 12
STRICT_TRIES = 40  # from a point at which a rate ends, a box grows by roots: slowly
BOX_INFLATION = 0.1  # of its width by which a failed bounding box grows before the next try
SMALLEST_GROWTH = 1e-12  # relative to the state: lets a thin box grow at all
NO_SPREAD = 1e-12  # of a state that all boxes agree on


@dataclass(frozen=True, eq=False)
class TaylorStep:
    """x(t + h) = polynomial(x, p, u, u', t, h) + remainder, the remainder taken over the enclosure of all states passed.

    Formulas (4) and (5) of Rauh, Senkel and Aschemann for any order. Inputs run as u + u' tau within the step.
    """

    picard: casadi.Function  # x + [0, h] f over the enclosure
    polynomial: tuple[casadi.Function, ...]  # one per state, so that each can be taken at its own corner
    jacobian: casadi.Function  # of the polynomial, by columns, with respect to (x, p)
    state_jacobian: casadi.Function  # its columns of the states alone,
    parameter_jacobian: casadi.Function  # and those of the parameters, so that each can be taken where it is narrow
    remainder: casadi.Function
    natural: casadi.Function  # polynomial and remainder together
    with_remainder: casadi.Function  # the polynomial plus what stands in the rows of the enclosure: the remainder, once known
    first_order: casadi.Function  # x + h f over the enclosure, whether smooth or not
    smoothness: Smoothness  # where all of this but `picard` and `first_order` may be used
    at_rest: bool  # the rate is zero


def build_taylor_step(rate: casadi.Function, layout: VariableLayout, order: int, rigorous: bool = False) -> TaylorStep:
    """The step of one mode; `order` is the highest power of h in the polynomial."""
    s = layout.symbols()
    derivatives = _time_derivatives(rate, s, order + 1)
    f = derivatives[1]
    polynomial = s.x + _horner(derivatives[1:-1], s.h)
    remainder = s.during_step(derivatives[-1]) * s.h**(order + 1) / float(math.factorial(order + 1))
    jacobian = casadi.jacobian(polynomial, casadi.vertcat(s.x, s.p))
    return TaylorStep(
        s.function(s.x + s.s * s.during_step(f)), tuple(s.function(part) for part in casadi.vertsplit(polynomial)),
        s.function(jacobian), s.function(jacobian[:, :layout.states]), s.function(jacobian[:, layout.states:]),
        s.function(remainder), s.function(polynomial + remainder),
        s.function(polynomial + s.b), s.function(s.x + s.h * s.during_step(f)), Smoothness(f, s, rigorous),
        at_rest=f.is_zero())


def _horner(derivatives: list[casadi.SX], h: casadi.SX) -> casadi.SX:
    """h d1 + h^2/2 d2 + ... = h (d1 + h/2 (d2 + h/3 (...))); whole numbers divide exactly as written."""
    total = derivatives[-1]
    for k in range(len(derivatives) - 1, 0, -1):
        total = derivatives[k - 1] + h / float(k + 1) * total
    return h * total


def _time_derivatives(rate: casadi.Function, s: StepSymbols, count: int) -> list[casadi.SX]:
    """x, x', x'', ... along the solution, with inputs that move with constant slope."""
    f = rate(s.t, s.x, s.u, s.p)
    found = [s.x, f]
    for _ in range(count - 1):
        last = found[-1]
        found.append(casadi.jtimes(last, s.x, f) + casadi.jtimes(last, s.u, s.input_rate)
                     + casadi.jtimes(last, s.t, casadi.SX(1)))
    return found


@dataclass(frozen=True)
class FlowOptions:
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

    def __init__(self, layout: VariableLayout, rate: casadi.Function, options: FlowOptions, rigorous: bool = False):
        self.layout, self.options = layout, options
        self.taylor_step = step = build_taylor_step(rate, layout, options.order, rigorous)
        self.at_rest, self.smoothness = step.at_rest, step.smoothness
        self.picard, self.jacobian, self.remainder, self.natural, self.with_remainder, self.first_order = (
            make_interval_kernel(f, rigorous)
            for f in (step.picard, step.jacobian, step.remainder, step.natural, step.with_remainder, step.first_order))
        self.polynomial = [make_interval_kernel(f, rigorous) for f in step.polynomial]

    @property
    def guarantees(self) -> set[Guarantee]:
        return {k.guarantee for k in (self.picard, self.jacobian, self.remainder, self.natural, self.with_remainder,
                                      self.first_order, *self.polynomial)}

    def enclose_step(self, lo: np.ndarray, hi: np.ndarray, tries: int | None = None) -> Interval:
        """The a priori enclosure: all states that a step can pass through, by Picard; infinite where none was found."""
        n = self.layout.states
        if self.at_rest:
            return lo[:n], hi[:n]
        box = picard_enclosure(self, lo, hi, tries=tries)
        low, high = lo.copy(), hi.copy()
        low[self.layout.enclosure_rows], high[self.layout.enclosure_rows] = box
        nonsmooth = self.smoothness.may_fail(low, high)
        if nonsmooth.any():  # there may be several solutions from one point: a box of all of them has room on every side
            again = picard_enclosure(self, lo[:, nonsmooth], hi[:, nonsmooth], strictly=True)
            box[0][:, nonsmooth], box[1][:, nonsmooth] = again
        return box

    def enclose_end(self, lo: np.ndarray, hi: np.ndarray) -> Interval:
        """States at the end of a step whose a priori enclosure stands in the rows."""
        enclosure = lo[self.layout.enclosure_rows], hi[self.layout.enclosure_rows]
        if self.at_rest:
            return lo[:self.layout.states], hi[:self.layout.states]
        nonsmooth = self._without_taylor(lo, hi)
        if not nonsmooth.any():
            return self._enclose_smooth_end(lo, hi, enclosure)
        ends = np.array(intersect(self.first_order.evaluate(lo, hi), enclosure))
        if not nonsmooth.all():
            smooth = ~nonsmooth
            within = enclosure[0][:, smooth], enclosure[1][:, smooth]
            ends[:, :, smooth] = self._enclose_smooth_end(lo[:, smooth], hi[:, smooth], within)
        return ends[0], ends[1]

    def _without_taylor(self, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
        """(boxes,) where the rate is not smooth, or the box has no end: what is infinite has no corners and no middle."""
        k = self.layout.unknowns
        with np.errstate(invalid="ignore", over="ignore"):
            unbounded = ~np.all(np.isfinite(hi[:k] - lo[:k]), axis=0)
        return self.smoothness.may_fail(lo, hi) | unbounded

    def _enclose_smooth_end(self, lo: np.ndarray, hi: np.ndarray, enclosure: Interval) -> Interval:
        if self.options.form == "natural":
            return intersect(self.natural.evaluate(lo, hi), enclosure)
        ends, monotone = self._monotone_form(lo, hi)
        ends = add(ends, self.remainder.evaluate(lo, hi))
        if not monotone:
            ends = intersect(ends, self.natural.evaluate(lo, hi))
        return intersect(ends, enclosure)

    def contract(self, lo: np.ndarray, hi: np.ndarray, ends: Interval) -> tuple[Interval, Interval]:
        """Backward and forward again: (unknowns, boxes) without parts that cannot reach `ends`, and what is left of these.

        The remainder of each state is met at a moment of its own, and where the rate is not smooth its mean need not be met
        at all: so no state passed in between may be contracted by what all of them ask for.
        """
        k, enclosure = self.layout.unknowns, self.layout.enclosure_rows
        smooth = ~self._without_taylor(lo, hi)
        start, left = np.array([lo[:k], hi[:k]]), np.array(ends)
        rows = np.array([lo[:, smooth], hi[:, smooth]])
        rows[:, enclosure] = self.remainder.evaluate(rows[0], rows[1])
        rows = np.array(self.with_remainder.contract(rows[0], rows[1], left[0][:, smooth], left[1][:, smooth]))
        start[:, :, smooth] = rows[:, :k]
        left[:, :, smooth] = intersect(self.with_remainder.evaluate(rows[0], rows[1]), (left[0][:, smooth], left[1][:, smooth]))
        return (start[0], start[1]), (left[0], left[1])

    def influence(self, lo: np.ndarray, hi: np.ndarray, spread: np.ndarray) -> np.ndarray:
        """(unknowns, boxes) how far the width of each unknown moves the states, in units of `spread` (states,)."""
        n, k = self.layout.states, self.layout.unknowns
        if self.at_rest or not lo.shape[1]:
            return np.zeros((k, lo.shape[1]))
        first, last = self.jacobian.evaluate(lo, hi)
        derivatives = np.fmax(np.abs(first), np.abs(last)).reshape(k, n, -1)
        return np.einsum("kib,i->kb", derivatives, 1 / np.maximum(spread, NO_SPREAD)) * (hi[:k] - lo[:k])

    def _monotone_form(self, lo: np.ndarray, hi: np.ndarray) -> tuple[Interval, bool]:
        """The polynomial over the boxes; and whether every derivative had one sign everywhere."""
        n, k, boxes = self.layout.states, self.layout.unknowns, lo.shape[1]
        first, last = self.jacobian.evaluate(lo, hi)  # by columns of the Jacobian
        first, last = np.where(np.isnan(first), -np.inf, first), np.where(np.isnan(last), np.inf, last)  # no derivative
        derivatives = first.reshape(k, n, boxes), last.reshape(k, n, boxes)
        growing, falling = derivatives[0] >= 0, derivatives[1] <= 0
        ambiguous = ~(growing | falling)
        monotone = not ambiguous.any()
        centre = None if monotone else midpoint((lo[:k], hi[:k]))
        ends = np.empty((2, n, boxes))
        for i, kernel in enumerate(self.polynomial):
            points = np.empty((2, self.layout.rows, 2 * boxes))
            points[:, :, :boxes] = lo, hi
            points[:, :, boxes:] = lo, hi
            low = np.where(growing[:, i], lo[:k], hi[:k])
            high = np.where(growing[:, i], hi[:k], lo[:k])
            if centre is not None:
                low, high = np.where(ambiguous[:, i], centre, low), np.where(ambiguous[:, i], centre, high)
            points[:, :k, :boxes], points[:, :k, boxes:] = low, high
            at = kernel.evaluate(points[0], points[1])
            ends[0, i], ends[1, i] = at[0][0, :boxes], at[1][0, boxes:]
        if centre is None:
            return (ends[0], ends[1]), monotone
        return add((ends[0], ends[1]), self._mean_value_form(derivatives, (lo[:k], hi[:k]), centre, ambiguous)), monotone

    @staticmethod
    def _mean_value_form(derivatives: Interval, box: Interval, centre: np.ndarray, ambiguous: np.ndarray) -> Interval:
        """Mean-value terms of the unknowns whose derivative may have either sign."""
        moved = sub(box, (centre, centre))
        each = mul(derivatives, (moved[0][:, None], moved[1][:, None]))
        lows, highs = np.where(ambiguous, each[0], 0.0), np.where(ambiguous, each[1], 0.0)
        spread = lows[0], highs[0]
        for j in range(1, len(lows)):
            spread = add(spread, (lows[j], highs[j]))
        return spread


def picard_enclosure(flow: ModeFlow, lo: np.ndarray, hi: np.ndarray, strictly: bool = False, tries: int | None = None
                     ) -> Interval:
    """B with x + [0, h] f(B) inside B: then the solution of the step stays in B; `strictly` inside, all solutions do."""
    rows = np.array([lo, hi])
    enclosure, n = flow.layout.enclosure_rows, flow.layout.states

    def image(box: Interval) -> Interval:
        rows[0, enclosure], rows[1, enclosure] = box
        return flow.picard.evaluate(rows[0], rows[1])

    return find_invariant_box(image, (lo[:n], hi[:n]), strictly, tries)


def find_invariant_box(image: Callable[[Interval], Interval], start: Interval, strictly: bool = False,
                       tries: int | None = None) -> Interval:
    """A box that `image` maps into itself, grown from the start (Picard); infinite where none was found in time.

    `strictly`: no end of the image may be one of the box.
    """
    box = hull(start, image(start))
    for _ in range(tries or (STRICT_TRIES if strictly else PICARD_TRIES)):
        tried = image(box)
        within = (tried[0] > box[0]) & (tried[1] < box[1]) if strictly else (tried[0] >= box[0]) & (tried[1] <= box[1])
        inside = np.all(within, axis=0)
        if inside.all():
            return tried
        wider = hull(box, tried)
        with np.errstate(invalid="ignore", over="ignore"):
            grow = BOX_INFLATION * (wider[1] - wider[0]) + SMALLEST_GROWTH * (np.abs(wider[0]) + np.abs(wider[1])) + TINY
            box = np.where(inside, box[0], wider[0] - grow), np.where(inside, box[1], wider[1] + grow)
    return np.where(inside, tried[0], -np.inf), np.where(inside, tried[1], np.inf)
