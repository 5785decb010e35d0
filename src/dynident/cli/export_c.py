"""`dynident export c`: the filter of a result as plain C for a controller."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynident.cli.common import ResultsPath

Target = Annotated[str, typer.Option("--target", metavar="WHAT", help="What to write: filter.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", metavar="FOLDER", show_default=False,
                                          help="Where the two files go; the result's folder unless said.")]
Name = Annotated[str, typer.Option("--name", metavar="NAME", help="Of the files and of the functions in them.")]
Warm = Annotated[bool, typer.Option("--warm", help="Start from the estimated parameters, not from their start values.")]


def run(results: ResultsPath, target: Target = "filter", out: Out = None, name: Name = "filter",
        warm: Warm = False) -> None:
    """Write the filter that made a result as one .c and one .h: C99, no dependency, no allocation.

    Example: `dynident export c results/ --target filter --name belt_filter`
    """
    from dynident.errors import ProblemError
    from dynident.io.results.load import load
    from dynident.kalman.export_c import export_filter

    if target != "filter":
        raise ProblemError(f"--target {target}: only 'filter' can be written as C.")
    code, header = export_filter(load(results), out or results, name, warm)
    print(f"Written to {code} and {header}.")
