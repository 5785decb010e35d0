"""How smoothed signals and model errors become one table, and signals again.

One row per grid point and experiment; columns `experiment`, `time`, and per state and drifting parameter `value.v`, `std.v`,
`model_error.v`, `error_std.v`. What belongs to no point in time stands in the table's metadata as JSON.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from dynident.estimate.smoother_result import PseudoTimeStep, SmootherRecord, SmootherResult

KEY = b"dynident.smoothed"
GROUPS = (("value", "values"), ("std", "std"), ("model_error", "model_error"), ("error_std", "error_std"))


def smoothed_table(smoothed: SmootherResult) -> pa.Table:
    """Every experiment, one after the other."""
    tables = []
    for record in smoothed.records:
        columns: dict[str, Any] = {"experiment": pa.array([record.experiment] * len(record.time), pa.string()),
                                   "time": record.time}
        for prefix, field in GROUPS:
            columns |= {f"{prefix}.{name}": getattr(record, field)[:, i].copy() for i, name in enumerate(record.names)}
        tables.append(pa.table(columns))
    said = {"names": smoothed.records[0].names, "weights": dict(smoothed.weights), "drifting": smoothed.drifting,
            "strides": [dataclasses.asdict(stride) for stride in smoothed.strides]}
    return pa.concat_tables(tables).replace_schema_metadata({KEY: json.dumps(said).encode()})


def read_smoothed(path: Path) -> SmootherResult:
    """What `smoothed_table` wrote."""
    table = pyarrow.parquet.read_table(path)
    said = json.loads(table.schema.metadata[KEY])
    experiments = np.asarray(table["experiment"].to_pylist(), dtype=object)
    records = []
    for experiment in dict.fromkeys(experiments):
        own = table.filter(pa.array(experiments == experiment))
        matrices = [np.column_stack([_column(own, f"{prefix}.{name}") for name in said["names"]]) for prefix, _ in GROUPS]
        records.append(SmootherRecord(experiment, own["time"].to_numpy(), tuple(said["names"]), *matrices))
    return SmootherResult(tuple(records), said["weights"], tuple(said["drifting"]), tuple(PseudoTimeStep(**s) for s in said["strides"]))


def _column(table: pa.Table, name: str) -> np.ndarray:
    """NaN, which is "not known", where a result was saved before there was such a column."""
    return table[name].to_numpy() if name in table.column_names else np.full(table.num_rows, np.nan)
