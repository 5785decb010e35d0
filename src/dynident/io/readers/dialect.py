"""Dialect: how a text file of numbers is written, and how its lines and cells are taken apart."""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from dynident.errors import ProblemError
from dynident.io.readers.dates import is_date
from dynident.units import split_header

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
    first_line: str = ""  # with numbers

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

    def label(self, text: str) -> float | str:
        """What a cell says: its number, or its text."""
        number = self.number(text)
        return text.strip() if number is None or number != number else number


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


HEAD_BYTES = 1 << 18
HEAD_LINES = 200
GZIP = b"\x1f\x8b"
PACKED = {"bzip2": b"BZh", "xz": b"\xfd7zXZ", "zip": b"PK\x03\x04", "zstd": b"\x28\xb5\x2f\xfd"}
NEWLINE = re.compile("\r\n|\n|\r")

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?inf(?:inity)?", re.IGNORECASE)
_UNIT = re.compile(r"[\[(]?[\w°µμΩ%/*^.·²³ \-]{0,15}[\])]?")
_EXCEL = re.compile(r"sep=(.)", re.IGNORECASE)
# In order of preference where several explain the file equally well.
_WRITINGS = ((";", "."), (";", ","), ("\t", "."), ("\t", ","), (",", "."), ("|", "."), (WHITESPACE, "."), (",", ","),
             ("|", ","), (WHITESPACE, ","))


