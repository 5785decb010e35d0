"""Preparation: what each step of `prepare.py` does to a record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dynident.errors import ProblemError, did_you_mean
from dynident.problem.experiment import Experiment
from dynident.problem.noise import Gaussian, Noise, size_of
from dynident.problem.output_filter import OutputFilter, noise_gain, reach, sample_time_of, spacing
from dynident.tolerances import EVEN_SAMPLING, WHOLE_STEPS

BRIDGED = 1.5  # typical steps: what lies in a longer gap between two known samples is missing after resampling, too


def _crop(record: Experiment, begin: Any, end: Any) -> Experiment:
    _numbers(begin=begin, end=end)
    return record.window(record.time[0] if begin is None else begin, record.time[-1] if end is None else end)


def _thin(record: Experiment, every: Any) -> Experiment:
    if isinstance(every, bool) or not isinstance(every, (int, np.integer)) or every < 1:
        raise ProblemError(f"every = {every!r} must be a whole number from 1 on.")
    return _thinned(record, list(record.outputs), int(every))


def _thinned(record: Experiment, names: Sequence[str], every: int) -> Experiment:
    """Every n-th sample that is there; rows that then hold nothing go, where the model needs none of them."""
    outputs = dict(record.outputs)
    for name in names:
        kept = np.flatnonzero(np.isfinite(outputs[name]))[::every]
        column = np.full(record.samples, np.nan)
        column[kept] = outputs[name][kept]
        outputs[name] = column
    thinned = replace(record, outputs=outputs)
    if record.filters:  # the model's output goes through the filter on all samples
        return thinned
    needed = np.zeros(record.samples, dtype=bool)
    needed[[0, -1]] = bool(record.inputs)  # an input says how long the record is
    for column in outputs.values():
        needed |= np.isfinite(column)
    for name, column in record.inputs.items():
        needed |= True if record.hold[name] == "linear" else np.append(True, np.diff(column) != 0)
    return thinned.rows(needed)


def _resample(record: Experiment, sample_time: Any) -> Experiment:
    _numbers(sample_time=sample_time)
    typical = float(np.median(np.diff(record.time))) if record.samples > 1 else 0.0
    if not sample_time > 0 or record.samples < 2:
        raise ProblemError("the sample time must be positive, and the record longer than one sample.")
    if sample_time < typical * (1 - WHOLE_STEPS):
        raise ProblemError(f"the record's samples are {typical:.6g} apart; between them is nothing measured, and made-up "
                           "samples would count as measured ones. Give that or more.")
    steps = int(np.floor((record.time[-1] - record.time[0]) / sample_time * (1 + 1e-12) + 1e-9))
    time = record.time[0] + sample_time * np.arange(steps + 1)
    sized = [name for name, noise in record.noise.items() if isinstance(noise, Gaussian) and np.ndim(noise.std or 0)]
    if sized:
        raise ProblemError(f"the size of the errors of '{sized[0]}' is given per sample. Give one number.")
    outputs = {name: _along_lines(record.time, column, time, BRIDGED * max(typical, sample_time))
               for name, column in record.outputs.items()}
    inputs = {name: np.interp(time, record.time, column) if record.hold[name] == "linear"
              else _means(record.time, column, time, sample_time) for name, column in record.inputs.items()}
    start = None if record.start == record.time[0] else record.start
    return replace(record, time=time, inputs=inputs, outputs=outputs, start=start,
                   notes=(*record.notes, f"the record was brought to samples every {sample_time:.6g}."))


def _along_lines(time: np.ndarray, values: np.ndarray, wanted: np.ndarray, longest: float) -> np.ndarray:
    """Straight lines between known samples; NaN in gaps that are longer than that, and beyond the ends."""
    known = np.flatnonzero(np.isfinite(values))
    if not known.size:
        return np.full(wanted.size, np.nan)
    found = np.interp(wanted, time[known], values[known], left=np.nan, right=np.nan)
    after = np.clip(np.searchsorted(time[known], wanted, side="left"), 0, known.size - 1)
    before = np.clip(np.searchsorted(time[known], wanted, side="right") - 1, 0, known.size - 1)
    found[time[known][after] - time[known][before] > longest] = np.nan
    return np.asarray(found)


def _means(time: np.ndarray, values: np.ndarray, wanted: np.ndarray, sample_time: float) -> np.ndarray:
    """The mean of a held input over each new interval, so that no half sample of delay comes in."""
    area = np.concatenate([[0.0], np.cumsum(values[:-1] * np.diff(time))])
    ends = np.minimum(wanted + sample_time, time[-1])

    def integral(at: np.ndarray) -> np.ndarray:
        return np.asarray(np.interp(at, time, area))

    lengths = ends - wanted
    whole = lengths > 0
    found = np.full(wanted.size, values[-1], dtype=float)
    found[whole] = (integral(ends[whole]) - integral(wanted[whole])) / lengths[whole]
    return found


def _shift(record: Experiment, signal: Any, by: Any) -> Experiment:
    _numbers(by=by)
    _known(record, signal, [*record.outputs, *record.inputs])
    if record.samples < 2 or by == 0:
        return record
    steps = np.diff(record.time)
    whole = by / float(np.median(steps))
    even = np.all(np.abs(steps - np.median(steps)) <= EVEN_SAMPLING * abs(record.time[-1] - record.time[0]))
    if even and abs(whole - round(whole)) <= WHOLE_STEPS and signal in record.outputs:
        return _rolled(record, signal, round(whole))
    return _on_both_clocks(record, signal, float(by))


def _rolled(record: Experiment, signal: str, samples: int) -> Experiment:
    """Moved by whole samples; what leaves the record goes, what is not known is missing."""
    column = np.full(record.samples, np.nan)
    values = record.outputs[signal]
    if abs(samples) >= record.samples:
        raise ProblemError("the shift is longer than the record.")
    column[max(samples, 0):record.samples + min(samples, 0)] = values[max(-samples, 0):record.samples - max(samples, 0)]
    if signal in record.filters:  # at its ends the filter knew another record than the model's will
        ends = reach(record.filters[signal], sample_time_of(record.time, "a filter"), record.samples)
        first, last = max(samples, 0), record.samples + min(samples, 0)
        column[first:first + ends] = column[max(last - ends, 0):last] = np.nan
    return replace(record, outputs={**record.outputs, signal: column})


def _on_both_clocks(record: Experiment, signal: str, by: float) -> Experiment:
    """On the samples of the others and those of the moved one; inputs go on as they did, outputs are missing between."""
    if record.filters:
        step = float(np.median(np.diff(record.time)))
        raise ProblemError(f"comes after a filter, and is no whole number of samples. Say {round(by / step) * step:.6g}.")
    if any(np.ndim(size_of(noise)) for noise in record.noise.values()):
        raise ProblemError("sizes of errors are given per sample. Give one number.")
    moved = record.time + by
    time = np.unique(np.concatenate([record.time, moved]))
    close = np.append(False, np.diff(time) < WHOLE_STEPS * float(np.median(np.diff(record.time))))
    time = time[~close]
    if signal in record.inputs:  # known only within its own samples; before and after, nothing can be simulated
        time = time[(time >= max(record.time[0], moved[0])) & (time <= min(record.time[-1], moved[-1]))]
    else:
        time = time[(time >= record.time[0]) & (time <= record.time[-1])] if record.inputs else time
    if time.size < 2:
        raise ProblemError("the shift is longer than the record.")

    def nearest(clock: np.ndarray, values: np.ndarray) -> np.ndarray:
        at = np.clip(np.searchsorted(time, clock), 1, time.size - 1)
        at = np.where(np.abs(time[at] - clock) <= np.abs(time[at - 1] - clock), at, at - 1)
        hit = np.abs(time[at] - clock) <= 2 * WHOLE_STEPS * float(np.median(np.diff(record.time)))
        column = np.full(time.size, np.nan)
        column[at[hit]] = values[hit]
        return column

    def held(clock: np.ndarray, values: np.ndarray, name: str) -> np.ndarray:
        if record.hold[name] == "linear":
            return np.asarray(np.interp(time, clock, values))
        slack = WHOLE_STEPS * float(np.median(np.diff(record.time)))
        return np.asarray(values[np.clip(np.searchsorted(clock, time + slack, side="right") - 1, 0, clock.size - 1)])

    clocks = {name: moved if name == signal else record.time for name in (*record.outputs, *record.inputs)}
    begins = time[0] == record.time[0]
    return replace(record, time=time, outputs={name: nearest(clocks[name], column) for name, column in record.outputs.items()},
                   inputs={name: held(clocks[name], column, name) for name, column in record.inputs.items()},
                   start=None if not begins or record.start == record.time[0] else record.start,
                   initial=record.initial if begins or time[0] < record.time[0] else {})


def _filter(record: Experiment, signals: Any, made: OutputFilter) -> Experiment:
    """Filter outputs, and say so: the model's are filtered alike."""
    names = list(record.outputs) if signals is None else [signals] if isinstance(signals, str) else list(signals)
    for name in names:
        _known(record, name, [*record.outputs, *(record.inputs if made.kind == "lowpass" else ())])
    if faults := made.faults():
        raise ProblemError(faults)
    step = sample_time_of(record.time, made.kind)
    if made.kind == "lowpass" and made.cutoff * step >= 0.5:
        raise ProblemError(f"the cut-off {made.cutoff:g} is not below half the sampling rate, {0.5 / step:g}; there is "
                           "nothing to filter.")
    outputs, inputs = dict(record.outputs), dict(record.inputs)
    filters, noise = dict(record.filters), dict(record.noise)
    for name in names:
        if name in inputs:
            inputs[name] = made.apply(np.array(inputs[name]), step)
            continue
        missing = np.flatnonzero(~np.isfinite(outputs[name]))
        if missing.size:
            raise ProblemError(f"'{name}' is missing at t = {record.time[missing[0]]:.10g}"
                               f"{f' and {missing.size - 1} more samples' if missing.size > 1 else ''}; a filter needs all of "
                               "them. Crop the record, or filter before thinning.")
        gain = noise_gain([made], step, record.samples)
        noise[name] = _scaled(noise[name], gain, name)
        outputs[name] = made.apply(np.array(outputs[name]), step)
        filters[name] = (*filters.get(name, ()), made)
    units = {name: unit for name, unit in record.units.items() if not (made.kind == "differentiate" and name in names)}
    return replace(record, outputs=outputs, inputs=inputs, filters=filters, noise=noise, units=units)


