"""Record keys: how a problem file says into which runs a record is split, how it is prepared, and its conditions."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Annotated, Any

from pydantic import BeforeValidator

from dynident.errors import ProblemError
from dynident.problem.experiment import Experiment
from dynident.problem.output_filter import OutputFilter
from dynident.problem.prepare import step_from


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
