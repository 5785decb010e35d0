"""Schema: which keys a problem file may hold, and of which kind their values are."""

from __future__ import annotations

import functools
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from dynident.io.problem_file.record_keys import OutputFilters, Preparation, split_rule
from dynident.problem.experiment import HOLDS
from dynident.problem.noise import Bounded, Gaussian
from dynident.problem.parameter import InitialState, Parameter, Prior


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"must be a number, not {shown(value)}.")
    return value


def _column(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(f"must be a column: its header, or its position counted from 0; not {shown(value)}.")
    return value


def _equation(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"must be an equation as text, such as \"-k*x\", not {shown(value)}.")
    return value


def _names_or_table(value: Any) -> Any:
    """A list of names means that each signal stands in the column of its own name."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return {name: name for name in value}
    if not isinstance(value, dict):
        raise ValueError(f"must be a list of names or a table from name to column, not {shown(value)}.")
    return value


def _signals(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: {"column": it} if isinstance(it, (str, int)) else it for name, it in value.items()}
    return {name: {"column": column} for name, column in _names_or_table(value).items()}


def _output_equations(value: Any) -> Any:
    return _names_or_table(value) if isinstance(value, list) else value


def _states(value: Any) -> Any:
    """With modes, which have the rates, the states are a list of names."""
    return dict.fromkeys(value, "") if isinstance(value, list) and all(isinstance(n, str) for n in value) else value


def _hold(value: Any) -> Any:
    kinds = list(value.values()) if isinstance(value, dict) else [value]
    if any(kind not in HOLDS for kind in kinds):
        raise ValueError(f"must be \"zero\", \"linear\" or a table from input to one of them, not {shown(value)}.")
    return value


def _size(value: Any) -> Any:
    """How large the errors of a signal are: one number, or a column of the file."""
    if isinstance(value, dict):
        if set(value) != {"column"}:
            raise ValueError("must be a number or { column = ... }.")
        _column(value["column"])
        return value
    if not _number(value) > 0:
        raise ValueError(f"is {value}, but must be positive.")
    return value


def _disturbance(value: Any) -> Any:
    """How strong a disturbance is: a number, or true where it is to be found."""
    if value is not True and not _number(value) > 0:
        raise ValueError(f"is {value}, but must be positive, or true where it is to be found.")
    return value


def shown(value: Any) -> str:
    """A value as it would stand in the file, if it is short."""
    if isinstance(value, (dict, list)):
        return "a table" if isinstance(value, dict) else "a list"
    return str(value).lower() if isinstance(value, bool) else f"'{value}'" if isinstance(value, str) else repr(value)


def _raise_all(faults: list[str]) -> None:
    """One line per fault, without the name of the thing, which the path gives."""
    if faults:
        raise ValueError("\n".join(fault.split("'': ", 1)[-1].split("'' ", 1)[-1] for fault in faults))


Number = Annotated[Any, BeforeValidator(_number)]
Column = Annotated[Any, BeforeValidator(_column)]
Equation = Annotated[Any, BeforeValidator(_equation)]


ProcessNoise = Annotated[Any, BeforeValidator(_disturbance)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ModeTable(_Table):
    """How the states move in one mode, and where it is possible."""

    rate: dict[str, Equation] = {}
    invariant: str = ""


class TransitionTable(_Table):
    """From one mode to another, when a condition begins to hold."""

    source: str
    target: str
    when: str
    reset: dict[str, Equation] = {}


FMU_OPTIONS = ("interface", "integrator", "alignment", "tolerance", "values", "time_limit")
ALLOWED_WITH: dict[str, tuple[str, ...]] = {
    "states": (), "next": (), "transfer_function": ("name",),
    "simulator": ("name", "inputs", "outputs", "parameters", "starts", "units"), "python": (),
    "robot": ("name",), "fmu": ("inputs", "outputs", *FMU_OPTIONS)}


class LookUpTable(_Table):
    """A look-up table with unknown values."""

    knots: list[Number]
    smooth: bool = False


class TransferFunctionTable(_Table):
    """The arguments of `transfer_function`."""

    num: list[Equation]
    den: list[Equation]
    delay: Equation | None = None
    sample_time: Number = None
    input: str = "u"
    output: str = "y"


class SimulatorTable(_Table):
    """Where the code of a `SimulatorModel` stands, and how it is run."""

    simulate: str  # "pump.py:simulate"
    jacobian: str | None = None
    isolated: bool = False
    time_limit: Number = 60.0
    code: str = ""  # fingerprint of the function that was fitted


class ModelTable(_Table):
    """Equations as text (`states`, or `next` in discrete time), or one of `transfer_function`, `simulator`,
    `python`, `robot` and `fmu`."""

    name: str = ""
    kind: str = "equations"
    inputs: list[str] = []
    constants: dict[str, Number] = {}
    definitions: dict[str, Equation] = {}
    states: Annotated[dict[str, Equation] | None, BeforeValidator(_states)] = None
    algebraic: dict[str, Equation] = {}
    guesses: dict[str, Equation] = {}
    next: dict[str, Equation] | None = None
    sample_time: Number = None
    tables: dict[str, LookUpTable] | None = None
    starts: dict[str, Number] | None = None
    unused: list[str] = []
    transfer_function: TransferFunctionTable | None = None
    simulator: SimulatorTable | None = None
    modes: dict[str, ModeTable] | None = None
    transitions: list[TransitionTable] = []
    outputs: Annotated[dict[str, Equation] | None, BeforeValidator(_output_equations)] = None
    parameters: list[str] | None = None
    units: dict[str, str] = {}
    python: str | None = None
    robot: dict[str, Any] | None = None
    fmu: str | None = None
    interface: str = "auto"  # from here on, how an FMU is run; see FmuModel
    integrator: str = "runge_kutta"
    alignment: str = "sampled"
    tolerance: Number | None = None
    values: dict[str, Number | str] = {}
    time_limit: Number = 60.0

    def definition(self) -> dict[str, Any]:
        """As `EquationModel.from_definition` takes it; states without a rate of their own are a list of names."""
        said = self.model_dump(exclude={*ALLOWED_WITH, *FMU_OPTIONS} - {"states", "next"}, exclude_none=True)
        return said | ({"states": list(said["states"])} if self.modes and not any(said["states"].values()) else {})

    @model_validator(mode="after")
    def one_source(self) -> ModelTable:
        given = [key for key in ALLOWED_WITH if getattr(self, key) is not None]
        if len(given) != 1:
            raise ValueError(f"needs exactly one of {', '.join(list(ALLOWED_WITH)[:-1])} and {list(ALLOWED_WITH)[-1]}, but has "
                             f"{' and '.join(given) or 'none'}.")
        others = sorted(self.model_fields_set - set(given) - set(ALLOWED_WITH[given[0]]))
        if others and given[0] in ("transfer_function", "simulator", "python", "robot", "fmu"):
            raise ValueError(f"{given[0]} brings a whole model; remove {', '.join(others)}.")
        if others and set(others) & set(FMU_OPTIONS):
            raise ValueError(f"{', '.join(others)} belongs to a model from an FMU; remove it.")
        return self


class OutputTable(_Table):
    """One measured signal; without `gaussian` and `bounded` its error is Gaussian, its standard deviation estimated; with both,
    both hold."""

    column: Column = None
    gaussian: Annotated[Any, BeforeValidator(lambda value: value if value is True else _size(value))] = True
    bounded: Annotated[Any, BeforeValidator(_size)] = None

    @model_validator(mode="after")
    def one_bound(self) -> OutputTable:
        if {"gaussian", "bounded"} <= self.model_fields_set and isinstance(self.bounded, dict):
            raise ValueError("has gaussian and bounds per sample; beside gaussian, bounded is one number.")
        return self

    def request(self, signal: str) -> Any:
        """As `read_csv` takes it."""
        column = signal if self.column is None else self.column
        both = {"gaussian", "bounded"} <= self.model_fields_set
        only_bounded = self.bounded is not None and not both
        kind: Any = Bounded if only_bounded else functools.partial(Gaussian, bound=self.bounded)
        size = self.bounded if only_bounded else self.gaussian
        if isinstance(size, dict):
            return column, kind, size["column"]
        return column, kind() if size is True else kind(size)


class InputTable(_Table):
    """One input; without `gaussian` it is known exactly, with it its sensor errs by so much (true: to be found)."""

    column: Column = None
    gaussian: Annotated[Any, BeforeValidator(lambda value: value if value is True else _size(value))] = None

    def request(self, signal: str) -> Any:
        """As `read_csv` takes it."""
        column = signal if self.column is None else self.column
        if isinstance(self.gaussian, dict):
            return column, Gaussian, self.gaussian["column"]
        return column if self.gaussian is None else (column, Gaussian() if self.gaussian is True else Gaussian(self.gaussian))


OF_EXPERIMENTS = {"file", "before", "split", "filters", "window", "time_radius"}  # no arguments of `read_table`


class RecordTable(_Table):
    """How a record is read; the keys are the arguments of `read_table`."""

    time: Column = None
    inputs: Annotated[dict[str, InputTable], BeforeValidator(_signals)] = {}
    outputs: Annotated[dict[str, OutputTable], BeforeValidator(_signals)] = {}
    hold: Annotated[Any, BeforeValidator(_hold)] = "zero"
    initial: dict[str, Number] = {}
    start: Number = None
    mode: str = ""
    units: dict[str, str] | None = None
    time_unit: str | None = None
    sample_time: Number = None
    separator: str | None = None
    decimal: str | None = None
    sheet: str | int | None = None  # of a workbook
    prepare: Preparation = []

    def request(self) -> dict[str, Any]:
        """As `read_table` takes it."""
        given = {key: getattr(self, key) for key in self.model_fields_set - {*OF_EXPERIMENTS, "inputs", "outputs"}}
        return {**given, "inputs": {signal: table.request(signal) for signal, table in self.inputs.items()},
                "outputs": {signal: output.request(signal) for signal, output in self.outputs.items()}}


class ExperimentTable(RecordTable):
    """One record, with its file and its name."""

    file: str
    name: str | None = None
    before: dict[str, Number] = {}  # inputs before the record, in the unit of the model
    time_radius: float | list[float] = 0.0  # bound of the errors of its times, in seconds; or one per sample
    window: Annotated[Any, BeforeValidator(lambda value: _span(value, "two times, where it begins and where it ends"))] = None
    filters: OutputFilters = {}  # of data that are filtered already: the model's output goes through the same
    split: Annotated[Any, BeforeValidator(split_rule)] = None  # the column that tells runs apart, or { gap = seconds }


class PriorTable(_Table):
    mean: Number
    std: Number


class _Unknown(_Table):
    lower: Number = -float("inf")
    upper: Number = float("inf")
    scale: Number = None
    log: bool = False
    unit: str = ""
    free: bool = True
    prior: PriorTable | None = None

    def fields(self) -> dict[str, Any]:
        given = self.model_dump(exclude_unset=True)
        return given | ({"prior": Prior(**given["prior"])} if given.get("prior") else {})


class ParameterTable(_Unknown):
    start: Number = None  # may be left out where an FMU brings one along
    shared: bool = True

    @model_validator(mode="after")
    def sound(self) -> ParameterTable:
        _raise_all(Parameter("", **self.fields()).faults())
        return self


class InitialTable(_Unknown):
    start: Number = None
    shared: bool = False

    @model_validator(mode="after")
    def sound(self) -> InitialTable:
        _raise_all(InitialState("", **self.fields()).faults())
        return self


class MethodTable(BaseModel):
    """The name of a method and its options, which that method checks."""

    model_config = ConfigDict(extra="allow", strict=True)
    kind: str


def _span(value: Any, wanted: str = "") -> Any:
    """Two times; or, unless `wanted` says what these are, one time or the shortest and the longest."""
    for each in value if isinstance(value, list) else [value]:
        _number(each)
    if len(value) != 2 if isinstance(value, list) else wanted:
        raise ValueError(f"must be {wanted or 'a time, or the shortest and the longest as a list of two'}.")
    return value


class DesignTable(_Table):
    """What `dynident design` plans: shape, criterion and constraints of the next input; the design checks the values."""

    signal: Any  # the name of a shape, a table { kind = ..., options }, or such a table per input
    criterion: str = "D"
    constraints: list[str] = []
    terminal_constraints: list[str] = []
    duration: Annotated[Any, BeforeValidator(_span)] = None
    sample_time: Number = None
    initial: dict[str, Number] | None = None
    parameters: list[str] = []
    records: int = 1
    robust: str = ""
    box: dict[str, list[Number]] = {}
    samples: int = 8
    use_records: bool = True
    amplitude: Any = None
    mode: str = ""
    starts: int = 4
    seed: int = 0


class QuestionTable(_Table):
    """What is asked, whatever the records."""

    model: ModelTable
    parameters: dict[str, ParameterTable] = {}
    initial_states: dict[str, InitialTable] = {}
    constraints: list[str] = []
    method: MethodTable | None = None

    def unknowns(self) -> list[Parameter | InitialState]:
        return [*(Parameter(name, **table.fields()) for name, table in self.parameters.items()),
                *(InitialState(state, **table.fields()) for state, table in self.initial_states.items())]


class ProblemTable(QuestionTable):
    experiment: list[ExperimentTable] = Field(min_length=1)
    validation: list[ExperimentTable] = []
    process_noise: dict[str, ProcessNoise] = {}
    design: DesignTable | None = None

    def disturbances(self) -> dict[str, Gaussian]:
        return {name: Gaussian() if std is True else Gaussian(std) for name, std in self.process_noise.items()}