def _scaled(noise: Noise, gain: float, name: str) -> Noise:
    """The noise after a filter that multiplies its standard deviation."""
    one_number = isinstance(noise, Gaussian) and isinstance(noise.std, (int, float, np.number, type(None)))
    if not isinstance(noise, Gaussian) or noise.bound is not None or not one_number:
        raise ProblemError(f"the errors of '{name}' are {noise!r}; what a filter makes of them is known for Gaussian(std) and "
                           "Gaussian() alone.")
    return Gaussian(None if noise.std is None else float(noise.std) * gain)  # type: ignore[arg-type]


def _lowpass(record: Experiment, cutoff: Any, signals: Any, order: Any) -> Experiment:
    _numbers(cutoff=cutoff, order=order)
    return _filter(record, signals, OutputFilter("lowpass", float(cutoff), int(order)))


def _detrend(record: Experiment, signals: Any, degree: Any) -> Experiment:
    _numbers(degree=degree)
    return _filter(record, signals, OutputFilter("detrend", order=int(degree)))


def _differentiate(record: Experiment, signal: Any, into: Any) -> Experiment:
    _known(record, signal, [*record.outputs, *record.inputs])
    if signal in record.outputs:
        if into is not None:
            raise ProblemError(f"'{signal}' is an output and becomes its derivative, as that of the model does; leave "
                               "into= out.")
        return _filter(record, signal, OutputFilter("differentiate"))
    if not isinstance(into, str) or not into or into in record.inputs:
        raise ProblemError(f"'{signal}' is an input; say what its derivative is to be called, with into=\"...\".")
    if record.samples < 2:
        raise ProblemError("needs more than one sample.")
    slope = np.gradient(np.asarray(record.inputs[signal]), record.time, edge_order=2 if record.samples > 2 else 1)
    return replace(record, inputs={**record.inputs, into: slope}, hold={**record.hold, into: record.hold[signal]})


