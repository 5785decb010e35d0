"""CSV: read a text file of numbers into an Experiment, fast where it is clean and exact where it is not."""

from __future__ import annotations

import codecs
import io
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from dynident.errors import ProblemError
from dynident.io.readers.columns import (
    LONGEST_QUOTE,
    Column,
    ColumnRef,
    Fault,
    InputColumns,
    OutputColumns,
    ReadRequest,
    existing_file,
    fault_sentences,
    value_faults,
)
from dynident.io.readers.dates import counts_of, first_count, has_zone, is_date, parsed_dates, printed_date, seconds_from
from dynident.io.readers.dialect import COMMENT, MISSING, WHITESPACE, Dialect, is_comment, opened, sniff
from dynident.io.readers.table_columns import TableColumns, TableValues, read_one
from dynident.problem.experiment import Experiment


def read_csv(path: str | Path, *, time: Column | None = None, inputs: InputColumns = (), outputs: OutputColumns = (),
             hold: Mapping[str, str] | str = "zero", initial: Mapping[str, float] | None = None,
             start: float | None = None, name: str | None = None, units: Mapping[str, str] | None = None,
             time_unit: str | None = None, sample_time: float | None = None, separator: str | None = None,
             decimal: str | None = None, mode: str = "") -> Experiment:
    r"""Read one record from a text file; columns are named by their header or by their position, counted from 0.

    An empty cell, NaN or NA is a missing sample in an output and an error in an input. Encoding and header are found by
    looking; `notes` of the experiment say what was found beyond the plain case. See the manual, howto/read_records.

    Parameters
    ----------
    path : str or Path
        The file.
    time : str or int, optional
        Column of the time. A header such as "t [ms]" gives its unit, and time is converted to seconds.
    inputs : sequence of str, or mapping of str to column, default ()
        `["u"]`, or `{"u": "column"}`.
    outputs : sequence of str, or mapping, default ()
        `{"y": Gaussian(0.1)}`, `{"y": ("column", Gaussian(0.1))}`, `{"y": ("column", Gaussian, "column of its std")}`; with a
        list of names or `{"y": "column"}` the noise is estimated.
    hold : str or mapping of str to str, default "zero"
        How inputs move between samples: "zero" (constant) or "linear".
    initial : mapping of str to float, optional
        Known initial states, in the units of the model.
    start : float, optional
        Time at which the initial state holds, in seconds; the first sample unless given.
    name : str, optional
        Of the experiment; that of the file unless given.
    units : mapping of str to str, optional
        Units wanted, `{"y": "m", "time": "h"}`: a column whose header differs is converted.
    time_unit : str, optional
        Unit of the time column, where the header does not say it.
    sample_time : float, optional
        Makes the time of a file that has no such column, in seconds.
    separator : str, optional
        Between cells; found by looking unless given.
    decimal : str, optional
        Decimal sign; found by looking unless given.
    mode : str, default ""
        In which mode a hybrid model begins.

    Returns
    -------
    Experiment
        The record.

    Raises
    ------
    ProblemError
        With every column that is missing and every cell that is no number, each with its line.

    Examples
    --------
    >>> import dynident as di
    >>> from pathlib import Path
    >>> _ = Path("record.csv").write_text("t [ms];y\n0;1,0\n500;0,8\n1000;0,6\n")
    >>> record = di.read_csv("record.csv", time="t", outputs={"y": di.Gaussian(0.1)})
    >>> print(record.time, record.outputs["y"])
    [0.  0.5 1. ] [1.  0.8 0.6]
    """
    request = ReadRequest(time, inputs, outputs, hold, initial or {}, start, name, units, time_unit, sample_time, mode)
    return read_one(request, text_columns(path, request, separator, decimal))


def text_columns(path: str | Path, request: ReadRequest, separator: str | None = None, decimal: str | None = None
                 ) -> TableColumns:
    """The columns of a text file."""
    file = existing_file(path)
    request.check(file.name)
    dialect = sniff(file, request.names(), separator, decimal)

    def values(found: Sequence[ColumnRef], runs: np.ndarray | None) -> TableValues:
        date = _date_column(dialect, found)
        fast = read_fast(file, dialect, sorted({place.column for place in found}), date)
        if fast is None:
            return read_carefully(file, dialect, found, date, runs)
        if faults := value_faults(found, fast.columns, runs=runs):
            raise_with_lines(file, dialect, faults)
        return fast

    def labels(column: int) -> np.ndarray:
        return np.array([dialect.label(fields[column]) if len(fields) > column else ""
                         for _, fields in _rows(file, dialect, []) if fits(fields, dialect)], dtype=object)

    return TableColumns(file.name, dialect.header, values, dialect.units, labels, notes=dialect.notes, doubt=dialect.doubt,
                        place=lambda row: f"{file.name}, line {lines_of(file, dialect, {row})[row]}")


@dataclass(frozen=True)
class DateColumn:
    """The column of time, where it holds dates: whether they name a zone, and the first as a count."""

    column: int
    zoned: bool
    first: int
    text: str


