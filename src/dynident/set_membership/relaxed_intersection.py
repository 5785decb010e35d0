"""q-relaxed intersection: what is left of the boxes if some samples may be outliers?

Each box remembers how many samples it has called outliers. At every sample it goes on as the measurement leaves it; and,
if one more is allowed and it can lie outside of the measurement, also untouched, with one outlier more on its account.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dynident.set_membership.flows.boxes import Boxes, IntervalStep, concatenate, stack_rows
from dynident.set_membership.flows.hybrid_step import HybridStep
from dynident.set_membership.flows.interval_automaton import IntervalAutomaton, VariableLayout
from dynident.set_membership.flows.measurement_update import BoundedSample
from dynident.set_membership.intervals import Guarantee


@dataclass(frozen=True, eq=False)
class RelaxedStep:
    """A step with at most `max_outliers` outliers; `Boxes.mode` counts modes * outliers + mode, so none are merged."""

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
