"""Records: what do the files of a problem hold, also while its model is not right yet?"""

from __future__ import annotations

import io
import itertools
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from dynident.errors import DynidentError, ProblemError, sentences_of
from dynident.io.problem_file.faults import Located
from dynident.io.problem_file.read import ProblemFile, Reader, problem_from_text
from dynident.io.problem_file.schema import ExperimentTable
from dynident.io.readers.columns import existing_file
from dynident.io.readers.dialect import opened as opened_text
from dynident.io.readers.dialect import sniff
from dynident.io.readers.tables import KIND_OF, columns_in, read_csv, reader_of, records_of
from dynident.problem.experiment import Experiment
from dynident.problem.problem import given_std
from dynident.units import split_header

PREVIEW_ROWS = 20
MOST_FILES_KEPT = 32  # files that are kept beside each other while a problem is edited
KINDS = ("experiment", "validation")


@dataclass(frozen=True, eq=False)
class ReadableProblem:
    """A problem as far as it can be read: records stand also where model or parameters are faulty."""

    said: ProblemFile | None  # None where there are faults
    sources: tuple[tuple[str, int], ...]  # per record: "experiment" or "validation", and which of these tables names its file
    records: tuple[Experiment | None, ...]  # None where a record cannot be read
    faults: tuple[str, ...]
    content: dict[str, Any]  # the file as tables; empty where it is no TOML

    def table(self, record: int) -> dict[str, Any]:
        """The table that names a record."""
        kind, place = self.sources[record]
        return dict(_tables(self.content, kind)[place])


class RecordCache:
    """Reads each file once, as long as it stays the same and is asked for the same."""

    def __init__(self) -> None:
        self.kept: dict[tuple[Any, ...], list[Experiment]] = {}

    def read(self, path: Path, split: Any, request: dict[str, Any]) -> list[Experiment]:
        found = path.stat()
        asked = repr(sorted(request.items(), key=lambda item: item[0]))
        key = (str(path), found.st_mtime_ns, found.st_size, repr(split), asked)
        if key not in self.kept:
            while len(self.kept) >= MOST_FILES_KEPT:
                self.kept.pop(next(iter(self.kept)))
            self.kept[key] = records_of(path, split, request)
        return self.kept[key]


@dataclass(frozen=True, eq=False)
class ProblemText:
    """A text, where it stands, what it may name, and who reads its files."""

    text: str
    file: Path
    allow_outside: bool
    allow_code: bool | Sequence[str]
    read: Callable[..., list[Experiment]]

    def opened(self) -> ReadableProblem:
        """The whole problem where it is sound; else its records one by one, and every fault."""
        try:
            content = tomllib.loads(self.text.replace("\r\n", "\n"))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            return ReadableProblem(None, (), (), (f"{self.file.name} is not valid TOML: {error}.",), {})
        alone: list[tuple[tuple[str, int], Experiment | None]] = [
            ((kind, place), run) for kind in KINDS for place, table in enumerate(_tables(content, kind))
            for run in self.runs(table) or (None,)]
        sources, runs = tuple(source for source, _ in alone), tuple(run for _, run in alone)
        try:
            said = problem_from_text(self.text, self.file, self.allow_outside, self.allow_code, self.read)
            return ReadableProblem(said, sources, (*said.problem.experiments, *said.validation), (), content)
        except DynidentError as error:
            return ReadableProblem(None, sources, runs, sentences_of(error), content)

    def runs(self, table: Any) -> list[Experiment]:
        """What a table names, without a model; nothing where even that is faulty, which the whole problem says already."""
        try:
            wanted = ExperimentTable.model_validate(table)
            located = Located(self.file.name, self.text)
            return Reader(self.file, located, self.allow_outside, False, self.read).runs(("experiment",), wanted, None)
        except (ValidationError, DynidentError):
            return []


def _tables(content: dict[str, Any], kind: str) -> list[Any]:
    found = content.get(kind, [])
    return [table for table in found if isinstance(table, dict)] if isinstance(found, list) else []


def described(opened: ReadableProblem, number: int) -> dict[str, Any]:
    """A record as the page lists it."""
    record, (kind, place), table = opened.records[number], opened.sources[number], opened.table(number)
    if record is None:
        file = table.get("file", "")
        named = table.get("name") or file
        return {"kind": kind, "place": place, "name": named, "file": file, "readable": False}
    noise = {name: given_std(record, name) for name in record.outputs}
    return {"kind": kind, "place": place, "name": record.label, "file": table.get("file", ""), "readable": True,
            "samples": record.samples,
            "from": float(record.time[0]), "to": float(record.time[-1]), "inputs": list(record.inputs),
            "outputs": list(record.outputs), "units": dict(record.units), "notes": list(record.notes),
            "noise": {name: None if std is None else float(np.mean(std)) for name, std in noise.items()},
            "missing": {name: int(np.sum(np.isnan(values))) for name, values in record.outputs.items()},
            "window": table.get("window")}


def preview(path: Path) -> dict[str, Any]:
    """The first rows of a file, what was understood about it, and which column may be what."""
    file = existing_file(path)
    reader = reader_of(file, {})
    if reader is not read_csv:
        return _preview_of_columns(file, KIND_OF[reader])
    dialect = sniff(file, ())
    with opened_text(file) as raw:
        text = io.TextIOWrapper(raw, dialect.encoding, errors="replace")
        lines = list(itertools.islice(text, dialect.data_line - 1, dialect.data_line - 1 + PREVIEW_ROWS))
        rows = [dialect.fields(line.rstrip("\n")) for line in lines]
    named = [split_header(header) for header in dialect.header]
    units = [own or unit for (_, own), unit in zip(named, dialect.units, strict=True)]
    names = [name or f"column {k}" for k, (name, _) in enumerate(named)]
    return _previewed(file.name, names, units, rows, list(dialect.notes), headed=any(dialect.header))


def _preview_of_columns(file: Path, kind: str) -> dict[str, Any]:
    """Of a file with columns of its own: their names, and their first values."""
    table = columns_in(file, kind)
    shown = [[str(value) for value in table.labels(k)[:PREVIEW_ROWS]] for k in range(len(table.headers))]
    named = [(header, "") if table.units is None else split_header(header) for header in table.headers]
    units = [own or unit for (_, own), unit in zip(named, table.units or [""] * len(named), strict=True)]
    rows = [list(row) for row in itertools.zip_longest(*shown, fillvalue="")]
    return _previewed(file.name, [name for name, _ in named], units, rows, list(table.notes))


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
