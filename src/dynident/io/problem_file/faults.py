"""Faults of a problem file: at which line and key does each stand, what may stand there, and how is it written?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from dynident.errors import ProblemError, did_you_mean
from dynident.io.problem_file.schema import (
    DesignTable,
    ExperimentTable,
    FleetFileTable,
    FleetTable,
    IndexColumns,
    InitialTable,
    InputTable,
    LookUpTable,
    ModelTable,
    ModeTable,
    OutputTable,
    ParameterTable,
    PriorTable,
    ProblemTable,
    RecordTable,
    SimulatorTable,
    SteadyTable,
    TransferFunctionTable,
    TransitionTable,
)
from dynident.io.problem_file.value_kinds import shown
from dynident.io.problem_file.write import KeyPath, line_of, printed
from dynident.problem.experiment import Experiment

_SPEAKS_OF = {"a bound": "lower", "a prior": "prior", "is fixed": "start"}
_IN_EXPERIMENTS = (  # words of a fault -> the table in which its subject stands
    (r"(?:the )?constant '(\w+)'", "constants"), (r"'(\w+)' is a constant of the", "constants"),
    (r"initial state of '(\w+)' on the way to rest", "steady initial"),
    (r"'(\w+)' begins on its way to rest", "steady initial"),
    (r"initial state of '(\w+)'", "initial"), (r"'(\w+)' in `initial`", "initial"),
    (r"standard deviation of '(\w+)'", "outputs"))
File = TypeVar("File", ProblemTable, FleetFileTable)
_KINDS = {"string_type": "a text", "bool_type": "true or false", "dict_type": "a table", "list_type": "a list",
          "model_type": "a table", "model_attributes_type": "a table", "int_type": "a whole number"}


class Located:
    """Puts the file, the line and the path of a key before a sentence."""

    def __init__(self, source: str, text: str):
        self.source = source
        self.text = text

    def fault(self, path: KeyPath, sentence: str) -> str:
        line = line_of(self.text, path)
        where = f"{self.source}, line {line}" if line else self.source
        return f"{where}: {printed(path)}: {sentence}"


def validate_table(content: dict[str, Any], located: Located, table: type[File] = ProblemTable) -> File:  # type: ignore[assignment]
    """The content in its nouns, or all faults in one error."""
    faults = _starts_missing(content, located)
    try:
        tables = table.model_validate(content)
    except ValidationError as error:
        faults += [fault for one in error.errors() for fault in _faults(one, located, table)]
    if faults:
        raise ProblemError(faults)
    return tables


def _starts_missing(content: dict[str, Any], located: Located) -> list[str]:
    """Parameters without a start value, which only FMUs and robots bring along."""
    model, parameters = content.get("model"), content.get("parameters")
    if (isinstance(model, dict) and ("fmu" in model or "robot" in model)) or not isinstance(parameters, dict):
        return []
    return [located.fault(("parameters", name, "start"), "is required, but not given. Add it, as start = 1.0.")
            for name, table in parameters.items() if isinstance(table, dict) and "start" not in table]


def _to_add(path: KeyPath) -> str:
    """How what is missing is written."""
    key = str(path[-1])
    if len(path) > 1:
        return f"Add it, as {key} = ..."
    return f"Add a table [[{key}]]." if key == "experiment" else f"Add a table [{key}]."


def _faults(error: Any, located: Located, table: type[BaseModel]) -> list[str]:
    path: KeyPath = tuple(error["loc"])
    kind = error["type"]
    if kind == "value_error":
        told = []
        for sentence in str(error["ctx"]["error"]).split("\n"):
            key = key_in(sentence, error["input"])
            told.append(located.fault(path + key, sentence))
        return told
    if kind == "extra_forbidden":
        return [located.fault(path, f"this key has no meaning here.{did_you_mean(str(path[-1]), known_keys(path, table))}")]
    if kind == "missing":
        return [located.fault(path, f"is required, but not given. {_to_add(path)}")]
    if kind == "too_short":
        return [located.fault(path, "at least one [[experiment]] is needed.")]
    if kind in _KINDS:
        return [located.fault(path, f"must be {_KINDS[kind]}, not {shown(error['input'])}.{as_written(kind, path)}")]
    return [located.fault(path, f"{error['msg']}.")]


def known_keys(path: KeyPath, whole: type[BaseModel]) -> list[str]:
    """The keys that could stand in the place of the last of the path."""
    tables: dict[str, type[BaseModel]] = {
        "model": ModelTable, "experiment": ExperimentTable, "validation": ExperimentTable,
        "parameters": ParameterTable, "initial_states": InitialTable, "design": DesignTable, "record": RecordTable,
        "fleet": FleetTable}
    table = whole if len(path) == 1 else tables[str(path[0])]
    if path[:2] == ("fleet", "columns"):
        table = IndexColumns
    elif "outputs" in path[1:4] and len(path) == (4 if path[0] == "record" else 5):
        table = OutputTable
    elif "inputs" in path[1:4] and len(path) == (4 if path[0] == "record" else 5):
        table = InputTable
    elif path[:1] in (("experiment",), ("validation",)) and path[2:3] == ("steady",) and len(path) > 3:
        table = SteadyTable
    elif "prior" in path[2:-1]:
        table = PriorTable
    elif path[:2] == ("model", "transfer_function") and len(path) > 2:
        table = TransferFunctionTable
    elif path[:2] == ("model", "simulator") and len(path) > 2:
        table = SimulatorTable
    elif path[:2] == ("model", "tables") and len(path) > 3:
        table = LookUpTable
    elif path[:1] == ("model",) and len(path) > 3:
        table = ModeTable if path[1] == "modes" else TransitionTable
    return list(table.model_fields)


def as_written(kind: str, path: tuple[Any, ...]) -> str:
    """How the value is written, where its place says so."""
    if kind == "list_type" and path[-1:] in (("experiment",), ("validation",)):
        return f" Write [[{path[-1]}]] in double brackets, once for each record."
    if path[:1] == ("parameters",) and len(path) == 2:
        return f" Write {path[1]} = {{ start = 1.0 }}, or {path[1]} = {{ start = 1.0, lower = 0, upper = 10 }}."
    return ""


def key_in(sentence: str, table: Any) -> tuple[Any, ...]:
    """The key of a table that a sentence about the table speaks of."""
    if not isinstance(table, dict):
        return ()
    for words, key in _SPEAKS_OF.items():
        if words in sentence:
            return (key,) if key in table else ()
    first = re.match(r"\w+", sentence)
    return (first.group(),) if first and first.group() in table else ()


def place_of(fault: str, experiments: Sequence[tuple[int, Experiment]]) -> KeyPath:
    """The key that a sentence is about, or () where its words do not tell; experiments with the number of their entry."""
    for number, (k, experiment) in enumerate(experiments, 1):
        name = experiment.name or ("experiment" if len(experiments) == 1 else f"experiment {number}")  # as the problem calls it
        if fault.startswith(f"{name}: "):
            for words, table in _IN_EXPERIMENTS:
                if found := re.match(words, fault[len(name) + 2:]):
                    return "experiment", k, *table.split(), found.group(1)
    found = re.match(r"parameter '(\w+)'", fault)
    return ("parameters", found.group(1)) if found else ()
