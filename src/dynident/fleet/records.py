"""Records: which records does a fleet have, of which machine and from which time?

By a pattern of file names, `data/{machine}/{time}.csv`, in which `*` stands for anything and the parts in braces are
kept; or by an index, a table with a line per record.
"""

from __future__ import annotations

import csv
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

from dynident.errors import ProblemError, did_you_mean
from dynident.io.readers.build_experiment import in_units_of
from dynident.io.readers.columns import existing_file
from dynident.io.readers.tables import read_table
from dynident.problem.experiment import Experiment
from dynident.problem.model import Model

PARTS = ("machine", "time")
MOST_FAULTS = 20  # of an index that are listed
SEPARATORS = ";\t,"  # of an index, tried in this order

RecordTime = datetime | float | None


@dataclass(frozen=True, eq=False)
class FleetRecord:
    """One record of the fleet: a file, or an experiment in memory."""

    name: str  # unique in the fleet; the file as seen from the fleet's folder
    machine: str = ""
    time: RecordTime = None
    file: Path | None = None
    experiment: Experiment | None = field(default=None, repr=False)

    def stamp(self) -> str:
        """Changes whenever the file is written; cheap. An experiment in memory is known by its content."""
        if self.file is None:
            return self.fingerprint()
        seen = self.file.stat()
        return f"{seen.st_size} {seen.st_mtime_ns}"

    def fingerprint(self) -> str:
        """A hash of the content."""
        digest = hashlib.sha256()
        if self.experiment is None:
            assert self.file is not None
            with self.file.open("rb") as content:
                return hashlib.file_digest(content, "sha256").hexdigest()
        e = self.experiment
        digest.update(repr((e.name, e.start, sorted(e.hold.items()), sorted(e.initial.items()), e.mode, e.noise)).encode())
        for group in ({"time": e.time}, e.inputs, e.outputs):
            for name in sorted(group):
                digest.update(name.encode() + group[name].tobytes())
        return digest.hexdigest()

    def read(self, reading: Mapping[str, Any], model: Model) -> Experiment:
        """What was measured; a file in the units of the model, where its own have a factor to them."""
        if self.experiment is not None:
            return self.experiment
        assert self.file is not None
        return in_units_of(model, read_table(self.file, **{**reading, "name": self.name}), reading.get("units") or ())


def records_from(given: Any, folder: Path) -> tuple[FleetRecord, ...]:
    """Records from a pattern, or from a list of files, experiments and records."""
    if isinstance(given, str):
        return records_matching(given, folder)
    made = [_record(it, folder) for it in given]
    names = [record.name for record in made]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise ProblemError([f"{names.count(name)} records are called '{name}'; give each its own name." for name in twice])
    return tuple(made)


def _record(it: Any, folder: Path) -> FleetRecord:
    if isinstance(it, FleetRecord):
        return it
    if isinstance(it, Experiment):
        if not it.name:
            raise ProblemError("an experiment of a fleet needs a name, by which its result is kept.")
        return FleetRecord(it.name, experiment=it)
    file = existing_file(folder / it)
    return FleetRecord(_shown(file, folder), file=file)


def records_matching(pattern: str, folder: Path) -> tuple[FleetRecord, ...]:
    """Files that fit a pattern, in the order of their names."""
    unknown = [part for part in re.findall(r"\{(.*?)\}", pattern) if part not in PARTS]
    if unknown:
        raise ProblemError(f"'{{{unknown[0]}}}' has no meaning in '{pattern}'; a pattern can hold {{machine}} and {{time}}.")
    *begin, last = Path(pattern).parts or ("",)
    fixed = list(takewhile(lambda part: not re.search(r"[*?{]", part), begin))
    root, rest = folder.joinpath(*fixed), "/".join([*begin[len(fixed):], last])
    expression = _expression(rest)
    found = []
    for file in sorted(root.glob(re.sub(r"\{.*?\}", "*", rest))):
        parts = expression.fullmatch(file.relative_to(root).as_posix())
        if file.is_file() and parts is not None:
            said = parts.groupdict()
            found.append((file, said.get("machine", ""), said.get("time", "")))
    if not found:
        raise ProblemError(f"no file fits '{pattern}' in {folder}.")
    faults: list[str] = []
    times = _moments([time for *_, time in found], [_shown(file, folder) for file, *_ in found], faults)
    if faults:
        raise ProblemError(faults)
    return tuple(FleetRecord(_shown(file, folder), machine, time, file)
                 for (file, machine, _), time in zip(found, times, strict=True))


