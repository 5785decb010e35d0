"""First draft: which problem file is a good beginning for a record? Columns are matched with a model of the library.

What is guessed stands in the file with a comment that says so and why; the equations stand there in full, to be edited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dynident.errors import ProblemError, did_you_mean
from dynident.io.problem_file.write import as_toml, model_table
from dynident.io.readers.columns import TIME, ColumnRef
from dynident.io.readers.table_columns import TableColumns
from dynident.io.readers.tables import open_table
from dynident.models import library
from dynident.models.equations import EquationModel
from dynident.models.library.example_records import EXAMPLES
from dynident.models.library.machines import TYPICAL
from dynident.tolerances import UNEVEN_SAMPLING
from dynident.units import conversion, is_time, split_header

TIMES = ("t", "time", "zeit", "stamp", "timestamp", "seconds", "date", "datetime", "when")
INPUT_WORDS = ("u", "in", "input", "voltage", "spannung", "force", "torque", "cmd", "command", "pwm", "duty", "inflow", "power",
               "heater", "valve", "setpoint", "control", "tau", "f", "q")
SHORT_NAMES = {"axis": "servo_axis", "rc": "rc_circuit", "rlc": "rlc_circuit", "kinetics": "consecutive_reactions",
               "motor": "dc_motor", "room": "heated_room", "process": "dead_time_process"}
HELD_SHARE = 0.5  # of all samples that repeat the one before: a signal that stands still so often is a command, no measurement
NAMED, SAME_UNIT, SAME_ROLE, UNUSED = 3.0, 2.0, 1.0, -0.5  # what a match of names, units and roles counts; and a column left
DRAFT_BOUNDS = 1000.0  # between a typical value and its bounds


@dataclass(frozen=True, eq=False)
class GuessedColumn:
    """A column of numbers: its header, its unit and what it looks like."""

    ref: str | int  # by which it is asked for: its header, or its position where that does not tell it
    header: str
    name: str  # the header without its unit
    unit: str
    values: np.ndarray
    is_input: bool
    why: str


@dataclass(frozen=True, eq=False)
class Guess:
    """What a record is taken for."""

    time: GuessedColumn | None
    columns: tuple[GuessedColumn, ...]
    left_out: tuple[str, ...]  # columns that hold no numbers


def guess_columns(path: Path, sheet: str | int | None = None) -> Guess:
    """Time and the roles of the other columns, by their names, units and values."""
    table = open_table(path, {} if sheet is None else {"sheet": sheet})
    found: list[GuessedColumn] = []
    left_out = []
    time: GuessedColumn | None = None
    for k, header in enumerate(table.headers):
        ref = header if header and list(table.headers).count(header) == 1 else k
        header = header or f"column {k}"
        name, unit = split_header(header) if table.units is not None else (header, "")
        unit = unit or (table.units[k] if table.units is not None else "")
        as_time = time is None and (name.lower() in TIMES or name.lower().startswith(("time_", "t_")) or is_time(unit))
        values = _numbers(table, k, header, unit, "time" if as_time else "output")
        if values is None:
            left_out.append(header)
        elif as_time and np.all(np.diff(values) > 0):
            time = GuessedColumn(ref, header, name, unit, values, False, "it is called so and rises")
        else:
            is_input, why = _looks_like_input(name, values)
            found.append(GuessedColumn(ref, header, name, unit, values, is_input, why))
    if time is None and found and found[0].values.size > 2 and np.all(np.diff(found[0].values) > 0):
        time = replace(found.pop(0), is_input=False, why="it is the first column and rises")
    if not found:
        raise ProblemError(f"{path.name} has no column of numbers beside time, so there is nothing to fit.")
    return Guess(time, tuple(found), tuple(left_out))


def _numbers(table: TableColumns, k: int, header: str, unit: str, role: str) -> np.ndarray | None:
    try:
        values = table.values([ColumnRef(TIME if role == "time" else header, role, k, header, unit)], None)
    except ProblemError:
        return None
    column = values.columns[k]
    return column if np.isfinite(column).any() and (role != "time" or np.isfinite(column).all()) else None


def _looks_like_input(name: str, values: np.ndarray) -> tuple[bool, str]:
    known = values[np.isfinite(values)]
    repeats = float(np.mean(np.diff(known) == 0)) if known.size > 1 else 0.0
    moves = np.ptp(known) > 0
    if name.lower() in INPUT_WORDS or name.lower().startswith(("cmd", "u_")):
        return True, "its name is that of an input"
    if moves and repeats > HELD_SHARE:
        return True, f"it stands still from sample to sample in {100 * repeats:.0f} % of the record, as a command does"
    return False, "it moves from sample to sample, as a measurement does"


def noise_floor(values: np.ndarray) -> float:
    """Standard deviation of what is independent from sample to sample: third differences remove a smooth signal."""
    known = values[np.isfinite(values)]
    if known.size < 8:
        return float("nan")
    third = np.diff(known, 3)
    return float(np.median(np.abs(third - np.median(third))) / 0.6745 / np.sqrt(20.0))


@dataclass(frozen=True, eq=False)
class Match:
    """A model of the library, and the column of each of its signals."""

    name: str
    model: EquationModel
    columns: Mapping[str, GuessedColumn]
    score: float
    missing: tuple[str, ...] = ()  # inputs without a column
    evident: bool = True  # whether a name or a unit speaks for it, and not the roles of the columns alone


def known_model(name: str) -> str:
    """The library's name of a model, also from a short one."""
    name = SHORT_NAMES.get(name.lower(), name)
    if name not in EXAMPLES:
        raise ProblemError(f"the library has no model '{name}'.{did_you_mean(name, [*EXAMPLES, *SHORT_NAMES])} "
                           "`dynident init --list` shows them.")
    return name


