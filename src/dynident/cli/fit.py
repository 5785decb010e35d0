"""`dynident fit`: estimate the unknowns of a problem file and keep the result."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    fit_problem,
    method_named,
    page,
    print_error,
    print_why,
    read,
)

if TYPE_CHECKING:
    from dynident.estimate.estimate import Estimate
    from dynident.problem.experiment import Experiment

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
    from dynident.io.results.result_folder import reserved, write
    from dynident.report.terminal import print_estimate

    said = read(problem, allow_outside, allow_code)
    chosen = method_named(method, said.method)
    with reserved(out):
        estimate, code = fit_problem(said.problem, chosen)
        try:
            estimate = validated(estimate, said.validation if code != INTERRUPTED else ())
        except KeyboardInterrupt:  # the fit itself is done, and worth keeping
            code = INTERRUPTED
        write(estimate, out, as_given=problem.read_bytes())
    print_estimate(estimate, page())
    print(f"\nWritten to {out}; open {out / 'report.html'} in a browser.")
    code = exit_code(estimate, code, strict)
    if code in (NOT_GOOD, INTERRUPTED):
        print_error(f"{'Stopped by Ctrl-C' if code == INTERRUPTED else 'The fit did not converge'}; "
                 f"the best point so far was written to {out}, marked as such.")
    print_why(code, f"verdict {estimate.verdict.grade}; the result was written.")
    if code != GOOD:
        raise Stop(code)


def validated(estimate: Estimate, records: tuple[Experiment, ...]) -> Estimate:
    """The estimate with the validations on these records added; one that fails is a note, not the end of the fit."""
    from dynident.errors import DynidentError

    for record in records:
        try:
            estimate = dataclasses.replace(estimate, validations=(*estimate.validations, estimate.validate(record)))
        except DynidentError as error:
            failed = f"The validation on '{record.label}' failed: {error}"
            estimate = dataclasses.replace(estimate, notes=(*estimate.notes, failed))
    return estimate
