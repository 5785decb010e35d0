"""`dynident init`: a first problem file for a record, an example of a ready model, or a script for a robot."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynident.cli.common import assignments

Data = Annotated[Path | None, typer.Argument(metavar="[RECORD]", show_default=False,
                                             help="A record: CSV, Excel, Parquet, MAT, ....")]
Model = Annotated[str, typer.Option("--model", "-m", metavar="NAME", show_default=False,
                                    help="A model of the library; without it the one whose signals fit best.")]
Example = Annotated[str, typer.Option("--example", metavar="NAME", show_default=False,
                                      help="Write the example record of a ready model, and a problem file for it.")]
List = Annotated[bool, typer.Option("--list", help="List the ready models.")]
Columns = Annotated[list[str], typer.Option("--column", "-c", metavar="SIGNAL=COLUMN", show_default=False,
                                            help="The column of a signal of the model; may be repeated.")]
Sheet = Annotated[str, typer.Option("--sheet", metavar="NAME", show_default=False, help="Of a workbook; otherwise its first.")]
Urdf = Annotated[Path | None, typer.Option("--urdf", metavar="ARM.urdf", show_default=False, help="A robot's description.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", show_default=False,
                                          help="Where it goes; beside the record, with its name, unless given.")]

SCRIPT = '''"""Which parameters has {name}? {dof} joints: {joints}."""

import dynident as di

arm = di.RobotModel({urdf!r}, motor_inertia=True, friction="auto")
# plan = di.excitation(arm, duration=20, harmonics=5)          # a motion that tells much, within the file's limits
# plan.to_csv("excitation_plan.csv")
run = di.read_robot("excitation.csv", arm)                      # t, q1.., dq1.., tau1..; gains=[...] for currents i1..
estimate = di.identify(di.Problem(arm, [run]), di.inverse_dynamics())
print(estimate)
for parameter in estimate.base:
    print(parameter)
print(estimate.validate(di.read_robot("point_to_point.csv", arm)))
estimate.save("results")
estimate.to_urdf("identified.urdf")
'''


def run(record: Data = None, model: Model = "", example: Example = "", list_models: List = False,
        columns: Columns = [], sheet: Sheet = "", urdf: Urdf = None, out: Out = None) -> None:  # noqa: B006
    """Write a first problem file for a record: roles of columns, units, sampling and noise are guessed, a ready model chosen.

    Example: dynident init data.csv --model tank; dynident init --example tank; dynident init --urdf arm.urdf
    """
    from dynident.errors import ProblemError

    asked = [name for name, given in (("a record", record), ("--example", example), ("--list", list_models), ("--urdf", urdf))
             if given]
    if len(asked) != 1:
        raise ProblemError("init takes one of a record, --example, --list and --urdf, but was given "
                           f"{' and '.join(asked) or 'none'}. Try: dynident init data.csv.")
    if list_models:
        _list()
    elif urdf is not None:
        _robot(urdf, out or Path("identify_robot.py"))
    elif record is not None:
        _first_file(record, model, assignments(columns, "--column"), sheet, out or record.with_suffix(".toml"))
    else:
        _example(example, out)


def _list() -> None:
    from dynident.io.problem_file.first_draft import SHORT_NAMES, listed_models

    for name, sentence, inputs, outputs in listed_models():
        print(f"{name}\n  {sentence}\n  inputs: {inputs}; measured: {outputs}")
    print("\nShort names: " + ", ".join(f"{short} ({name})" for short, name in SHORT_NAMES.items()))


def _first_file(record: Path, model: str, columns: dict[str, str], sheet: str, out: Path) -> None:
    from dynident.errors import ProblemError, did_you_mean
    from dynident.io.problem_file.first_draft import choose_model, draft, guess_columns, known_model, match_model
    from dynident.io.readers.columns import existing_file

    file = existing_file(record)
    _refuse_overwriting(out)
    if file.parent.resolve() != out.parent.resolve():
        raise ProblemError(f"{out} would lie in another folder than {file}; a problem file stands beside its records.")
    name = known_model(model) if model else ""
    guess = guess_columns(file, sheet or None)
    headers = [each for column in guess.columns for each in (column.header, column.name)]
    if faults := [f"--column {signal}={column}: {file.name} has no column of numbers '{column}'.{did_you_mean(column, headers)}"
                  for signal, column in columns.items() if column not in headers]:
        raise ProblemError(faults)
    found = match_model(name, guess, columns) if name else choose_model(guess)
    if columns and not name:
        raise ProblemError("--column names signals of a model; say which with --model.")
    if strangers := [signal for signal in columns if signal not in (*found.model.inputs, *found.model.outputs)]:
        raise ProblemError(f"--column {strangers[0]}=...: {found.name} has no signal '{strangers[0]}'."
                           f"{did_you_mean(strangers[0], [*found.model.inputs, *found.model.outputs])}")
    if found.missing or not any(signal in found.columns for signal in found.model.outputs):
        needed = ", ".join(found.missing) or f"one of {', '.join(found.model.outputs)}"
        raise ProblemError(f"{found.name} needs a column for {needed}, and {file.name} has "
                           f"{', '.join(column.header for column in guess.columns)}. Say which it is with --column "
                           "SIGNAL=COLUMN, or choose another model.")
    _write(out, draft(file, guess, found, sheet=sheet or None, chosen=bool(name)))
    if not name and not found.evident:
        print(f"No name and no unit says what {file.name} is of; {found.name} is a mere guess. Choose with --model NAME "
              "(--list shows them).")
    signals = ", ".join(f"{signal} from '{column.header}'" for signal, column in found.columns.items())
    print(f"Written to {out}: {found.name}, {signals}.\nLook at what was guessed, then run: dynident fit {out}")


def _example(name: str, out: Path | None) -> None:
    from dynident.demo.example_records import example_record
    from dynident.io.problem_file.first_draft import draft, guess_columns, known_model, match_model
    from dynident.models.library.example_records import EXAMPLES, example_values

    name = known_model(name)
    out = out or Path(f"{name}.toml")
    data = out.with_suffix(".csv")
    for file in (out, data):
        _refuse_overwriting(file)
    run = example_record(name)
    signals = {**run.inputs, **run.outputs}
    header = ",".join([f"t [{run.units['time']}]", *(f"{s} [{run.units[s]}]" if run.units.get(s) else s for s in signals)])
    rows = zip(run.time.tolist(), *(values.tolist() for values in signals.values()), strict=True)
    _write(data, header + "\n" + "".join(",".join(f"{value:.7g}" for value in row) + "\n" for row in rows))
    guess = guess_columns(data)
    match = match_model(name, guess, {signal: signal for signal in signals})
    _write(out, draft(data, guess, match, initial=EXAMPLES[name].initial, chosen=True))
    truth = ", ".join(f"{parameter} = {value:g}" for parameter, value in example_values(name).items()
                      if parameter not in EXAMPLES[name].fixed)
    print(f"Written to {out} and {data}: simulated, so that the truth is known: {truth}.\nNow run: dynident fit {out}")


def _write(file: Path, text: str) -> None:
    from dynident._util.atomic import atomic_write

    with atomic_write(file) as aside:
        aside.write_text(text, encoding="utf-8")


def _refuse_overwriting(out: Path) -> None:
    from dynident.errors import ProblemError

    if out.exists():
        raise ProblemError(f"{out} is there already; name another file with --out.")


def _robot(urdf: Path, out: Path) -> None:
    from dynident.robots.model import RobotModel

    arm = RobotModel(urdf)
    _refuse_overwriting(out)
    _write(out, SCRIPT.format(name=arm.name, dof=arm.dof, joints=", ".join(arm.joints), urdf=str(urdf)))
    print(arm)
    columns = ", ".join(["t", *(f"q{k + 1}" for k in range(arm.dof)), *arm.inputs])
    print(f"\nWritten to {out}. Its records need the columns {columns}; velocities dq1, ... help; joints' names do as well.")
