"""Write: a problem as tables of plain data, and these as TOML; find the line of a key in it."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from dynident._util.atomic import atomic_write
from dynident.errors import NotSupported, ProblemError
from dynident.fmu.archive import digest_of
from dynident.fmu.model import KIND as FMU_KIND
from dynident.io.problem_file.value_kinds import filters_table
from dynident.models.equations import KIND
from dynident.models.simulator_model import KIND as SIMULATOR_KIND
from dynident.problem.experiment import Experiment
from dynident.problem.model import Model
from dynident.problem.noise import Bounded, Gaussian, LogNormal
from dynident.problem.parameter import InitialState, Parameter

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_KEY = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADING = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]\]?")
_ENTRY = re.compile(rf"\s*({_DOTTED})\s*=")

KeyPath = tuple[str | int, ...]


def to_toml(content: Mapping[str, Any]) -> str:
    """Plain data as TOML; a value of None is left out. Floats keep every bit."""
    plain = {key: value for key, value in content.items() if not isinstance(value, Mapping) and not _is_tables(value)}
    parts = [_entries(plain)] if plain else []  # before the first heading, or they would belong to its table
    for key, value in content.items():
        if isinstance(value, Mapping):
            parts.append(f"[{_key(key)}]\n{_entries(value)}")
        elif _is_tables(value):
            parts += [f"[[{_key(key)}]]\n{_entries(table)}" for table in value]
    return "\n".join(parts)


def _is_tables(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(each, Mapping) for each in value)


def _entries(table: Mapping[str, Any]) -> str:
    return "".join(f"{_key(key)} = {as_toml(value)}\n" for key, value in table.items() if value is not None)


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")  # JSON's other escapes are TOML's too


def as_toml(value: Any) -> str:
    """A value as it stands behind a key."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, str)):
        return str(value) if isinstance(value, int) else _text(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(str(k))} = {as_toml(v)}" for k, v in value.items() if v is not None)
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, Sequence):
        return f"[{', '.join(as_toml(item) for item in value)}]"
    raise TypeError(f"{value!r} is not plain data")


def line_of(text: str, path: KeyPath) -> int | None:
    """The line, counted from 1, of the key at `path`, or of the closest key around it; None if there is none."""
    table: KeyPath = ()
    counts: dict[KeyPath, int] = {}
    best: tuple[int, int] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if heading := _HEADING.match(line):
            table = _split(heading.group(2))
            if heading.group(1) == "[[":
                counts[table] = counts.get(table, -1) + 1
            here = table = _indexed(table, counts)
        elif entry := _ENTRY.match(line):
            here = table + _split(entry.group(1))
        else:
            continue
        known = len(here) if path[:len(here)] == here else 0
        if known and (best is None or known > best[0]):
            best = (known, number)
    return best[1] if best else None


def _split(dotted: str) -> tuple[str, ...]:
    return tuple(part[1:-1] if part[0] in "\"'" else part for part in re.findall(_KEY, dotted))


def _indexed(table: KeyPath, counts: Mapping[KeyPath, int]) -> KeyPath:
    """The path with the number of the current entry after each name of a list of tables."""
    full: KeyPath = ()
    for k, part in enumerate(table):
        full += (part, counts[table[:k + 1]]) if table[:k + 1] in counts else (part,)
    return full


def printed(path: KeyPath) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


_PLAIN_HEADER = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def model_table(model: Model) -> dict[str, Any]:
    definition = model.definition()
    if definition.get("kind") == FMU_KIND:
        definition |= {"time_limit": model.options["time_limit"]}  # type: ignore[attr-defined] # no answer depends on it
        return {key: value for key, value in definition.items()
                if key not in ("kind", "sha256") and value not in ({}, [])}
    if definition.get("kind") == SIMULATOR_KIND:
        said = {key: value for key, value in definition.items() if key != "kind" and value not in ("", {}, [])}
        return said | {"outputs": list(definition["outputs"])}
    if definition.get("kind") != KIND:
        raise NotSupported(f"a model of kind '{definition.get('kind')}' cannot be written into a problem file; only a "
                           "model made of equations, an FMU or a simulator can.")
    return {key: value for key, value in definition.items() if key in ("states", "next") or value not in ("", {}, [])}


