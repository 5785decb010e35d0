"""How the histories of a filter become one table, and histories again.

One row per sample and experiment; columns `experiment`, `time`, and one per quantity named `value.k`, `std.k`,
`smoothed.k`, `smoothed_std.k`, `whitened.position`, `left_out.position`. What belongs to no sample stands in the
table's metadata as JSON.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from dynident.estimate.filter_result import FilterRecord, FilterResult
from dynident.statistics.residual_tests import ResidualTest

KEY = b"dynident.filtered"
GROUPS = (("value", "values"), ("std", "std"), ("smoothed", "smoothed"), ("smoothed_std", "smoothed_std"))


def filtered_table(filtered: FilterResult) -> pa.Table:
    """Every experiment, one after the other."""
    tables = []
    for record in filtered.records:
        columns: dict[str, Any] = {"experiment": pa.array([record.experiment] * len(record.time), pa.string()),
                                   "time": record.time}
        for prefix, field in GROUPS:
            matrix = getattr(record, field)
            if matrix is not None:
                columns |= {f"{prefix}.{name}": matrix[:, i].copy() for i, name in enumerate(record.names)}
        for j, name in enumerate(record.outputs):
            columns[f"whitened.{name}"] = record.whitened[:, j].copy()
            columns[f"left_out.{name}"] = record.left_out[:, j].copy()
        tables.append(pa.table(columns))
    first = filtered.records[0]
    said = {"names": first.names, "outputs": first.outputs, "parameters": filtered.parameters,
            "process_noise": dict(filtered.process_noise), "process_noise_unit": filtered.process_noise_unit,
            "estimated": filtered.estimated, "initial_std": dict(filtered.initial_std), "loglik": str(filtered.loglik),
            "tests": [test.to_data() for test in filtered.tests]}
    return pa.concat_tables(tables).replace_schema_metadata({KEY: json.dumps(said).encode()})


def read_filtered(path: Path) -> FilterResult:
    """What `filtered_table` wrote."""
    table = pyarrow.parquet.read_table(path)
    said = json.loads(table.schema.metadata[KEY])
    experiments = np.asarray(table["experiment"].to_pylist(), dtype=object)
    order = list(dict.fromkeys(experiments))
    records = tuple(_record(table.filter(pa.array(experiments == name)), name, said) for name in order)
    return FilterResult(records, tuple(said["parameters"]), said["process_noise"], said["process_noise_unit"],
                    tuple(said["estimated"]), said["initial_std"], float(said["loglik"]),
                    tuple(ResidualTest.from_data(test) for test in said["tests"]))


def _record(table: pa.Table, name: str, said: dict[str, Any]) -> FilterRecord:
    def matrix(prefix: str, names: list[str]) -> np.ndarray | None:
        if any(f"{prefix}.{n}" not in table.column_names for n in names):
            return None
        return np.column_stack([table[f"{prefix}.{n}"].to_numpy() for n in names])

    values, std, smoothed, smoothed_std = (matrix(prefix, said["names"]) for prefix, _ in GROUPS)
    whitened, left_out = (matrix(prefix, said["outputs"]) for prefix in ("whitened", "left_out"))
    assert values is not None and std is not None and whitened is not None and left_out is not None
    return FilterRecord(name, table["time"].to_numpy(), tuple(said["names"]), tuple(said["outputs"]), values, std,
                          whitened, left_out, smoothed, smoothed_std)