def _date_column(dialect: Dialect, found: Sequence[ColumnRef]) -> DateColumn | None:
    """Whether time is written as dates, by its first row."""
    for place in found:
        if place.role == "time":
            fields = dialect.fields(dialect.first_line)
            text = fields[place.column].strip() if len(fields) > place.column else ""
            if is_date(text) and (count := _date_count(text, has_zone(text))) is not None:
                return DateColumn(place.column, has_zone(text), count, printed_date(count, has_zone(text)))
    return None


def _date_count(text: str, zoned: bool) -> int | None:
    try:
        return first_count(counts_of(parsed_dates(pa.array([text]), zoned)))
    except pa.ArrowInvalid:
        return None


BLOCK_BYTES = 1 << 22  # read at a time; memory beyond the wanted columns is a few of these

ROW_RESERVE = 1.02  # beyond the rows expected from the size of the file; new memory is touched at once

_NULLS = sorted({form for text in MISSING for form in (text, text.upper())} | {"NaN"})

_SIGNS = [sign.encode() for sign in COMMENT]

_COMMENTED = re.compile(rb"^[ \t]*[" + b"".join(_SIGNS) + rb"]", re.MULTILINE)


def read_fast(path: Path, dialect: Dialect, wanted: Sequence[int], date: DateColumn | None = None) -> TableValues | None:
    """The wanted columns by position, or None where some row is not plain numbers, or dates in the column of dates."""
    if dialect.width == 1:
        return None  # an empty line means a missing sample there, which the fast reader passes over
    names = [str(k) for k in range(dialect.width)]
    read = pyarrow.csv.ReadOptions(column_names=names)
    parse = pyarrow.csv.ParseOptions(delimiter=dialect.separator)
    kinds = {str(k): pa.string() if date is not None and k == date.column else pa.float64() for k in wanted}
    convert = pyarrow.csv.ConvertOptions(column_types=kinds, include_columns=list(kinds), decimal_point=dialect.decimal,
                                         null_values=_NULLS, strings_can_be_null=True)
    columns = {k: np.empty(0) for k in wanted}
    rows = capacity = done = 0
    try:
        for block, is_last in _blocks(path, dialect):
            if any(sign in block for sign in _SIGNS) and _COMMENTED.search(block):
                return None  # a comment with as many fields as a row would be taken for one
            table = pyarrow.csv.read_csv(pa.BufferReader(_owned_by_arrow(block)), read, parse, convert)
            done += len(block)
            if rows + table.num_rows > capacity:
                ahead = 0 if is_last else ROW_RESERVE * _bytes_of_text(path, dialect) / done
                capacity = max(int((rows + table.num_rows) * ahead), rows + table.num_rows)
                for column in columns.values():
                    column.resize(capacity, refcheck=False)  # no copy for long arrays: the pages are moved
            for k, column in columns.items():
                _copy_chunk(column, rows, table.column(str(k)), date)
            rows += table.num_rows
    except pa.ArrowInvalid:
        return None
    for column in columns.values():
        column.resize(rows, refcheck=False)
    pa.default_memory_pool().release_unused()
    return TableValues(columns, {} if date is None else {date.column: date.text}, checked=True)


def _owned_by_arrow(block: bytes) -> pa.Buffer:
    """A copy in Arrow's own memory.

    Arrow's threads let go of what they read a moment after read_csv returns. If that is an object of Python, and Python
    is just ending, they wait for a lock that is gone, and the process aborts (apache/arrow, issues 34314 and 45017).
    """
    buffer = pa.allocate_buffer(len(block))
    with pa.FixedSizeBufferWriter(buffer) as writer:
        writer.write(block)
    return buffer


def _copy_chunk(column: np.ndarray, row: int, values: pa.ChunkedArray, date: DateColumn | None) -> None:
    for chunk in values.chunks:
        if date is not None and pa.types.is_string(chunk.type):
            column[row:row + len(chunk)] = seconds_from(counts_of(parsed_dates(chunk, date.zoned)), date.first)
        else:
            column[row:row + len(chunk)] = chunk.to_numpy(zero_copy_only=False)  # a null becomes NaN
        row += len(chunk)


def _bytes_of_text(path: Path, dialect: Dialect) -> int:
    return path.stat().st_size // (2 if dialect.encoding.startswith("utf-16") else 1)


def _blocks(path: Path, dialect: Dialect) -> Iterator[tuple[bytes, bool]]:
    """The rows as UTF-8 text in blocks that end with a line; whether it is the last block."""
    rest = b""
    skip = dialect.data_line - 1
    for chunk in _utf8(path, dialect):
        rest += chunk
        while skip and b"\n" in rest:
            rest = rest[rest.index(b"\n") + 1:]
            skip -= 1
        cut = rest.rfind(b"\n") + 1
        if cut and not skip:
            block, rest = rest[:cut], rest[cut:]
            if not block.isspace():
                yield _collapse_blanks(block, dialect), False
    if rest and not rest.isspace():
        yield _collapse_blanks(rest, dialect), True


