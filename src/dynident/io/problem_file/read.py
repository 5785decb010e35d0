"""Problem file (TOML): read a whole problem from one file, and write one with its data beside it."""

from __future__ import annotations

import importlib.util
import shutil
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from dynident._util.atomic import atomic_write
from dynident.errors import NotSupported, ProblemError
from dynident.fmu.archive import digest_of
from dynident.io.problem_file.schema import FMU_OPTIONS, ExperimentTable, ModelTable
from dynident.io.problem_file.schema_errors import Located, key_in, validate_table
from dynident.io.problem_file.write import experiment_table, model_table, to_toml, unknown_table, write_columns
from dynident.io.readers.build_experiment import in_units_of
from dynident.io.readers.columns import existing_file
from dynident.io.readers.tables import read_table
from dynident.models.equations import EquationModel
from dynident.problem.experiment import Experiment
from dynident.problem.model import Model
from dynident.problem.parameter import InitialState, Parameter
from dynident.problem.problem import Problem


@dataclass(frozen=True, eq=False)
class ProblemFile:
    """What a problem file holds: the problem, `kind` and options of the method, records held back for validation."""

    problem: Problem
    method: dict[str, Any]
    validation: tuple[Experiment, ...]
    path: Path
    design: dict[str, Any] = field(default_factory=dict)  # the [design] table: what to plan next


def read_problem(path: str | Path, *, allow_outside: bool = False, allow_python: bool = False) -> ProblemFile:
    """Read a problem file and the data it names; all faults are listed at once, each with its line and path.

    Data must lie in the folder of the file unless `allow_outside`; a model from a Python file runs that file's code
    and needs `allow_python`.
    """
    file, located, content = parse_file(path)
    tables = validate_table(content, located)
    reader = Reader(file, located, allow_outside, allow_python)
    records = [*tables.experiment, *tables.validation]
    model = reader.model(tables.model, list(dict.fromkeys(signal for table in records for signal in table.outputs)))
    experiments = [reader.experiment(("experiment", k), table, model) for k, table in enumerate(tables.experiment)]
    validation = [reader.experiment(("validation", k), table, model) for k, table in enumerate(tables.validation)]
    method = reader.method(tables.method.model_dump() if tables.method else {})
    if reader.faults or model is None:
        raise ProblemError(reader.faults)
    try:
        problem = Problem(model, [e for e in experiments if e is not None], tables.unknowns(), tables.constraints)
    except ProblemError as error:
        raise ProblemError([f"{file.name}: {fault}" for fault in error.faults]) from None
    design = tables.design.model_dump(exclude_unset=True) if tables.design else {}
    return ProblemFile(problem, method, tuple(e for e in validation if e is not None), file, design)