def unknown_table(unknown: Parameter | InitialState) -> dict[str, Any]:
    """The fields that differ from their defaults."""
    table = {field.name: getattr(unknown, field.name) for field in dataclasses.fields(unknown)[1:]
             if getattr(unknown, field.name) != field.default}
    prior = {} if unknown.prior is None else dataclasses.asdict(unknown.prior)
    prior = {key: value for key, value in prior.items() if (key, value) != ("on", "lin")}
    return table | ({"prior": prior} if prior else {})


def experiment_table(experiment: Experiment, file: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The entry in the problem file, and the columns of the data file it names."""
    columns: dict[str, np.ndarray] = {"time": np.asarray(experiment.time)}
    inputs: dict[str, Any] = {name: _add(columns, name, "input", values) for name, values in experiment.inputs.items()}
    for name, error in experiment.input_noise.items():
        inputs[name] = {"column": inputs[name], "gaussian": _size(columns, name, error.std)}
    outputs: dict[str, Any] = {}
    for name, values in experiment.outputs.items():
        outputs[name] = {"column": _add(columns, name, "output", values)}
        noise = experiment.noise[name]
        if isinstance(noise, Gaussian) and noise.bound is not None:
            outputs[name]["bounded"] = float(noise.bound)
        key, size = ("bounded", noise.radius) if isinstance(noise, Bounded) else (
            "log_normal" if isinstance(noise, LogNormal) else "gaussian", noise.std)
        outputs[name][key] = _size(columns, name, size)
    units = {name: unit for name, unit in experiment.units.items()  # those of other things mean nothing to the reader
             if name in ("time", *experiment.inputs, *experiment.outputs)}
    table = {"file": file, "time": "time", "name": experiment.name, "separator": ",", "decimal": ".",
             "inputs": inputs, "outputs": outputs, "hold": experiment.hold, "initial": dict(experiment.initial),
             "before": dict(experiment.before), "filters": filters_table(experiment),
             "start": experiment.start, "mode": experiment.mode, "units": units,
             "constants": dict(experiment.constants), "group": experiment.group}
    if experiment.steady is not None:
        table["steady"] = {"initial": dict(experiment.steady.initial), "constants": dict(experiment.steady.constants)}
    if np.any(experiment.time_radius):
        table["time_radius"] = np.asarray(experiment.time_radius).tolist()
    return {key: value for key, value in table.items() if value not in ("", {})}, columns


def _size(columns: dict[str, np.ndarray], name: str, size: Any) -> Any:
    """How large the errors of a signal are: true (unknown), a number, or a column of the data file."""
    if size is None or isinstance(size, str):
        return True if size is None else size
    if np.size(size) == 1:
        return float(np.ravel(size)[0])
    return {"column": _add(columns, f"{name}_error", "error", np.asarray(size, dtype=float))}


def _add(columns: dict[str, np.ndarray], name: str, role: str, values: Any) -> str:
    """Take the values in under a header that is plain and not yet taken."""
    header = name if _PLAIN_HEADER.fullmatch(name) and name not in columns else f"{role}_{len(columns)}"
    columns[header] = np.asarray(values)
    return header


def write_columns(columns: Mapping[str, np.ndarray], path: Path) -> None:
    """A CSV file that keeps every bit; NaN becomes an empty cell."""
    table = pa.table({name: pa.array(values, from_pandas=True) for name, values in columns.items()})
    pyarrow.csv.write_csv(table, path)


def copied_beside(file: Path, beside: Path) -> str:
    """The name of a copy of the file in the folder of the problem; another than its own where that is taken."""
    digest = digest_of(file)
    for name in (file.name, f"{file.stem}-{digest[:8]}{file.suffix}", f"{file.stem}-{digest}{file.suffix}"):
        copy = beside.with_name(name)
        if not copy.exists():
            with atomic_write(copy) as aside:
                shutil.copyfile(file, aside)
            return name
        if copy.is_file() and digest_of(copy) == digest:
            return name
    raise ProblemError(f"{beside.with_name(file.name)} has another content than {file}; choose another folder.")
