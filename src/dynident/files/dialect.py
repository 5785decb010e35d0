"""Dialect: how a text file of numbers is written, found by looking at its first lines."""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from dynident.errors import ProblemError
from dynident.files.units import split_header

WHITESPACE = " "  # as a separator: any run of blanks and tabs
COMMENT = ("#", "%")
HEAD_BYTES = 1 << 18
HEAD_LINES = 200
MISSING = frozenset({"", "nan", "na", "n/a", "#n/a", "null", "none", "-nan"})
NEWLINE = re.compile("\r\n|\n|\r")

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?inf(?:inity)?", re.IGNORECASE)
_UNIT = re.compile(r"[\[(]?[\w°µμΩ%/*^.·²³ \-]{0,15}[\])]?")
# In order of preference where several explain the file equally well.
_WRITINGS = ((";", "."), (";", ","), ("\t", "."), ("\t", ","), (",", "."), ("|", "."), (WHITESPACE, "."), (",", ","),
             ("|", ","), (WHITESPACE, ","))


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
        if text.lower() in MISSING:
            return float("nan")
        text = text.replace(self.decimal, ".") if self.decimal != "." and "." not in text else text
        return float(text) if _NUMBER.fullmatch(text) else None


def split_line(line: str, separator: str) -> list[str]:
    if separator == WHITESPACE:
        return line.split() if '"' not in line else next(csv.reader([line.strip()], delimiter=" "))
    if '"' not in line:
        return line.split(separator)
    return next(csv.reader([line], delimiter=separator, skipinitialspace=True))


