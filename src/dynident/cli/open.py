"""`dynident open`: see the record, move the parameters, fit, trust and save, on a page in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynident.cli.common import AllowCode, AllowOutside

Target = Annotated[Path | None, typer.Argument(metavar="[PROBLEM.toml|PETAB.yaml|DATA.csv|FOLDER]", show_default=False, help=(
    "What to open; without it the page lists what lies in this folder."))]
Record = Annotated[str, typer.Option("--record", metavar="FILE", show_default=False, help=(
    "Of a fleet file, the record to open, as the fleet's page calls it."))]
Browser = Annotated[bool, typer.Option("--browser/--no-browser", help="Show the page, or print its link only.")]
Port = Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="The port; 0 takes a free one.")]


def run(target: Target = None, record: Record = "", browser: Browser = True, port: Port = 0,
        allow_outside: AllowOutside = False, allow_code: AllowCode = False) -> None:
    """Open the workbench: a page on this machine that does what the other commands do, and shows it.

    It listens on 127.0.0.1 only and wants the one-time token of the printed link. Everything that it does ends up in the
    problem file and in result folders. Ctrl-C ends it.

    Example: dynident open problem.toml
    """
    from dynident.workbench.open import open_workbench

    open_workbench(target, record, browser, port, allow_outside, allow_code)
