"""`dynident simulate`: what does the model do at given values?"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynident.cli.common import AllowCode, AllowOutside, ProblemPath, assignments, read

if TYPE_CHECKING:
    from dynident.problem.experiment import Experiment
    from dynident.problem.problem import Problem

Out = Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="A .csv or .parquet file.", show_default=False)]
Set = Annotated[list[str], typer.Option("--set", "-s", metavar="NAME=VALUE", show_default=False, help=(
    "A value other than the start value; may be repeated."))]


def run(problem: ProblemPath, out: Out, values: Set = [], allow_outside: AllowOutside = False,  # noqa: B006
        allow_code: AllowCode = False) -> None:
    """Simulate every experiment of a problem at the start values, or at those given by --set.

    Example: dynident simulate problem.toml --out sim.csv --set M=95 --set "q(0)=0"
    """
    import numpy as np
    import pyarrow as pa

    from dynident.errors import ProblemError
    from dynident.io.results.signal_tables import signal_table, write_csv, write_parquet
    from dynident.verbs.simulate import simulate

    writers = {".csv": write_csv, ".parquet": write_parquet}
    if out.suffix not in writers:
        raise ProblemError(f"--out {out}: the name must end in .csv or .parquet.")
    said = read(problem, allow_outside, allow_code).problem
    tables = []
    for experiment, chosen in zip(said.experiments, chosen_values(said, assignments(values, "--set")), strict=True):
        open_record = dataclasses.replace(experiment, initial={})  # the initial state stands among the values
        trajectory = simulate(said.model, chosen, open_record)
        residuals = {name: np.asarray(y) - trajectory.outputs[name] for name, y in experiment.outputs.items()}
        tables.append(signal_table(trajectory, residuals, experiment))
        print(f"{experiment.name}: " + ", ".join(f"{name} = {value:.6g}" for name, value in chosen.items()))
    writers[out.suffix](pa.concat_tables(tables, promote_options="default"), out)
    print(f"Written to {out}.")


def chosen_values(problem: Problem, given: dict[str, str]) -> list[dict[str, float]]:
    """Per experiment: parameters by name and initial states as 'q(0)', at the start or as given.

    'M' is meant for every experiment, 'M[run 2]' for that one. What an FMU brings along and nobody speaks of is left to
    it: it may have thousands of parameters.
    """
    from dynident.errors import ProblemError, did_you_mean
    from dynident.transcription.initial_guess import start_values

    start, states = start_values(problem), [f"{state}(0)" for state in problem.model.states]
    every, known = [], set()
    numbers, faults = _numbers(given)
    for e, experiment in enumerate(problem.experiments):
        parameters, initial = problem.parameters_and_initial_state(start, e)
        values = {name: float(v) for name, v in zip([*problem.model.parameters, *states], [*parameters, *initial],
                                                    strict=True)}
        own = {f"{name}[{experiment.name}]": name for name in values}
        known |= {*values, *own}
        chosen = {name: number for name, number in numbers.items() if name in values}
        chosen |= {own[name]: number for name, number in numbers.items() if name in own}
        silent = _left_to_the_model(problem, experiment)
        every.append({name: value for name, value in values.items() if name not in silent} | chosen)
    faults += [f"--set {name}: the problem has no such quantity.{did_you_mean(name, sorted(known))}"
               for name in given if name not in known]
    if faults:
        raise ProblemError(faults)
    return every


def _left_to_the_model(problem: Problem, experiment: Experiment) -> set[str]:
    """Parameters and initial states that have a value of the model's own, and none in the problem."""
    from dynident.problem.parameter import Parameter

    said = {p.name if isinstance(p, Parameter) else p.state for p in problem.parameters} | set(experiment.initial)
    silent = set(problem.model.nominal_values) - said
    return {f"{name}(0)" if name in problem.model.states else name for name in silent}


def _numbers(given: dict[str, str]) -> tuple[dict[str, float], list[str]]:
    numbers, faults = {}, []
    for name, text in given.items():
        try:
            numbers[name] = float(text)
        except ValueError:
            faults.append(f"--set {name}={text}: '{text}' is not a number.")
            continue
        if not math.isfinite(numbers[name]):
            faults.append(f"--set {name}={text}: {text} is not a finite number.")
    return numbers, faults
