"""`dynident compare`: the same problem by several methods, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynident.cli.common import (
    BAD_INPUT,
    INTERRUPTED,
    NOT_GOOD,
    AllowCode,
    AllowOutside,
    ProblemPath,
    Stop,
    method_named,
    page,
    print_error,
    read,
    with_progress,
)

Methods = Annotated[str, typer.Option("--methods", "-m", metavar="A,B,C", help="Names of methods, separated by commas.",
                                      show_default=False)]
Starts = Annotated[int, typer.Option("--starts", "-s", metavar="N", min=1, help=(
    "Begin each method N times, at the same points inside the bounds, and count how often it reaches the best."))]
Out = Annotated[Path | None, typer.Option("--out", "-o", metavar="FOLDER", show_default=False, help=(
    "Keep each result in FOLDER/<method>, and a page with all of them in FOLDER/comparison.html."))]


def run(problem: ProblemPath, methods: Methods, starts: Starts = 1, out: Out = None, allow_outside: AllowOutside = False,
        allow_code: AllowCode = False) -> None:
    """Fit a problem by several methods and print the answers, sizes and times side by side.

    Exit code 1 if one of them found no answer.

    Example: dynident compare problem.toml --methods single_shooting,multiple_shooting --starts 20
    """
    from dynident.errors import ProblemError
    from dynident.io.results.result_folder import save
    from dynident.report import comparison_html, print_comparison
    from dynident.verbs.compare import compare

    names = list(dict.fromkeys(name.strip() for name in methods.split(",") if name.strip()))
    if not names:
        raise ProblemError("--methods names no method; write for instance --methods single_shooting,multiple_shooting.")
    said = read(problem, allow_outside, allow_code)
    chosen = [method_named(name, said.method) for name in names]  # all names are checked before the first fit
    with with_progress() as tell:
        found = compare(said.problem, chosen, progress=tell, starts=starts)
    if not found:
        print_error(str(found))
        raise Stop(BAD_INPUT)
    if out is not None:
        for label, estimate in found.items():
            save(estimate, out / label)
        comparison_html(found, out / "comparison.html")
    print_comparison(found, page())
    if found.interrupted:
        print_error("Stopped by Ctrl-C.")
        raise Stop(INTERRUPTED)
    without = [*(label for label, estimate in found.items() if not estimate.converged), *found.failed]
    if without:
        print_error(f"Without an answer: {', '.join(without)}.")
        raise Stop(NOT_GOOD)
