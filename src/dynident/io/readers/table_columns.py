"""Table columns: what a file or a data frame offers, whatever its kind, and the experiments that are made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dynident.errors import ProblemError
from dynident.io.readers.build_experiment import factors, to_experiment
from dynident.io.readers.columns import (
    TIME,
    Column,
    ColumnRef,
    Fault,
    ReadRequest,
    fault_sentences,
    locate_columns,
    value_faults,
)
from dynident.problem.experiment import Experiment
from dynident.units import scaled

Split = str | int | Mapping[str, float] | None  # the column that tells runs apart, or {"gap": seconds}


@dataclass(frozen=True)
class TableValues:
    """The numbers of some columns; of those that held dates, the first as text: they are counted in seconds from it."""

    columns: Mapping[int, np.ndarray]
    dates: Mapping[int, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    checked: bool = False  # whether the numbers were looked at already, where they were read


@dataclass(frozen=True)
class TableColumns:
    """A table's columns: their headers, and how to get the values of some of them."""

    source: str
    headers: Sequence[str]
    values: Callable[[Sequence[ColumnRef], np.ndarray | None], TableValues]  # given also the run of each row
    units: Sequence[str] | None  # beside the headers; None where not even these name a unit
    labels: Callable[[int], np.ndarray]  # what a column holds, as it is: to tell runs apart
    unusable: Mapping[str, str] = field(default_factory=dict)  # what has a name and is no column, and why
    notes: Sequence[str] = ()
    doubt: str = ""  # said when a column is not found
    place: Callable[[int], str] | None = None  # of a row counted from 0


def read_one(request: ReadRequest, table: TableColumns) -> Experiment:
    """The whole table as one record."""
    return read_runs(request, table, None)[0]


def read_runs(request: ReadRequest, table: TableColumns, split: Split) -> list[Experiment]:
    """One record per run; all that is wrong with any of them in one error."""
    request.check(table.source)
    gap = _gap(split, request, table.source)
    found = locate_columns(request, table.headers, table.units, table.source, table.doubt, table.unusable)
    names: list[str] = [""]
    runs = None
    if split is not None and gap is None:
        names, runs = _labelled(split, table)  # type: ignore[arg-type]
    values = table.values(found, runs)
    place = table.place or (lambda row: f"{table.source}, row {row + 1}")
    if not values.checked and (faults := value_faults(found, values.columns, runs=runs)):
        raise ProblemError(fault_sentences(faults, place))
    found = [replace(ref, unit=ref.unit or "s") if ref.column in values.dates and ref.role == TIME else ref for ref in found]
    notes = [*table.notes, *values.notes, *(_date_note(ref, values.dates) for ref in found if ref.column in values.dates)]
    if gap is not None:
        runs = _parts(request, found, values.columns, table.source, gap)
        names = [f"part {k + 1}" for k in range(int(runs[-1]) + 1 if runs.size else 1)]
    if runs is None:
        return [to_experiment(request, found, values.columns, table.source, notes)]
    return [to_experiment(replace(request, name=", ".join(filter(None, (request.name, name)))), found,
                          {k: column[runs == run] for k, column in values.columns.items()}, table.source, notes)
            for run, name in enumerate(names)]


def _date_note(ref: ColumnRef, dates: Mapping[int, str]) -> str:
    return f"column '{ref.header}' holds dates; time is counted in seconds from {dates[ref.column]}."


def _gap(split: Any, request: ReadRequest, source: str) -> float | None:
    """The distance in time at which a new run begins; None where a column tells."""
    if split is None or (isinstance(split, (str, int)) and not isinstance(split, bool)):
        return None
    gap = split.get("gap") if isinstance(split, Mapping) and set(split) == {"gap"} else None
    if not isinstance(gap, (int, float)) or isinstance(gap, bool) or not (np.isfinite(gap) and gap > 0):
        raise ProblemError(f"{source}: split = {split!r}; give the column that tells the runs apart, as in split=\"run\", or "
                           "the seconds without a sample after which a new run begins, as in split={\"gap\": 5}.")
    if request.time is None:
        raise ProblemError(f"{source}: split={{\"gap\": {gap:g}}} needs a column of time; with sample_time there is no gap.")
    return float(gap)


def _labelled(split: Column, table: TableColumns) -> tuple[list[str], np.ndarray]:
    """The runs by name, in the order in which they begin, and the run of each row."""
    asked = ReadRequest(time=split, inputs=(), outputs=())
    (ref,) = locate_columns(asked, table.headers, table.units, table.source, table.doubt, table.unusable)
    labels = table.labels(ref.column)
    missing = np.array([label is None or label != label or label == "" for label in labels.tolist()], dtype=bool)
    if missing.any():
        place = table.place or (lambda row: f"{table.source}, row {row + 1}")
        said = f"column '{ref.header}', which tells the runs apart, is empty."
        raise ProblemError(fault_sentences([Fault(int(missing.argmax()), int(missing.sum()), said)], place))
    distinct = list(dict.fromkeys(labels.tolist()))
    number = {label: k for k, label in enumerate(distinct)}
    return [f"{ref.header} {_printed(label)}" for label in distinct], np.array([number[x] for x in labels.tolist()], dtype=int)


def _printed(label: Any) -> str:
    return f"{label:.15g}" if isinstance(label, float) else str(label)


def _parts(request: ReadRequest, found: Sequence[ColumnRef], values: Mapping[int, np.ndarray], source: str, gap: float
           ) -> np.ndarray:
    """The number of each row's part: a new one begins after a gap, in the unit in which time is counted."""
    ((ref, (factor, _, _)),) = ((ref, it) for ref, it in zip(found, factors(request, found, source), strict=True)
                                if ref.role == TIME)
    time = scaled(values[ref.column].copy(), factor)
    return np.append(0, np.cumsum(np.diff(time) > gap)) if time.size else np.zeros(0, dtype=int)
