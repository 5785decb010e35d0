"""Own clocks: signals that bring their own sample times (MF4, ROS bags, TDMS) become one record.

The record has a sample wherever one of its signals has one. An output is missing between its own samples; an input goes on as
it is held, so that nothing is interpolated that the model does not ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from dynident.errors import ProblemError
from dynident.io.readers.columns import TIME, ColumnRef, ReadRequest
from dynident.io.readers.table_columns import TableColumns, TableValues

CLOCK = "time"  # the column of a file whose signals bring their times along
NANOSECONDS = 1e9  # in a second


@dataclass(frozen=True)
class ClockedValues:
    """The samples of one signal: whole nanoseconds, so that equal times are equal, and numbers."""

    nanoseconds: np.ndarray
    values: np.ndarray

    @classmethod
    def of_seconds(cls, seconds: np.ndarray, values: np.ndarray) -> ClockedValues:
        return cls(np.round(np.asarray(seconds, float) * NANOSECONDS).astype(np.int64), np.asarray(values, float))


@dataclass(frozen=True)
class ClockedSignals:
    """What a file offers: headers, units, and how to get the samples of some signals by header."""

    source: str
    units: Mapping[str, str]  # by header, in the order of the file
    samples: Callable[[Sequence[str]], dict[str, ClockedValues]]
    unusable: Mapping[str, str] = field(default_factory=dict)
    begins: Callable[[], str] | None = None  # the date at which its clock stands at zero, as text


def clocked_columns(signals: ClockedSignals, request: ReadRequest) -> TableColumns:
    """The signals as columns beside one of time."""
    headers = [CLOCK, *signals.units]

    def values(found: Sequence[ColumnRef], runs: np.ndarray | None) -> TableValues:
        wanted = {ref.column: headers[ref.column] for ref in found if ref.role != TIME}
        if any(ref.column == 0 for ref in found if ref.role != TIME):
            raise ProblemError(f"{signals.source}: '{CLOCK}' is the clock of the signals and no signal.")
        samples = signals.samples(list(dict.fromkeys(wanted.values())))
        for header, each in samples.items():
            _refuse_disorder(signals.source, header, each)
        inputs = {ref.column: request.hold if isinstance(request.hold, str) else request.hold.get(ref.signal, "zero")
                  for ref in found if ref.role == "input"}
        clock, notes = _common_clock(signals.source, {k: samples[h] for k, h in wanted.items()}, inputs)
        columns = {k: _held(samples[h], clock, inputs[k]) if k in inputs else _where_sampled(samples[h], clock)
                   for k, h in wanted.items()}
        origin = int(clock[0]) if signals.begins is not None and clock.size else 0
        return TableValues({0: (clock - origin) / NANOSECONDS, **columns}, notes=[
            *notes, *([f"time is counted in seconds from {signals.begins()}."] if signals.begins is not None else [])])

    def labels(column: int) -> np.ndarray:
        raise ProblemError(f"{signals.source}: signals have clocks of their own, so that no column tells runs apart; use "
                           "split={\"gap\": seconds}.")

    return TableColumns(signals.source, headers, values, ["s", *signals.units.values()], labels, signals.unusable)


def _refuse_disorder(source: str, header: str, each: ClockedValues) -> None:
    if not each.nanoseconds.size:
        raise ProblemError(f"{source}: '{header}' has no sample.")
    back = np.flatnonzero(np.diff(each.nanoseconds) <= 0)
    if back.size:
        k = int(back[0])
        verb = "repeats" if each.nanoseconds[k] == each.nanoseconds[k + 1] else "goes back"
        many = f" ({back.size} such places)" if back.size > 1 else ""
        raise ProblemError(f"{source}, sample {k + 2} of '{header}': time {verb}{many}. Sort them, or use another clock.")


def _common_clock(source: str, samples: Mapping[int, ClockedValues], inputs: Mapping[int, str]) -> tuple[np.ndarray, list[str]]:
    """All times at which something was sampled and all inputs are known, and what was left out."""
    clocks = [each.nanoseconds for each in samples.values()]
    if not clocks:
        raise ProblemError(f"{source}: no input and no output was asked for.")
    clock = np.unique(np.concatenate(clocks))
    notes = []
    if any(not np.array_equal(clocks[0], other) for other in clocks[1:]):
        sizes = [each.size for each in clocks]
        notes.append(f"signals have clocks of their own ({min(sizes):,} to {max(sizes):,} samples): "
                     "outputs are missing between their samples, inputs go on as they are held.")
    first = max((int(samples[k].nanoseconds[0]) for k in inputs), default=int(clock[0]))
    last = min((int(samples[k].nanoseconds[-1]) for k, hold in inputs.items() if hold == "linear"), default=int(clock[-1]))
    kept = clock[(clock >= first) & (clock <= last)]
    if not kept.size:
        raise ProblemError(f"{source}: there is no time at which all inputs are known; are they of one run?")
    if kept.size < clock.size:
        notes.append(f"{clock.size - kept.size:,} samples at the ends, where an input is not known, were left out.")
    return kept, notes


def _where_sampled(each: ClockedValues, clock: np.ndarray) -> np.ndarray:
    column = np.full(clock.size, np.nan)
    at = np.searchsorted(clock, each.nanoseconds)
    inside = (at < clock.size) & (clock[np.minimum(at, clock.size - 1)] == each.nanoseconds)
    column[at[inside]] = each.values[inside]
    return column


def _held(each: ClockedValues, clock: np.ndarray, hold: str) -> np.ndarray:
    if hold == "linear":
        return np.asarray(np.interp((clock - clock[0]) / NANOSECONDS, (each.nanoseconds - clock[0]) / NANOSECONDS, each.values))
    return np.asarray(each.values[np.searchsorted(each.nanoseconds, clock, side="right") - 1])
