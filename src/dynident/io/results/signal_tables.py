"""How the signals of a result become tables, and signals again: fitted, validated, filtered and smoothed ones.

One row per sample and experiment, in the order of the record; columns `experiment`, `time`, and one per signal:
- fitted, and validated: `input.u`, `state.v`, `output.position`, `measured.position`, `residual.position` (measured - model);
  `mode` where the model has modes;
- filtered: `value.k`, `std.k`, `smoothed.k`, `smoothed_std.k`, `whitened.position`, `left_out.position`;
- smoothed, a row per grid point: `value.v`, `std.v`, `model_error.v`, `error_std.v`.
A value that does not exist (not measured, or no such signal in this experiment) is empty in CSV and null in Parquet. What
belongs to no sample stands in the table's metadata as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from dynident._util.atomic import atomic_write
from dynident._util.codec import decode, to_json
from dynident.errors import ProblemError
from dynident.estimate.estimate import Estimate, Trajectory
from dynident.estimate.filter_result import FilterRecord, FilterResult
from dynident.estimate.smoother_result import SmootherRecord, SmootherResult
from dynident.problem.experiment import Experiment

WAY_OUT = "Take the folder from a backup, or fit again."
MODE = "mode"  # a column of text among the numbers
HEAD = b"dynident"  # key of the metadata
FILTER_COLUMNS = {"value": "values", "std": "std", "smoothed": "smoothed", "smoothed_std": "smoothed_std"}  # column -> field
INNOVATION_COLUMNS = {"whitened": "whitened", "left_out": "left_out"}
SMOOTHER_COLUMNS = {"value": "values", "std": "std", "model_error": "model_error", "error_std": "error_std"}
Signals = Mapping[str, Any]  # arrays by name


@dataclass(frozen=True, eq=False)
class FilterTableHead:
    """What belongs to no sample: the columns, and a result without its records."""

    names: tuple[str, ...]
    outputs: tuple[str, ...]
    result: FilterResult


@dataclass(frozen=True, eq=False)
class SmootherTableHead:
    """What belongs to no grid point: the columns, and a result without its records."""

    names: tuple[str, ...]
    result: SmootherResult


# -- writing


def estimate_table(estimate: Estimate) -> pa.Table:
    """Every experiment of the estimate, one after the other."""
    parts = zip(estimate.trajectories, estimate.residuals, estimate.problem.experiments, strict=True)
    return pa.concat_tables([signal_table(*part) for part in parts], promote_options="default")


def signal_table(trajectory: Trajectory, residuals: Signals, experiment: Experiment) -> pa.Table:
    """One experiment: what went in, what the model does, what was measured."""
    return _signal_table(trajectory.experiment, trajectory.time, {
        "input": experiment.inputs, "state": trajectory.states, "output": trajectory.outputs,
        "measured": experiment.outputs, "residual": residuals}, trajectory.modes)


def validation_table(validations: Sequence[Any]) -> pa.Table:
    """What the model does on records that were not fitted; they are told apart by their number."""
    return pa.concat_tables([_signal_table(str(number), v.trajectory.time, {
        "state": v.trajectory.states, "output": v.trajectory.outputs, "residual": v.residuals}, v.trajectory.modes)
        for number, v in enumerate(validations)], promote_options="default")


def filtered_table(filtered: FilterResult) -> pa.Table:
    """Every experiment, one after the other."""
    first = filtered.records[0]
    head = FilterTableHead(first.names, first.outputs, replace(filtered, records=()))
    names = {**dict.fromkeys(FILTER_COLUMNS, first.names), **dict.fromkeys(INNOVATION_COLUMNS, first.outputs)}
    parts = [_record_table(record, names, FILTER_COLUMNS | INNOVATION_COLUMNS) for record in filtered.records]
    return pa.concat_tables(parts).replace_schema_metadata({HEAD: to_json(head).encode()})


def smoothed_table(smoothed: SmootherResult) -> pa.Table:
    """Every experiment, one after the other."""
    head = SmootherTableHead(smoothed.records[0].names, replace(smoothed, records=()))
    names = dict.fromkeys(SMOOTHER_COLUMNS, head.names)
    parts = [_record_table(record, names, SMOOTHER_COLUMNS) for record in smoothed.records]
    return pa.concat_tables(parts).replace_schema_metadata({HEAD: to_json(head).encode()})


def _record_table(record: FilterRecord | SmootherRecord, names: Mapping[str, tuple[str, ...]], fields: Mapping[str, str]
                  ) -> pa.Table:
    """Matrices of a record, a column of the table for each of theirs; one that is None has none."""
    columns: dict[str, Any] = {"experiment": _repeated(record.experiment, len(record.time)), "time": record.time}
    for prefix, field in fields.items():
        matrix = vars(record)[field]
        if matrix is not None:
            columns |= {f"{prefix}.{name}": matrix[:, i].copy() for i, name in enumerate(names[prefix])}
    return pa.table(columns)


def _signal_table(experiment: str, time: np.ndarray, groups: Mapping[str, Signals], modes: np.ndarray | None) -> pa.Table:
    columns = {"experiment": _repeated(experiment, len(time)), "time": _column(time)}
    columns |= {f"{group}.{name}": _column(values)
                for group, signals in groups.items() for name, values in signals.items()}
    columns |= {} if modes is None else {MODE: pa.array([str(mode) for mode in modes], pa.string())}
    return pa.table(columns)


def write_csv(table: pa.Table, path: str | Path) -> None:
    with atomic_write(path) as aside:
        pyarrow.csv.write_csv(table, aside)


def write_parquet(table: pa.Table, path: str | Path) -> None:
    with atomic_write(path) as aside:
        pyarrow.parquet.write_table(table, aside)


def save_columns(columns: Mapping[str, np.ndarray], path: str | Path) -> Path:
    """Columns of equal length as a CSV file, whole or not at all; returns its path."""
    write_csv(pa.table({name: _column(values) for name, values in columns.items()}), path)
    return Path(path)


def _repeated(text: str, count: int) -> pa.Array:
    return pa.array([text] * count, pa.string())


def _column(values: Any) -> pa.Array:
    return pa.array(np.asarray(values, dtype=float), pa.float64(), from_pandas=True)  # NaN becomes null


# -- reading


def read_signals(path: Path, measured: Mapping[str, Iterable[str]]) -> list[tuple[Trajectory, dict[str, np.ndarray]]]:
    """Trajectory and residuals of each experiment; `measured` are its measured outputs."""
    parts = _parts(path)
    found = []
    for name, outputs in measured.items():
        if name not in parts:
            raise _unusable(path, f"it holds nothing of the experiment '{name}'")
        table = parts[name]
        groups = {prefix: {column.removeprefix(f"{prefix}."): _numbers(table, column) for column in table.column_names
                           if column.startswith(f"{prefix}.")} for prefix in ("state", "output", "residual")}
        missing = [output for output in outputs if output not in groups["residual"]]
        if missing:
            raise _unusable(path, f"it has no column 'residual.{missing[0]}'")
        modes = np.asarray(table[MODE].to_pylist(), dtype=str) if MODE in table.column_names else None
        found.append((Trajectory(name, _numbers(table, "time"), groups["state"], groups["output"], modes),
                      {output: groups["residual"][output] for output in outputs}))
    return found


def read_filtered(path: Path) -> FilterResult:
    """What `filtered_table` wrote."""
    parts = _parts(path)
    head = _head(FilterTableHead, parts, path)
    records = []
    for name, table in parts.items():
        known = {prefix: field for prefix, field in FILTER_COLUMNS.items()
                 if not prefix.startswith("smoothed") or f"{prefix}.{head.names[0]}" in table.column_names}
        records.append(FilterRecord(
            name, _numbers(table, "time"), head.names, head.outputs,
            **{field: _matrix(table, prefix, head.names, path) for prefix, field in known.items()},
            **{field: _matrix(table, prefix, head.outputs, path) for prefix, field in INNOVATION_COLUMNS.items()}))
    return replace(head.result, records=tuple(records))


def read_smoothed(path: Path) -> SmootherResult:
    """What `smoothed_table` wrote."""
    parts = _parts(path)
    head = _head(SmootherTableHead, parts, path)
    return replace(head.result, records=tuple(SmootherRecord(
        name, _numbers(table, "time"), head.names,
        **{field: _matrix(table, prefix, head.names, path) for prefix, field in SMOOTHER_COLUMNS.items()})
        for name, table in parts.items()))


def _parts(path: Path) -> dict[str, pa.Table]:
    """The rows of each experiment, in the order of the table."""
    try:
        table = pyarrow.parquet.read_table(path)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise _unusable(path, f"it is not a readable Parquet file ({reason})") from error
    for name in ("experiment", "time"):
        if name not in table.column_names:
            raise _unusable(path, f"it has no column '{name}'")
    owner = np.asarray(table["experiment"].to_pylist(), dtype=object)
    return {name: table.filter(pa.array(owner == name)) for name in dict.fromkeys(owner)}


def _head(kind: type, parts: Mapping[str, pa.Table], path: Path) -> Any:
    metadata = next((table.schema.metadata for table in parts.values()), None) or {}
    return decode(kind, json.loads(metadata.get(HEAD, b"null")), str(path), WAY_OUT)


def _numbers(table: pa.Table, column: str) -> np.ndarray:
    return np.asarray(table[column].to_numpy(zero_copy_only=False).astype(float))


def _matrix(table: pa.Table, prefix: str, names: Sequence[str], path: Path) -> Any:
    """(samples, names) from the columns of one prefix."""
    missing = [name for name in names if f"{prefix}.{name}" not in table.column_names]
    if missing:
        raise _unusable(path, f"it has no column '{prefix}.{missing[0]}'")
    columns = [table[f"{prefix}.{name}"].to_numpy(zero_copy_only=False) for name in names]
    return np.column_stack(columns) if columns else np.zeros((table.num_rows, 0))


def _unusable(path: Path, reason: str) -> ProblemError:
    return ProblemError(f"{path} cannot be used: {reason}. {WAY_OUT}")
