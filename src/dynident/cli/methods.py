"""`dynident methods`: which methods are there, and which options does one take? From the fields of its option dataclass."""

from __future__ import annotations

from typing import Annotated

import typer

Name = Annotated[str, typer.Argument(metavar="[NAME]", show_default=False, help="Show the options of this method.")]


def run(name: Name = "") -> None:
    """List the methods, or the options of one: what a [method] table of a problem file may hold.

    Example: dynident methods multiple_shooting
    """
    from dynident.errors import ProblemError, did_you_mean
    from dynident.methods.options import option_rows
    from dynident.methods.presets import METHODS, method_class

    if not name:
        for each in METHODS:
            typer.echo(f"{each:<22}{(method_class(each).__doc__ or '').strip().splitlines()[0]}")
        return
    if name not in METHODS:
        raise ProblemError(f"There is no method '{name}'.{did_you_mean(name, METHODS)}")
    for row in option_rows(method_class(name)):
        unit = f" [{row.unit}]" if row.unit else ""
        typer.echo(f"{row.name} = {row.default!r}{unit}\n    {row.doc}")
