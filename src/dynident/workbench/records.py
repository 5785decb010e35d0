"""Records: what do the files of a problem hold, also while its model is not right yet?"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from dynident.errors import DynidentError, ProblemError
from dynident.io.problem_file.read import Located, ProblemFile, Reader, problem_from_text
from dynident.io.problem_file.schema import ExperimentTable
from dynident.io.readers.columns import existing_file
from dynident.io.readers.dialect import sniff
from dynident.io.readers.tables import READERS, read_csv, read_table
from dynident.problem.experiment import Experiment
from dynident.problem.problem import given_std
from dynident.units import split_header

PREVIEW_ROWS = 20
MOST_RECORDS_KEPT = 32  # read records that are kept beside each other while a problem is edited
KINDS = ("experiment", "validation")


@dataclass(frozen=True, eq=False)
class ReadableProblem:
    """A problem as far as it can be read: records stand also where model or parameters are faulty."""

    said: ProblemFile | None  # None where there are faults
    kinds: tuple[str, ...]  # per record: "experiment" or "validation"
    records: tuple[Experiment | None, ...]  # None where a record cannot be read
    faults: tuple[str, ...]
    content: dict[str, Any]  # the file as tables; empty where it is no TOML

    @property
    def tables(self) -> list[dict[str, Any]]:
        """Of each record, in their order."""
        return [table for kind in KINDS for table in _tables(self.content, kind)]


class RecordCache:
    """Reads each record once, as long as its file stays the same."""

    def __init__(self) -> None:
        self.kept: dict[tuple[Any, ...], Experiment] = {}

    def read(self, path: Path, **request: Any) -> Experiment:
        found = path.stat()
        key = (str(path), found.st_mtime_ns, found.st_size, repr(sorted(request.items(), key=lambda item: item[0])))
        if key not in self.kept:
            while len(self.kept) >= MOST_RECORDS_KEPT:
                self.kept.pop(next(iter(self.kept)))
            self.kept[key] = read_table(path, **request)
        return self.kept[key]


def open_problem(text: str, file: Path, allow_outside: bool, allow_code: bool, read: Callable[..., Experiment]
                 ) -> ReadableProblem:
    """The whole problem where it is sound; else its records one by one, and every fault."""
    try:
        content = tomllib.loads(text.replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return ReadableProblem(None, (), (), (f"{file.name} is not valid TOML: {error}.",), {})
    kinds = tuple(kind for kind in KINDS for _ in _tables(content, kind))
    try:
        said = problem_from_text(text, file, allow_outside, allow_code, read)
        return ReadableProblem(said, kinds, (*said.problem.experiments, *said.validation), (), content)
    except DynidentError as error:
        faults = tuple(getattr(error, "faults", None) or [str(error)])
    one = functools.partial(_record_alone, file, text, allow_outside, read)
    records = tuple(one(table) for kind in KINDS for table in _tables(content, kind))
    return ReadableProblem(None, kinds, records, faults, content)


def _tables(content: dict[str, Any], kind: str) -> list[Any]:
    found = content.get(kind, [])
    return [table for table in found if isinstance(table, dict)] if isinstance(found, list) else []


def _record_alone(file: Path, text: str, allow_outside: bool, read: Callable[..., Experiment], table: Any
                  ) -> Experiment | None:
    """What the table names, without a model; None where even that is faulty, which the whole problem says already."""
    try:
        wanted = ExperimentTable.model_validate(table)
        return Reader(file, Located(file.name, text), allow_outside, False, read).experiment(("experiment",), wanted, None)
    except (ValidationError, DynidentError):
        return None


def whole_record(opened: ReadableProblem, text: str, file: Path, allow_outside: bool,
                 read: Callable[..., Experiment], record: int) -> Experiment | None:
    """A record without its window."""
    table = {key: value for key, value in opened.tables[record].items() if key != "window"}
    return _record_alone(file, text, allow_outside, read, table)


def described(record: Experiment | None, kind: str, table: dict[str, Any]) -> dict[str, Any]:
    """A record as the page lists it."""
    if record is None:
        file = table.get("file", "")
        return {"kind": kind, "name": table.get("name") or file, "file": file, "readable": False}
    noise = {name: given_std(record, name) for name in record.outputs}
    return {"kind": kind, "name": record.label, "file": table.get("file", ""), "readable": True, "samples": record.samples,
            "from": float(record.time[0]), "to": float(record.time[-1]), "inputs": list(record.inputs),
            "outputs": list(record.outputs), "units": dict(record.units), "notes": list(record.notes),
            "noise": {name: None if std is None else float(np.mean(std)) for name, std in noise.items()},
            "missing": {name: int(np.sum(np.isnan(values))) for name, values in record.outputs.items()},
            "window": table.get("window")}


def preview(path: Path) -> dict[str, Any]:
    """The first rows of a file, what was understood about it, and which column may be what."""
    file = existing_file(path)
    if READERS.get(file.suffix.lower()) is not read_csv:
        return _preview_of_columns(file)
    dialect = sniff(file, ())
    with file.open(encoding=dialect.encoding, errors="replace", newline=None) as lines:
        rows = [dialect.fields(line.rstrip("\n")) for number, line in enumerate(lines, 1)
                if dialect.data_line <= number < dialect.data_line + PREVIEW_ROWS]
    named = [split_header(header) for header in dialect.header]
    units = [own or unit for (_, own), unit in zip(named, dialect.units, strict=True)]
    names = [name or f"column {k}" for k, (name, _) in enumerate(named)]
    return _previewed(file.name, names, units, rows, list(dialect.notes), headed=any(dialect.header))


def _preview_of_columns(file: Path) -> dict[str, Any]:
    if file.suffix.lower() in (".parquet", ".pq"):
        import pyarrow.parquet

        source = pyarrow.parquet.ParquetFile(file)
        batch = next(source.iter_batches(batch_size=PREVIEW_ROWS), None)
        rows = [] if batch is None else [[str(v) for v in row] for row in zip(*batch.to_pydict().values(), strict=True)]
        return _previewed(file.name, list(source.schema_arrow.names), [""] * len(source.schema_arrow.names), rows, [])
    import scipy.io

    names = [name for name, _, _ in scipy.io.whosmat(file)]
    return _previewed(file.name, names, [""] * len(names), [], [])


def _previewed(name: str, names: list[str], units: list[str], rows: list[list[str]], notes: list[str], headed: bool = True
               ) -> dict[str, Any]:
    if not names:
        raise ProblemError(f"{name} has no columns.")
    return {"file": name, "headed": headed, "columns": [{"name": n, "unit": u, "role": role} for n, u, role in
                                      zip(names, units, guessed_roles(names, units), strict=True)],
            "rows": rows, "notes": notes}


def guessed_roles(names: list[str], units: list[str]) -> list[str]:
    """Time where a column is called or measured so; an input by the usual letters; else output."""
    roles = []
    for name, unit in zip(names, units, strict=True):
        word = name.strip().lower()
        time = word in ("t", "time", "zeit", "timestamp", "sec", "seconds") or (unit in ("s", "ms", "us") and word[:1] == "t")
        driven = word in ("u", "input", "f", "i", "force", "voltage", "current", "torque", "tau", "in") or (
            word[:1] in ("u", "i") and word[1:].lstrip("_").isdigit())
        roles.append("time" if time and "time" not in roles else "input" if driven else "output")
    return roles