def match_model(name: str, guess: Guess, given: Mapping[str, str] | None = None) -> Match:
    """Signals of a model and columns of a record, by what fits best; `given` says the column of some signals."""
    from scipy.optimize import linear_sum_assignment

    model: EquationModel = getattr(library, name)()
    signals = [*((signal, True) for signal in model.inputs), *((signal, False) for signal in model.outputs)]
    scores = np.array([[_score(model, signal, is_input, column, (given or {}).get(signal)) for column in guess.columns]
                       for signal, is_input in signals])
    rows, places = linear_sum_assignment(np.where(np.isfinite(scores), scores, -1e3), maximize=True)
    fits = [(signals[r][0], guess.columns[c], scores[r, c]) for r, c in zip(rows, places, strict=True)
            if np.isfinite(scores[r, c]) and (scores[r, c] > 0 or signals[r][1])]
    columns = {signal: column for signal, column, _ in fits}
    missing = tuple(signal for signal in model.inputs if signal not in columns)
    measured = [signal for signal in model.outputs if signal in columns]
    unused = len(guess.columns) - len(columns) + len(signals) - len(columns)
    score = sum(each for *_, each in fits) / len(signals) + UNUSED * unused
    return Match(name, model, columns, score if measured and not missing else -np.inf, missing,
                 evident=any(each > SAME_ROLE for *_, each in fits))


def _score(model: EquationModel, signal: str, is_input: bool, column: GuessedColumn, given: str | None) -> float:
    if given is not None:
        return 100.0 if given in (column.header, column.name) else -np.inf
    unit = model.units.get(signal, "")
    score = NAMED if column.name.lower() == signal.lower() else 0.0
    if unit and column.unit:
        if conversion(column.unit, unit) is None:
            return -np.inf
        score += SAME_UNIT
    if column.is_input == is_input:
        return score + SAME_ROLE
    return score - SAME_ROLE if score else -np.inf  # a measurement is no input where nothing else says so


def choose_model(guess: Guess) -> Match:
    """The model of the library whose signals fit the columns best; where nothing speaks for one, the plainest."""
    found = [match_model(name, guess) for name in EXAMPLES]
    best = max(found, key=lambda match: match.score)
    if not np.isfinite(best.score):
        raise ProblemError("no model of the library fits these columns: "
                           f"{', '.join(column.header for column in guess.columns)}. Name one with --model, and its columns "
                           "with --column SIGNAL=COLUMN; `dynident init --list` shows them.")
    return best


def draft(path: Path, guess: Guess, match: Match, *, initial: Mapping[str, float] | None = None, sheet: str | int | None = None,
          chosen: bool = False) -> str:
    """The text of a problem file, with a comment on every line that was guessed."""
    model, name = match.model, match.name
    table = model_table(model)
    table["units"] = {key: unit for key, unit in table.get("units", {}).items() if _unit_fits(unit, match.columns.get(key))}
    why = "as you said" if chosen else "its signals fit the columns of the record best" if match.evident else (
        "for want of a better GUESS: no name and no unit says what the record is; choose with --model")
    lines = [f"# A first problem file for {path.name}. Guesses are marked: correct them, then run dynident fit.",
             "", f"# The model: {name} of the library, {why} (`dynident init --list` shows all). Edit the equations freely.",
             f"# {(getattr(library, name).__doc__ or '').strip().splitlines()[0]}", "[model]"]
    lines += [f"{key} = {as_toml(value)}{_model_comment(key)}" for key, value in table.items()]
    lines += ["", *_experiment_lines(path, guess, match, initial, sheet), "", *_parameter_lines(match)]
    if guess.left_out or len(guess.columns) > len(match.columns):
        unused = [c.header for c in guess.columns if c not in match.columns.values()]
        lines += ["", f"# Columns that are not used: {', '.join([*unused, *guess.left_out])}."]
    return "\n".join(lines) + "\n"


