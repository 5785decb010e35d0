"""Asked: what is wrong with the arguments of a design, all of it at once?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dynident.design.signals import Chirp, Signal
from dynident.errors import did_you_mean
from dynident.methods.options import is_whole

ROBUST = ("", "average", "worst")
PER_PERIOD = 2  # samples at the least, or a fast sine looks like a slow one


def argument_faults(inputs: Sequence[str], *, counts: Mapping[str, Any], seed: Any, robust: Any, times: Mapping[str, Any],
                    box: Any, amplitude: Any) -> list[str]:
    """Of everything that can be judged without the records."""
    faults = [f"{name} = {value!r}; give a whole number from 1 on." for name, value in counts.items()
              if not is_whole(value) or value < 1]
    if not is_whole(seed) or seed < 0:
        faults.append(f"seed = {seed!r}; give a whole number from 0 on.")
    if robust not in ROBUST:
        faults.append(f"robust = {robust!r}; use \"average\", \"worst\" or nothing.")
    return [*faults, *_time_faults(**times), *_box_faults(box), *_amplitude_faults(inputs, amplitude)]


def _time_faults(duration: Any, sample_time: Any) -> list[str]:
    faults = []
    if sample_time is not None and not _positive(sample_time):
        faults.append(f"sample_time = {sample_time!r}; give a positive number of seconds.")
    pair = isinstance(duration, tuple)
    if pair and not (len(duration) == 2 and all(map(_positive, duration)) and duration[0] <= duration[1]):
        faults.append(f"duration = {duration!r}; give the shortest and the longest time, both positive, the shorter one first.")
    if not pair and duration is not None and not _positive(duration):
        faults.append(f"duration = {duration!r}; give a positive number of seconds, or a pair of them.")
    return faults


def _box_faults(box: Any) -> list[str]:
    if not isinstance(box, Mapping):
        return [f"box = {box!r}; give a table from parameter to (low, high)."]
    return [f"box of '{name}' is {ends!r}; give two finite numbers, (low, high), the lower one first."
            for name, ends in box.items()
            if not (isinstance(ends, (tuple, list)) and len(ends) == 2 and all(map(_number, ends)) and ends[0] <= ends[1])]


def _amplitude_faults(inputs: Sequence[str], amplitude: Any) -> list[str]:
    said = amplitude if isinstance(amplitude, Mapping) else {} if amplitude is None else {"": amplitude}
    return [f"amplitude names '{name}', which is not an input.{did_you_mean(name, inputs)}" for name in said
            if name and name not in inputs] + [
        f"amplitude{f' of {name}' * bool(name)} is {value!r}; give a positive number." for name, value in said.items()
        if not _positive(value)]


def shape_faults(signals: Mapping[str, Signal], samples: int, step: float) -> list[str]:
    """Of shapes that are finer than the samples they are made of."""
    faults = [f"the signal of '{name}' has {len(signal.names)} coefficients, but a record of {(samples - 1) * step:g} s with a "
              f"sample every {step:g} s has {samples} samples. Give it fewer pieces, or sample faster (sample_time)."
              for name, signal in signals.items() if len(signal.names) > samples]
    fastest = 1 / (PER_PERIOD * step)
    faults += [f"the chirp of '{name}' reaches {signal.highest:g} Hz, but a sample every {step:g} s shows {fastest:g} Hz at "
               "the most. Lower it, or sample faster (sample_time)."
               for name, signal in signals.items() if isinstance(signal, Chirp) and signal.highest > fastest]
    if not any(signal.names for signal in signals.values()):
        faults.append("every input is given, so there is nothing to design. Give one of them a shape of di.signals.")
    return faults


def _number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and bool(np.isfinite(value))


def _positive(value: Any) -> bool:
    return _number(value) and value > 0
