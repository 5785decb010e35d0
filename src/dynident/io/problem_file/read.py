"""Problem file (TOML): read a whole problem from one file, and write one with its data beside it."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from dynident._util.atomic import atomic_write
from dynident.errors import NotSupported, ProblemError, did_you_mean
from dynident.fmu.archive import digest_of
from dynident.fmu.model import FmuModel
from dynident.io.problem_file.faults import Located, key_in, place_of, validate_table
from dynident.io.problem_file.python_code import python_attribute
from dynident.io.problem_file.schema import (
    FMU_OPTIONS,
    ExperimentTable,
    ModelTable,
    SimulatorTable,
)
from dynident.io.problem_file.write import (
    copied_beside,
    experiment_table,
    model_table,
    to_toml,
    unknown_table,
    write_columns,
)
from dynident.io.readers.build_experiment import in_units_of
from dynident.io.readers.columns import existing_file
from dynident.io.readers.tables import records_of
from dynident.models.equations import EquationModel
from dynident.models.simulator_model import SimulatorModel, UnavailableFunction
from dynident.models.transfer_function import transfer_function
from dynident.problem.experiment import Experiment
from dynident.problem.model import Model
from dynident.problem.parameter import InitialState, Parameter
from dynident.problem.problem import Problem
from dynident.robots.model import RobotModel

ROBOT_OPTIONS = ("tool", "lock", "friction", "motor_inertia", "offset", "gravity", "sign_velocity", "values")  # of RobotModel


@dataclass(frozen=True, eq=False)
class ProblemFile:
    """What a problem file holds.

    See the manual, reference/problem_file.

    Attributes
    ----------
    problem : Problem
        Model, records and unknowns.
    method : dict
        `kind` and options of the method; `identify` takes it as it is.
    validation : tuple of Experiment
        Records for validation, which are not fitted.
    path : Path
        The file.
    design : dict
        The [design] table: what to plan next.

    Examples
    --------
    >>> import dynident as di
    >>> from pathlib import Path
    >>> from dynident.demo import copy_to
    >>> _ = copy_to(Path("demo"))
    >>> [record.name for record in di.read_problem("demo/servo.toml").validation]
    ['sines']
    """

    problem: Problem
    method: dict[str, Any]
    validation: tuple[Experiment, ...]
    path: Path
    design: dict[str, Any] = field(default_factory=dict)  # the [design] table: what to plan next


def read_problem(path: str | Path, *, allow_outside: bool = False, allow_code: bool | Sequence[str] = False) -> ProblemFile:
    """Read a problem file (TOML) and the data that it names.

    See the manual, reference/problem_file.

    Parameters
    ----------
    path : str or Path
        The file.
    allow_outside : bool, default False
        Whether data may lie outside of the folder of the file.
    allow_code : bool or sequence of str, default False
        Whether code that the file brings along may be run: the native code of an FMU, or a model in a Python file. Or the
        SHA-256 checksums (hexadecimal) of those files that may.

    Returns
    -------
    ProblemFile
        The problem, the options of its method, and records for validation.

    Raises
    ------
    ProblemError
        With all faults at once, each with its line and key.

    Examples
    --------
    >>> import dynident as di
    >>> from pathlib import Path
    >>> from dynident.demo import copy_to
    >>> _ = copy_to(Path("demo"))
    >>> di.read_problem("demo/servo.toml").problem.names
    ('M', 'Fv', 'Fc', 'offset')
    """
    file = existing_file(path)
    if file.suffix.lower() in (".yaml", ".yml"):
        from dynident.io.petab.read import read_petab  # here, because few problems are said so

        return ProblemFile(read_petab(file), {}, (), file)
    return problem_from_text(_text_of(file), file, allow_outside, allow_code)


def problem_from_text(text: str, file: Path, allow_outside: bool = False, allow_code: bool | Sequence[str] = False,
                      read_records: Callable[..., list[Experiment]] = records_of) -> ProblemFile:
    """The problem in a text that stands, or will stand, in this file; all faults at once. `read_records` reads a file."""
    located = Located(file.name, text)
    tables = validate_table(_content(text, file.name), located)
    reader = Reader(file, located, allow_outside, allow_code, read_records)
    records = [*tables.experiment, *tables.validation]
    model = reader.model(tables.model, list(dict.fromkeys(signal for table in records for signal in table.outputs)))
    numbered = [(k, run) for k, table in enumerate(tables.experiment) for run in reader.runs(("experiment", k), table, model)]
    validation = [run for k, table in enumerate(tables.validation) for run in reader.runs(("validation", k), table, model)]
    method = reader.method(tables.method.model_dump() if tables.method else {})
    if reader.faults or model is None:
        raise ProblemError(reader.faults)
    try:
        problem = Problem(model, [run for _, run in numbered], tables.unknowns(), tables.constraints, tables.disturbances())
    except ProblemError as error:
        raise ProblemError([located.fault(key, fault) if (key := place_of(fault, numbered)) else f"{file.name}: {fault}"
                            for fault in error.faults]) from None
    design = tables.design.model_dump(exclude_unset=True) if tables.design else {}
    return ProblemFile(problem, method, tuple(validation), file, design)


def parse_file(path: str | Path) -> tuple[Path, Located, dict[str, Any]]:
    """The file, a way to say where in it something stands, and its content."""
    file = existing_file(path)
    text = _text_of(file)
    return file, Located(file.name, text), _content(text, file.name)


def _text_of(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ProblemError(f"{file.name} is not valid TOML: {error}.") from error


CORRECTIONS = {  # by words of the parser
    "Illegal character '\\n'": "Close the quotation mark in that line.",
    "Cannot overwrite": "The key stands there twice: keep one.",
    "Cannot declare": "The table stands there twice: keep one.",
    "Expected '=' after a key": "A problem file holds tables and lines such as key = value; `dynident init` writes one.",
    "Expected ']'": "Close the bracket in that line.",
    "Invalid value": "Text stands in quotation marks; numbers, true and false do not."}


def _correction(text: str, error: tomllib.TOMLDecodeError) -> str:
    """What to do about a text that is no TOML."""
    if "array" in str(error):  # found where the file goes on, lines below
        told = re.search(r"at line (\d+)", str(error))
        above = text.splitlines()[:int(told[1]) if told else None]
        opened = [number for number, line in enumerate(above, 1) if "=" in line and line.count("[") > line.count("]")]
        if opened:
            return f"Close the bracket that line {opened[-1]} opens, or set a comma between its values."
    return next((words for said, words in CORRECTIONS.items() if said in str(error)), "Correct that line.")


def _content(text: str, source: str) -> dict[str, Any]:
    """The tables of a text; `source` is what errors call it."""
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        raise ProblemError(f"{source} is not valid TOML: {error}. {_correction(text, error)}") from error
    except RecursionError:
        raise ProblemError(f"{source} is nested deeper than a problem file can be.") from None


def write_problem(problem: Problem, method: Any, path: str | Path, validation: Sequence[Experiment] = ()) -> Path:
    """Write a problem file with its data beside it as CSV; read again, it gives the same numbers to the last bit.

    See the manual, reference/problem_file.

    Parameters
    ----------
    problem : Problem
        What is written.
    method : method, str, mapping or None
        As in `identify`; None leaves it open.
    path : str or Path
        The file; data are written beside it.
    validation : sequence of Experiment, default ()
        Records for validation.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    NotSupported
        For a model that has no form in a file.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=1, lower=0)])
    >>> path = di.write_problem(problem, di.single_shooting(), "decay.toml")
    >>> di.read_problem(path).method["kind"]
    'single_shooting'
    """
    method = _method_table(method)
    path = Path(path)
    content: dict[str, Any] = {"constraints": [c.text for c in problem.constraints],
                               "process_noise": {name: True if noise.std is None else float(noise.std)  # type: ignore[arg-type]
                                                 for name, noise in problem.process_noise.items()},
                               "model": write_robot_table(problem.model, path) if isinstance(problem.model, RobotModel)
                               else model_table(problem.model)}
    for file in problem.model.files if isinstance(problem.model, FmuModel) else ():  # it lives in files, and takes them along
        content["model"] |= {key: copied_beside(file, path) for key, name in content["model"].items() if name == file.name}
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

    def __init__(self, file: Path, located: Located, allow_outside: bool, allow_code: bool | Sequence[str],
                 read_records: Callable[..., list[Experiment]] = records_of):
        self.folder = file.resolve().parent
        self.located = located
        self.allow_outside = allow_outside
        self.allow_code = bool(allow_code) if isinstance(allow_code, bool | int) else frozenset(allow_code)
        self.read_records = read_records
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
        if table.robot is not None:
            robot = table.robot
            return self._gather(("model", "robot"), lambda: read_robot_table(robot, self.inside))
        if table.python is not None:
            named = table.python
            return self._gather(("model", "python"), lambda: self._python_model(named))
        if table.simulator is not None:
            run = table.simulator
            return self._gather(("model", "simulator"), lambda: self._simulator_model(table, run))
        if table.transfer_function is not None:
            arguments = table.transfer_function.model_dump()
            return self._gather(("model", "transfer_function"), lambda: transfer_function(**arguments, name=table.name))
        return self._gather(("model",), lambda: EquationModel.from_definition(table.definition()))

    def _fmu_model(self, named: str, table: ModelTable, measured: Sequence[str]) -> Model:
        options = {key: getattr(table, key) for key in table.model_fields_set & {*FMU_OPTIONS} - {"interface"}}
        inputs = table.inputs if "inputs" in table.model_fields_set else None
        outputs = list(table.outputs) if table.outputs is not None else list(measured) or None
        file = self.inside(named)
        self._trusted(f"native code of the FMU {named}", file)
        return FmuModel(file, inputs=inputs, outputs=outputs, kind=table.interface, **options)

    def _trusted(self, what: str, file: Path, source: bytes | None = None) -> None:
        """Refuse code that nobody has allowed; what would run, and where it comes from, is said.

        `source`: what was read of the file, where that will run and not what the file holds by then.
        """
        known = self.allow_code is True
        if isinstance(self.allow_code, frozenset):
            known = (digest_of(file) if source is None else hashlib.sha256(source).hexdigest()) in self.allow_code
        if not known:
            raise ProblemError(f"this would run {what} on this machine ({file}, {file.stat().st_size:,} bytes), with all the "
                               "rights that you have. If you trust whoever made it, allow it with allow_code=True "
                               "(--allow-code).")

    def _simulator_model(self, table: ModelTable, run: SimulatorTable) -> Model:
        """With its code where that may be run; else it can be looked at, but not simulated."""
        def found(named: str) -> Any:
            return self._from_python(named) if self.allow_code is True else UnavailableFunction(named, run.code)

        return SimulatorModel(
            found(run.simulate), table.parameters or (), list(table.outputs or {}),
            found(run.jacobian) if run.jacobian else None, inputs=table.inputs,
            isolated=run.isolated, time_limit=run.time_limit, starts=table.starts, units=table.units,
            name=table.name)

    def _python_model(self, named: str) -> Model:
        model = self._from_python(named)
        if not isinstance(model, Model):
            raise ProblemError(f"'{named}' is {type(model).__name__}, not a model.")
        return model

    def _from_python(self, named: str) -> Any:
        """What a Python file calls by a name; its code is run."""
        name, _, attribute = named.rpartition(":")
        if not name or not attribute:
            raise ProblemError(f"'{named}' must be a file and a name in it, such as \"drive.py:drive\".")
        file = self.inside(name)
        source = file.read_bytes()  # once: what is asked about is what runs
        self._trusted(f"Python code of {name}", file, source)
        return python_attribute(file, name, attribute, source)

    def method(self, table: dict[str, Any]) -> dict[str, Any]:
        """The table as it is, after the method it names has checked its options."""
        try:
            _made(table)
        except ProblemError as error:
            self.faults += [self.located.fault(("method", *key_in(fault, table)), fault) for fault in error.faults]
        return table

    def runs(self, path: tuple[str | int, ...], table: ExperimentTable, model: Model | None) -> list[Experiment]:
        """The record that a table names, or the runs that its file holds; none where something is wrong."""
        return self._gather((*path, "file"), lambda: self._read(table, model)) or []

    def _read(self, table: ExperimentTable, model: Model | None) -> list[Experiment]:
        records = self.read_records(self.inside(table.file), table.split, table.request())
        records = records if model is None else [in_units_of(model, record, table.units or ()) for record in records]
        said = table.conditions()
        records = [replace(record, **said) for record in records] if said else records
        return [record.window(*table.window) for record in records] if table.window else records

    def inside(self, name: str) -> Path:
        """The file, if it lies in the problem's folder after links are followed."""
        absolute = PurePosixPath(name).is_absolute() or PureWindowsPath(name).drive or name.startswith("\\")
        try:
            leaves = absolute or not (self.folder / name).resolve().is_relative_to(self.folder)
        except (OSError, ValueError, RuntimeError) as error:  # links that lead round in a circle, letters that no name can have
            raise ProblemError(f"{name!r} is no name of a file: {error}.") from error
        if leaves and not self.allow_outside:
            raise ProblemError(f"'{name}' leaves the folder of the problem. Move it beside the problem file, or allow "
                               "it with allow_outside=True (--allow-outside).")
        return existing_file(self.folder / name)


def read_robot_table(said: Mapping[str, Any], inside: Callable[[str], Path]) -> RobotModel:
    """The arm that a table describes; `inside` finds a file beside the problem file."""
    known = ("urdf", *ROBOT_OPTIONS)
    faults = [f"'{key}' has no meaning for a robot.{did_you_mean(key, known)}" for key in said if key not in known]
    if not isinstance(said.get("urdf"), str):
        faults.append("urdf is missing; name the file that describes the robot, as in robot = { urdf = \"arm.urdf\" }.")
    if faults:
        raise ProblemError(faults)
    return RobotModel(inside(said["urdf"]), **{key: value for key, value in said.items() if key != "urdf"})


def write_robot_table(arm: RobotModel, path: Path) -> dict[str, Any]:
    """The table of an arm, whose description is written beside the problem file."""
    definition, file = arm.definition(), path.with_name(f"{path.stem}.urdf")
    with atomic_write(file) as aside:
        aside.write_text(definition["urdf"], encoding="utf-8")
    given = {key: definition[key] for key in ROBOT_OPTIONS if definition[key] not in (None, {}, [], False)}
    return {"robot": {"urdf": file.name, **given}}
