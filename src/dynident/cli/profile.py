"""`dynident profile`: profile likelihoods of a saved result."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynident.cli.common import AllowCode, AllowOutside
from dynident.cli.design import what_is_known

Known = Annotated[Path, typer.Argument(metavar="PROBLEM.toml|RESULTS/", show_default=False, help=(
    "A problem file, which is fitted first, or the folder that `dynident fit` wrote."))]
Names = Annotated[list[str], typer.Option("--name", "-n", metavar="NAME", show_default=False, help=(
    "An unknown to profile; all of them unless named; may be repeated."))]
Out = Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", show_default=False, help=(
    "Draw the profiles into a .png, .pdf or .svg file."))]


def run(known: Known, names: Names = [], out: Out = None, allow_outside: AllowOutside = False,  # noqa: B006
        allow_code: AllowCode = False) -> None:
    """Profile likelihoods: intervals that need not be symmetric, identifiability, and compensating parameters.

    Example: dynident profile results/ --name Fc --out profile.png
    """
    from dynident.estimate.estimate import Estimate
    from dynident.verbs.profile import profile

    if out is not None:
        ready_to_draw(out)
    estimate, _ = what_is_known(known, False, allow_outside, allow_code)
    assert isinstance(estimate, Estimate)
    found = profile(estimate, names or None)
    print(found)
    if out is not None:
        found.plot().savefig(out)
        print(f"Drawn into {out}.")


def ready_to_draw(out: Path) -> None:
    """Refuse what no figure can be written into, and make its folder, before anything is computed."""
    from matplotlib.figure import Figure

    from dynident.errors import ProblemError

    kinds = Figure().canvas.get_supported_filetypes()
    if out.suffix.lower().removeprefix(".") not in kinds:
        raise ProblemError(f"--out {out}: no figure can be written into a file that ends like this. End it with .png, .pdf or "
                           ".svg.")
    if out.is_dir():
        raise ProblemError(f"--out {out} is a folder; name a file in it.")
    out.parent.mkdir(parents=True, exist_ok=True)
