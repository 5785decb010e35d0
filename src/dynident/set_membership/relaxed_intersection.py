"""Forgiving: what is left of the boxes if some samples may be wrong?

Each box remembers how many samples it has called wrong. At every sample it goes on as the measurement leaves it; and, if
it may still forgive and can lie outside of the measurement, also untouched, with one sample more on its account.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dynident.set_membership.flows.boxes import Boxes, Step, gathered, rows_of
from dynident.set_membership.flows.hybrid_step import HybridStep
from dynident.set_membership.flows.interval_automaton import Automaton, Layout
from dynident.set_membership.flows.measurement_update import Sample
from dynident.set_membership.intervals import Rigour


@dataclass(frozen=True, eq=False)
class ForgivingStep:
    """A step that forgives at most `most` samples; `Boxes.mode` counts modes * forgiven + mode, so none are merged."""

    step: HybridStep
    most: int

    @property
    def automaton(self) -> Automaton:
        return self.step.automaton

    @property
    def layout(self) -> Layout:
        return self.step.layout

    @property
    def rigour(self) -> Rigour:
        return self.step.rigour

    @property
    def _modes(self) -> int:
        return len(self.automaton.modes)

    def begin(self, boxes: Boxes, step: Step) -> Boxes:
        """The first sample bounds the initial state, and is never wrong."""
        return self.step.begin(boxes, step)

    def active(self, boxes: Boxes) -> np.ndarray:
        return self.step.active(self._plain(boxes))

    def influence(self, boxes: Boxes, step: Step) -> np.ndarray:
        return self.step.influence(self._plain(boxes), step)

    def advance(self, boxes: Boxes, step: Step, sample: Sample, backward: bool) -> tuple[Boxes, bool]:
        done, steady = [], True
        nothing = replace(sample, low=np.full_like(sample.low, -np.inf), high=np.full_like(sample.high, np.inf))
        for spent in np.unique(boxes.mode // self._modes):
            own = self._plain(boxes.where(boxes.mode // self._modes == spent))
            left, alone = self.step.advance(own, step, sample, backward)
            steady &= alone
            done.append(self._marked(left, spent))
            if spent < self.most and not sample.empty:
                untouched, alone = self.step.advance(own, step, nothing, backward)
                steady &= alone
                done.append(self._marked(untouched.where(~self._inside(untouched, sample)), spent + 1))
        return gathered(done, self.layout.unknowns), steady

    def _inside(self, boxes: Boxes, sample: Sample) -> np.ndarray:
        """(boxes,) true where every point fits the measurement, which then is not wrong."""
        low, high = self.automaton.output.evaluate(*rows_of(self.layout, boxes.lo, boxes.hi, sample.step))
        return np.all((low >= sample.low[:, None]) & (high <= sample.high[:, None]), axis=0)

    def _plain(self, boxes: Boxes) -> Boxes:
        return replace(boxes, mode=boxes.mode % self._modes)

    def _marked(self, boxes: Boxes, spent: int) -> Boxes:
        return replace(boxes, mode=boxes.mode + self._modes * int(spent))
