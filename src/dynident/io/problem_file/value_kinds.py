"""Value kinds: of which kind may a value of a problem file be (a number, a column, steps of a preparation), and what is said
where it is another?"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Annotated, Any

from pydantic import BeforeValidator

from dynident.errors import ProblemError
from dynident.problem.experiment import HOLDS, Experiment
from dynident.problem.output_filter import OutputFilter
from dynident.problem.prepare import step_from


def number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"must be a number, not {shown(value)}.")
    return value


def column_reference(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(f"must be a column: its header, or its position counted from 0; not {shown(value)}.")
    return value


def equation(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"must be an equation as text, such as \"-k*x\", not {shown(value)}.")
    return value


def names_or_table(value: Any) -> Any:
    """A list of names means that each signal stands in the column of its own name."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return {name: name for name in value}
    if not isinstance(value, dict):
        raise ValueError(f"must be a list of names or a table from name to column, not {shown(value)}.")
    return value


def signals(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: {"column": it} if isinstance(it, (str, int)) else it for name, it in value.items()}
    return {name: {"column": column} for name, column in names_or_table(value).items()}


def output_equations(value: Any) -> Any:
    return names_or_table(value) if isinstance(value, list) else value


def states_or_names(value: Any) -> Any:
    """With modes, which have the rates, the states are a list of names."""
    return dict.fromkeys(value, "") if isinstance(value, list) and all(isinstance(n, str) for n in value) else value


def hold_kind(value: Any) -> Any:
    kinds = list(value.values()) if isinstance(value, dict) else [value]
    if any(kind not in HOLDS for kind in kinds):
        raise ValueError(f"must be \"zero\", \"linear\" or a table from input to one of them, not {shown(value)}.")
    return value


def size_or_formula(value: Any) -> Any:
    """The same, or a formula of it as text, which the problem reads."""
    return value if isinstance(value, str) and value.strip() else error_size(value)


def error_size(value: Any) -> Any:
    """How large the errors of a signal are: one number, or a column of the file."""
    if isinstance(value, dict):
        if set(value) != {"column"}:
            raise ValueError("must be a number or { column = ... }.")
        column_reference(value["column"])
        return value
    if not number(value) > 0:
        raise ValueError(f"is {value}, but must be positive.")
    return value


def disturbance(value: Any) -> Any:
    """How strong a disturbance is: a number, or true where it is to be found."""
    if value is not True and not number(value) > 0:
        raise ValueError(f"is {value}, but must be positive, or true where it is to be found.")
    return value


def shown(value: Any) -> str:
    """A value as it would stand in the file, if it is short."""
    if isinstance(value, (dict, list)):
        return "a table" if isinstance(value, dict) else "a list"
    return str(value).lower() if isinstance(value, bool) else f"'{value}'" if isinstance(value, str) else repr(value)


def raise_all(faults: list[str]) -> None:
    """One line per fault, without the name of the thing, which the path gives."""
    if faults:
        raise ValueError("\n".join(fault.split("'': ", 1)[-1].split("'' ", 1)[-1] for fault in faults))


def window_rule(value: Any) -> Any:
    return _times(value, isinstance(value, list), "two times, where it begins and where it ends")


def duration_rule(value: Any) -> Any:
    return _times(value, True, "a time, or the shortest and the longest as a list of two")


def _times(value: Any, good: bool, wanted: str) -> Any:
    """Numbers, and two of them where there are several."""
    for each in value if isinstance(value, list) else [value]:
        number(each)
    if not good or (isinstance(value, list) and len(value) != 2):
        raise ValueError(f"must be {wanted}.")
    return value


def initial_values(value: Any) -> Any:
    """Numbers and formulas by state, or the word for a state of rest."""
    if value == "steady":
        return value
    if not isinstance(value, dict):
        raise ValueError("must be a table from state to number or formula, or \"steady\".")
    for state, each in value.items():
        if isinstance(each, bool) or not isinstance(each, (int, float, str)):
            raise ValueError(f"of '{state}' must be a number or a formula.")
    return value


def split_rule(value: Any) -> Any:
    """What tells the runs of a file apart: a column, or the seconds without a sample between them."""
    if isinstance(value, dict):
        gap = value.get("gap")
        if set(value) != {"gap"} or isinstance(gap, bool) or not isinstance(gap, (int, float)) or not gap > 0:
            raise ValueError("must be a column, or { gap = seconds }.")
    elif isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError("must be a column, or { gap = seconds }.")
    return value


def steps_rule(value: Any) -> Any:
    """Steps of a preparation, each a table of one key: { crop = [2, 9] }."""
    if not isinstance(value, list):
        raise ValueError("must be a list of steps, such as [{ crop = [2, 9] }, { lowpass = 20 }].")
    try:
        return [step_from(table) for table in value]
    except ProblemError as error:
        raise ValueError("\n".join(fault.removeprefix("prepare: ") for fault in error.faults)) from None


def filters_rule(value: Any) -> Any:
    """By output what its data went through already."""
    known = {f.name for f in fields(OutputFilter)}
    if not isinstance(value, dict) or not all(isinstance(chain, list) and all(
            isinstance(each, dict) and "kind" in each and set(each) <= known for each in chain) for chain in value.values()):
        raise ValueError("must be a table from output to a list such as [{ kind = \"lowpass\", cutoff = 20.0, order = 2 }].")
    made = {name: tuple(OutputFilter(**each) for each in chain) for name, chain in value.items()}
    if faults := [fault for chain in made.values() for each in chain for fault in each.faults()]:
        raise ValueError("\n".join(faults))
    return made


def filters_table(experiment: Experiment) -> dict[str, list[dict[str, Any]]]:
    """The filters of a record, as `filters_rule` reads them."""
    return {name: [asdict(each) for each in chain] for name, chain in experiment.filters.items()}


Preparation = Annotated[Any, BeforeValidator(steps_rule)]
OutputFilters = Annotated[Any, BeforeValidator(filters_rule)]
