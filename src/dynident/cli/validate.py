"""`dynident validate`: does a saved result describe a record that was not fitted?"""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dynident.cli.common import GOOD, AllowCode, ResultsPath, Stop, Strict, assignments, print_why

if TYPE_CHECKING:
    from dynident.io.problem_file.schema import ExperimentTable
    from dynident.problem.experiment import Experiment
    from dynident.problem.model import Model

Record = Annotated[Path, typer.Argument(metavar="RECORD", help="A record that was not fitted: CSV, Excel, Parquet, MAT, ....",
                                        show_default=False)]
Columns = Annotated[list[str], typer.Option("--column", "-c", metavar="NAME=COLUMN", show_default=False, help=(
    "The column of a signal (or of `time`) where it is not called as in the problem's first experiment; "
    "may be repeated."))]

Initial = Annotated[list[str], typer.Option("--initial", metavar="STATE=VALUE", show_default=False, help=(
    "A known initial state of this record; what is not given is fitted to it. May be repeated."))]

OF_ONE_RECORD = {  # says nothing about another, or is said anew
    "file", "name", "start", "initial", "outputs", "sheet", "split", "filters", "before", "window"}


def run(results: ResultsPath, record: Record, columns: Columns = [],  # noqa: B006 typer hands over a new list
        initial: Initial = [], strict: Strict = False, allow_code: AllowCode = False) -> None:  # noqa: B006
    """Simulate another record at a saved estimate: fit and residual tests, added to the result and its report.

    The columns of the record are called as in the problem's first experiment; --column says otherwise.
    Exit code by the verdict: 0 if the model predicts the record, 3 if roughly, 4 if not.

    Example: dynident validate results/ other.csv --column position=q
    """
    from dynident.io.results.result_folder import AS_GIVEN, load, reserve_folder, write

    estimate = load(results, allow_code=allow_code)
    experiment = read_like(first_experiment(results), record, assignments(columns, "--column"), estimate.problem.model)
    experiment = _with_initial(experiment, assignments(initial, "--initial"), estimate.problem.model.states)
    validation = estimate.validate(experiment)
    print(validation)
    others = [v for v in estimate.validations if v.experiment != validation.experiment]  # the same record is replaced
    given = results / AS_GIVEN
    with reserve_folder(results):
        write(dataclasses.replace(estimate, validations=(*others, validation)), results,
              as_given=given.read_bytes() if given.is_file() else None)
    print(f"\nAdded to {results}; open {results / 'report.html'} in a browser.")
    assert validation.verdict is not None  # `validate` judges
    code = validation.verdict.exit_code(strict)
    print_why(code, f"verdict {validation.verdict.grade} on {validation.experiment}; the result was written.")
    if code != GOOD:
        raise Stop(code)


def _with_initial(experiment: Experiment, given: dict[str, str], states: tuple[str, ...]) -> Experiment:
    """The record with initial states that the command line says."""
    from dynident.errors import ProblemError, did_you_mean

    faults, values = [], {}
    for state, text in given.items():
        if state not in states:
            faults.append(f"--initial {state}={text}: '{state}' is not a state of the model.{did_you_mean(state, states)}")
        try:
            values[state] = float(text)
        except ValueError:
            faults.append(f"--initial {state}={text}: '{text}' is not a number.")
    if faults:
        raise ProblemError(faults)
    return dataclasses.replace(experiment, initial={**experiment.initial, **values}) if values else experiment


def first_experiment(results: Path) -> ExperimentTable:
    """How the first record was read: from the user's own problem file, or from the one written with the result."""
    from dynident.errors import ProblemError
    from dynident.io.problem_file.schema import ExperimentTable
    from dynident.io.results.result_folder import AS_GIVEN, PROBLEM

    file = results / AS_GIVEN if (results / AS_GIVEN).is_file() else results / PROBLEM
    try:
        return ExperimentTable.model_validate(tomllib.loads(file.read_text(encoding="utf-8-sig"))["experiment"][0])
    except (KeyError, IndexError, ValueError) as error:
        raise ProblemError(f"{file} does not say how the first experiment was read: it was changed after the fit. "
                           "Fit again, or restore it.") from error


def read_like(table: ExperimentTable, record: Path, columns: dict[str, str], model: Model) -> Experiment:
    """The record, read as the table says, except for its own columns, and in the units of the model."""
    from dynident.errors import ProblemError, did_you_mean
    from dynident.io.readers.build_experiment import in_units_of
    from dynident.io.readers.tables import read_table

    known = ["time", *table.inputs, *table.outputs]
    faults = [f"--column {name}={column}: '{name}' is not a signal of the problem.{did_you_mean(name, known)}"
              for name, column in columns.items() if name not in known]
    if faults:
        raise ProblemError(faults)
    given: dict[str, Any] = {key: getattr(table, key) for key in table.model_fields_set - OF_ONE_RECORD}
    given |= {"inputs": {name: _in_column(columns.get(name), it.request(name)) for name, it in table.inputs.items()}}
    given |= {"time": columns["time"]} if "time" in columns else {}
    outputs = {}
    for name, output in table.outputs.items():
        outputs[name] = _in_column(columns.get(name), output.request(name))
    try:
        read = read_table(record, name=record.stem, outputs=outputs, **given)
    except ProblemError as error:
        hint = "Columns are called as in the problem's first experiment; where they are not, say --column NAME=COLUMN."
        *others, last = error.faults
        raise ProblemError([*others, f"{last} {hint}"]) from error  # the hint is no fault of its own
    return in_units_of(model, read, table.units or ())


def _in_column(column: str | None, request: Any) -> Any:
    """A signal as `read_table` takes it, from another column where one is named."""
    if column is None:
        return request
    return (column, *request[1:]) if isinstance(request, tuple) else column