def parse_file(path: str | Path) -> tuple[Path, Located, dict[str, Any]]:
    """The file, a way to say where in it something stands, and its content."""
    file = existing_file(path)
    try:
        text = file.read_bytes().decode("utf-8-sig")
        return file, Located(file.name, text), tomllib.loads(text.replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProblemError(f"{file.name} is not valid TOML: {error}.") from error


def write_problem(problem: Problem, method: Any, path: str | Path, validation: Sequence[Experiment] = ()) -> Path:
    """Write a problem file with its data beside it as CSV; read again, it gives the same numbers to the last bit.

    `method` is what `identify` takes: a method, its name, a table of `kind` and options, or None to leave it open.
    """
    method = _method_table(method)
    path = Path(path)
    content: dict[str, Any] = {"constraints": [c.text for c in problem.constraints],
                               "model": model_table(problem.model)}
    for file in getattr(problem.model, "files", ()):  # a model that lives in files takes them along
        content["model"] |= {key: _taken_along(file, path) for key, name in content["model"].items() if name == file.name}
    for heading, experiments in (("experiment", problem.experiments), ("validation", validation)):
        entries = []
        for number, experiment in enumerate(experiments, 1):
            data = path.with_name(f"{path.stem}.{heading}-{number}.csv")
            table, columns = experiment_table(experiment, data.name)
            with atomic_write(data) as aside:
                write_columns(columns, aside)
            entries.append(table)
        content[heading] = entries
    content["parameters"] = {p.name: unknown_table(p) for p in problem.parameters if isinstance(p, Parameter)}
    content["initial_states"] = {p.state: unknown_table(p) for p in problem.parameters if isinstance(p, InitialState)}
    content["method"] = method
    with atomic_write(path) as aside:
        aside.write_text(to_toml({key: value for key, value in content.items() if value}), encoding="utf-8")
    return path


def _taken_along(file: Path, beside: Path) -> str:
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


def _method_table(method: Any) -> dict[str, Any]:
    """The [method] table of a method, said in any of the ways that `identify` takes."""
    if not method or isinstance(method, Mapping):
        return dict(method or {})
    made = _made(method)
    return {"kind": method} if isinstance(method, str) else made.options()


def _made(method: Any) -> Any:
    from dynident.methods.presets import method_from  # here, because it loads every method

    return method_from(method)


class Reader:
    """Builds the model and the experiments, gathering what goes wrong on the way."""

    def __init__(self, file: Path, located: Located, allow_outside: bool, allow_python: bool):
        self.folder = file.resolve().parent
        self.located = located
        self.allow_outside = allow_outside
        self.allow_python = allow_python
        self.faults: list[str] = []

    def _gather(self, path: tuple[str | int, ...], make: Callable[[], Any]) -> Any:
        try:
            return make()
        except NotSupported:
            raise
        except ProblemError as error:
            self.faults += [self.located.fault(path, fault) for fault in error.faults]
            return None

    def model(self, table: ModelTable, measured: Sequence[str]) -> Model | None:
        """`measured` names the signals that the records hold; of an FMU any variable can be one."""
        if table.fmu is not None:
            named_file = table.fmu
            return self._gather(("model", "fmu"), lambda: self._fmu_model(named_file, table, measured))
        if table.python is not None:
            named = table.python
            return self._gather(("model", "python"), lambda: self._python_model(named))
        return self._gather(("model",), lambda: EquationModel.from_definition(table.definition()))

    def _fmu_model(self, named: str, table: ModelTable, measured: Sequence[str]) -> Model:
        from dynident.fmu.model import FmuModel

        options = {key: getattr(table, key) for key in table.model_fields_set & {*FMU_OPTIONS} - {"interface"}}
        inputs = table.inputs if "inputs" in table.model_fields_set else None
        outputs = list(table.outputs) if table.outputs is not None else list(measured) or None
        return FmuModel(self.inside(named), inputs=inputs, outputs=outputs, kind=table.interface, **options)

    def _python_model(self, named: str) -> Model:
        name, _, attribute = named.rpartition(":")
        if not name or not attribute:
            raise ProblemError(f"'{named}' must be a file and a name in it, such as \"drive.py:drive\".")
        if not self.allow_python:
            raise ProblemError(f"'{named}' would run Python code of a problem file. If you trust it, allow it with "
                               "allow_python=True (--allow-python).")
        file = self.inside(name)
        spec = importlib.util.spec_from_file_location(file.stem, file)
        if spec is None or spec.loader is None:
            raise ProblemError(f"'{name}' is not a Python file.")
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:  # whatever the user's file raises
            raise ProblemError(f"{name} raised {type(error).__name__}: {error}.") from error
        model = getattr(module, attribute, None)
        if not isinstance(model, Model):
            raise ProblemError(f"'{attribute}' in {name} is {type(model).__name__}, not a model.")
        return model

    def method(self, table: dict[str, Any]) -> dict[str, Any]:
        """The table as it is, after the method it names has checked its options."""
        try:
            _made(table)
        except ProblemError as error:
            self.faults += [self.located.fault(("method", *key_in(fault, table)), fault) for fault in error.faults]
        return table

    def experiment(self, path: tuple[str | int, ...], table: ExperimentTable, model: Model | None) -> Experiment | None:
        return self._gather((*path, "file"), lambda: self._read(table, model))

    def _read(self, table: ExperimentTable, model: Model | None) -> Experiment:
        record = read_table(self.inside(table.file), **table.request())
        return record if model is None else in_units_of(model, record, table.units or ())

    def inside(self, name: str) -> Path:
        """The file, if it lies in the problem's folder after links are followed."""
        absolute = PurePosixPath(name).is_absolute() or PureWindowsPath(name).drive or name.startswith("\\")
        leaves = absolute or not (self.folder / name).resolve().is_relative_to(self.folder)
        if leaves and not self.allow_outside:
            raise ProblemError(f"'{name}' leaves the folder of the problem. Move it beside the problem file, or allow "
                               "it with allow_outside=True (--allow-outside).")
        return existing_file(self.folder / name)
