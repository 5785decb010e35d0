"""Interval paper (Rauh, Senkel, Aschemann), Secs. 3 and 4: a box in several modes at once, and the printed rules.

The step of Sec. 3 has four stages: a bounding box for the union of all active modes; modes that are
active somewhere in it, and again; a Taylor step of order 1 with all active rates between their hull; modes that can no
longer be active fall away. `Boxes.mode` is a bit mask of active modes, which are those of Fig. 4: a mode is active where
its invariant can hold and no guard leads out of it for certain. Boxes are split by rules (10) to (12), with M = 50; a
parameter that may have changed is split into the three pieces of (13).

Beyond the printed rules, what the text leaves free: a step with each state once where a mode is linear in the states
(`factored`), and a barrier at standstill (`barrier`): of the modes that are active by their conditions, only those to which a
transition leads, and no states outside of their invariants, so that a motion does not pass through a rest that holds.

No state may jump in a transition: between hulls of rates a jump would be lost. `UnionOfModesStep` refuses models that do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import casadi
import numpy as np

from dynident.errors import NotSupported, ProblemError, did_you_mean
from dynident.models.equations import EquationModel
from dynident.models.hybrid_functions import TransitionFunctions
from dynident.set_membership.bisection import BisectionContext, Bisections
from dynident.set_membership.flows.boxes import (
    BoundedSample,
    Boxes,
    IntervalStep,
    Prediction,
    concatenate,
    intersect_measurement,
    stack_rows,
)
from dynident.set_membership.flows.interval_automaton import IntervalAutomaton, StepSymbols, at_start
from dynident.set_membership.flows.mode_flow import FlowOptions, ModeFlow, find_invariant_box
from dynident.set_membership.interval_observer import ObserverVariant
from dynident.set_membership.intervals import Guarantee, make_interval_kernel
from dynident.set_membership.intervals.arithmetic import Interval, add, hull, intersect, mul

PRINTED_FLOW = FlowOptions(order=1, form="natural")


class UnionOfModesStep:
    """One step of a model over boxes, as published."""

    def __init__(self, automaton: IntervalAutomaton, model: EquationModel, factored: bool = False, barrier: bool = False):
        self.automaton, self.layout, self.barrier = automaton, automaton.layout, barrier
        s = self.layout.symbols()
        jumping = [f"{t.source} -> {t.target}" for t in model.transitions if not _is_continuous(t, s)]
        if jumping:
            raise NotSupported(f"the published algorithm unites modes and knows no state that jumps, as in "
                               f"{', '.join(jumping)}. Use algorithm=\"recursive\".")
        self.flows = tuple(ModeFlow(self.layout, law.rate, PRINTED_FLOW, automaton.rigorous) for law in automaton.modes)
        self.laws = tuple(_RateKernels(law.rate, s, automaton.rigorous) for law in automaton.modes)
        self.factored = tuple(_factored_kernel(law.rate, s, automaton.rigorous) if factored else None
                              for law in automaton.modes)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.weakest({self.automaton.output.guarantee, *(r for flow in self.flows for r in flow.guarantees)})

    def active_modes(self, boxes: Boxes) -> np.ndarray:
        """(boxes,) bit masks of the modes in which a box may be."""
        return boxes.mode

    def start(self, boxes: Boxes, step: IntervalStep) -> Boxes:
        """The boxes with all modes that are active in them."""
        return Boxes(boxes.lo, boxes.hi, self._active_in(*stack_rows(self.layout, boxes.lo, boxes.hi, step)))

    def influence(self, boxes: Boxes, step: IntervalStep) -> np.ndarray:
        """(rows, boxes) how far the width of each row spreads the states in the step, by any active mode."""
        found = np.zeros_like(boxes.lo)
        rows = stack_rows(self.layout, boxes.lo, boxes.hi, step)
        low, high = boxes.hull()
        for mode, flow in enumerate(self.flows):
            own = (boxes.mode >> mode) & 1 == 1
            spread = flow.influence(rows[0][:, own], rows[1][:, own], (high - low)[:self.layout.states])
            found[:, own] = np.fmax(found[:, own], spread)
        return found

    def advance(self, boxes: Boxes, step: IntervalStep, sample: BoundedSample, backward: bool) -> tuple[Boxes, bool]:
        """What is left of the boxes at the next sample, and whether each was in one mode throughout."""
        lo, hi = stack_rows(self.layout, boxes.lo, boxes.hi, step)
        masks = self._active_in(lo, hi)
        masks = masks & self._reachable(boxes.mode, lo, hi) if self.barrier else masks
        masks = self._add_enclosure(masks, lo, hi)
        if self.barrier:
            self._keep_to_invariants(masks, lo, hi)
        lo[:self.layout.states], hi[:self.layout.states] = self._enclose_end(masks, lo, hi)
        k = self.layout.unknowns
        ends = Boxes(lo[:k], hi[:k], masks).without_empty()
        ends = ends if sample.empty else intersect_measurement(Prediction(ends), self.automaton, sample).ends
        still_active = self._active_in(*stack_rows(self.layout, ends.lo, ends.hi, sample.step))  # Step 4
        still_active = self._at_next(ends, still_active, sample.step) if self.barrier else still_active
        left = concatenate([Boxes(ends.lo, ends.hi, still_active)], k)
        return left.select(left.mode > 0), bool(np.all(masks & (masks - 1) == 0))

    def _active_in(self, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
        """(boxes,) masks of the modes that are active somewhere in the enclosures in the rows."""
        masks = np.zeros(lo.shape[1], int)
        for mode, law in enumerate(self.automaton.modes):
            masks |= (law.invariant_can_hold(lo, hi) & ~law.must_leave(lo, hi)).astype(int) << mode
        return masks

    def _reachable(self, masks: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
        """The modes of each box, and those to which transitions can lead from them within the enclosure in the rows."""
        while True:
            more = masks.copy()
            for mode, law in enumerate(self.automaton.modes):
                own = (masks >> mode) & 1 == 1
                for jump in law.transitions:
                    can = own.copy()
                    can[own] = jump.guard_during.can_hold(lo[:, own], hi[:, own])
                    more |= can.astype(int) << jump.target
            if np.all(more == masks):
                return masks
            masks = more

    def _at_next(self, ends: Boxes, active: np.ndarray, step: IntervalStep) -> np.ndarray:
        """What of the active modes can be had from those of the step that ends."""
        return active & self._reachable(ends.mode, *stack_rows(self.layout, ends.lo, ends.hi, step))

    def _keep_to_invariants(self, masks: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> None:
        """The enclosures in the rows without states in which no active mode can be; none left is an empty box."""
        rows = self.layout.enclosure_rows
        for mask in np.unique(masks):
            own = masks == mask
            low, high = np.full((2, self.layout.states, int(own.sum())), np.nan)
            for mode in _modes_in(mask):
                part = self.automaton.modes[mode].invariant_during.contract(lo[:, own], hi[:, own])
                low, high = np.fmin(low, part[0][rows]), np.fmax(high, part[1][rows])
            lo[rows, own], hi[rows, own] = low, high

    def _add_enclosure(self, masks: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
        """Steps 1 and 2: puts the bounding boxes into the rows of the enclosure; the masks of all that is active."""
        enclosure, n = self.layout.enclosure_rows, self.layout.states
        while True:
            for mask in np.unique(masks):
                own = masks == mask
                rows = np.array([lo[:, own], hi[:, own]])

                def image(box: Interval, rows: np.ndarray = rows, mask: int = mask) -> Interval:
                    rows[0, enclosure], rows[1, enclosure] = box
                    ends = rows[0, :n], rows[1, :n]
                    for mode in _modes_in(mask):
                        ends = hull(ends, self.flows[mode].picard.evaluate(rows[0], rows[1]))
                    return ends

                strictly = not all(self.flows[mode].smoothness.everywhere for mode in _modes_in(mask))
                box = find_invariant_box(image, (rows[0, :n].copy(), rows[1, :n].copy()), strictly)
                lo[enclosure.start:enclosure.stop, own], hi[enclosure.start:enclosure.stop, own] = box
            active = self._active_in(lo, hi)
            more = masks | (active & self._reachable(masks, lo, hi) if self.barrier else active)
            if np.all(more == masks):
                return masks
            masks = more

    def _enclose_end(self, masks: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> Interval:
        """Step 3: x + h f_a(x) + h^2/2 (df_a/dx f_a + df_a/dt)(B), f_a between the hull of all active rates."""
        n, enclosure = self.layout.states, self.layout.enclosure_rows
        ends = np.empty((2, n, lo.shape[1]))
        for mask in np.unique(masks):
            own = masks == mask
            low, high = lo[:, own], hi[:, own]
            modes = _modes_in(mask)
            kernel = self.factored[modes[0]] if len(modes) == 1 else None
            if len(modes) == 1:
                found = self.flows[modes[0]].enclose_end(low, high)
                found = found if kernel is None else intersect(found, kernel.evaluate(low, high))
                found = intersect(found, (low[enclosure], high[enclosure])) if self.barrier else found
            else:
                found = intersect(self._union(modes, low, high), (low[enclosure], high[enclosure]))
            ends[0][:, own], ends[1][:, own] = found
        return ends[0], ends[1]

    def _union(self, modes: list[int], lo: np.ndarray, hi: np.ndarray) -> Interval:
        n, h = self.layout.states, (lo[self.layout.step_row], hi[self.layout.step_row])
        start, during = (_hull_of([kernel.evaluate(lo, hi) for kernel in kernels]) for kernels in (
            [self.laws[m].at_start for m in modes], [self.laws[m].during for m in modes]))
        slopes = _hull_of([self.laws[m].jacobian.evaluate(lo, hi) for m in modes])
        change = _hull_of([self.laws[m].time_derivative.evaluate(lo, hi) for m in modes])
        for j in range(n):
            column = slopes[0][j * n:(j + 1) * n], slopes[1][j * n:(j + 1) * n]
            change = add(change, mul(column, (during[0][j], during[1][j])))
        half = mul(mul(h, h), (0.5, 0.5))
        x = lo[:n], hi[:n]
        bent, straight = add(add(x, mul(h, start)), mul(half, change)), add(x, mul(h, during))
        nonsmooth = np.any([self.flows[m].smoothness.may_fail(lo, hi) for m in modes], axis=0)
        return np.where(nonsmooth, straight[0], bent[0]), np.where(nonsmooth, straight[1], bent[1])


class _RateKernels:
    """The rate of a mode at the start and during the step, its slopes in the state, and how it changes by itself."""

    def __init__(self, rate: casadi.Function, s: StepSymbols, rigorous: bool):
        f = at_start(s, rate)
        own = casadi.jtimes(f, s.u, s.input_rate) + casadi.jtimes(f, s.t, casadi.SX(1))
        self.at_start, self.during, self.jacobian, self.time_derivative = (
            make_interval_kernel(s.function(e), rigorous)
            for e in (f, s.during_step(f), s.during_step(casadi.densify(casadi.jacobian(f, s.x))), s.during_step(own)))


def _factored_kernel(rate: casadi.Function, s: StepSymbols, rigorous: bool) -> Any:
    """x + h f(x) + h^2/2 (df/dx f + df/dt)(B) with each state once, for a mode that is linear in them; None for others."""
    f = at_start(s, rate)
    slopes = casadi.jacobian(f, s.x)
    if f.is_zero() or casadi.depends_on(slopes, s.x):
        return None
    rest = casadi.substitute(f, s.x, casadi.SX.zeros(s.x.numel()))
    bend = casadi.jtimes(f, s.x, f) + casadi.jtimes(f, s.u, s.input_rate) + casadi.jtimes(f, s.t, casadi.SX(1))
    rows = []
    for i in range(s.x.numel()):
        own = casadi.vertcat(*[(1.0 if i == j else 0.0) + s.h * slopes[i, j] for j in range(s.x.numel())])
        rows.append(casadi.dot(own, s.x) + s.h * rest[i])
    return make_interval_kernel(s.function(casadi.vertcat(*rows) + s.h**2 / 2.0 * s.during_step(bend)), rigorous)


def _is_continuous(transition: TransitionFunctions, s: StepSymbols) -> bool:
    """Whether the reset changes nothing where the guard is zero: it differs from the state by a multiple of the guard.

    Both must be affine with plain numbers as coefficients, so that the comparison is exact.
    """
    unknowns = casadi.vertcat(s.t, s.x, s.u, s.p)
    guard, moved = at_start(s, transition.guard), casadi.densify(at_start(s, transition.reset) - s.x)
    by_guard, by_moved = casadi.jacobian(guard, unknowns), casadi.jacobian(moved, unknowns)
    if moved.is_zero():
        return True
    if casadi.depends_on(casadi.vertcat(casadi.vec(by_guard), casadi.vec(by_moved)), unknowns):
        return False
    rows = np.asarray(casadi.evalf(casadi.densify(casadi.vertcat(by_guard, by_moved))))
    zero = casadi.Function("z", [unknowns], [casadi.vertcat(guard, moved)])(0)
    table = np.concatenate([rows, np.asarray(zero)], axis=1)
    pivot = int(np.argmax(np.abs(table[0])))
    return bool(table[0, pivot]) and all(np.array_equal(row * table[0, pivot], table[0] * row[pivot]) for row in table[1:])


def _modes_in(mask: int) -> list[int]:
    return [mode for mode in range(int(mask).bit_length()) if mask >> mode & 1]


def _hull_of(parts: list[Interval]) -> Interval:
    found = parts[0]
    for part in parts[1:]:
        found = hull(found, part)
    return found


@dataclass(frozen=True)
class PaperRules:
    """Rules (10) to (12) of Rauh, Senkel and Aschemann, as printed; the fields say which name plays which part."""

    speed: str = "speed"
    torque: str = "torque"
    damping: str = "alpha"
    gain: str = "beta"
    breakaway: str = "T_Fs"
    margin: float = 1e-3  # epsilon: how far beyond the torque the breakaway torque is bisected

    def __call__(self, boxes: Boxes, context: BisectionContext) -> Bisections:
        x2, a, b, t = (context.row(n) for n in (self.speed, self.damping, self.gain, self.breakaway))
        if self.torque not in context.inputs:
            raise ProblemError(f"the rules of the paper watch the input '{self.torque}', which the model does not have."
                               f"{did_you_mean(self.torque, context.inputs)} Say PaperRules(torque=...).")
        u = context.inputs[self.torque]
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
        return Bisections(np.where(width[rows, each] > 0, rows, -1), points)


def _product(boxes: Boxes, row: int, other: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    products = np.array([side * end for side in (boxes.lo[row], boxes.hi[row]) for end in other])
    return products.min(axis=0), products.max(axis=0)


def three_pieces(boxes: Boxes, row: int, low: float, high: float) -> Boxes:
    """(13): below, at and above the present interval, within the first one; pieces of no width are left out."""
    below, above = boxes.with_ends(boxes.lo.copy(), boxes.hi.copy()), boxes.with_ends(boxes.lo.copy(), boxes.hi.copy())
    below.lo[row], below.hi[row] = low, boxes.lo[row]
    above.lo[row], above.hi[row] = boxes.hi[row], high
    return concatenate([boxes, below.select(below.hi[row] > below.lo[row]), above.select(above.hi[row] > above.lo[row])],
                       boxes.lo.shape[0])


PUBLISHED = ObserverVariant(UnionOfModesStep, "paper", bisections=50, renew=three_pieces, bisect_when_full=True, backward=False)
