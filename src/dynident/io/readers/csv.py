"""CSV: read a text file of numbers into an Experiment, fast where it is clean and exact where it is not."""

from __future__ import annotations

import codecs
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from dynident.errors import ProblemError
from dynident.io.readers.build_experiment import to_experiment
from dynident.io.readers.columns import (
    Column,
    ColumnRef,
    Fault,
    Inputs,
    Outputs,
    ReadRequest,
    existing_file,
    fault_sentences,
    locate_columns,
    value_faults,
)
from dynident.io.readers.dialect import COMMENT, MISSING, WHITESPACE, Dialect, is_comment, sniff
from dynident.problem.experiment import Experiment

LONGEST_QUOTE = 40  # characters of a cell that are shown in an error


def read_csv(path: str | Path, *, time: Column | None = None, inputs: Inputs = (), outputs: Outputs = (),
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
        Known initial states.
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
    file = existing_file(path)
    request = ReadRequest(time, inputs, outputs, hold, initial or {}, start, name, units, time_unit, sample_time, mode)
    request.check(file.name)
    dialect = sniff(file, request.names(), separator, decimal)
    found = locate_columns(request, dialect.header, dialect.units, file.name, dialect.doubt)
    wanted = sorted({place.column for place in found})
    values = read_fast(file, dialect, wanted)
    notes = list(dialect.notes)
    if values is None:
        values, more = read_carefully(file, dialect, found)
        notes += more
    elif faults := value_faults(found, values):
        raise_with_lines(file, dialect, faults)
    return to_experiment(request, found, values, file.name, notes)


BLOCK_BYTES = 1 << 22  # read at a time; memory beyond the wanted columns is a few of these

GROWTH = 1.02  # beyond the rows expected from the size of the file; new memory is touched at once

_NULLS = sorted({form for text in MISSING for form in (text, text.upper())} | {"NaN"})

_SIGNS = [sign.encode() for sign in COMMENT]

_COMMENTED = re.compile(rb"^[ \t]*[" + b"".join(_SIGNS) + rb"]", re.MULTILINE)


def read_fast(path: Path, dialect: Dialect, wanted: Sequence[int]) -> dict[int, np.ndarray] | None:
    """The wanted columns by position, or None where some row is not plain numbers."""
    if dialect.width == 1:
        return None  # an empty line means a missing sample there, which the fast reader passes over
    names = [str(k) for k in range(dialect.width)]
    read = pyarrow.csv.ReadOptions(column_names=names)
    parse = pyarrow.csv.ParseOptions(delimiter=dialect.separator)
    convert = pyarrow.csv.ConvertOptions(
        column_types={str(k): pa.float64() for k in wanted}, include_columns=[str(k) for k in wanted],
        decimal_point=dialect.decimal, null_values=_NULLS)
    columns = {k: np.empty(0) for k in wanted}
    rows = capacity = done = 0
    try:
        for block, is_last in _blocks(path, dialect):
            if any(sign in block for sign in _SIGNS) and _COMMENTED.search(block):
                return None  # a comment with as many fields as a row would be taken for one
            table = pyarrow.csv.read_csv(pa.BufferReader(_owned_by_arrow(block)), read, parse, convert)
            done += len(block)
            if rows + table.num_rows > capacity:
                ahead = 0 if is_last else GROWTH * _bytes_of_text(path, dialect) / done
                capacity = max(int((rows + table.num_rows) * ahead), rows + table.num_rows)
                for column in columns.values():
                    column.resize(capacity, refcheck=False)  # no copy for long arrays: the pages are moved
            for k, column in columns.items():
                _put(column, rows, table.column(str(k)))
            rows += table.num_rows
    except pa.ArrowInvalid:
        return None
    for column in columns.values():
        column.resize(rows, refcheck=False)
    pa.default_memory_pool().release_unused()
    return columns


def _owned_by_arrow(block: bytes) -> pa.Buffer:
    """A copy in Arrow's own memory.

    Arrow's threads let go of what they read a moment after read_csv returns. If that is an object of Python, and Python
    is just ending, they wait for a lock that is gone, and the process aborts (apache/arrow, issues 34314 and 45017).
    """
    buffer = pa.allocate_buffer(len(block))
    with pa.FixedSizeBufferWriter(buffer) as writer:
        writer.write(block)
    return buffer


def _put(column: np.ndarray, row: int, values: pa.ChunkedArray) -> None:
    for chunk in values.chunks:
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
                yield _squeezed(block, dialect), False
    if rest and not rest.isspace():
        yield _squeezed(rest, dialect), True


def _utf8(path: Path, dialect: Dialect) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(dialect.encoding)(errors="replace")
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(BLOCK_BYTES):
            text = chunk if dialect.encoding == "utf-8" else decoder.decode(chunk).encode()
            yield text if dialect.newline == "\n" else text.replace(b"\r", b"\n")


def _squeezed(block: bytes, dialect: Dialect) -> bytes:
    """One blank between columns where any run of blanks may stand."""
    if dialect.separator != WHITESPACE:
        return block
    block = b"\n" + block.replace(b"\r", b"").replace(b"\t", b" ")
    while b"  " in block:  # each pass halves the runs
        block = block.replace(b"  ", b" ")
    return block.replace(b"\n ", b"\n").replace(b" \n", b"\n")


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
