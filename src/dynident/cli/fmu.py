"""`dynident fmu info`: what is in an FMU, and what can be estimated with it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, help="Look into an FMU.")

FmuPath = Annotated[Path, typer.Argument(metavar="MODEL.fmu", help="The FMU.", show_default=False)]


@app.callback()
def fmu() -> None:
    """Look into an FMU."""


@app.command("info")
def info(path: FmuPath, every: Annotated[bool, typer.Option("--all", help="Internal variables too.")] = False) -> None:
    """List variables with start values, units and causality, what the FMU can do, and what can be estimated.

    Nothing of the FMU is run. Example: dynident fmu info robot.fmu
    """
    from dynident.fmu.archive import existing_fmu
    from dynident.fmu.description import read_description, summarize, variable_table

    description = read_description(existing_fmu(path))
    print(summarize(description))
    print()
    print(variable_table(description, every))
