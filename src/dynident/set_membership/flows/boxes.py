"""Boxes: states and parameters between bounds, the time steps that carry them, and what a measurement leaves of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from dynident.set_membership.flows.interval_automaton import IntervalAutomaton, VariableLayout
from dynident.set_membership.flows.mode_flow import ModeFlow
from dynident.set_membership.intervals.arithmetic import Interval, add, mul, round_down, round_up


@dataclass(frozen=True, eq=False)
class Boxes:
    """`lo` and `hi` have a row per state and per parameter and a column per box."""

    lo: np.ndarray  # (states + parameters, boxes)
    hi: np.ndarray
    mode: np.ndarray  # (boxes,) int

    @property
    def count(self) -> int:
        return self.lo.shape[1]

    def select(self, chosen: np.ndarray) -> Boxes:
        return Boxes(self.lo[:, chosen], self.hi[:, chosen], self.mode[chosen])

    def by_mode(self) -> Iterator[tuple[int, Boxes]]:
        """The boxes of each mode that there is one in."""
        for mode in np.flatnonzero(np.bincount(self.mode)):
            own = self.mode == mode
            yield int(mode), self if own.all() else self.select(own)

    def without_empty(self) -> Boxes:
        return self.select(np.all(self.lo <= self.hi, axis=0))

    def with_ends(self, lo: np.ndarray, hi: np.ndarray) -> Boxes:
        return replace(self, lo=lo, hi=hi)

    def hull(self) -> Interval:
        """The smallest box that holds all; NaN where there is none."""
        if not self.count:
            return (np.full(self.lo.shape[0], np.nan),) * 2
        return self.lo.min(axis=1), self.hi.max(axis=1)


def concatenate(parts: Iterable[Boxes], rows: int) -> Boxes:
    """All boxes in one list."""
    listed = list(parts)
    if not listed:
        return Boxes(np.zeros((rows, 0)), np.zeros((rows, 0)), np.zeros(0, int))
    return Boxes(np.concatenate([p.lo for p in listed], axis=1), np.concatenate([p.hi for p in listed], axis=1),
                 np.concatenate([p.mode for p in listed]))


@dataclass(frozen=True, eq=False)
class IntervalStep:
    """From one sample to the next: when, how long, and what the inputs do; numbers as the doubles around them."""

    time: Interval  # scalars
    length: Interval  # scalars: the difference of two times is not a double
    inputs: Interval  # (inputs,) at the start
    input_rates: Interval  # (inputs,)

    @classmethod
    def from_samples(cls, begin: float, end: float, inputs: np.ndarray, next_inputs: np.ndarray, linear: np.ndarray,
                     error: np.ndarray) -> IntervalStep:
        """`linear` says which inputs move on a line; `error` bounds their error, constant within the step."""
        exact = np.float64(end) - np.float64(begin)
        length = (exact, exact) if begin + exact == end and end - exact == begin else (round_down(exact), round_up(exact))
        low, high = (inputs, inputs) if not error.any() else (round_down(inputs - error), round_up(inputs + error))
        rise = np.where(linear, next_inputs - inputs, 0.0)
        slope = rise / exact
        wide = 4 * np.spacing(np.abs(slope)) * (slope != 0)  # three roundings, of the rise, the length, the ratio
        now = np.float64(begin)
        return cls((now, now), (np.asarray(length[0]), np.asarray(length[1])), (low, high),
                   (slope - wide, slope + wide))

    def between(self, begin: float, end: float) -> IntervalStep:
        """The part of the step, or beyond its end with inputs that go on, from one instant to another."""
        now = np.float64(begin)
        gone = add((now, now), (-self.time[1], -self.time[0]))
        length = add((np.float64(end), np.float64(end)), (-now, -now))
        return IntervalStep((now, now), (np.asarray(length[0]), np.asarray(length[1])),
                            add(self.inputs, mul(self.input_rates, gone)), self.input_rates)

    def subdivide(self, count: int) -> list[IntervalStep]:
        """The step in equal parts, to the last bit between bounds."""
        if count == 1:
            return [self]
        length = round_down(self.length[0] / count), round_up(self.length[1] / count)
        found = []
        for k in range(count):
            gone = mul((np.float64(k), np.float64(k)), length)
            inputs = add(self.inputs, mul(self.input_rates, gone))
            found.append(IntervalStep(add(self.time, gone), length, inputs, self.input_rates))
        return found


def stack_rows(layout: VariableLayout, lo: np.ndarray, hi: np.ndarray, step: IntervalStep) -> Interval:
    """The rows that kernels take: states and parameters of the boxes, inputs and time of the step."""
    ends = np.zeros((2, layout.rows, lo.shape[1]))
    ends[0, :layout.unknowns], ends[1, :layout.unknowns] = lo, hi
    for side in (0, 1):
        ends[side, layout.input_rows] = step.inputs[side][:, None]
        ends[side, layout.input_rate_rows] = step.input_rates[side][:, None]
        ends[side, layout.time_row] = step.time[side]
        ends[side, layout.step_row] = step.length[side]
    ends[1, layout.elapsed_row] = step.length[1]
    ends[0, layout.enclosure_rows], ends[1, layout.enclosure_rows] = lo[:layout.states], hi[:layout.states]
    return ends[0], ends[1]


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
