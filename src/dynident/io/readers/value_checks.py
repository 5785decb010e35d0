"""Values: which numbers may stand in a column of time, input, output or error size, and where one does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dynident.io.readers.columns import ColumnRef


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
                 unreadable: Mapping[int, Sequence[int]] | None = None) -> list[Fault]:
    """Everything wrong with the numbers; the `unreadable` rows of a column are passed over."""
    faults = []
    for place in found:
        column = values[place.column]
        skip = (unreadable or {}).get(place.column, ())
        rows = np.delete(np.arange(column.size), skip) if len(skip) else None
        column = column if rows is None else column[rows]
        for bad, sentence in _rules(place, column):
            if bad.any():
                k = int(bad.argmax())
                row = k if rows is None else int(rows[k])
                faults.append(Fault(row, int(bad.sum()), sentence(k)))
    return faults


def _rules(place: ColumnRef, column: np.ndarray) -> Iterator[tuple[np.ndarray, Callable[[int], str]]]:
    """For each rule the values that break it, and what to say about one of them."""
    header = f"column '{place.header}'"
    if place.role == "output":
        yield np.isinf(column), lambda k: f"{header} is infinite. Leave the cell empty if the sample is missing."
        return
    what = "time" if place.role == "time" else f"{place.role} '{place.signal}'"
    yield ~np.isfinite(column), lambda k: (
        f"{what} ({header}) is missing or not finite, but must be known everywhere. Fill the gap knowingly, or split "
        "the record there.")
    if place.role == "time":
        yield np.append(False, column[1:] <= column[:-1]), lambda k: _order(float(column[k - 1]), float(column[k]))
    if place.role == "error size":
        yield column <= 0, lambda k: f"{header} gives an error size of {float(column[k])!r}, which must be positive."


def _order(previous: float, time: float) -> str:
    verb = f"goes back from {previous!r} to" if time < previous else "repeats"
    return f"time {verb} {time!r}. Sort the file, or split it into two experiments."
