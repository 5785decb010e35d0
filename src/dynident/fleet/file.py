"""Fleet file: a problem file with [record] in the place of [[experiment]], and a table [fleet]."""

from __future__ import annotations

from pathlib import Path, PurePosixPath, PureWindowsPath

from dynident.errors import ProblemError
from dynident.fleet.fleet import Fleet
from dynident.fleet.records import FleetRecord, records_in_index, records_matching
from dynident.io.problem_file.read import Reader, parse_file
from dynident.io.problem_file.schema import FleetFileTable, FleetTable
from dynident.io.problem_file.schema_errors import validate_table


def read_fleet(path: str | Path, *, allow_outside: bool = False, allow_python: bool = False) -> Fleet:
    """Read a fleet file and list its records; all faults are said at once, each with its line and path.

    Records must lie in the folder of the file unless `allow_outside`.
    """
    file, located, content = parse_file(path)
    tables = validate_table(content, located, FleetFileTable)
    reader = Reader(file, located, allow_outside, allow_python)
    model = reader.model(tables.model, list(tables.record.outputs))
    key = "records" if tables.fleet.index is None else "index"
    try:
        records = _records(tables.fleet, reader)
    except ProblemError as error:
        records = ()
        reader.faults += [located.fault(("fleet", key), fault) for fault in error.faults]
    if reader.faults or model is None:
        raise ProblemError(reader.faults)
    try:
        return Fleet(model, records, tables.unknowns(), tables.method.model_dump() if tables.method else None,
                     tables.record.request(), tables.constraints, tables.fleet.shared, tables.fleet.timeout,
                     tables.fleet.retries, reader.folder)
    except ProblemError as error:
        raise ProblemError([f"{file.name}: {fault}" for fault in error.faults]) from None


def _records(table: FleetTable, reader: Reader) -> tuple[FleetRecord, ...]:
    if table.index is not None:
        found = records_in_index(reader.inside(table.index), table.columns.model_dump(), reader.folder)
    else:
        pattern = table.records or ""
        leaves = PurePosixPath(pattern).is_absolute() or PureWindowsPath(pattern).drive or ".." in Path(pattern).parts
        if leaves and not reader.allow_outside:
            raise ProblemError(f"'{pattern}' leaves the folder of the fleet. Move the records beside the fleet file, or "
                               "allow it with allow_outside=True (--allow-outside).")
        found = records_matching(pattern, reader.folder)
    if not reader.allow_outside:
        outside = [r.name for r in found if r.file and not r.file.resolve().is_relative_to(reader.folder)]
        if outside:
            raise ProblemError(f"'{outside[0]}' leaves the folder of the fleet ({len(outside)} such records). Move them "
                               "beside the fleet file, or allow it with allow_outside=True (--allow-outside).")
    return found