def is_comment(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith(COMMENT)


def sniff(path: Path, names: Collection[str], separator: str | None = None, decimal: str | None = None) -> Dialect:
    """The dialect of a file; `names` are column names the caller expects, which help to tell a header from data."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
        complete = not file.read(1)
    encoding = _encoding(head, path)
    text = codecs.getincrementaldecoder(encoding)(errors="replace").decode(head)
    newline = "\r" if "\r" in text and "\n" not in text else "\n"
    lines = NEWLINE.split(text)
    if not complete and len(lines) > 1:
        lines.pop()  # cut in the middle
    content = [(number, line) for number, line in enumerate(lines, 1) if not is_comment(line)][:HEAD_LINES]
    if not content:
        raise ProblemError(f"{path.name} is empty." if not text.strip() else f"{path.name} holds only comments.")
    separator, decimal, width = _writing(content, separator, decimal)
    return _layout(path, lines, content, names, Dialect(encoding, newline, separator, decimal, ("",) * width, (), 0))


def _encoding(head: bytes, path: Path) -> str:
    if head.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" in head:
        even, odd = head[::2].count(0), head[1::2].count(0)
        if max(even, odd) > 0.4 * len(head) / 2 and min(even, odd) == 0:
            return "utf-16-le" if odd else "utf-16-be"
        raise ProblemError(f"{path.name} is not a text file. Export it as CSV, or use read_parquet or read_mat.")
    if head.startswith(b"\x1f\x8b"):
        raise ProblemError(f"{path.name} is compressed. Unpack it first.")
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"


def _numeric(fields: list[str], decimal: str) -> tuple[bool, bool]:
    """Whether all fields are numbers or missing (and not all missing); whether any is a number."""
    texts = [field.strip() for field in fields]
    if decimal != ".":
        texts = [text.replace(decimal, ".") if "." not in text else "text" for text in texts]
    numbers = [bool(_NUMBER.fullmatch(text)) for text in texts]
    filled = all(number or text.lower() in MISSING for number, text in zip(numbers, texts, strict=True))
    return filled and (any(numbers) or any(texts)), any(numbers)


def _writing(content: list[tuple[int, str]], separator: str | None, decimal: str | None) -> tuple[str, str, int]:
    """The separator and decimal sign under which most lines are rows of numbers, and the width of these rows."""
    writings = [(s, d) for s, d in _WRITINGS if separator in (None, s) and decimal in (None, d)]
    best: tuple[tuple[int, bool, bool, int], tuple[str, str, int]] | None = None
    for order, (sep, dec) in enumerate(writings or [(separator or ",", decimal or ".")]):
        rows = [split_line(line, sep) for _, line in content]
        widths = Counter(len(row) for row in rows if _numeric(row, dec)[0])
        width, count = widths.most_common(1)[0] if widths else (len(rows[0]), 0)
        agrees = count > 0 and abs(len(header_fields(content[0][1], sep)) - width) <= (rows[0][-1] == "")
        score = (count, agrees, width > 1, -order if count else width)
        if best is None or score > best[0]:
            best = (score, (sep, dec, width))
    assert best is not None
    return best[1]


def header_fields(line: str, separator: str) -> list[str]:
    """Like the fields of a row, but where blanks separate, 't [s]' is one field."""
    if separator == WHITESPACE and '"' not in line:
        line = re.sub(r"\s+(?=[\[(])", "\0", line)
        return [field.replace("\0", " ") for field in line.split()]
    return split_line(line, separator)


def _layout(path: Path, lines: list[str], content: list[tuple[int, str]], names: Collection[str],
            plain: Dialect) -> Dialect:
    """Find the header, a row of units and the first row of numbers."""
    sep, dec, width = plain.separator, plain.decimal, plain.width
    header: list[str] = []
    units: list[str] = []
    skipped: list[tuple[int, str]] = []
    data_line = 0
    for number, line in content:
        fields = [field.strip() for field in header_fields(line, sep)]
        numeric, any_number = _numeric(fields, dec)
        if numeric:
            data_line = number
            break
        known = {split_header(field)[0] for field in fields} | set(fields)
        fitting = len(fields) == width or (fields[-1] == "" and len(fields) == width + 1) or (
            len(fields) + 1 == width and _last_is_empty(content, sep))
        if not header and fitting and (not any_number or known & set(names)):
            header = [*fields, ""][:width]
        elif header and not units and not any_number and len(fields) == width and all(map(_UNIT.fullmatch, fields)):
            units = [field.strip("[]() ") for field in fields]
        elif header or any_number:
            data_line = number  # a row with text in it: the reader will say where
            break
        else:
            skipped.append((number, line))
    return _told(path, plain, lines, header, units, skipped, data_line)


def _last_is_empty(content: list[tuple[int, str]], separator: str) -> bool:
    return split_line(content[-1][1], separator)[-1].strip() == ""


def _told(path: Path, plain: Dialect, lines: list[str], header: list[str], units: list[str],
          skipped: list[tuple[int, str]], data_line: int) -> Dialect:
    """The dialect with its notes, or the reason why the file cannot be read."""
    if not data_line:
        names = ", ".join(header or [line.strip() for _, line in skipped][:1])
        raise ProblemError(f"{path.name} has a header ({names}) but no row of numbers.")
    notes = []
    comment = lines[data_line - 2].strip() if data_line > 1 else ""
    if not header and comment.startswith(COMMENT):
        names_in_comment = header_fields(comment.lstrip("#% "), plain.separator)
        if len(names_in_comment) == plain.width:
            header = [name.strip() for name in names_in_comment]
            notes.append(f"the column names were taken from the comment in line {data_line - 1}.")
    if plain.decimal == ",":
        notes.append("numbers are written with a decimal comma.")
    if plain.encoding not in ("utf-8", "utf-8-sig"):
        notes.append(f"the text was read as {plain.encoding.upper()}.")
    if skipped:
        notes.append(f"{len(skipped)} line(s) of text before the table were skipped, from line {skipped[0][0]}.")
    if units:
        notes.append(f"line {data_line - 1} was read as a row of units.")
    doubt = ""
    if not header and skipped:
        number, line = skipped[-1]
        doubt = (f" Line {number} has {len(header_fields(line, plain.separator))} fields, but the rows of numbers have "
                 f"{plain.width}. A decimal comma needs another separator than the comma.")
    return Dialect(plain.encoding, plain.newline, plain.separator, plain.decimal, tuple(header or plain.header),
                   tuple(units or ("",) * plain.width), data_line, tuple(notes), doubt)