def _expression(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression over names with '/'; a part that occurs twice must be the same twice."""
    wanted, seen = "", set()
    for token in re.findall(r"\{.*?\}|\*\*/|\*|\?|.", pattern):
        name = token[1:-1]
        if token.startswith("{") and token.endswith("}"):
            wanted += f"(?P={name})" if name in seen else f"(?P<{name}>[^/]+)"
            seen.add(name)
        else:
            wanted += {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}.get(token, re.escape(token))
    return re.compile(wanted)


def records_in_index(index: Path, columns: Mapping[str, str], folder: Path) -> tuple[FleetRecord, ...]:
    """Records that a table lists; the columns of machine and time may be missing."""
    header, rows = _table(index)
    faults = [f"{index.name} has no column '{columns['file']}' with the files.{did_you_mean(columns['file'], header)}"
              ] * (columns["file"] not in header)
    faults += [f"{index.name} has no column '{name}' for the {part}.{did_you_mean(name, header)}"
               for part, name in columns.items() if part != "file" and name != part and name not in header]
    if faults:
        raise ProblemError(faults)
    where = [f"{index.name}, line {number}" for number in range(2, len(rows) + 2)]
    found = []
    for row, place in zip(rows, where, strict=True):
        try:
            found.append((existing_file(folder / str(row[columns["file"]]).strip()), str(row.get(columns["machine"]) or "")))
        except ProblemError as error:
            faults += [f"{place}: {fault}" for fault in error.faults]
    times = _moments([row.get(columns["time"]) for row in rows], where, faults)
    names = [_shown(file, folder) for file, _ in found]
    faults += [f"{index.name} lists '{name}' {names.count(name)} times." for name in dict.fromkeys(names)
               if len(set(names)) < len(names) and names.count(name) > 1]
    if not rows:
        faults.append(f"{index.name} lists no record.")
    if faults:
        more = len(faults) - MOST_FAULTS
        raise ProblemError(faults[:MOST_FAULTS] + ([f"{index.name}: {more} more faults of this kind."] if more > 0 else []))
    return tuple(sorted((FleetRecord(name, machine, time, file)
                         for name, (file, machine), time in zip(names, found, times, strict=True)), key=lambda r: r.name))


def _table(index: Path) -> tuple[list[str], list[dict[str, Any]]]:
    if index.suffix.lower() in (".parquet", ".pq"):
        import pyarrow.parquet

        rows = pyarrow.parquet.read_table(index).to_pylist()
        return list(rows[0]) if rows else [], rows
    with index.open(encoding="utf-8-sig", newline="") as text:
        head = text.readline()
        text.seek(0)
        separator = next((mark for mark in SEPARATORS if mark in head), ",")
        reader = csv.DictReader(text, delimiter=separator, skipinitialspace=True)
        rows = list(reader)
        return [str(name) for name in reader.fieldnames or ()], rows


def _moments(given: Sequence[Any], where: Sequence[str], faults: list[str]) -> list[RecordTime]:
    """Times as dates or as numbers, all of one kind; nothing where nothing is said."""
    made: list[RecordTime] = []
    for text, place in zip(given, where, strict=True):
        try:
            made.append(parse_time(text))
        except ValueError:
            made.append(None)
            faults.append(f"{place}: the time '{text}' is neither a date such as 2026-03-01T12:00 nor a number.")
    if len({type(it) for it in made if it is not None}) > 1:
        faults.append("some times are dates and others are numbers; write all of them in one way.")
    return made


def parse_time(given: Any) -> RecordTime:
    """A date (in UTC where it names a time zone), a number, or nothing. Raises ValueError for anything else."""
    if given is None or given == "":
        return None
    if not isinstance(given, (str, datetime)):
        return float(given)
    try:
        read = given if isinstance(given, datetime) else datetime.fromisoformat(given.strip())
    except ValueError:
        return float(given)  # type: ignore[arg-type]
    return read.astimezone(UTC).replace(tzinfo=None) if read.tzinfo else read


def _shown(file: Path, folder: Path) -> str:
    """A name without '..', but with links as they are called."""
    there, here = (Path(os.path.abspath(path)) for path in (file, folder))
    return (there.relative_to(here) if there.is_relative_to(here) else there).as_posix()
