"""How the fitted signals of an estimate become one table, and signals again.

One row per sample and experiment, in the order of the record; columns `experiment`, `time`, and one per signal named
`input.u`, `state.v`, `output.position`, `measured.position`, `residual.position` (measured - model); `mode` where the
model has modes. A value that does not exist (not measured, or no such signal in this experiment) is empty in CSV and
null in Parquet. Validations are kept in the same way, in a table of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from dynident._util.atomic import atomic_write
from dynident.estimate.estimate import Estimate, Trajectory
from dynident.problem.experiment import Experiment

MODE = "mode"  # a column of text among the numbers
Signals = Mapping[str, Any]  # arrays by name


def estimate_table(estimate: Estimate) -> pa.Table:
    """Every experiment of the estimate, one after the other."""
    parts = zip(estimate.trajectories, estimate.residuals, estimate.problem.experiments, strict=True)
    return pa.concat_tables([signal_table(*part) for part in parts], promote_options="default")


def signal_table(trajectory: Trajectory, residuals: Signals, experiment: Experiment) -> pa.Table:
    """One experiment: what went in, what the model does, what was measured."""
    return _table(trajectory.experiment, trajectory.time, {
        "input": experiment.inputs, "state": trajectory.states, "output": trajectory.outputs,
        "measured": experiment.outputs, "residual": residuals}, trajectory.modes)


def validation_table(validations: Sequence[Any]) -> pa.Table:
    """What the model does on records that were not fitted; they are told apart by their number."""
    return pa.concat_tables([_table(str(number), v.trajectory.time, {
        "state": v.trajectory.states, "output": v.trajectory.outputs, "residual": v.residuals}, v.trajectory.modes)
        for number, v in enumerate(validations)], promote_options="default")


def _table(experiment: str, time: np.ndarray, groups: Mapping[str, Signals], modes: np.ndarray | None) -> pa.Table:
    columns = {"experiment": pa.array([experiment] * len(time), pa.string()), "time": _column(time)}
    columns |= {f"{group}.{name}": _column(values)
                for group, signals in groups.items() for name, values in signals.items()}
    columns |= {} if modes is None else {MODE: pa.array([str(mode) for mode in modes], pa.string())}
    return pa.table(columns)


def write_csv(table: pa.Table, path: str | Path) -> None:
    with atomic_write(path) as aside:
        pyarrow.csv.write_csv(table, aside)


def save_columns(columns: Mapping[str, np.ndarray], path: str | Path) -> Path:
    """Columns of equal length as a CSV file, whole or not at all; returns its path."""
    write_csv(pa.table({name: _column(values) for name, values in columns.items()}), path)
    return Path(path)


def write_parquet(table: pa.Table, path: str | Path) -> None:
    with atomic_write(path) as aside:
        pyarrow.parquet.write_table(table, aside)


def read_signals(path: Path, measured: Mapping[str, Iterable[str]]) -> list[tuple[Trajectory, dict[str, np.ndarray]]]:
    """Trajectory and residuals of each experiment, read back from Parquet; `measured` are its measured outputs.

    Raises ValueError, with the reason, where the table is not one that was written here.
    """
    try:
        table = pyarrow.parquet.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"it is not a readable Parquet file ({str(error).splitlines()[0].rstrip('.')})") from error
    missing = [name for name in ("experiment", "time") if name not in table.column_names]
    if missing:
        raise ValueError(f"it has no column '{missing[0]}'")
    owner = np.asarray(table["experiment"].to_pylist(), dtype=object)
    absent = [name for name in measured if not np.any(owner == name)]
    if absent:
        raise ValueError(f"it holds nothing of the experiment '{absent[0]}'")
    columns = {name: table[name].to_numpy(zero_copy_only=False).astype(float)
               for name in table.column_names if name not in ("experiment", MODE)}
    modes = np.asarray(table[MODE].to_pylist(), dtype=str) if MODE in table.column_names else None
    return [_signals(name, columns, owner == name, outputs, modes) for name, outputs in measured.items()]


def _signals(experiment: str, columns: Mapping[str, np.ndarray], rows: np.ndarray, measured: Iterable[str],
             modes: np.ndarray | None) -> tuple[Trajectory, dict[str, np.ndarray]]:
    def group(prefix: str) -> dict[str, np.ndarray]:
        return {name.removeprefix(prefix): values[rows] for name, values in columns.items() if name.startswith(prefix)}

    residuals = group("residual.")
    missing = [name for name in measured if name not in residuals]
    if missing:
        raise ValueError(f"it has no column 'residual.{missing[0]}'")
    return (Trajectory(experiment, columns["time"][rows], group("state."), group("output."),
                       None if modes is None else modes[rows]),
            {name: residuals[name] for name in measured})


def _column(values: Any) -> pa.Array:
    return pa.array(np.asarray(values, dtype=float), pa.float64(), from_pandas=True)  # NaN becomes null
