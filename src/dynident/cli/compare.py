"""`dynident compare`: the same problem by several methods, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynident.cli.shared import (
    BAD_INPUT,
    INTERRUPTED,
    NOT_GOOD,
    AllowOutside,
    AllowPython,
    ProblemPath,
    Stop,
    complain,
    fitted,
    method_named,
    page,
    read,
)

Methods = Annotated[str, typer.Option("--methods", "-m", metavar="A,B,C", help="Names of methods, separated by commas.",
                                      show_default=False)]
Out = Annotated[Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="Keep each result in FOLDER/<method>.",
                                          show_default=False)]


def run(problem: ProblemPath, methods: Methods, out: Out = None, allow_outside: AllowOutside = False,
        allow_python: AllowPython = False) -> None:
    """Fit a problem by several methods and print the answers side by side.

    Leaves with 1 if one of them found no answer.

    Example: `dynident compare problem.toml --methods single_shooting,multiple_shooting`
    """
    from dynident.errors import NotSupported, ProblemError
    from dynident.files.results import save
    from dynident.report.terminal import print_comparison

    names = list(dict.fromkeys(name.strip() for name in methods.split(",") if name.strip()))
    if not names:
        raise ProblemError("--methods names no method; write for instance --methods single_shooting,multiple_shooting.")
    said = read(problem, allow_outside, allow_python)
    chosen = {name: method_named(name, said.method) for name in names}  # all names are checked before the first fit
    estimates, codes = {}, {}
    for name, method in chosen.items():
        try:
            estimates[name], codes[name] = fitted(said.problem, method)
        except (NotSupported, ProblemError) as error:  # this method cannot, the others may
            complain(f"{name}: {error}")
            codes[name] = BAD_INPUT
            continue
        if out is not None:
            save(estimates[name], out / name)
        if codes[name] == INTERRUPTED:
            break
    if not estimates:
        raise Stop(BAD_INPUT)
    print_comparison(estimates, page())
    if INTERRUPTED in codes.values():
        complain("Stopped by Ctrl-C; the methods that were not reached are missing.")
        raise Stop(INTERRUPTED)
    failed = [name for name, code in codes.items() if code]
    if failed:
        complain(f"Without an answer: {', '.join(failed)}.")
        raise Stop(NOT_GOOD)