DOES: dict[str, Callable[..., Experiment]] = {
    "crop": _crop, "thin": _thin, "resample": _resample, "shift": _shift, "lowpass": _lowpass, "detrend": _detrend,
    "differentiate": _differentiate}


def without_shared_noise(record: Experiment) -> Experiment:
    """Thin filtered outputs until their samples do not share noise, where they do, and say so."""
    notes = []
    for name, chain in record.filters.items():
        known = np.flatnonzero(np.isfinite(record.outputs[name]))
        needed = spacing(chain, sample_time_of(record.time, "a filter"), record.samples)
        apart = int(np.min(np.diff(known))) if known.size > 1 else needed
        every = -(-needed // apart)
        said = ", ".join(each.kind + (f" {each.cutoff:g}" if each.kind == "lowpass" else "") for each in chain)
        if every > 1:
            record = _thinned(record, [name], every)
            notes.append(f"'{name}' was filtered ({said}): every {_ordinal(apart * every)} sample is kept, since those between "
                         "share their noise.")
    return replace(record, notes=(*record.notes, *notes)) if notes else record


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _numbers(**given: Any) -> None:
    for name, value in given.items():
        number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
        if value is not None and not (number and np.isfinite(value)):
            raise ProblemError(f"{name} = {value!r} must be a number.")


def _known(record: Experiment, signal: Any, names: Sequence[str]) -> None:
    if signal not in names:
        raise ProblemError(f"the record has no signal '{signal}' for this.{did_you_mean(str(signal), list(names))}")
