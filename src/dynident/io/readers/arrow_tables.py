"""Arrow tables: columns of Parquet and Feather files, and of data frames (pandas, polars), by way of Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dynident.errors import ProblemError
from dynident.io.readers.columns import TIME, ColumnRef
from dynident.io.readers.table_columns import TableColumns, TableValues

FRAMES = "a data frame of pandas or polars, an Arrow table, a mapping from column to array, or the path of a file"


def parquet_columns(path: Path) -> TableColumns:
    import pyarrow as pa
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(path, memory_map=True)
    except (pa.ArrowInvalid, OSError) as error:
        raise ProblemError(f"{path.name} is not a readable Parquet file: {str(error).splitlines()[0]}") from error
    return _columns(path.name, file.schema_arrow, lambda names: file.iter_batches(columns=names), file.metadata.num_rows)


def feather_columns(path: Path) -> TableColumns:
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
    except (pa.ArrowInvalid, OSError) as error:
        raise ProblemError(f"{path.name} is not a readable Feather (Arrow) file: {str(error).splitlines()[0]}") from error
    return _of_table(path.name, table)


def frame_columns(frame: Any) -> TableColumns:
    """The columns of what is in memory already."""
    import pyarrow as pa

    if isinstance(frame, np.ndarray) and frame.dtype.names:
        frame = {name: frame[name] for name in frame.dtype.names}
    known = isinstance(frame, (pa.Table, pa.RecordBatch, Mapping)) or hasattr(frame, "__arrow_c_stream__") or (
        type(frame).__module__.split(".")[0] == "pandas")
    if not known:
        raise ProblemError(f"the table is a {type(frame).__name__}; give {FRAMES}.")
    try:
        table = pa.table(dict(frame)) if isinstance(frame, Mapping) else pa.table(frame)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, ValueError) as error:
        raise ProblemError(f"the table cannot be read as columns: {str(error).splitlines()[0].rstrip('.')}.") from error
    return _of_table("table", table)


def _of_table(source: str, table: Any) -> TableColumns:
    return _columns(source, table.schema, lambda names: table.select(names).to_batches(), table.num_rows, by_position=table)


def _columns(source: str, schema: Any, batches: Callable[[list[str]], Iterable[Any]], rows: int, by_position: Any = None
             ) -> TableColumns:
    def values(found: Sequence[ColumnRef], runs: np.ndarray | None) -> TableValues:
        _refuse_other_kinds(source, schema, found)
        if by_position is not None:  # in memory: columns may share a name
            kept = by_position.select(sorted({place.column for place in found}))
            order = {k: str(j) for j, k in enumerate(sorted({place.column for place in found}))}
            return _from_batches(kept.rename_columns(list(order.values())).to_batches(), order, rows)
        wanted = {place.column: schema.names[place.column] for place in found}
        return _from_batches(batches(sorted(set(wanted.values()))), wanted, rows)

    def labels(column: int) -> np.ndarray:
        found: list[Any] = []
        if by_position is not None:
            found = by_position.column(column).to_pylist()
        else:
            for batch in batches([schema.names[column]]):
                found += batch.column(0).to_pylist()
        return np.array([*found, None], dtype=object)[:-1]

    return TableColumns(source, schema.names, values, [""] * len(schema.names), labels)


def _refuse_other_kinds(source: str, schema: Any, found: Sequence[ColumnRef]) -> None:
    import pyarrow as pa

    fine = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)
    of_time = (pa.types.is_timestamp, pa.types.is_duration, pa.types.is_date, pa.types.is_string, pa.types.is_large_string,
               pa.types.is_string_view)
    faults = []
    for place in found:
        kind = schema.field(place.column).type
        if not any(test(kind) for test in (fine + of_time if place.role == TIME else fine)):
            faults.append(f"{source}: column '{place.header}' holds {kind}, not numbers.")
    if faults:
        raise ProblemError(faults)


def _from_batches(batches: Iterable[Any], wanted: Mapping[int, str], rows: int) -> TableValues:
    """Fill one array per column batch by batch, so that the file is never held twice."""
    import pyarrow as pa

    columns = {k: np.empty(rows) for k in wanted}
    first: dict[int, _FirstDate] = {}
    row = 0
    for batch in batches:
        for k, name in wanted.items():
            values = batch.column(name)
            if not _is_number(values.type):
                values = first.setdefault(k, _FirstDate()).seconds(values)
                columns[k][row:row + len(values)] = values
            else:
                columns[k][row:row + len(values)] = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        row += len(batch)
    return TableValues(columns, {k: date.text for k, date in first.items() if date.text})


def _is_number(kind: Any) -> bool:
    import pyarrow as pa

    return any(test(kind) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal,
                                       pa.types.is_null))


class _FirstDate:
    """Counts dates of one column from the first, over several batches."""

    def __init__(self) -> None:
        self.first: int | None = None
        self.text = ""

    def seconds(self, stamps: Any) -> np.ndarray:
        import pyarrow as pa

        from dynident.io.readers import dates

        zoned = pa.types.is_timestamp(stamps.type) and stamps.type.tz is not None
        if not pa.types.is_temporal(stamps.type):
            known = stamps.cast(pa.string()).drop_null()
            text = known[0].as_py() if len(known) else ""
            zoned = dates.has_zone(text)
            try:
                stamps = dates.parsed_dates(stamps, zoned)
            except pa.ArrowInvalid as error:
                raise ProblemError(f"time holds text that {dates.NOT_A_DATE}: {str(error).splitlines()[0]}") from error
        counts = dates.counts_of(stamps)
        if pa.types.is_duration(stamps.type):
            return dates.seconds_from(counts, 0)
        if self.first is None:
            self.first = dates.first_count(counts)
            self.text = dates.printed_date(self.first, zoned)
        return dates.seconds_from(counts, self.first or 0)
