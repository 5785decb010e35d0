"""Table: one row per record, as Parquet and CSV, written row by row from the store.

Nothing in it depends on who fitted what and when: the same fleet gives the same table on one worker and on many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from dynident._util.atomic import atomic_write
from dynident.fleet.records import FleetRecord
from dynident.fleet.shared_estimate import SharedEstimate
from dynident.fleet.store import FleetStore
from dynident.fleet.task import FAILED, TaskResult
from dynident.fleet.variable_projection import ReducedRecord

TABLE, TABLE_TO_LOOK_AT = "fleet.parquet", "fleet.csv"
AT_ONCE = 500  # rows in memory
ABOUT = ("record", "machine", "time", "status", "reason")
ENDINGS = ("", "_std", "_low", "_high")  # columns of one unknown


@dataclass(frozen=True, eq=False)
class FleetTableLayout:
    """Which columns there are, and of which kind."""

    unknowns: tuple[str, ...]
    numbers: tuple[str, ...]  # cost, reduced_chi2, ...
    shared: tuple[str, ...]
    dated: bool  # time is a date and not a number

    def schema(self) -> pa.Schema:
        when = pa.timestamp("us") if self.dated else pa.float64()
        about = [(name, when if name == "time" else pa.string()) for name in ABOUT]
        figures = [f"{name}{ending}" for name in (*self.shared, *self.unknowns) for ending in ENDINGS]
        figures += [f"{name}_alone{ending}" for name in self.shared for ending in ENDINGS[:2]]
        figures += ["disagreement"] * bool(self.shared)
        return pa.schema([*about, *((name, pa.float64()) for name in (*figures, *self.numbers)), ("remarks", pa.string()),
                          ("notes", pa.string())])


class FleetRows:
    """The rows of a fleet, made anew each time they are asked for."""

    def __init__(self, store: FleetStore, records: Sequence[FleetRecord], number: int, shared: SharedEstimate | None):
        self.store, self.records, self.number, self.shared = store, {r.name: r for r in records}, number, shared
        self.layout = self._layout()

    def _layout(self) -> FleetTableLayout:
        unknowns: dict[str, None] = {}
        numbers: dict[str, None] = {}
        for _, it in self._results():
            unknowns |= dict.fromkeys(it.values)
            numbers |= dict.fromkeys(it.numbers)
        return FleetTableLayout(tuple(unknowns), tuple(sorted(numbers)), self.shared.names if self.shared else (),
                      any(isinstance(r.time, datetime) for r in self.records.values()))

    def _results(self) -> Iterator[tuple[FleetRecord, TaskResult]]:
        """Of records that the fleet has now; one that failed in the last pass is told as such."""
        for name, it in self.store.results(self.number, arrays=self.shared is not None):
            if name in self.records:
                yield self.records[name], it

    def __iter__(self) -> Iterator[dict[str, Any]]:
        blank = dict.fromkeys(self.layout.schema().names)
        for record, it in self._results():
            row: dict[str, Any] = {**blank, "record": record.name, "machine": record.machine or None, "time": record.time,
                                   "status": it.status, "reason": it.reason, **it.numbers}
            row["remarks"] = "; ".join(f"{name} {remark}" for name, remark in it.remarks.items()) or None
            row["notes"] = " ".join(it.notes) or None
            wider = self._wider(it) if self.shared else dict.fromkeys(it.values, 1.0)
            for name, value in it.values.items():
                factor = wider[name]
                row |= {name: value, f"{name}_std": it.std[name] * factor,
                        f"{name}_low": value + factor * (it.low[name] - value),
                        f"{name}_high": value + factor * (it.high[name] - value)}
            yield row | (self._of_shared(record, it) if self.shared else {})

    def _wider(self, it: TaskResult) -> Mapping[str, float]:
        """How much wider intervals become because the shared values are not known exactly either."""
        factors = dict.fromkeys(it.values, 1.0)
        if self.shared is None or "follow" not in it.arrays:
            return factors
        follow = ReducedRecord.from_arrays(it.arrays).follow
        more = np.einsum("ij,jk,ik->i", follow, self.shared.covariance, follow)
        for name, added in zip(it.values, more, strict=True):
            std = it.std[name]
            factors[name] = float(np.sqrt(1 + added / std**2)) if np.isfinite(std) and std > 0 else 1.0
        return factors

    def _of_shared(self, record: FleetRecord, it: TaskResult) -> dict[str, Any]:
        assert self.shared is not None
        row: dict[str, Any] = {}
        alone = self.store.result(0, record.name)
        for i, name in enumerate(self.shared.names):
            if it.status != FAILED:
                row |= {name: float(self.shared.values[i]), f"{name}_std": self.shared.std(name),
                        f"{name}_low": float(self.shared.low[i]), f"{name}_high": float(self.shared.high[i])}
            if alone is not None and name in alone.values:
                row |= {f"{name}_alone": alone.values[name], f"{name}_alone_std": alone.std[name]}
        if "rows" in it.arrays:
            left = it.arrays["rows"][:, -1]
            row["disagreement"] = float(left @ left) / len(self.shared.names)
        return row

    def batches(self) -> Iterator[pa.RecordBatch]:
        schema, waiting = self.layout.schema(), []
        for row in self:
            waiting.append({key: _cell(value) for key, value in row.items()})
            if len(waiting) == AT_ONCE:
                yield pa.RecordBatch.from_pylist(waiting, schema)
                waiting = []
        if waiting:
            yield pa.RecordBatch.from_pylist(waiting, schema)


def _cell(value: Any) -> Any:
    return None if isinstance(value, float) and np.isnan(value) else value


def write_tables(rows: FleetRows, folder: Path) -> None:
    """Both files, each whole or not at all."""
    schema = rows.layout.schema()
    with (atomic_write(folder / TABLE) as one, atomic_write(folder / TABLE_TO_LOOK_AT) as other,
          pyarrow.parquet.ParquetWriter(one, schema) as parquet, pyarrow.csv.CSVWriter(other, schema) as text):
        for batch in rows.batches():
            parquet.write_batch(batch)
            text.write_batch(batch)
