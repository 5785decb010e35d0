"""`dynident fit`: estimate the unknowns of a problem file and keep the result."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynident.cli.common import (
    GOOD,
    INTERRUPTED,
    NOT_GOOD,
    AllowCode,
    AllowOutside,
    ProblemPath,
    Stop,
    Strict,
    exit_code,
    method_named,
    page,
    print_error,
    print_why,
    read,
    with_progress,
)

Out = Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where the result goes: a folder of its own.")]
Method = Annotated[str, typer.Option("--method", "-m", metavar="NAME", show_default=False, help=(
    "Another method than the file's (`dynident methods` lists them); its options come from the file if the file names the "
    "same one."))]


def run(problem: ProblemPath, out: Out = Path("results"), method: Method = "", strict: Strict = False,
        allow_outside: AllowOutside = False, allow_code: AllowCode = False) -> None:
    """Fit a problem and write the result: estimate.json, trajectories, the problem as run, report.html.

    Exit code by the verdict: 0 if the model describes the record, 3 if roughly, 4 if not. 1 if the fit did not
    converge and is not believed, 130 after Ctrl-C; the best point is written all the same, and marked.

    Example: dynident fit problem.toml --out results/ --method multiple_shooting
    """
    from dynident.io.results.fit_folder import fit_to_folder
    from dynident.report.terminal import print_estimate

    said = read(problem, allow_outside, allow_code)
    chosen = method_named(method, said.method)
    with with_progress() as tell:
        estimate, interrupted = fit_to_folder(said, chosen, out, problem.read_bytes(), tell, problem.name)
    print_estimate(estimate, page())
    print(f"\nWritten to {out}; open {out / 'report.html'} in a browser.")
    code = exit_code(estimate, interrupted, strict)
    if code in (NOT_GOOD, INTERRUPTED):
        print_error(f"{'Stopped by Ctrl-C' if code == INTERRUPTED else 'The fit did not converge'}; "
                 f"the best point so far was written to {out}, marked as such.")
    print_why(code, f"verdict {estimate.verdict.grade}; the result was written.")
    if code != GOOD:
        raise Stop(code)
