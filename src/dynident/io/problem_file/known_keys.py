"""Known keys: which words may stand at a place of a problem file, and how is a value written there?"""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel

from dynident.io.problem_file.fleet_schema import FleetTable, IndexColumns
from dynident.io.problem_file.schema import (
    DesignTable,
    ExperimentTable,
    InitialTable,
    InputTable,
    LookUpTable,
    ModelTable,
    ModeTable,
    OutputTable,
    ParameterTable,
    PriorTable,
    RecordTable,
    SimulatorTable,
    SteadyTable,
    TransferFunctionTable,
    TransitionTable,
)
from dynident.io.problem_file.write import KeyPath


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


_SPEAKS_OF = {"a bound": "lower", "a prior": "prior", "is fixed": "start"}


def key_in(sentence: str, table: Any) -> tuple[Any, ...]:
    """The key of a table that a sentence about the table speaks of."""
    if not isinstance(table, dict):
        return ()
    for words, key in _SPEAKS_OF.items():
        if words in sentence:
            return (key,) if key in table else ()
    first = re.match(r"\w+", sentence)
    return (first.group(),) if first and first.group() in table else ()