def _utf8(path: Path, dialect: Dialect) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(dialect.encoding)(errors="replace")
    with opened(path) as file:
        while chunk := file.read(BLOCK_BYTES):
            text = chunk if dialect.encoding == "utf-8" else decoder.decode(chunk).encode()
            yield text if dialect.newline == "\n" else text.replace(b"\r", b"\n")


def _collapse_blanks(block: bytes, dialect: Dialect) -> bytes:
    """One blank between columns where any run of blanks may stand."""
    if dialect.separator != WHITESPACE:
        return block
    block = b"\n" + block.replace(b"\r", b"").replace(b"\t", b" ")
    while b"  " in block:  # each pass halves the runs
        block = block.replace(b"  ", b" ")
    return block.replace(b"\n ", b"\n").replace(b" \n", b"\n")


def read_carefully(path: Path, dialect: Dialect, found: Sequence[ColumnRef], date: DateColumn | None = None,
                   runs: np.ndarray | None = None) -> TableValues:
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
        if not fits(fields, dialect):
            ragged.append((number, len(fields)))
            continue
        for k, column in columns.items():
            value = dialect.number(fields[k]) if date is None or k != date.column else _date_seconds(fields[k], date)
            if value is None:
                texts.setdefault(k, fields[k])
                unreadable[k].append(len(lines))
            column.append(np.nan if value is None else value)
        lines.append(number)
    values = {k: np.array(column) for k, column in columns.items()}
    at = {place.column: place for place in found}
    faults = [Fault(lines[rows[0]], len(rows), _not_a_number(at[k], texts[k], dialect, date))
              for k, rows in unreadable.items() if rows]
    if ragged:
        number, width = ragged[0]
        faults.append(Fault(number, len(ragged), f"the row has {width} column{'s' * (width != 1)} instead of "
                                                 f"{dialect.width}. Complete or delete it."))
    faults += [Fault(lines[fault.row], fault.count, fault.sentence)
               for fault in value_faults(found, values, unreadable, runs)]
    if faults:
        raise ProblemError(fault_sentences(faults, lambda line: f"{path.name}, line {line}"))
    return TableValues(values, {} if date is None else {date.column: date.text}, _passed_over(comments), checked=True)


def fits(fields: Sequence[str], dialect: Dialect) -> bool:
    """Whether a row is as wide as the table; one more separator at the end does no harm."""
    return len(fields) == dialect.width or (len(fields) == dialect.width + 1 and not fields[-1].strip())


def _date_seconds(text: str, date: DateColumn) -> float | None:
    """Like `Dialect.number`, of a date."""
    if text.strip().lower() in MISSING:
        return float("nan")
    count = _date_count(text, date.zoned) if is_date(text) and has_zone(text) == date.zoned else None
    return None if count is None else (count - date.first) / 1e9


def _passed_over(comments: Sequence[int]) -> list[str]:
    if not comments:
        return []
    many = len(comments) > 1
    return [f"{len(comments)} comment{'s' * many} inside the table, {'from line' if many else 'line'} {comments[0]}"
            f"{' on' * many}, {'were' if many else 'was'} passed over."]


def raise_with_lines(path: Path, dialect: Dialect, faults: Sequence[Fault]) -> None:
    """Raise faults that were found in the columns, after a look at the file for the lines of their rows."""
    lines = lines_of(path, dialect, {fault.row for fault in faults})
    raise ProblemError(fault_sentences(faults, lambda row: f"{path.name}, line {lines[row]}"))


def lines_of(path: Path, dialect: Dialect, rows: set[int]) -> dict[int, int]:
    """The lines of rows."""
    return {row: number for row, (number, _) in enumerate(_lines(path, dialect, [])) if row in rows}


def _lines(path: Path, dialect: Dialect, comments: list[int]) -> Iterator[tuple[int, str]]:
    """The lines that are rows; the numbers of those that are comments are added to the list.

    In a file of one column, an empty line between others is a row with an empty cell.
    """
    empty: list[tuple[int, str]] = []
    with opened(path) as content:
        file = io.TextIOWrapper(io.BufferedReader(content), encoding=dialect.encoding, errors="replace")  # type: ignore[type-var]
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


def _not_a_number(place: ColumnRef, text: str, dialect: Dialect, date: DateColumn | None) -> str:
    text = text.strip()
    if date is not None and place.column == date.column:
        zone = "without a zone, while the first has one" if date.zoned else "with a zone, while the first has none"
        return (f"column '{place.header}' holds '{text[:LONGEST_QUOTE]}', " + (
            f"a date {zone}. Write all alike." if is_date(text) else "which is no date such as 2024-05-01T12:00:00.250+02:00."))
    shown = text[:LONGEST_QUOTE] + "..." * (len(text) > LONGEST_QUOTE)
    sentence = f"column '{place.header}' holds '{shown}', which is not a number."
    if dialect.decimal == "." and "," in text and "." not in text and dialect.separator != ",":
        return f"{sentence} If it is a decimal comma, say decimal=\",\"."
    if place.role == "time":
        return f"{sentence} Write seconds from the start of the record, or dates such as 2024-05-01T12:00:00.250+02:00."
    return f"{sentence} Correct it, or leave the cell empty if the sample is missing."
