"""Measurement update: what a measurement leaves of predicted boxes, by intersection and, backward, by contraction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from dynident.set_membership.flows.boxes import Boxes, IntervalStep, concatenate, stack_rows
from dynident.set_membership.flows.interval_automaton import IntervalAutomaton
from dynident.set_membership.flows.mode_flow import ModeFlow
from dynident.set_membership.intervals.arithmetic import Interval


@dataclass(frozen=True, eq=False)
class Prediction:
    """Boxes after a step, with the rows they came from where one flow leads from these to those."""

    ends: Boxes
    flow: ModeFlow | None = None
    rows: Interval | None = None


@dataclass(frozen=True, eq=False)
class BoundedSample:
    """What was measured at the end of a step."""

    step: IntervalStep  # that begins here: time and inputs
    low: np.ndarray  # (outputs,); -inf where nothing was measured
    high: np.ndarray

    @property
    def empty(self) -> bool:
        return not np.isfinite(self.low).any()


def update_with_measurement(predictions: Iterable[Prediction], automaton: IntervalAutomaton, sample: BoundedSample,
                            backward: bool) -> Boxes:
    """Only what a sample leaves; `backward`, also of the parameters."""
    done = []
    for prediction in predictions:
        if not prediction.ends.count:
            continue
        if not sample.empty:
            prediction = intersect_measurement(prediction, automaton, sample)
            prediction = contract_backward(prediction, automaton.layout.states) if backward else prediction
        done.append(prediction.ends)
    return concatenate(done, automaton.layout.unknowns)


def intersect_measurement(prediction: Prediction, automaton: IntervalAutomaton, sample: BoundedSample) -> Prediction:
    """The prediction without what the outputs exclude."""
    unknowns = automaton.layout.unknowns
    rows = stack_rows(automaton.layout, prediction.ends.lo, prediction.ends.hi, sample.step)
    lo, hi = automaton.output.contract(*rows, sample.low[:, None], sample.high[:, None])
    fits = np.all(lo[:unknowns] <= hi[:unknowns], axis=0)
    ends = Boxes(lo[:unknowns, fits], hi[:unknowns, fits], prediction.ends.mode[fits])
    return replace(prediction, ends=ends, rows=None if prediction.rows is None else (prediction.rows[0][:, fits],
                                                                                     prediction.rows[1][:, fits]))


def contract_backward(prediction: Prediction, states: int) -> Prediction:
    """Backward: no parameters or ends without a way from where the boxes came from to where they are."""
    if prediction.flow is None or prediction.rows is None or prediction.flow.at_rest or not prediction.ends.count:
        return prediction
    n, k = states, prediction.ends.lo.shape[0]
    lo, hi = prediction.rows[0].copy(), prediction.rows[1].copy()
    lo[n:k], hi[n:k] = prediction.ends.lo[n:], prediction.ends.hi[n:]
    (low, high), end = prediction.flow.contract(lo, hi, (prediction.ends.lo[:n], prediction.ends.hi[:n]))
    fits = np.all(low <= high, axis=0) & np.all(end[0] <= end[1], axis=0)
    ends = replace(prediction.ends, lo=np.concatenate([end[0], low[n:]]), hi=np.concatenate([end[1], high[n:]]))
    return Prediction(ends.select(fits))
