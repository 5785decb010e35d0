"""Hybrid step: where can every box be after a step, whatever modes it passes through?

Boxes are split at guards, so that each has one mode: those that cannot meet a transition take the flow of their mode;
for the others every transition that can happen opens a box of its own. After the last transition of a step only the
target's rate acts, so x lies in reset(B and guard) + [0, h] f(B), B bounding all modes that can take part.
"""

from __future__ import annotations

import numpy as np

from dynident.set_membership.flows.boxes import Boxes, Step, gathered, rows_of
from dynident.set_membership.flows.interval_automaton import Automaton, Jump
from dynident.set_membership.flows.measurement_update import Piece, Sample, measured
from dynident.set_membership.flows.mode_flow import FlowChoice, ModeFlow, mapped_into_itself
from dynident.set_membership.intervals import Rigour
from dynident.set_membership.intervals.arithmetic import Ends, join, meet
from dynident.set_membership.intervals.fused_step import Fate, Programs, Seen, Stride, stride_of


class HybridStep:
    """One step of a model over boxes."""

    def __init__(self, automaton: Automaton, choice: FlowChoice, compiled: bool = True):
        self.automaton, self.layout = automaton, automaton.layout
        self.flows = tuple(ModeFlow(automaton.layout, law.rate, choice, automaton.proved) for law in automaton.modes)
        self.strides = tuple(self._stride(mode) if compiled and choice.form == "monotone" else None
                             for mode in range(len(automaton.modes)))

    def _stride(self, mode: int) -> Stride | None:
        law, flow, layout = self.automaton.modes[mode], self.flows[mode], self.layout
        programs = Programs(law.goes_on_at_start.kernel, flow.picard, law.goes_on_meanwhile.kernel,
                            law.rises.kernel, flow.smooth.kernel, flow.jacobian, flow.remainder, flow.whole,
                            flow.closed, law.goes_on_at_end.kernel, self.automaton.output, flow.polynomial)
        return stride_of(programs, layout.states, layout.parameters, layout.rows, layout.passed_rows.start, flow.still)

    @property
    def rigour(self) -> Rigour:
        used = {r for flow in self.flows for r in flow.rigours} | {self.automaton.output.rigour}
        return Rigour.MARGIN if Rigour.MARGIN in used else Rigour.PROVED

    def active(self, boxes: Boxes) -> np.ndarray:
        """(boxes,) bit masks of the modes in which a box may be: here one each."""
        return np.left_shift(1, boxes.mode)

    def influence(self, boxes: Boxes, step: Step) -> np.ndarray:
        """(rows, boxes) how far the width of each row spreads the states in the step, relative to how far they are."""
        found = np.zeros_like(boxes.lo)
        low, high = boxes.hull()
        for mode in np.flatnonzero(np.bincount(boxes.mode)):
            own = boxes.mode == mode
            rows = rows_of(self.layout, boxes.lo[:, own], boxes.hi[:, own], step)
            found[:, own] = self.flows[mode].influence(*rows, (high - low)[:self.layout.states])
        return found

    def begin(self, boxes: Boxes, step: Step) -> Boxes:
        """The boxes in every mode in which they may begin."""
        parts = []
        for mode, law in enumerate(self.automaton.modes):
            lo, hi = rows_of(self.layout, boxes.lo, boxes.hi, step)
            can = law.not_earlier.possible(lo, hi)
            parts.append(self._boxes(*law.may_begin.narrowed(lo[:, can], hi[:, can]), mode))
        return gathered(parts, self.layout.unknowns)

    def advance(self, boxes: Boxes, step: Step, sample: Sample, backward: bool) -> tuple[Boxes, bool]:
        """What is left of the boxes at the next sample, and whether each stayed in its mode for certain."""
        seen = Seen(self._given(step), self._given(sample.step),
                    None if sample.empty else np.array([sample.low, sample.high]))
        done, left = self._strides(boxes, seen, backward, begun=False)
        again, left = self._strides(self.at_once(left, step), seen, backward, begun=True)
        pieces = self._from_each(left, step)
        steady = all(piece.flow is not None or not piece.ends.count for piece in pieces)
        kept = [*done, *again, measured(pieces, self.automaton, sample, backward)]
        return gathered(kept, self.layout.unknowns), steady

    def _strides(self, boxes: Boxes, seen: Seen, backward: bool, begun: bool) -> tuple[list[Boxes], Boxes]:
        """What compiled strides leave of the boxes, and the boxes that need a closer look."""
        done, left = [], []
        for mode in np.flatnonzero(np.bincount(boxes.mode)):
            own, stride = boxes.in_mode(int(mode)), self.strides[mode]
            if stride is None:
                left.append(own)
                continue
            (lo, hi), fate = stride.run(own.lo, own.hi, seen, backward, begun)
            alive = fate == Fate.ALIVE
            done.append(Boxes(lo, hi, own.mode) if alive.all() else Boxes(lo[:, alive], hi[:, alive], own.mode[alive]))
            left.append(own.where(fate == Fate.OPEN))
        return done, gathered(left, self.layout.unknowns)

    def _given(self, step: Step) -> np.ndarray:
        """(2, rows) what a step says of the rows behind the unknowns."""
        nothing = np.zeros((self.layout.unknowns, 1))
        return np.array(rows_of(self.layout, nothing, nothing, step))[:, :, 0].copy()

    def predict(self, boxes: Boxes, step: Step) -> list[Piece]:
        """All boxes in which a state can be at the end of the step."""
        return self._from_each(self.at_once(boxes, step), step)

    def _from_each(self, boxes: Boxes, step: Step) -> list[Piece]:
        pieces = []
        for mode in np.flatnonzero(np.bincount(boxes.mode)):
            own = boxes.in_mode(int(mode))
            pieces += self._from(int(mode), *rows_of(self.layout, own.lo, own.hi, step))
        return pieces

    def at_once(self, boxes: Boxes, step: Step) -> Boxes:
        """Transitions at the sample itself, where inputs jump; chains of them are followed."""
        done, ahead = [], boxes
        for _ in range(len(self.automaton.modes) + 1):
            stay, leave = self._split(ahead, step)
            done.append(stay)
            ahead = leave
            if not ahead.count:
                break
        else:
            done.append(ahead)  # it may go round for ever: both sides of the border are kept
        return gathered(done, self.layout.unknowns)

    def _split(self, boxes: Boxes, step: Step) -> tuple[Boxes, Boxes]:
        stay, leave = [], []
        for mode in np.flatnonzero(np.bincount(boxes.mode)):
            law = self.automaton.modes[mode]
            own = boxes.in_mode(int(mode))
            if not law.jumps:
                stay.append(own)
                continue
            lo, hi = rows_of(self.layout, own.lo, own.hi, step)
            low, high = law.goes_on_at_start.narrowed(lo, hi)
            stay.append(self._boxes(low, high, int(mode)))
            for jump in law.jumps:
                can = jump.at_start.possible(lo, hi)
                if can.any():
                    low, high = jump.at_start.narrowed(lo[:, can], hi[:, can])
                    leave.append(self._jumped(jump, low, high, jump.reset_at_start.evaluate(low, high)))
        return gathered(stay, self.layout.unknowns), gathered(leave, self.layout.unknowns)

    def _jumped(self, jump: Jump, lo: np.ndarray, hi: np.ndarray, state: Ends) -> Boxes:
        n, k = self.layout.states, self.layout.unknowns
        return Boxes(np.concatenate([state[0], lo[n:k]]), np.concatenate([state[1], hi[n:k]]),
                     np.full(lo.shape[1], jump.target)).without_empty()

    def _from(self, mode: int, lo: np.ndarray, hi: np.ndarray) -> list[Piece]:
        flow, law, n = self.flows[mode], self.automaton.modes[mode], self.layout.states
        lo[self.layout.passed_rows], hi[self.layout.passed_rows] = flow.bound(lo, hi)
        low, high = lo.copy(), hi.copy()
        low[:n], high[:n] = flow.end(lo, hi)
        low, high = law.goes_on_at_end.narrowed(low, high)
        kept = np.all(low[:n] <= high[:n], axis=0)
        pieces = [Piece(self._boxes(low, high, mode), flow, (lo[:, kept], hi[:, kept]))]
        for jump in law.jumps:
            met = jump.can_begin(lo, hi)
            if met.any():
                low, high = self._for_any_moment(jump.begun(lo[:, met], hi[:, met]), (lo[:, met], hi[:, met]))
                begun = np.all(low <= high, axis=0)
                pieces += self._events(mode, low[:, begun], high[:, begun]) if begun.any() else []
        return pieces

    def _for_any_moment(self, narrowed: Ends, rows: Ends) -> Ends:
        """What a condition at one moment says of the whole step: nothing about the states passed and the time elapsed."""
        for side, own in zip(narrowed, rows, strict=True):
            gone = np.isnan(side).any(axis=0)
            side[self.layout.passed_rows] = own[self.layout.passed_rows]
            side[self.layout.elapsed_row] = own[self.layout.elapsed_row]
            side[:, gone] = np.nan
        return narrowed

    def _events(self, mode: int, lo: np.ndarray, hi: np.ndarray) -> list[Piece]:
        """Boxes that leave the mode within the step, for each transition that can be the last."""
        n = self.layout.states
        modes, jumps, lo, hi = self._reached(mode, lo, hi)
        passed = self._passed_in(mode, modes, jumps, lo, hi)
        pieces = []
        for source, jump in jumps:
            low, high, start = self._taken(jump, lo, hi, passed[source])
            low, high = self._ahead(jump.target, low, high, start, passed[jump.target])
            low, high = self.automaton.modes[jump.target].goes_on_at_end.narrowed(*emptied_rows(low, high))
            if np.any(low[:n] <= high[:n]):
                pieces.append(Piece(self._boxes(low, high, jump.target)))
        return pieces

    def _passed_in(self, mode: int, modes: set[int], jumps: list[tuple[int, Jump]], lo: np.ndarray, hi: np.ndarray
                   ) -> dict[int, Ends]:
        """Per mode, the states it can pass through: where it is entered, and where its own rate leads from there.

        Begins with what bounds all modes together; every sweep only narrows.
        """
        n, rows = self.layout.states, self.layout.passed_rows
        together = lo[rows], hi[rows]
        passed = dict.fromkeys(modes, together)
        for _ in range(len(modes)):
            for m in modes:
                none = np.full_like(together[0], np.nan)
                entry = (lo[:n], hi[:n]) if m == mode else (none, none)
                for source, jump in jumps:
                    if jump.target == m:
                        entry = join(entry, self._taken(jump, lo, hi, passed[source])[2])
                low, high = self._ahead(m, lo.copy(), hi.copy(), entry, passed[m])
                passed[m] = low[:n], high[:n]
        return passed

    def _taken(self, jump: Jump, lo: np.ndarray, hi: np.ndarray, passed: Ends) -> tuple[np.ndarray, np.ndarray, Ends]:
        """The rows in which a jump out of the passed states is possible, and the states right after it."""
        low, high = lo.copy(), hi.copy()
        low[self.layout.passed_rows], high[self.layout.passed_rows] = passed
        low, high = jump.meanwhile.narrowed(*emptied_rows(low, high))
        after = jump.reset_meanwhile.evaluate(low, high)
        return *self._for_any_moment((low, high), (lo, hi)), after

    def _ahead(self, mode: int, lo: np.ndarray, hi: np.ndarray, start: Ends, passed: Ends) -> Ends:
        """Rows whose states are those that a mode can lead to within the step, from `start` through `passed`."""
        lo[:self.layout.states], hi[:self.layout.states] = start
        lo[self.layout.passed_rows], hi[self.layout.passed_rows] = passed
        lo[:self.layout.states], hi[:self.layout.states] = meet(self.flows[mode].picard.evaluate(lo, hi), passed)
        return lo, hi

    def _reached(self, mode: int, lo: np.ndarray, hi: np.ndarray
                 ) -> tuple[set[int], list[tuple[int, Jump]], np.ndarray, np.ndarray]:
        """Modes and transitions that can take part in the step, and the rows with a box that bounds them all."""
        modes: set[int] = {mode}
        jumps: list[tuple[int, Jump]] = []
        while True:
            lo, hi = self._bounded(modes, jumps, lo, hi)
            found = [(m, jump) for m in sorted(modes) for jump in self.automaton.modes[m].jumps
                     if jump.meanwhile.possible(lo, hi).any()]
            if len(found) == len(jumps):
                return modes, jumps, lo, hi
            jumps, modes = found, modes | {jump.target for _, jump in found}

    def _bounded(self, modes: set[int], jumps: list[tuple[int, Jump]], lo: np.ndarray, hi: np.ndarray) -> Ends:
        """Rows whose passed states hold every solution of the step through these modes and jumps (Step 1 and 2)."""
        n, passed = self.layout.states, self.layout.passed_rows
        first = lo[:n].copy(), hi[:n].copy()
        rows = np.array([lo, hi])

        def image(box: Ends) -> Ends:
            rows[0, passed], rows[1, passed] = box
            start = first
            for _, jump in jumps:  # a state that goes through the jump unchanged goes on from where it began
                anew = jump.reset_meanwhile.evaluate(*jump.meanwhile.narrowed(rows[0], rows[1]))
                low, high = (np.where(jump.set_anew, side, np.nan) for side in anew)
                start = join(start, (low, high))
            rows[0, :n], rows[1, :n] = start
            ends = start
            for m in modes:
                ends = join(ends, self.flows[m].picard.evaluate(rows[0], rows[1]))
            return ends

        box = mapped_into_itself(image, first, strictly=not all(self.flows[m].smooth.everywhere for m in modes))
        rows[0, :n], rows[1, :n] = first
        rows[0, passed], rows[1, passed] = box
        return rows[0], rows[1]

    def _boxes(self, lo: np.ndarray, hi: np.ndarray, mode: int) -> Boxes:
        k = self.layout.unknowns
        return Boxes(lo[:k], hi[:k], np.full(lo.shape[1], mode)).without_empty()


def emptied_rows(lo: np.ndarray, hi: np.ndarray) -> Ends:
    """A column with one empty side is empty throughout."""
    gone = ~np.all(lo <= hi, axis=0)
    lo[:, gone] = np.nan
    hi[:, gone] = np.nan
    return lo, hi
