"""Strict CSV reader: read a text file line by line, and say for each fault in which line and column it stands."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from dynident.errors import ProblemError
from dynident.io.readers.columns import ColumnRef, Fault, fault_sentences, value_faults
from dynident.io.readers.dialect import Dialect, is_comment

LONGEST_QUOTE = 40  # characters of a cell that are shown in an error


def read_carefully(path: Path, dialect: Dialect, found: Sequence[ColumnRef]) -> tuple[dict[int, np.ndarray], list[str]]:
    """The wanted columns, and what is to be noted; all faults of the file are raised together.

    Ten times slower than the fast reader.
    """
    columns = {place.column: array("d") for place in found}
    unreadable: dict[int, list[int]] = {k: [] for k in columns}
    texts: dict[int, str] = {}  # the first text met in a column
    lines = array("q")
    ragged: list[tuple[int, int]] = []
    comments: list[int] = []
    for number, fields in _rows(path, dialect, comments):
        if len(fields) != dialect.width and not (len(fields) == dialect.width + 1 and not fields[-1].strip()):
            ragged.append((number, len(fields)))
            continue
        for k, column in columns.items():
            value = dialect.number(fields[k])
            if value is None:
                texts.setdefault(k, fields[k])
                unreadable[k].append(len(lines))
            column.append(np.nan if value is None else value)
        lines.append(number)
    values = {k: np.array(column) for k, column in columns.items()}
    at = {place.column: place for place in found}
    faults = [Fault(lines[rows[0]], len(rows), _not_a_number(at[k], texts[k], dialect))
              for k, rows in unreadable.items() if rows]
    if ragged:
        number, width = ragged[0]
        faults.append(Fault(number, len(ragged), f"the row has {width} column{'s' * (width != 1)} instead of "
                                                 f"{dialect.width}. Complete or delete it."))
    faults += [Fault(lines[fault.row], fault.count, fault.sentence)
               for fault in value_faults(found, values, unreadable)]
    if faults:
        raise ProblemError(fault_sentences(faults, lambda line: f"{path.name}, line {line}"))
    return values, _passed_over(comments)


def _passed_over(comments: Sequence[int]) -> list[str]:
    if not comments:
        return []
    many = len(comments) > 1
    return [f"{len(comments)} comment{'s' * many} inside the table, {'from line' if many else 'line'} {comments[0]}"
            f"{' on' * many}, {'were' if many else 'was'} passed over."]


def raise_with_lines(path: Path, dialect: Dialect, faults: Sequence[Fault]) -> None:
    """Raise faults that were found in the columns, after a look at the file for the lines of their rows."""
    wanted = {fault.row for fault in faults}
    lines = {row: number for row, (number, _) in enumerate(_lines(path, dialect, [])) if row in wanted}
    raise ProblemError(fault_sentences(faults, lambda row: f"{path.name}, line {lines[row]}"))


def _lines(path: Path, dialect: Dialect, comments: list[int]) -> Iterator[tuple[int, str]]:
    """The lines that are rows; the numbers of those that are comments are added to the list.

    In a file of one column, an empty line between others is a row with an empty cell.
    """
    empty: list[tuple[int, str]] = []
    with path.open(encoding=dialect.encoding, errors="replace") as file:
        for number, line in enumerate(file, 1):
            if number < dialect.data_line:
                continue
            if dialect.width == 1 and not line.strip():
                empty.append((number, line))
            elif not is_comment(line):
                yield from empty
                empty.clear()
                yield number, line
            elif line.strip():
                comments.append(number)


def _rows(path: Path, dialect: Dialect, comments: list[int]) -> Iterator[tuple[int, list[str]]]:
    return ((number, dialect.fields(line.rstrip("\n")) or [""]) for number, line in _lines(path, dialect, comments))


def _not_a_number(place: ColumnRef, text: str, dialect: Dialect) -> str:
    text = text.strip()
    shown = text[:LONGEST_QUOTE] + "..." * (len(text) > LONGEST_QUOTE)
    sentence = f"column '{place.header}' holds '{shown}', which is not a number."
    if dialect.decimal == "." and "," in text and "." not in text and dialect.separator != ",":
        return f"{sentence} If it is a decimal comma, say decimal=\",\"."
    if place.role == "time":
        return f"{sentence} Dates and times of day are not read; write seconds from the start of the record."
    return f"{sentence} Correct it, or leave the cell empty if the sample is missing."
