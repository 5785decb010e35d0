"""Columns: what the caller asks of a file, and where in the file it stands; alike for every kind of file."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dynident.errors import ProblemError, did_you_mean
from dynident.problem.noise import Bounded, Gaussian, Noise
from dynident.units import is_time, split_header

Column = str | int  # a header, or a position counted from 0
NoiseKind = type[Gaussian] | type[Bounded]
Input = Column | tuple[Column, Noise] | tuple[Column, NoiseKind, Column]
InputColumns = Sequence[str] | Mapping[str, Input]
Output = Noise | Column | tuple[Column, Noise] | tuple[Column, NoiseKind, Column]
OutputColumns = Sequence[str] | Mapping[str, Output]

TIME = "time"
LONGEST_QUOTE = 40  # characters of a cell that are shown in an error


def existing_file(path: str | Path) -> Path:
    path = Path(path)
    if not os.path.isfile(path):  # which takes names that no disk can hold, too
        if os.path.isdir(path):
            raise ProblemError(f"'{path}' is a folder; name a file in it.")
        beside = [other.name for other in path.parent.glob("*") if other.is_file()] if os.path.isdir(path.parent) else []
        close = difflib.get_close_matches(path.name, beside, n=1)
        hint = f" Did you mean '{close[0]}'?" if close else " Check the path."
        raise ProblemError(f"there is no file '{path}'.{hint}")
    return path


@dataclass(frozen=True)
class ColumnRef:
    """Where one signal stands in the file: `role` is time, input, output or error size; `unit` as the file says."""

    signal: str
    role: str
    column: int
    header: str
    unit: str


@dataclass(frozen=True)
class ReadRequest:
    """What the caller asked a reader for; the arguments of `read_csv` that all readers share."""

    time: Column | None = None
    inputs: InputColumns = ()
    outputs: OutputColumns = ()
    hold: Mapping[str, str] | str = "zero"
    initial: Mapping[str, float] = field(default_factory=dict)
    start: float | None = None
    name: str | None = None
    units: Mapping[str, str] | None = None
    time_unit: str | None = None
    sample_time: float | None = None
    mode: str = ""

    def input_columns(self) -> dict[str, Column]:
        if not isinstance(self.inputs, Mapping):
            return {str(name): name for name in self.inputs}
        return {name: it[0] if isinstance(it, tuple) else it for name, it in self.inputs.items()}

    def output_columns(self) -> dict[str, Column]:
        if not isinstance(self.outputs, Mapping):
            return {str(name): name for name in self.outputs}
        return {name: it[0] if isinstance(it, tuple) else it if isinstance(it, (str, int)) else name
                for name, it in self.outputs.items()}

    def error_columns(self) -> dict[str, Column]:
        """Signals whose error size stands in a column of its own: ("y", Gaussian, "std of y")."""
        given = [signals for signals in (self.inputs, self.outputs) if isinstance(signals, Mapping)]
        return {name: it[2] for signals in given for name, it in signals.items() if isinstance(it, tuple) and len(it) == 3}

    def wanted(self) -> list[tuple[str, str, Column]]:
        """Signal, role and column of all that must be read."""
        time = [] if self.time is None else [(TIME, "time", self.time)]
        return [*time, *((name, "input", column) for name, column in self.input_columns().items()),
                *((name, "output", column) for name, column in self.output_columns().items()),
                *((name, "error size", column) for name, column in self.error_columns().items())]

    def names(self) -> set[str]:
        return {column for _, _, column in self.wanted() if isinstance(column, str)}

    def check(self, source: str) -> None:
        """Raise all that is wrong with the request itself, before the file is opened."""
        faults = []
        if (self.time is None) == (self.sample_time is None):
            faults.append("give either time= (the column that holds it) or sample_time= (the distance of the samples).")
        if self.sample_time is not None and not (np.isfinite(self.sample_time) and self.sample_time > 0):
            faults.append(f"sample_time = {self.sample_time} must be positive.")
        for what, given in (("inputs", self.inputs), ("outputs", self.outputs)):
            if isinstance(given, str):
                faults.append(f"{what} = '{given}' is a text; write [\"{given}\"] for one column.")
        if self.time_unit is not None and not is_time(self.time_unit):
            faults.append(f"time_unit = '{self.time_unit}' is not a unit of time; use s, ms, us, ns, min, h or d.")
        known = {TIME, *self.input_columns(), *self.output_columns()}
        for name in self.units or ():
            if name not in known:
                faults.append(f"units names '{name}', which is not a signal.{did_you_mean(name, sorted(known))}")
        if faults:
            raise ProblemError([f"{source}: {fault}" for fault in faults])


def locate_columns(request: ReadRequest, headers: Sequence[str], units: Sequence[str] | None, source: str, doubt: str = "",
           unusable: Mapping[str, str] | None = None) -> list[ColumnRef]:
    """Find each wanted column by its header (with or without its unit) or its position; all misses in one error.

    `units` stand beside the headers; None where nothing names a unit, not even a header. `unusable` says why something
    that has a name is no column.
    """
    faults = []
    split = [split_header(header) if units is not None else (header, "") for header in headers]
    bare = [name for name, _ in split]
    found = []
    for signal, role, column in request.wanted():
        fits = [column] if isinstance(column, int) else (
            [k for k, header in enumerate(headers) if header == column]
            or [k for k, name in enumerate(bare) if name == column])
        if isinstance(column, int) and not 0 <= column < len(headers):
            faults.append(f"{source} has no column {column}; its {len(headers)} columns count from 0.")
        elif not fits and (why := _why_unusable(str(column), unusable or {})):
            faults.append(f"{source}: {why}")
        elif not headers:
            faults.append(f"{source} has no column of numbers, so there is no '{column}'.")
        elif not fits and not any(headers):
            faults.append(f"{source} has no header, so column '{column}' cannot be found. Give its position, "
                          f"0 to {len(headers) - 1}.{doubt}")
        elif not fits:
            known = [name for name in bare if name]
            faults.append(f"{source} has no column '{column}'.{did_you_mean(str(column), known)}")
        elif len(fits) > 1:
            faults.append(f"{source} has {len(fits)} columns '{column}', at positions {', '.join(map(str, fits))}. "
                          "Give the position of the one you mean.")
        else:
            k = fits[0]
            unit = split[k][1] or (units[k] if units is not None else "")
            found.append(ColumnRef(signal, role, k, headers[k] or f"{k}", unit))
    if faults:
        raise ProblemError(faults)
    return found


def _why_unusable(column: str, unusable: Mapping[str, str]) -> str:
    return next((why for name, why in unusable.items() if column == name or column.startswith((f"{name}.", f"{name}["))), "")


@dataclass(frozen=True)
class Fault:
    """One kind of fault in one column: the row where it is first met, counted from 0, and how often."""

    row: int
    count: int
    sentence: str


def fault_sentences(faults: Sequence[Fault], where: Callable[[int], str]) -> list[str]:
    """The faults in the order of the file; `where` names the place of a row."""
    sentences = []
    for fault in sorted(faults, key=lambda fault: fault.row):
        more = fault.count - 1
        also = f" The same in {more} more place{'s' * (more > 1)}." if more else ""
        sentences.append(f"{where(fault.row)}: {fault.sentence}{also}")
    return sentences


def value_faults(found: Sequence[ColumnRef], values: Mapping[int, np.ndarray],
                 unreadable: Mapping[int, Sequence[int]] | None = None, runs: np.ndarray | None = None) -> list[Fault]:
    """Everything wrong with the numbers; the `unreadable` rows of a column are passed over.

    `runs` numbers the run of each row: time rises within each.
    """
    faults, driven = [], any(place.role == "input" for place in found)
    for place in found:
        column = values[place.column]
        skip = (unreadable or {}).get(place.column, ())
        rows = np.delete(np.arange(column.size), skip) if len(skip) else None
        column = column if rows is None else column[rows]
        of = runs if runs is None or rows is None else runs[rows]
        for bad, sentence in _rules(place, column, of, driven):
            if bad.any():
                k = int(bad.argmax())
                row = k if rows is None else int(rows[k])
                faults.append(Fault(row, int(bad.sum()), sentence(k)))
    return faults


def _rules(place: ColumnRef, column: np.ndarray, runs: np.ndarray | None, driven: bool
           ) -> Iterator[tuple[np.ndarray, Callable[[int], str]]]:
    """For each rule the values that break it, and what to say about one of them; times repeat where no input is `driven`."""
    header = f"column '{place.header}'"
    if place.role == "output":
        yield np.isinf(column), lambda k: f"{header} is infinite. Leave the cell empty if the sample is missing."
        return
    what = "time" if place.role == "time" else f"{place.role} '{place.signal}'"
    yield ~np.isfinite(column), lambda k: (
        f"{what} ({header}) is missing or not finite, but must be known everywhere. Fill the gap knowingly, or split "
        "the record there.")
    if place.role == "time":
        before = _sample_before(column, runs)
        yield (column <= before) if driven else (column < before), lambda k: _order(float(before[k]), float(column[k]))
    if place.role == "error size":
        yield column <= 0, lambda k: f"{header} gives an error size of {float(column[k])!r}, which must be positive."


def _sample_before(time: np.ndarray, runs: np.ndarray | None) -> np.ndarray:
    """The time of the sample before, in the same run; NaN at the first."""
    if runs is None:
        return np.append(np.nan, time[:-1])
    order = np.argsort(runs, kind="stable")
    before = np.append(np.nan, time[order[:-1]])
    before[np.append(True, np.diff(runs[order]) > 0)[:before.size]] = np.nan
    unsorted = np.empty_like(before)
    unsorted[order] = before
    return unsorted


def _order(previous: float, time: float) -> str:
    verb = f"goes back from {previous!r} to" if time < previous else "repeats"
    return f"time {verb} {time!r}. Sort the file, or split it into two experiments."
