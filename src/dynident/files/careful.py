"""Careful: read a text file line by line, and say for each fault in which line and column it stands."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from dynident.errors import ProblemError
from dynident.files.columns import Place
from dynident.files.dialect import Dialect, is_comment
from dynident.files.values import Faults, value_fault

LONGEST_QUOTE = 40  # characters of a cell that are shown in an error


def read_carefully(path: Path, dialect: Dialect, found: Sequence[Place]) -> dict[int, np.ndarray]:
    """The wanted columns; all faults of the file are raised together. Tens of times slower than the fast reader."""
    faults = Faults(lambda line: f"{path.name}, line {line}")
    columns = {place.column: array("d") for place in found}
    previous: float | None = None
    for number, fields in _rows(path, dialect):
        if len(fields) != dialect.width and not (len(fields) == dialect.width + 1 and not fields[-1].strip()):
            faults.add("width", "", number, f"the row has {_count(len(fields), 'column')} instead of {dialect.width}. "
                       "Complete or delete it.")
            continue
        values = {k: dialect.number(fields[k]) for k in columns}
        for place in found:
            value = values[place.column]
            if value is None:
                faults.add("text", place.header, number, _not_a_number(place, fields[place.column], dialect))
                continue
            fault = value_fault(place, value, previous)
            if fault:
                faults.add(place.role, place.header, number, fault)
            elif place.role == "time":
                previous = value
        for k, value in values.items():
            columns[k].append(np.nan if value is None else value)
    if sentences := faults.sentences():
        raise ProblemError(sentences)
    return {k: np.array(column) for k, column in columns.items()}


def _rows(path: Path, dialect: Dialect) -> Iterator[tuple[int, list[str]]]:
    with path.open(encoding=dialect.encoding, errors="replace") as file:
        for number, line in enumerate(file, 1):
            if number >= dialect.data_line and not is_comment(line):
                yield number, dialect.fields(line.rstrip("\n"))


def _not_a_number(place: Place, text: str, dialect: Dialect) -> str:
    shown = text.strip()[:LONGEST_QUOTE] + ("..." if len(text.strip()) > LONGEST_QUOTE else "")
    sentence = f"column '{place.header}' holds '{shown}', which is not a number."
    if dialect.decimal == "." and "," in text and dialect.separator != ",":
        return f"{sentence} If it is a decimal comma, say decimal=\",\"."
    return f"{sentence} Correct it, or leave the cell empty if the sample is missing."


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
