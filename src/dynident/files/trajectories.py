"""How the fitted signals of an estimate become one table, and signals again.

One row per sample and experiment, in the order of the record; columns `experiment`, `time`, and one per signal named
`input.u`, `state.v`, `output.position`, `measured.position`, `residual.position` (measured - model). A value that
does not exist (not measured, or no such signal in this experiment) is empty in CSV and null in Parquet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from dynident.estimate.estimate import Estimate, Trajectory
from dynident.files.atomic import written_aside
from dynident.problem.experiment import Experiment

Residuals = Mapping[str, np.ndarray]


def estimate_table(estimate: Estimate) -> pa.Table:
    """Every experiment of the estimate, one after the other."""
    parts = [signal_table(trajectory, experiment, residuals) for trajectory, experiment, residuals
             in zip(estimate.trajectories, estimate.problem.experiments, estimate.residuals, strict=True)]
    return pa.concat_tables(parts, promote_options="default")


def signal_table(trajectory: Trajectory, experiment: Experiment, residuals: Residuals) -> pa.Table:
    """One experiment: what went in, what the model does, what was measured."""
    groups: dict[str, Mapping[str, np.ndarray]] = {
        "input": experiment.inputs, "state": trajectory.states, "output": trajectory.outputs,
        "measured": experiment.outputs, "residual": residuals}
    columns = {"experiment": pa.array([trajectory.experiment] * len(trajectory.time), pa.string()),
               "time": _column(trajectory.time)}
    columns |= {f"{group}.{name}": _column(values)
                for group, signals in groups.items() for name, values in signals.items()}
    return pa.table(columns)


def write_csv(table: pa.Table, path: str | Path) -> None:
    with written_aside(path) as aside:
        pyarrow.csv.write_csv(table, aside)


def write_parquet(table: pa.Table, path: str | Path) -> None:
    with written_aside(path) as aside:
        pyarrow.parquet.write_table(table, aside)


def read_signals(path: Path, experiments: Sequence[Experiment]) -> list[tuple[Trajectory, dict[str, np.ndarray]]]:
    """Trajectory and residuals of each experiment, read back from Parquet.

    Raises ValueError, with the reason, where the table is not one that `estimate_table` makes.
    """
    try:
        table = pyarrow.parquet.read_table(path)
    except (pa.ArrowInvalid, pa.ArrowException) as error:
        raise ValueError(f"it is not a readable Parquet file ({str(error).splitlines()[0].rstrip('.')})") from error
    missing = [name for name in ("experiment", "time") if name not in table.column_names]
    if missing:
        raise ValueError(f"it has no column '{missing[0]}'")
    owner = np.asarray(table["experiment"].to_pylist(), dtype=object)
    absent = [e.name for e in experiments if not np.any(owner == e.name)]
    if absent:
        raise ValueError(f"it holds nothing of the experiment '{absent[0]}'")
    columns = {name: table[name].to_numpy(zero_copy_only=False).astype(float)
               for name in table.column_names if name != "experiment"}
    return [_signals(e, columns, owner == e.name) for e in experiments]


def _signals(experiment: Experiment, columns: dict[str, np.ndarray], rows: np.ndarray
             ) -> tuple[Trajectory, dict[str, np.ndarray]]:
    def group(prefix: str) -> dict[str, np.ndarray]:
        return {name.removeprefix(prefix): values[rows] for name, values in columns.items() if name.startswith(prefix)}

    residuals = {name: values for name, values in group("residual.").items() if name in experiment.outputs}
    return Trajectory(experiment.name, columns["time"][rows], group("state."), group("output.")), residuals


def _column(values: np.ndarray) -> pa.Array:
    return pa.array(np.asarray(values, dtype=float), pa.float64(), from_pandas=True)  # NaN becomes null
