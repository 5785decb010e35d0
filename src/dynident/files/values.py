"""Values: which numbers may stand in a column of time, input, output or error size, and where one does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dynident.files.columns import Place


def looks_fine(found: Sequence[Place], values: Mapping[int, np.ndarray]) -> bool:
    """Whether every value may stand where it does; if not, the reader takes a second look for the exact place."""
    for place in found:
        column = values[place.column]
        if place.role == "time":
            good = bool(np.isfinite(column).all()) and bool((column[1:] > column[:-1]).all())
        elif place.role == "output":
            good = not np.isinf(column).any()
        else:
            good = bool(np.isfinite(column).all()) and (place.role == "input" or bool((column > 0).all()))
        if not good:
            return False
    return True


def value_fault(place: Place, value: float, previous: float | None) -> str | None:
    """What is wrong with one value; `previous` is the time before it."""
    if place.role == "time":
        if not np.isfinite(value):
            return f"time (column '{place.header}') is missing or not finite. Delete the line, or fill it knowingly."
        if previous is not None and value <= previous:
            verb = f"goes back from {previous!r} to" if value < previous else "repeats"
            return f"time {verb} {value!r}. Sort the file, or split it into two experiments."
    elif place.role == "output":
        if np.isinf(value):
            return f"column '{place.header}' is infinite. Leave the cell empty if the sample is missing."
    elif not np.isfinite(value):
        return (f"{place.role} '{place.signal}' (column '{place.header}') is missing or not finite, but must be known "
                "everywhere. Fill the gap knowingly, or split the record there.")
    elif place.role == "error size" and value <= 0:
        return f"column '{place.header}' gives an error size of {value!r}, which must be positive."
    return None


class Faults:
    """Faults gathered by kind: the first place of each, and how often it occurs, so that a long file stays readable."""

    def __init__(self, where: Callable[[int], str]):
        self._where = where
        self._first: dict[tuple[str, str], tuple[int, str]] = {}
        self._count: dict[tuple[str, str], int] = {}

    def add(self, kind: str, column: str, line: int, sentence: str) -> None:
        key = (kind, column)
        self._first.setdefault(key, (line, sentence))
        self._count[key] = self._count.get(key, 0) + 1

    def sentences(self) -> list[str]:
        told = []
        for key, (line, sentence) in sorted(self._first.items(), key=lambda item: item[1][0]):
            more = self._count[key] - 1
            also = f" The same in {more} more line{'s' * (more > 1)}." if more else ""
            told.append(f"{self._where(line)}: {sentence}{also}")
        return told


def row_faults(found: Sequence[Place], values: Mapping[int, np.ndarray], source: str) -> list[str]:
    """The faults of columns that come without lines of text: rows are counted from 1."""
    faults = Faults(lambda row: f"{source}, row {row}")
    for place in found:
        previous = None
        for row, value in enumerate(values[place.column].tolist(), 1):
            fault = value_fault(place, value, previous)
            if fault:
                faults.add(place.role, place.header, row, fault)
            previous = value if place.role == "time" and np.isfinite(value) else previous
    return faults.sentences()
