"""Interval observer: a list of boxes goes through a record; what no measurement can come from is deleted.

Sec. 4 of Rauh, Senkel and Aschemann: bisect, predict, intersect with the measurement, delete, reset, merge. Beyond the
paper: boxes are split at guards instead of uniting modes, and each measurement contracts the parameters backward.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import casadi
import numpy as np

from dynident.models.equations import EquationModel
from dynident.set_membership.bisection import (
    BisectionContext,
    Strategy,
    bisect_most_urgent,
    merge_boxes,
    slice_wide,
    slice_widest,
)
from dynident.set_membership.flows.boxes import (
    BoundedSample,
    Boxes,
    IntervalStep,
    Prediction,
    concatenate,
    update_with_measurement,
)
from dynident.set_membership.flows.interval_automaton import IntervalAutomaton, VariableLayout
from dynident.set_membership.intervals import Guarantee
from dynident.set_membership.intervals.arithmetic import Interval
from dynident.set_membership.setup import BoundedRecord

FREED_PART = 50  # a full list is made smaller by one part in so many: more blurs the boxes, less leaves them stuck


class VerifiedStep(Protocol):
    """How boxes go from one sample to the next; what `Boxes.mode` means is its own business."""

    @property
    def automaton(self) -> IntervalAutomaton: ...

    @property
    def layout(self) -> VariableLayout: ...

    @property
    def guarantee(self) -> Guarantee: ...

    def start(self, boxes: Boxes, step: IntervalStep) -> Boxes:
        """The boxes in every mode in which they may begin."""
        ...

    def advance(self, boxes: Boxes, step: IntervalStep, sample: BoundedSample, backward: bool) -> tuple[Boxes, bool]:
        """What is left of the boxes at the next sample, and whether each stayed in its mode for certain."""
        ...

    def active_modes(self, boxes: Boxes) -> np.ndarray:
        """(boxes,) bit masks of the modes in which a box may be."""
        ...

    def influence(self, boxes: Boxes, step: IntervalStep) -> np.ndarray:
        """(rows, boxes) how far the width of each row spreads the states in the step, relative to how far they are."""
        ...


@dataclass(frozen=True)
class StandstillReset:
    """A parameter that may change when the rig comes to rest, which the record says by measuring `signal` as zero."""

    parameter: int  # row among the parameters
    signal: int  # output
    minimum_time: float  # seconds of standstill after which it may have changed
    modes: int  # bit mask of those in which the signal does not move

    def is_still(self, record: BoundedRecord, samples: int | slice) -> np.ndarray:
        """Where the signal is measured as zero."""
        low, high = record.low[self.signal, samples], record.high[self.signal, samples]
        return np.isfinite(low) & (low <= 0) & (high >= 0)


@dataclass(frozen=True)
class StandstillClock:
    """How long a standstill has lasted."""

    seconds: float = 0.0
    still: bool = False
    elapsed: bool = False  # whether that is long enough for a parameter to have changed

    def tick(self, still: bool, passed: float, minimum_time: float) -> StandstillClock:
        """After one more sample."""
        seconds = self.seconds + passed if still and self.still else 0.0
        return StandstillClock(seconds, still, bool(still and seconds >= minimum_time))


Renewal = Callable[[Boxes, int, float, float], Boxes]  # (boxes, row, low, high of the first range)


@dataclass(frozen=True)
class BoxBudget:
    """How many boxes, how many bisections."""

    max_boxes: int
    bisections: int  # per sample (M)
    slices: int = 0  # M_v
    widest_slice: float | None = None  # v_bar: every box that is wider in `sliced_row` is sliced; None: the widest one
    sliced_row: int = -1
    bisect_when_full: bool = False  # bisect though there is no room, and merge again; else only as far as there is room


@dataclass(frozen=True)
class ObserverVariant:
    """What a published variant of the observer does in its own way."""

    make_step: Callable[..., VerifiedStep]  # of (automaton, model) and, for a published one, options of its own
    strategy: str
    bisections: int  # per sample, where nothing is said
    renew: Renewal
    bisect_when_full: bool  # as in `BoxBudget`
    backward: bool  # whether measurements contract the parameters of a box


@dataclass(frozen=True, eq=False)
class ObserverState:
    """Where the observer stands at a sample."""

    boxes: Boxes
    clocks: tuple[StandstillClock, ...]  # one per reset
    single_mode: bool = False  # whether the last step stayed in one mode in every box
    resets: tuple[int, ...] = ()  # samples at which a parameter was reset so far


@dataclass(frozen=True, eq=False)
class ObserverResult:
    """What one run over a record leaves behind, per sample."""

    boxes: Boxes  # at the end; none where nothing fits
    low: np.ndarray  # (samples, rows) hull of all boxes
    high: np.ndarray
    count: np.ndarray  # (samples,)
    modes: np.ndarray  # (samples,) bit mask of the modes that are possible
    single_mode: np.ndarray  # (samples,) whether the step that led here stayed in one mode in every box
    empty_at: int | None = None  # the first sample that nothing fits
    resets: tuple[int, ...] = ()  # samples at which a parameter was reset

    @property
    def covered(self) -> int:
        """Samples up to the first that nothing fits."""
        return self.low.shape[0] if self.empty_at is None else self.empty_at


def whole_range(boxes: Boxes, row: int, low: float, high: float) -> Boxes:
    """Each box with the first range; those that are then the same are kept once."""
    lo, hi = boxes.lo.copy(), boxes.hi.copy()
    lo[row], hi[row] = low, high
    _, first = np.unique(np.concatenate([lo, hi, boxes.mode[None]]), axis=1, return_index=True)
    return Boxes(lo[:, first], hi[:, first], boxes.mode[first])


@dataclass(frozen=True, eq=False)
class IntervalObserver:
    """An interval observer: all that stays the same along a record, and `run` through it."""

    model: EquationModel
    step: VerifiedStep
    strategy: Strategy
    budget: BoxBudget
    backward: bool = True
    resets: tuple[StandstillReset, ...] = ()
    renew: Renewal = whole_range  # how a parameter that is reset gets its range back

    def run(self, first: Boxes, record: BoundedRecord, progress: Callable[[int, Boxes], object] = lambda *_: None
            ) -> ObserverResult:
        """Through the record once; stops where nothing is left. `progress` takes each sample with its boxes."""
        prior = first.hull()
        width = prior[1] - prior[0]
        width = np.where(np.isfinite(width) & (width > 0), width, 1.0)
        state, history = self._start(first, record), []
        for k in range(record.samples):
            state = self._advance(state, record, k, width) if k else state
            if not state.boxes.count:
                break
            state = self._reset(state, record, k, prior)
            state = replace(state, boxes=merge_boxes(state.boxes, self.budget.max_boxes, width))
            modes = int(np.bitwise_or.reduce(self.step.active_modes(state.boxes)))
            history.append((*state.boxes.hull(), state.boxes.count, modes, state.single_mode))
            progress(k, state.boxes)
        return _result(state, history, record.samples)

    def _start(self, first: Boxes, record: BoundedRecord) -> ObserverState:
        boxes = update_with_measurement([Prediction(first)], self.step.automaton, record.sample(0), backward=False)
        boxes = self.step.start(boxes, record.steps[0]) if boxes.count else boxes
        return ObserverState(boxes, (StandstillClock(),) * len(self.resets))

    def _advance(self, state: ObserverState, record: BoundedRecord, k: int, width: np.ndarray) -> ObserverState:
        boxes = self._bisect(state.boxes, record.steps[k - 1], width)
        boxes, single_mode = self.step.advance(boxes, record.steps[k - 1], record.sample(k), self.backward)
        return replace(state, boxes=boxes, single_mode=single_mode)

    def _bisect(self, boxes: Boxes, step: IntervalStep, width: np.ndarray) -> Boxes:
        budget = self.budget
        if boxes.count >= budget.max_boxes and not budget.bisect_when_full:  # none died: a few make room for bisections
            boxes = merge_boxes(boxes, budget.max_boxes - max(budget.max_boxes // FREED_PART, 1), width)
        count = budget.bisections if budget.bisect_when_full else min(budget.bisections, budget.max_boxes - boxes.count)
        if budget.slices and budget.widest_slice is not None:
            room = None if budget.bisect_when_full else budget.max_boxes - boxes.count
            before = boxes.count
            boxes = slice_wide(boxes, budget.sliced_row, budget.slices, budget.widest_slice, room)
            count = count if budget.bisect_when_full else count - (boxes.count - before)
        elif budget.slices:
            boxes = slice_widest(boxes, budget.sliced_row, budget.slices)
        if count <= 0:
            return boxes
        inputs = {n: float(u) for n, u in zip(self.model.inputs, step.inputs[1], strict=True)}
        context = BisectionContext((*self.model.states, *self.model.parameters), self.step.layout.states, width, inputs,
                                   lambda some: self.step.influence(some, step))
        return bisect_most_urgent(boxes, context, self.strategy, count)

    def _reset(self, state: ObserverState, record: BoundedRecord, k: int, prior: Interval) -> ObserverState:
        """Parameters whose standstill has just lasted long enough get their first range back."""
        boxes, clocks, resets = state.boxes, [], state.resets
        for clock, reset in zip(state.clocks, self.resets, strict=True):
            ticked = clock.tick(bool(reset.is_still(record, k)), record.time[k] - record.time[k - 1] if k else 0.0,
                                reset.minimum_time)
            clocks.append(ticked)
            if not ticked.elapsed or clock.elapsed:
                continue
            row = self.step.layout.states + reset.parameter
            stands = (self.step.active_modes(boxes) & reset.modes) != 0  # in other modes the rig moves, and nothing changes
            renewed = self.renew(boxes.select(stands), row, prior[0][row], prior[1][row])
            boxes, resets = concatenate([renewed, boxes.select(~stands)], boxes.lo.shape[0]), (*resets, k)
        return replace(state, boxes=boxes, clocks=tuple(clocks), resets=resets)


def _result(state: ObserverState, history: list[tuple], samples: int) -> ObserverResult:
    low, high = (np.full((samples, state.boxes.lo.shape[0]), np.nan) for _ in range(2))
    count, modes, single_mode = np.zeros(samples, int), np.zeros(samples, int), np.zeros(samples, bool)
    for k, entry in enumerate(history):
        low[k], high[k], count[k], modes[k], single_mode[k] = entry
    return ObserverResult(state.boxes, low, high, count, modes, single_mode,
                          None if len(history) == samples else len(history), tuple(dict.fromkeys(state.resets)))


def short_standstills(observer: IntervalObserver, record: BoundedRecord, until: int) -> list[str]:
    """A sentence per parameter that was not reset in a standstill because that was too short, before a sample."""
    notes = []
    for reset in observer.resets:
        still = reset.is_still(record, slice(until))
        edges = np.flatnonzero(np.diff(np.concatenate([[False], still, [False]]).astype(int)))
        stretches = [(b, e) for b, e in edges.reshape(-1, 2)
                     if b and e < until and record.time[e - 1] - record.time[b] < reset.minimum_time]
        if stretches:
            name = observer.model.parameters[reset.parameter]
            notes.append(f"{name} was not set back at {len(stretches)} standstills of less than standstill_time = "
                         f"{reset.minimum_time:g} s, the first at t = {record.time[stretches[0][0]]:g}. If it can change "
                         "there, the record does not refute the model: use standstill_time=0.")
    return notes


def standing_modes(model: EquationModel, output: int) -> int:
    """Bit mask of the modes in which an output cannot change, whatever the values."""
    standing = 0
    for k, name in enumerate(model.modes):
        f = model.mode(name).rate
        t, x, u, p = (casadi.SX.sym(n, f.size1_in(j)) for j, n in enumerate("txup"))
        signal = model.output(t, x, u, p)[output]
        change = casadi.simplify(casadi.jtimes(signal, x, f(t, x, u, p)))
        standing |= (1 << k) if change.is_zero() else 0
    return standing