@contextlib.contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked where gzip packed them; a file that is damaged is said to be so."""
    with path.open("rb") as file:
        packed = file.read(2) == GZIP
    try:
        with gzip.open(path, "rb") if packed else path.open("rb", buffering=0) as content:
            yield content  # type: ignore[misc]
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ProblemError(f"{path.name} is damaged: {str(error).rstrip('.')}. Pack it again.") from error


def sniff(path: Path, names: Collection[str], separator: str | None = None, decimal: str | None = None) -> Dialect:
    """The dialect of a file; `names` are columns that the caller expects, which tells a header from all else."""
    _check(path, separator, decimal)
    with opened(path) as file:
        head = file.read(HEAD_BYTES)
        complete = not file.read(1)
    encoding = _encoding(head, path)
    text = codecs.getincrementaldecoder(encoding)(errors="replace").decode(head)
    newline = "\r" if "\r" in text and "\n" not in text else "\n"
    lines = NEWLINE.split(text)
    if not complete and len(lines) > 1:
        lines.pop()  # cut in the middle
    content = [(number, line) for number, line in enumerate(lines, 1) if not is_comment(line)][:HEAD_LINES]
    if content and (said := _EXCEL.fullmatch(content[0][1])):
        separator = separator or said.group(1)
        content.pop(0)
    if not content:
        why = "holds only comments" if text.strip() else "is empty"
        raise ProblemError(f"{path.name} {why}. Export it again.")
    expected = {name for name in names if not _NUMBER.fullmatch(name)}
    separator, decimal, width = _writing(content, expected, separator, decimal)
    plain = Dialect(encoding, newline, separator, decimal, ("",) * width, ("",) * width, 0)
    return _told(path.name, lines, plain, *_layout(content, expected, plain))


def layout_of(source: str, rows: Sequence[str], names: Collection[str], separator: str, word: str = "row") -> Dialect:
    """Where header, units and numbers stand in the first rows of a sheet, written as lines; a place is called by `word`."""
    lines = list(rows)
    width = max(len(line.split(separator)) for line in lines)
    plain = Dialect("utf-8", "\n", separator, ".", ("",) * width, ("",) * width, 0)
    content = [(number, line) for number, line in enumerate(lines, 1) if not is_comment(line)]
    expected = {name for name in names if not _NUMBER.fullmatch(name)}
    return _told(source, lines, plain, *_layout(content, expected, plain), word)


def _check(path: Path, separator: str | None, decimal: str | None) -> None:
    faults = []
    if separator is not None and len(separator) != 1:
        faults.append(f"{path.name}: separator = '{separator}' must be one character; a blank stands for any run of "
                      "blanks and tabs.")
    if decimal not in (None, ".", ","):
        faults.append(f"{path.name}: decimal = '{decimal}' must be a point or a comma.")
    if faults:
        raise ProblemError(faults)


def _encoding(head: bytes, path: Path) -> str:
    if head.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    packed = next((name for name, magic in PACKED.items() if head.startswith(magic)), None)
    if packed:
        raise ProblemError(f"{path.name} is packed by {packed}. Unpack it first, or pack it with gzip, which is read.")
    if b"\0" in head:
        even, odd = head[::2].count(0), head[1::2].count(0)
        if max(even, odd) > 0.4 * len(head) / 2 and min(even, odd) == 0:
            return "utf-16-le" if odd else "utf-16-be"
        raise ProblemError(f"{path.name} is not a text file. Export it as CSV, or use read_parquet or read_mat.")
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
    numbers = [bool(_NUMBER.fullmatch(text)) or is_date(field) for text, field in zip(texts, fields, strict=True)]
    filled = all(number or text.lower() in MISSING for number, text in zip(numbers, texts, strict=True))
    return filled and (any(numbers) or any(texts)), any(numbers)


def _names_in(line: str, separator: str) -> set[str]:
    """What the columns are called if this line is the header, with and without units."""
    fields = [field.strip() for field in header_fields(line, separator)]
    return {*fields, *(split_header(field)[0] for field in fields)}


def _writing(content: list[tuple[int, str]], expected: set[str], separator: str | None,
             decimal: str | None) -> tuple[str, str, int]:
    """The separator and decimal sign that explain the file best, and the width of its rows.

    What counts is, in this order: a line with the expected names, many rows of numbers of one width, a first line of
    that width, more than one column.
    """
    writings = [(s, d) for s, d in _WRITINGS if separator in (None, s) and decimal in (None, d)]
    scores = {}
    words = {(name.split() or [""])[0] for name in expected}  # blanks within a name may be others in the file
    titles = [line for _, line in content if '"' in line or any(word in line for word in words)]  # quotes may hide one
    for order, (sep, dec) in enumerate(writings or [(separator or ",", decimal or ".")]):
        rows = [split_line(line, sep) for _, line in content]
        widths = Counter(len(row) for row in rows if _numeric(row, dec)[0])
        width, count = widths.most_common(1)[0] if widths else (len(rows[0]), 0)
        named = max((len(expected & _names_in(line, sep)) for line in titles), default=0)
        agrees = count > 0 and abs(len(header_fields(content[0][1], sep)) - width) <= (rows[0][-1] == "")
        scores[sep, dec, width] = (named, count, agrees, width > 1, -order if count else width)
    return max(scores, key=lambda writing: scores[writing])


NumberedLines = list[tuple[int, str]]


def _layout(content: NumberedLines, expected: set[str], plain: Dialect) -> tuple[list[str], list[str], NumberedLines, int]:
    """The header, a row of units, the lines of text before them, and the line at which the numbers begin."""
    sep, width = plain.separator, plain.width
    header: list[str] = []
    units: list[str] = []
    skipped: NumberedLines = []
    rows = [(number, [field.strip() for field in header_fields(line, sep)]) for number, line in content]
    ends_empty = split_line(content[-1][1], sep)[-1].strip() == ""

    def fits(fields: list[str]) -> bool:
        return len(fields) == width or (len(fields) == width + 1 and fields[-1] == "") or (
            len(fields) + 1 == width and ends_empty)

    titled = next((number for (number, fields), (_, line) in zip(rows, content, strict=True)
                   if fits(fields) and expected & _names_in(line, sep)), 0)
    for (number, fields), line in zip(rows, content, strict=True):
        numeric, any_number = _numeric(fields, plain.decimal)
        if number < titled:
            skipped.append(line)
        elif number == titled or (fits(fields) and not (header or any_number or numeric)):
            header = [*fields, ""][:width]
        elif header and not (units or any_number or numeric) and len(fields) == width and all(
                map(_UNIT.fullmatch, fields)):
            units = [field.strip("[]() ") for field in fields]
        elif header or any_number or numeric:
            return header, units, skipped, number  # if there is text in this row, the reader will say where
        else:
            skipped.append(line)
    return header, units, skipped, 0


def _told(source: str, lines: list[str], plain: Dialect, header: list[str], units: list[str], skipped: NumberedLines,
          data_line: int, word: str = "line") -> Dialect:
    """The dialect with its notes, or the reason why the file cannot be read."""
    if not data_line:
        names = ", ".join(header or [line.strip() for _, line in skipped][:1])
        raise ProblemError(f"{source} has a header ({names}) but no row of numbers. Export it again.")
    notes = []
    above = lines[data_line - 2].strip() if data_line > 1 else ""
    if not header and above.startswith(COMMENT):
        names_above = [name.strip() for name in header_fields(above.lstrip("#% "), plain.separator)]
        if len(names_above) == plain.width:
            header = names_above
            notes.append(f"the column names were taken from the comment in {word} {data_line - 1}.")
    if plain.decimal == ",":
        notes.append("numbers are written with a decimal comma.")
    if plain.encoding not in ("utf-8", "utf-8-sig"):
        notes.append(f"the text was read as {plain.encoding.upper()}.")
    if skipped:
        notes.append(f"{len(skipped)} {word}{'s' * (len(skipped) > 1)} of text above the table, from {word} "
                     f"{skipped[0][0]}, {'were' if len(skipped) > 1 else 'was'} passed over.")
    if units:
        notes.append(f"{word} {data_line - 1} was read as a row of units.")
    return replace(plain, header=tuple(header or plain.header), units=tuple(units or plain.units), data_line=data_line,
                   notes=tuple(notes), doubt="" if header else _doubt(plain, skipped), first_line=lines[data_line - 1])


def _doubt(plain: Dialect, skipped: NumberedLines) -> str:
    """Why a line that looks like a header was not taken for one."""
    if not skipped:
        return ""
    number, line = skipped[-1]
    names = len(header_fields(line, plain.separator))
    commas = plain.separator == "," and plain.width > names
    return (f" Line {number} has {names} field{'s' * (names > 1)}, but the rows of numbers have {plain.width}."
            + " A decimal comma needs another separator than the comma." * commas)
