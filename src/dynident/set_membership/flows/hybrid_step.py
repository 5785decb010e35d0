"""Hybrid step: where can every box be after a step, whatever modes it passes through?

Boxes are split at guards, so that each has one mode: those that cannot meet a transition take the flow of their mode;
for the others every transition that can happen opens a box of its own. After the last transition of a step only the
target's rate acts, so x lies in reset(B and guard) + [0, h] f(B), B bounding all modes that can take part.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dynident.set_membership.flows.boxes import (
    BoundedSample,
    Boxes,
    IntervalStep,
    Prediction,
    concatenate,
    stack_rows,
    update_with_measurement,
)
from dynident.set_membership.flows.interval_automaton import IntervalAutomaton, IntervalTransition, VariableLayout
from dynident.set_membership.flows.mode_flow import FlowOptions, ModeFlow, find_invariant_box
from dynident.set_membership.intervals import Guarantee
from dynident.set_membership.intervals.arithmetic import Interval, hull, intersect
from dynident.set_membership.intervals.fused_step import (
    BoxStatus,
    FusedStep,
    StepPrograms,
    StepRows,
    StepShape,
    make_fused_step,
)

SourcedTransition = tuple[int, IntervalTransition]  # with the mode that it leads out of


class HybridStep:
    """One step of a model over boxes."""

    def __init__(self, automaton: IntervalAutomaton, options: FlowOptions, compiled: bool = True):
        self.automaton, self.layout = automaton, automaton.layout
        self.flows = tuple(ModeFlow(automaton.layout, law.rate, options, automaton.rigorous) for law in automaton.modes)
        self.fused_steps = tuple(self._make_fused_step(mode) if compiled and options.form == "monotone" else None
                                 for mode in range(len(automaton.modes)))

    def _make_fused_step(self, mode: int) -> FusedStep | None:
        law, flow, layout = self.automaton.modes[mode], self.flows[mode], self.layout
        programs = StepPrograms(law.stays_at_start.kernel, flow.picard, law.stays_during.kernel,
                                law.guard_rates.kernel, flow.smoothness.kernel, flow.jacobian, flow.remainder, flow.natural,
                                flow.with_remainder, law.stays_at_end.kernel, self.automaton.output, flow.polynomial)
        shape = StepShape(layout.states, layout.parameters, layout.rows, layout.enclosure_rows.start, flow.at_rest)
        return make_fused_step(programs, shape)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.weakest({self.automaton.output.guarantee, *(r for flow in self.flows for r in flow.guarantees)})

    def active_modes(self, boxes: Boxes) -> np.ndarray:
        """(boxes,) bit masks of the modes in which a box may be: here one each."""
        return np.left_shift(1, boxes.mode)

    def influence(self, boxes: Boxes, step: IntervalStep) -> np.ndarray:
        """(rows, boxes) how far the width of each row spreads the states in the step, relative to how far they are."""
        found = np.zeros_like(boxes.lo)
        low, high = boxes.hull()
        for mode in np.flatnonzero(np.bincount(boxes.mode)):
            own = boxes.mode == mode
            rows = stack_rows(self.layout, boxes.lo[:, own], boxes.hi[:, own], step)
            found[:, own] = self.flows[mode].influence(*rows, (high - low)[:self.layout.states])
        return found

    def start(self, boxes: Boxes, step: IntervalStep) -> Boxes:
        """The boxes in every mode in which they may begin."""
        parts = []
        for mode, law in enumerate(self.automaton.modes):
            lo, hi = stack_rows(self.layout, boxes.lo, boxes.hi, step)
            can = law.no_earlier_invariant.can_hold(lo, hi)
            parts.append(self._boxes(*law.invariant_at_start.contract(lo[:, can], hi[:, can]), mode))
        return concatenate(parts, self.layout.unknowns)

    def advance(self, boxes: Boxes, step: IntervalStep, sample: BoundedSample, backward: bool) -> tuple[Boxes, bool]:
        """What is left of the boxes at the next sample, and whether each stayed in its mode for certain."""
        seen = StepRows(self._step_rows(step), self._step_rows(sample.step),
                        None if sample.empty else np.array([sample.low, sample.high]))
        done, left = self._run_fused_steps(boxes, seen, backward, guards_checked=False)
        again, left = self._run_fused_steps(self.jump_at_sample(left, step), seen, backward, guards_checked=True)
        predictions = self._step_each_mode(left, step)
        single_mode = all(prediction.flow is not None or not prediction.ends.count for prediction in predictions)
        kept = [*done, *again, update_with_measurement(predictions, self.automaton, sample, backward)]
        return concatenate(kept, self.layout.unknowns), single_mode

    def _run_fused_steps(self, boxes: Boxes, seen: StepRows, backward: bool, guards_checked: bool) -> tuple[list[Boxes], Boxes]:
        """What compiled steps leave of the boxes, and the boxes that need a closer look."""
        done, left = [], []
        for mode, own in boxes.by_mode():
            fused = self.fused_steps[mode]
            if fused is None:
                left.append(own)
                continue
            (lo, hi), status = fused.run(own.lo, own.hi, seen, backward, guards_checked)
            alive = status == BoxStatus.ALIVE
            done.append(Boxes(lo, hi, own.mode) if alive.all() else Boxes(lo[:, alive], hi[:, alive], own.mode[alive]))
            left.append(own.select(status == BoxStatus.UNDECIDED))
        return done, concatenate(left, self.layout.unknowns)

    def _step_rows(self, step: IntervalStep) -> np.ndarray:
        """(2, rows) what a step says of the rows behind the unknowns."""
        nothing = np.zeros((self.layout.unknowns, 1))
        return np.array(stack_rows(self.layout, nothing, nothing, step))[:, :, 0].copy()

    def predict(self, boxes: Boxes, step: IntervalStep) -> list[Prediction]:
        """All boxes in which a state can be at the end of the step."""
        return self._step_each_mode(self.jump_at_sample(boxes, step), step)

    def _step_each_mode(self, boxes: Boxes, step: IntervalStep) -> list[Prediction]:
        predictions = []
        for mode, own in boxes.by_mode():
            predictions += self._step_in_mode(mode, *stack_rows(self.layout, own.lo, own.hi, step))
        return predictions

    def jump_at_sample(self, boxes: Boxes, step: IntervalStep) -> Boxes:
        """Transitions at the sample itself, where inputs jump; chains of them are followed."""
        done, ahead = [], boxes
        for _ in range(len(self.automaton.modes) + 1):
            stay, leave = self._stay_or_leave(ahead, step)
            done.append(stay)
            ahead = leave
            if not ahead.count:
                break
        else:
            done.append(ahead)  # it may go round for ever: both sides of the border are kept
        return concatenate(done, self.layout.unknowns)

    def _stay_or_leave(self, boxes: Boxes, step: IntervalStep) -> tuple[Boxes, Boxes]:
        stay, leave = [], []
        for mode, own in boxes.by_mode():
            law = self.automaton.modes[mode]
            if not law.transitions:
                stay.append(own)
                continue
            lo, hi = stack_rows(self.layout, own.lo, own.hi, step)
            low, high = law.stays_at_start.contract(lo, hi)
            stay.append(self._boxes(low, high, mode))
            for jump in law.transitions:
                can = jump.guard_at_start.can_hold(lo, hi)
                if can.any():
                    low, high = jump.guard_at_start.contract(lo[:, can], hi[:, can])
                    leave.append(self._apply_jump(jump, low, high, jump.reset_at_start.evaluate(low, high)))
        return concatenate(stay, self.layout.unknowns), concatenate(leave, self.layout.unknowns)

    def _apply_jump(self, jump: IntervalTransition, lo: np.ndarray, hi: np.ndarray, state: Interval) -> Boxes:
        n, k = self.layout.states, self.layout.unknowns
        return Boxes(np.concatenate([state[0], lo[n:k]]), np.concatenate([state[1], hi[n:k]]),
                     np.full(lo.shape[1], jump.target)).without_empty()

    def _step_in_mode(self, mode: int, lo: np.ndarray, hi: np.ndarray) -> list[Prediction]:
        flow, law, n = self.flows[mode], self.automaton.modes[mode], self.layout.states
        lo[self.layout.enclosure_rows], hi[self.layout.enclosure_rows] = flow.enclose_step(lo, hi)
        low, high = lo.copy(), hi.copy()
        low[:n], high[:n] = flow.enclose_end(lo, hi)
        low, high = law.stays_at_end.contract(low, high)
        kept = np.all(low[:n] <= high[:n], axis=0)
        predictions = [Prediction(self._boxes(low, high, mode), flow, (lo[:, kept], hi[:, kept]))]
        for jump in law.transitions:
            met = jump.can_start(lo, hi)
            if met.any():
                low, high = self._for_any_time(jump.rows_that_start(lo[:, met], hi[:, met]), (lo[:, met], hi[:, met]))
                starts = np.all(low <= high, axis=0)
                predictions += self._step_through_jumps(mode, low[:, starts], high[:, starts]) if starts.any() else []
        return predictions

    def _for_any_time(self, contracted: Interval, rows: Interval) -> Interval:
        """What a condition at one moment says of the whole step: nothing about the states passed and the time elapsed."""
        for side, own in zip(contracted, rows, strict=True):
            gone = np.isnan(side).any(axis=0)
            side[self.layout.enclosure_rows] = own[self.layout.enclosure_rows]
            side[self.layout.elapsed_row] = own[self.layout.elapsed_row]
            side[:, gone] = np.nan
        return contracted

    def _step_through_jumps(self, mode: int, lo: np.ndarray, hi: np.ndarray) -> list[Prediction]:
        """Boxes that leave the mode within the step, for each transition that can be the last."""
        n = self.layout.states
        modes, jumps, lo, hi = self._reachable_modes(mode, lo, hi)
        enclosures = self._enclosure_in_each_mode(mode, modes, jumps, lo, hi)
        predictions = []
        for source, jump in jumps:
            low, high, start = self._rows_that_jump(jump, lo, hi, enclosures[source])
            low, high = self._flow_through(jump.target, low, high, start, enclosures[jump.target])
            low, high = self.automaton.modes[jump.target].stays_at_end.contract(*mark_empty_columns(low, high))
            if np.any(low[:n] <= high[:n]):
                predictions.append(Prediction(self._boxes(low, high, jump.target)))
        return predictions

    def _enclosure_in_each_mode(self, mode: int, modes: set[int], jumps: list[SourcedTransition], lo: np.ndarray, hi: np.ndarray
                                ) -> dict[int, Interval]:
        """Per mode, the states it can pass through: where it is entered, and where its own rate leads from there.

        Begins with what bounds all modes together; every sweep only contracts.
        """
        n, rows = self.layout.states, self.layout.enclosure_rows
        together = lo[rows], hi[rows]
        enclosures = dict.fromkeys(modes, together)
        for _ in range(len(modes)):
            for m in modes:
                none = np.full_like(together[0], np.nan)
                entry = (lo[:n], hi[:n]) if m == mode else (none, none)
                for source, jump in jumps:
                    if jump.target == m:
                        entry = hull(entry, self._rows_that_jump(jump, lo, hi, enclosures[source])[2])
                low, high = self._flow_through(m, lo.copy(), hi.copy(), entry, enclosures[m])
                enclosures[m] = low[:n], high[:n]
        return enclosures

    def _rows_that_jump(self, jump: IntervalTransition, lo: np.ndarray, hi: np.ndarray, enclosure: Interval
                        ) -> tuple[np.ndarray, np.ndarray, Interval]:
        """The rows in which a jump out of an enclosure is possible, and the states right after it."""
        low, high = lo.copy(), hi.copy()
        low[self.layout.enclosure_rows], high[self.layout.enclosure_rows] = enclosure
        low, high = jump.guard_during.contract(*mark_empty_columns(low, high))
        after = jump.reset_during.evaluate(low, high)
        return *self._for_any_time((low, high), (lo, hi)), after

    def _flow_through(self, mode: int, lo: np.ndarray, hi: np.ndarray, start: Interval, enclosure: Interval) -> Interval:
        """Rows whose states are those that a mode can lead to within the step, from `start` through `enclosure`."""
        lo[:self.layout.states], hi[:self.layout.states] = start
        lo[self.layout.enclosure_rows], hi[self.layout.enclosure_rows] = enclosure
        lo[:self.layout.states], hi[:self.layout.states] = intersect(self.flows[mode].picard.evaluate(lo, hi), enclosure)
        return lo, hi

    def _reachable_modes(self, mode: int, lo: np.ndarray, hi: np.ndarray
                         ) -> tuple[set[int], list[SourcedTransition], np.ndarray, np.ndarray]:
        """Modes and transitions that can take part in the step, and the rows with a box that bounds them all."""
        modes: set[int] = {mode}
        jumps: list[SourcedTransition] = []
        while True:
            lo, hi = self._common_enclosure(modes, jumps, lo, hi)
            found = [(m, jump) for m in sorted(modes) for jump in self.automaton.modes[m].transitions
                     if jump.guard_during.can_hold(lo, hi).any()]
            if len(found) == len(jumps):
                return modes, jumps, lo, hi
            jumps, modes = found, modes | {jump.target for _, jump in found}

    def _common_enclosure(self, modes: set[int], jumps: list[SourcedTransition], lo: np.ndarray, hi: np.ndarray) -> Interval:
        """Rows whose enclosure holds every solution of the step through these modes and jumps (Step 1 and 2)."""
        n, enclosure = self.layout.states, self.layout.enclosure_rows
        first = lo[:n].copy(), hi[:n].copy()
        rows = np.array([lo, hi])

        def image(box: Interval) -> Interval:
            rows[0, enclosure], rows[1, enclosure] = box
            start = first
            for _, jump in jumps:  # a state that goes through the jump unchanged goes on from where it began
                anew = jump.reset_during.evaluate(*jump.guard_during.contract(rows[0], rows[1]))
                low, high = (np.where(jump.resets_row, side, np.nan) for side in anew)
                start = hull(start, (low, high))
            rows[0, :n], rows[1, :n] = start
            ends = start
            for m in modes:
                ends = hull(ends, self.flows[m].picard.evaluate(rows[0], rows[1]))
            return ends

        box = find_invariant_box(image, first, strictly=not all(self.flows[m].smoothness.everywhere for m in modes))
        rows[0, :n], rows[1, :n] = first
        rows[0, enclosure], rows[1, enclosure] = box
        return rows[0], rows[1]

    def _boxes(self, lo: np.ndarray, hi: np.ndarray, mode: int) -> Boxes:
        k = self.layout.unknowns
        return Boxes(lo[:k], hi[:k], np.full(lo.shape[1], mode)).without_empty()


def mark_empty_columns(lo: np.ndarray, hi: np.ndarray) -> Interval:
    """A column with one empty side is empty throughout."""
    gone = ~np.all(lo <= hi, axis=0)
    lo[:, gone] = np.nan
    hi[:, gone] = np.nan
    return lo, hi


@dataclass(frozen=True, eq=False)
class RelaxedStep:
    """The q-relaxed intersection: a step with at most `max_outliers` samples that are wrong.

    Each box remembers how many samples it has called outliers. At every sample it goes on as the measurement leaves it; and,
    if one more is allowed and it can lie outside of the measurement, also untouched, with one outlier more on its account.
    `Boxes.mode` counts modes * outliers + mode, so that none are merged.
    """

    step: HybridStep
    max_outliers: int

    @property
    def automaton(self) -> IntervalAutomaton:
        return self.step.automaton

    @property
    def layout(self) -> VariableLayout:
        return self.step.layout

    @property
    def guarantee(self) -> Guarantee:
        return self.step.guarantee

    @property
    def _modes(self) -> int:
        return len(self.automaton.modes)

    def start(self, boxes: Boxes, step: IntervalStep) -> Boxes:
        """The first sample bounds the initial state, and is never wrong."""
        return self.step.start(boxes, step)

    def active_modes(self, boxes: Boxes) -> np.ndarray:
        return self.step.active_modes(self._without_count(boxes))

    def influence(self, boxes: Boxes, step: IntervalStep) -> np.ndarray:
        return self.step.influence(self._without_count(boxes), step)

    def advance(self, boxes: Boxes, step: IntervalStep, sample: BoundedSample, backward: bool) -> tuple[Boxes, bool]:
        done, single_mode = [], True
        nothing = replace(sample, low=np.full_like(sample.low, -np.inf), high=np.full_like(sample.high, np.inf))
        for outliers in np.unique(boxes.mode // self._modes):
            own = self._without_count(boxes.select(boxes.mode // self._modes == outliers))
            left, alone = self.step.advance(own, step, sample, backward)
            single_mode &= alone
            done.append(self._with_count(left, outliers))
            if outliers < self.max_outliers and not sample.empty:
                untouched, alone = self.step.advance(own, step, nothing, backward)
                single_mode &= alone
                done.append(self._with_count(untouched.select(~self._certainly_inside(untouched, sample)), outliers + 1))
        return concatenate(done, self.layout.unknowns), single_mode

    def _certainly_inside(self, boxes: Boxes, sample: BoundedSample) -> np.ndarray:
        """(boxes,) true where every point fits the measurement, which then is not wrong."""
        low, high = self.automaton.output.evaluate(*stack_rows(self.layout, boxes.lo, boxes.hi, sample.step))
        return np.all((low >= sample.low[:, None]) & (high <= sample.high[:, None]), axis=0)

    def _without_count(self, boxes: Boxes) -> Boxes:
        return replace(boxes, mode=boxes.mode % self._modes)

    def _with_count(self, boxes: Boxes, outliers: int) -> Boxes:
        return replace(boxes, mode=boxes.mode + self._modes * int(outliers))
