"""`dynident export`: an estimate in a form that other tools take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynident.cli.common import AllowCode, ResultsPath

app = typer.Typer(no_args_is_help=True, help="Write an estimate for other tools.")

Out = Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Where it goes.", show_default=False)]


@app.callback()
def export() -> None:
    """Write an estimate for other tools."""


@app.command("fmu")
def fmu(results: ResultsPath, out: Out = None,
        version: Annotated[str, typer.Option("--fmi", metavar="VERSION", help="2.0 or 3.0.")] = "2.0",
        platform: Annotated[list[str] | None, typer.Option("--platform", metavar="NAME", show_default=False, help=(
            "linux, linux-arm, windows, macos, macos-arm; may be given several times. Needs the package "
            "ziglang."))] = None, allow_code: AllowCode = False) -> None:
    """Write the fitted model with its estimated parameters as an FMU (Co-Simulation and Model Exchange).

    Example: dynident export fmu results/ --out drive.fmu
    """
    from dynident.io.results.export import estimate_as_fmu
    from dynident.io.results.result_folder import load

    target = out or results / "model.fmu"
    estimate_as_fmu(load(results, allow_code=allow_code), target, version=version, platforms=tuple(platform or ()))
    print(f"Written to {target}.")


@app.command("parameters")
def parameters(results: ResultsPath, out: Out = None,
               experiment: Annotated[str | None, typer.Option("--experiment", "-e", metavar="NAME", show_default=False, help=(
                   "Take the values of this experiment where the experiments differ; else these are left out."))] = None,
               allow_code: AllowCode = False) -> None:
    """Write the estimated parameters and initial states as a parameter set (SSV 1.0) that tools apply to an FMU.

    Example: dynident export parameters results/ --out robot.ssv
    """
    from dynident._util.atomic import atomic_write
    from dynident.errors import ProblemError
    from dynident.io.results.export import left_out_of_set, parameter_set
    from dynident.io.results.result_folder import PARAMETERS, load

    if experiment is not None and out is None:
        raise ProblemError(f"--experiment {experiment}: say with --out where this set goes; {PARAMETERS} in {results} is that "
                           "of all experiments.")
    estimate, target = load(results, allow_code=allow_code), out or results / PARAMETERS
    with atomic_write(target) as aside:
        aside.write_bytes(parameter_set(estimate, experiment))
    print(f"Written to {target}.")
    if left_out := left_out_of_set(estimate, experiment):
        print(f"{left_out} --experiment NAME gives the values of one.")


@app.command("c")
def c(results: ResultsPath,
      target: Annotated[str, typer.Option("--target", metavar="WHAT", help="What to write: filter.")] = "filter",
      out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FOLDER", show_default=False, help=(
          "Where the two files go; the result's folder unless said."))] = None,
      name: Annotated[str, typer.Option("--name", metavar="NAME", help=(
          "Of the files and of the functions in them."))] = "filter",
      warm: Annotated[bool, typer.Option("--warm", help=(
          "Start from the estimated parameters, not from their start values."))] = False,
      allow_code: AllowCode = False) -> None:
    """Write the filter that made a result as one .c and one .h: C99, no dependency, no allocation.

    Example: dynident export c results/ --target filter --name belt_filter
    """
    from dynident.errors import ProblemError
    from dynident.io.results.result_folder import load
    from dynident.kalman.export_c import export_filter

    if target != "filter":
        raise ProblemError(f"--target {target}: only 'filter' can be written as C.")
    code, header = export_filter(load(results, allow_code=allow_code), out or results, name, warm)
    print(f"Written to {code} and {header}.")
