"""Schema: which keys a problem file or a fleet file may hold, and of which kind their values are."""

from __future__ import annotations

import functools
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from dynident.io.problem_file.value_kinds import (
    OutputFilters,
    Preparation,
    column_reference,
    disturbance,
    duration_rule,
    equation,
    error_size,
    hold_kind,
    initial_values,
    number,
    output_equations,
    raise_all,
    signals,
    size_or_formula,
    split_rule,
    states_or_names,
    window_rule,
)
from dynident.problem.noise import Bounded, Gaussian, LogNormal
from dynident.problem.parameter import InitialState, Parameter, Prior
from dynident.problem.steady_state import SteadyState

Number = Annotated[Any, BeforeValidator(number)]
ColumnField = Annotated[Any, BeforeValidator(column_reference)]
EquationField = Annotated[Any, BeforeValidator(equation)]


ProcessNoise = Annotated[Any, BeforeValidator(disturbance)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ModeTable(_Table):
    """How the states move in one mode, and where it is possible."""

    rate: dict[str, EquationField] = {}
    invariant: str = ""


class TransitionTable(_Table):
    """From one mode to another, when a condition begins to hold."""

    source: str
    target: str
    when: str
    reset: dict[str, EquationField] = {}


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

    num: list[EquationField]
    den: list[EquationField]
    delay: EquationField | None = None
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
    definitions: dict[str, EquationField] = {}
    states: Annotated[dict[str, EquationField] | None, BeforeValidator(states_or_names)] = None
    algebraic: dict[str, EquationField] = {}
    guesses: dict[str, EquationField] = {}
    next: dict[str, EquationField] | None = None
    sample_time: Number = None
    tables: dict[str, LookUpTable] | None = None
    starts: dict[str, Number] | None = None
    unused: list[str] = []
    transfer_function: TransferFunctionTable | None = None
    simulator: SimulatorTable | None = None
    modes: dict[str, ModeTable] | None = None
    transitions: list[TransitionTable] = []
    outputs: Annotated[dict[str, EquationField] | None, BeforeValidator(output_equations)] = None
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
    both hold. `log_normal` stands alone."""

    column: ColumnField = None
    gaussian: Annotated[Any, BeforeValidator(lambda value: value if value is True else size_or_formula(value))] = True
    log_normal: Annotated[Any, BeforeValidator(size_or_formula)] = None
    bounded: Annotated[Any, BeforeValidator(error_size)] = None

    @model_validator(mode="after")
    def one_bound(self) -> OutputTable:
        if {"gaussian", "bounded"} <= self.model_fields_set and isinstance(self.bounded, dict):
            raise ValueError("has gaussian and bounds per sample; beside gaussian, bounded is one number.")
        if self.log_normal is not None and {"gaussian", "bounded"} & self.model_fields_set:
            raise ValueError("log_normal says how errors are distributed; remove gaussian and bounded.")
        return self

    def request(self, signal: str) -> Any:
        """As `read_csv` takes it."""
        column = signal if self.column is None else self.column
        if (size := self.log_normal) is not None:
            return (column, LogNormal, size["column"]) if isinstance(size, dict) else (column, LogNormal(size))
        both = {"gaussian", "bounded"} <= self.model_fields_set
        only_bounded = self.bounded is not None and not both
        kind: Any = Bounded if only_bounded else functools.partial(Gaussian, bound=self.bounded)
        size = self.bounded if only_bounded else self.gaussian
        if isinstance(size, dict):
            return column, kind, size["column"]
        return column, kind() if size is True else kind(size)


class InputTable(_Table):
    """One input; without `gaussian` it is known exactly, with it its sensor errs by so much (true: to be found)."""

    column: ColumnField = None
    gaussian: Annotated[Any, BeforeValidator(lambda value: value if value is True else error_size(value))] = None

    def request(self, signal: str) -> Any:
        """As `read_csv` takes it."""
        column = signal if self.column is None else self.column
        if isinstance(self.gaussian, dict):
            return column, Gaussian, self.gaussian["column"]
        return column if self.gaussian is None else (column, Gaussian() if self.gaussian is True else Gaussian(self.gaussian))


OF_EXPERIMENTS = {"file", "before", "split", "filters", "window", "constants", "group", "steady",
                  "time_radius"}  # not of `read_table`


class RecordTable(_Table):
    """How a record is read; the keys are the arguments of `read_table`."""

    time: ColumnField = None
    inputs: Annotated[dict[str, InputTable], BeforeValidator(signals)] = {}
    outputs: Annotated[dict[str, OutputTable], BeforeValidator(signals)] = {}
    hold: Annotated[Any, BeforeValidator(hold_kind)] = "zero"
    initial: Annotated[Any, BeforeValidator(initial_values)] = {}
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
        elsewhere = {*OF_EXPERIMENTS, "inputs", "outputs"} | ({"initial"} if self.initial == "steady" else set())
        given = {key: getattr(self, key) for key in self.model_fields_set - elsewhere}
        return {**given, "inputs": {signal: table.request(signal) for signal, table in self.inputs.items()},
                "outputs": {signal: output.request(signal) for signal, output in self.outputs.items()}}


class SteadyTable(_Table):
    """Where the states begin on their way to rest, and constants that were different then."""

    initial: dict[str, EquationField] = {}
    constants: dict[str, Number] = {}


class ExperimentTable(RecordTable):
    """One record, with its file and its name."""

    file: str
    name: str | None = None
    before: dict[str, Number] = {}  # inputs before the record, in the unit of the model
    time_radius: float | list[float] = 0.0  # bound of the errors of its times, in seconds; or one per sample
    constants: dict[str, Number] = {}
    group: str = ""
    steady: SteadyTable | None = None
    window: Annotated[Any, BeforeValidator(window_rule)] = None
    filters: OutputFilters = {}  # of data that are filtered already: the model's output goes through the same
    split: Annotated[Any, BeforeValidator(split_rule)] = None  # the column that tells runs apart, or { gap = seconds }

    def conditions(self) -> dict[str, Any]:
        """What `Experiment` takes beside what a reader does."""
        plain = ("before", "filters", "constants", "group", "time_radius")
        said: dict[str, Any] = {key: getattr(self, key) for key in plain if getattr(self, key)}
        if self.steady is not None or self.initial == "steady":
            said["steady"] = SteadyState(**(self.steady.model_dump() if self.steady is not None else {}))
        return said


class PriorTable(_Table):
    mean: Number
    std: Number
    on: str = "lin"


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
    per: str = ""

    @model_validator(mode="after")
    def sound(self) -> ParameterTable:
        raise_all(Parameter("", **self.fields()).faults())
        return self


class InitialTable(_Unknown):
    start: Number = None
    shared: bool = False

    @model_validator(mode="after")
    def sound(self) -> InitialTable:
        raise_all(InitialState("", **self.fields()).faults())
        return self


class MethodTable(BaseModel):
    """The name of a method and its options, which that method checks."""

    model_config = ConfigDict(extra="allow", strict=True)
    kind: str


class DesignTable(_Table):
    """What `dynident design` plans: shape, criterion and constraints of the next input; the design checks the values."""

    signal: Any  # the name of a shape, a table { kind = ..., options }, or such a table per input
    criterion: str = "D"
    constraints: list[str] = []
    terminal_constraints: list[str] = []
    duration: Annotated[Any, BeforeValidator(duration_rule)] = None
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


def _positive(value: Any) -> Any:
    if not number(value) > 0:
        raise ValueError(f"is {value}, but must be positive.")
    return value


class IndexColumns(_Table):
    """How the columns of an index are called."""

    file: str = "file"
    machine: str = "machine"
    time: str = "time"


class FleetTable(_Table):
    """Which records there are, and what the whole fleet shares."""

    records: str | None = None  # "data/{machine}/{time}.csv"
    index: str | None = None  # a table with a line per record
    columns: IndexColumns = IndexColumns()
    shared: list[str] = Field(default_factory=list)
    timeout: Annotated[Any, BeforeValidator(_positive)] = None  # s, per record
    retries: int = Field(default=1, ge=0)

    @model_validator(mode="after")
    def one_list(self) -> FleetTable:
        if (self.records is None) == (self.index is None):
            raise ValueError("needs exactly one of records and index, but has " + ("none." if self.index is None else "both."))
        if self.records is not None and "columns" in self.model_fields_set:
            raise ValueError("columns belong to an index; remove them, or name an index in the place of records.")
        return self


class FleetFileTable(QuestionTable):
    record: RecordTable
    fleet: FleetTable
