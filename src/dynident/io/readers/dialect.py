"""Dialect: how a text file of numbers is written, and how its lines and cells are taken apart."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass

WHITESPACE = " "  # as a separator: any run of blanks and tabs
COMMENT = ("#", "%")
MISSING = frozenset({"", "nan", "na", "n/a", "#n/a", "null", "none", "-nan"})


@dataclass(frozen=True)
class Dialect:
    """Everything needed to read the rows, and what was understood beyond the plain case."""

    encoding: str
    newline: str
    separator: str
    decimal: str
    header: tuple[str, ...]  # as written, units included; one empty text per column where there is no header
    units: tuple[str, ...]  # from a row of units, empty texts otherwise
    data_line: int  # the first line with numbers, counted from 1
    notes: tuple[str, ...] = ()
    doubt: str = ""  # said when a column is not found

    @property
    def width(self) -> int:
        return len(self.header)

    def fields(self, line: str) -> list[str]:
        return split_line(line, self.separator)

    def number(self, text: str) -> float | None:
        """The number in a cell: NaN where it is missing, None where it is something else."""
        text = text.strip()
        if self.decimal != ".":
            text = text.replace(".", "?").replace(self.decimal, ".")  # a point among commas may mean thousands
        try:
            return float(text) if "_" not in text else None
        except ValueError:
            return float("nan") if text.lower() in MISSING else None


def split_line(line: str, separator: str) -> list[str]:
    if separator == WHITESPACE:
        if '"' not in line:
            return line.split()
        return [quoted or plain for quoted, plain in re.findall(r'"([^"]*)"|(\S+)', line)]
    if '"' not in line:
        return line.split(separator)
    return next(csv.reader([line], delimiter=separator, skipinitialspace=True))


def is_comment(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith(COMMENT)


def header_fields(line: str, separator: str) -> list[str]:
    """Like the fields of a row, but where blanks separate, 't [s]' is one field."""
    if separator == WHITESPACE and '"' not in line:
        line = re.sub(r"\s+(?=[\[(])", "\0", line)
        return [field.replace("\0", " ") for field in line.split()]
    return split_line(line, separator)
