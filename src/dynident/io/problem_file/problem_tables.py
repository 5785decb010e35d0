"""Problem tables: a Problem as the tables of its TOML file, and an Experiment as a CSV file."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from dynident.errors import NotSupported
from dynident.fmu.model import KIND as FMU_KIND
from dynident.models.equations import KIND
from dynident.problem.experiment import Experiment
from dynident.problem.model import Model
from dynident.problem.noise import Bounded, Gaussian
from dynident.problem.parameter import InitialState, Parameter

_PLAIN_HEADER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def model_table(model: Model) -> dict[str, Any]:
    definition = model.definition()
    if definition.get("kind") == FMU_KIND:
        definition |= {"time_limit": model.options["time_limit"]}  # type: ignore[attr-defined] # no answer depends on it
        return {key: value for key, value in definition.items()
                if key not in ("kind", "sha256") and value not in ({}, [])}
    if definition.get("kind") != KIND:
        raise NotSupported(f"a model of kind '{definition.get('kind')}' cannot be written into a problem file; only a "
                           "model made of equations or an FMU can.")
    return {key: value for key, value in definition.items() if key == "states" or value not in ("", {}, [])}


def unknown_table(unknown: Parameter | InitialState) -> dict[str, Any]:
    """The fields that differ from their defaults."""
    table = {field.name: getattr(unknown, field.name) for field in dataclasses.fields(unknown)[1:]
             if getattr(unknown, field.name) != field.default}
    return table | ({"prior": dataclasses.asdict(unknown.prior)} if unknown.prior else {})


def experiment_table(experiment: Experiment, file: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The entry in the problem file, and the columns of the data file it names."""
    columns: dict[str, np.ndarray] = {"time": np.asarray(experiment.time)}
    inputs = {name: _add(columns, name, "input", values) for name, values in experiment.inputs.items()}
    outputs: dict[str, Any] = {}
    for name, values in experiment.outputs.items():
        outputs[name] = {"column": _add(columns, name, "output", values)}
        noise = experiment.noise[name]
        if isinstance(noise, Gaussian) and noise.bound is not None:
            outputs[name]["bounded"] = float(noise.bound)
        key, size = ("bounded", noise.radius) if isinstance(noise, Bounded) else ("gaussian", noise.std)
        if size is None:
            outputs[name][key] = True
        elif np.size(size) == 1:
            outputs[name][key] = float(np.ravel(size)[0])
        else:
            outputs[name][key] = {"column": _add(columns, f"{name}_error", "error", np.asarray(size, dtype=float))}
    units = {name: unit for name, unit in experiment.units.items()  # those of other things mean nothing to the reader
             if name in ("time", *experiment.inputs, *experiment.outputs)}
    table = {"file": file, "time": "time", "name": experiment.name, "separator": ",", "decimal": ".",
             "inputs": inputs, "outputs": outputs, "hold": experiment.hold, "initial": dict(experiment.initial),
             "start": experiment.start, "mode": experiment.mode, "units": units}
    return {key: value for key, value in table.items() if value not in ("", {})}, columns


def _add(columns: dict[str, np.ndarray], name: str, role: str, values: Any) -> str:
    """Take the values in under a header that is plain and not yet taken."""
    header = name if _PLAIN_HEADER.fullmatch(name) and name not in columns else f"{role}_{len(columns)}"
    columns[header] = np.asarray(values)
    return header


def write_columns(columns: Mapping[str, np.ndarray], path: Path) -> None:
    """A CSV file that keeps every bit; NaN becomes an empty cell."""
    table = pa.table({name: pa.array(values, from_pandas=True) for name, values in columns.items()})
    pyarrow.csv.write_csv(table, path)
