"""CSV: read a text file of numbers into an Experiment, fast where it is clean and exact where it is not."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from dynident.io.readers.build_experiment import to_experiment
from dynident.io.readers.columns import Column, Inputs, Outputs, ReadRequest, existing_file, locate_columns, value_faults
from dynident.io.readers.csv_strict import raise_with_lines, read_carefully
from dynident.io.readers.dialect import COMMENT, MISSING, WHITESPACE, Dialect, sniff
from dynident.problem.experiment import Experiment


def read_csv(path: str | Path, *, time: Column | None = None, inputs: Inputs = (), outputs: Outputs = (),
             hold: Mapping[str, str] | str = "zero", initial: Mapping[str, float] | None = None,
             start: float | None = None, name: str | None = None, units: Mapping[str, str] | None = None,
             time_unit: str | None = None, sample_time: float | None = None, separator: str | None = None,
             decimal: str | None = None, mode: str = "") -> Experiment:
    """Read one record from a text file; columns are named by their header or by their position, counted from 0.

    `inputs=["u"]` or `{"u": "column"}`; `outputs={"y": Gaussian(0.1)}`, `{"y": ("column", Gaussian(0.1))}`,
    `{"y": ("column", Gaussian, "column of its std")}`, or `{"y": "column"}` and a list of names, whose noise is
    then estimated.
    An empty cell, NaN or NA is a missing sample in an output and an error in an input. Separator, decimal sign,
    encoding and header are found by looking; `notes` of the experiment say what was found beyond the plain case.
    A header such as 't [ms]' gives time in seconds; `time_unit` says it where the header does not. `units` are the
    units wanted, `{"y": "m", "time": "h"}`: a column whose header differs is converted. `sample_time` makes the time
    of a file that has no such column. `mode` is the one in which a hybrid model begins.
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