def _unit_fits(unit: str, column: GuessedColumn | None) -> bool:
    return column is None or not column.unit or conversion(column.unit, unit) is not None


MODEL_COMMENTS = {"kind": "written as formulas", "name": "as in the library; any other will do",
                  "states": "the rate of each state", "outputs": "what is measured, by the model",
                  "inputs": "what acts on it and is known", "parameters": "what is asked for; see [parameters]",
                  "constants": "known values", "definitions": "parts of the equations with a name",
                  "units": "records in other units are converted"}


def _model_comment(key: str) -> str:
    return f"  # {MODEL_COMMENTS[key]}" if key in MODEL_COMMENTS else ""


def _experiment_lines(path: Path, guess: Guess, match: Match, initial: Mapping[str, float] | None, sheet: str | int | None
                      ) -> list[str]:
    said = EXAMPLES[match.name]
    lines = ["# The record; repeat this table for each further one.", "[[experiment]]",
             f"file = {as_toml(path.name)}  # beside this file"]
    if sheet is not None:
        lines.append(f"sheet = {as_toml(sheet)}")
    if guess.time is None:
        lines.append("sample_time = 1.0  # GUESS: no column rises as time does; say the distance of the samples")
    else:
        lines.append(f"time = {as_toml(guess.time.ref)}  # guessed: {guess.time.why}; {_sampling(guess.time.values)}")
    for kind, signals in (("inputs", match.model.inputs), ("outputs", match.model.outputs)):
        for signal in signals:
            if signal in match.columns:
                lines.append(_signal_line(kind, signal, match.columns[signal]))
    linear = {signal: "linear" for signal in match.model.inputs if not _held(match.columns[signal].values)}
    if match.model.inputs:
        comment = "between samples: \"zero\" stays, as a digital command does; \"linear\" moves, as a measured signal does"
        lines.append(f"hold = {as_toml(linear or 'zero')}  # guessed; {comment}")
    if said.time_unit != "s":
        lines.append(f"units = {{ time = {as_toml(said.time_unit)} }}  # the model's rates are per {said.time_unit}")
    if initial:
        lines.append(f"initial = {as_toml(dict(initial))}  # known initial states; leave out those that are to be found")
    else:
        example = {state: float(value) for state, value in said.initial.items()}
        lines.append(f"# initial = {as_toml(example)}  # initial states that are known; the others are found")
    return lines


def _signal_line(kind: str, signal: str, column: GuessedColumn) -> str:
    line = f"{kind}.{as_toml_key(signal)} = {as_toml(column.ref)}  # guessed: {column.why}"
    if kind == "outputs":
        floor = noise_floor(column.values)
        line += f"; noise floor about {floor:.2g} (third differences)" if np.isfinite(floor) and floor > 0 else ""
        missing = int(np.isnan(column.values).sum())
        line += f"; {missing} samples missing" if missing else ""
    return line


def as_toml_key(name: str) -> str:
    return as_toml({name: 0})[2:].split(" = ")[0]


def _held(values: np.ndarray) -> bool:
    return values.size < 2 or float(np.mean(np.diff(values) == 0)) > HELD_SHARE


def _sampling(time: np.ndarray) -> str:
    steps = np.diff(time)
    if not steps.size:
        return "one sample"
    typical = float(np.median(steps))
    if np.ptp(steps) <= UNEVEN_SAMPLING * typical:
        return f"{time.size} samples, {typical:.6g} apart"
    return f"{time.size} samples, {steps.min():.6g} to {steps.max():.6g} apart, {typical:.6g} typically"


def _parameter_lines(match: Match) -> list[str]:
    said = EXAMPLES[match.name]
    lines = ["# What is asked for: start values are typical ones of the library, bounds a factor of 1,000 around them.",
             "[parameters]"]
    for name, typical in TYPICAL[match.name].items():
        unit = match.model.units.get(name, "")
        table: dict[str, Any] = {"start": float(typical)}
        if name in said.fixed:
            table["free"] = False
        elif name != "offset":
            table |= {"lower": float(f"{typical / DRAFT_BOUNDS:.6g}"), "upper": float(f"{typical * DRAFT_BOUNDS:.6g}")}
        table |= {"unit": unit} if unit else {}
        known = "  # held: this record alone does not tell it" if name in said.fixed else ""
        lines.append(f"{as_toml_key(name)} = {as_toml(table)}{known}")
    return lines


def listed_models() -> list[Sequence[str]]:
    """Name, first sentence, inputs and outputs of every ready model."""
    rows: list[Sequence[str]] = []
    for name in EXAMPLES:
        made = getattr(library, name)
        model = made()
        sentence = (made.__doc__ or "").strip().splitlines()[0]
        rows.append((name, sentence, ", ".join(model.inputs) or "-", ", ".join(model.outputs)))
    return rows
