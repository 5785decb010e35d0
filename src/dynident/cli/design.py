"""`dynident design`: which input should be run next?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dynident.cli.common import (
    INTERRUPTED,
    NOT_GOOD,
    AllowCode,
    AllowOutside,
    Stop,
    fit_problem,
    method_named,
    print_error,
    read,
    with_progress,
)

if TYPE_CHECKING:
    from dynident.estimate.estimate import Estimate
    from dynident.problem.problem import Problem

Known = Annotated[Path, typer.Argument(metavar="PROBLEM.toml|RESULTS/", show_default=False, help=(
    "A problem file with a [design] table, or the folder that `dynident fit` wrote for one."))]
Out = Annotated[Path, typer.Option("--out", "-o", metavar="FILE.csv", help="Where the input goes.")]
AtStart = Annotated[bool, typer.Option("--at-start", help="Plan at the start values, without fitting first.")]


def run(known: Known, out: Out = Path("next_input.csv"), at_start: AtStart = False, allow_outside: AllowOutside = False,
        allow_code: AllowCode = False) -> None:
    """Plan the input that tells most about the parameters, within the constraints of the [design] table.

    A problem file is fitted first, so that the plan is made from what its records tell. Exit code 1 if the search did
    not converge or a constraint cannot be met, 130 after Ctrl-C; an input that was verified by then is written all the same.

    Example: dynident design problem.toml --out next_input.csv
    """
    from dynident.design.design_input import check_table, plan_from_table
    from dynident.design.optimize import progress_line

    prior, table = what_is_known(known, at_start, allow_outside, allow_code, first=check_table)
    with with_progress(progress_line) as tell:
        plan = plan_from_table(prior, table, tell)
    print(plan)
    for number, record in enumerate(plan.records, 1):
        path = out if len(plan.records) == 1 else out.with_name(f"{out.stem}-{number}{out.suffix}")
        print(f"Written to {record.to_csv(path)}.")
    if not plan.converged:
        raise Stop(INTERRUPTED if plan.interrupted else NOT_GOOD)


def what_is_known(path: Path, at_start: bool, allow_outside: bool, allow_code: bool,
                  first: Callable[[Problem, dict[str, Any]], None] = lambda problem, table: None
                  ) -> tuple[Problem | Estimate, dict[str, Any]]:
    """An estimate (loaded, or fitted now) or a problem at its start, and the [design] table that goes with it.

    `first` may refuse problem and table before they are fitted.
    """
    from dynident.io.results.result_folder import AS_GIVEN, load

    if path.is_dir():
        given = path / AS_GIVEN
        return load(path, allow_code=allow_code), _design_table(given) if given.is_file() else {}
    said = read(path, allow_outside, allow_code)
    first(said.problem, said.design)
    if at_start:
        return said.problem, said.design
    estimate, code = fit_problem(said.problem, method_named("", said.method))
    if code:
        print_error(f"There is nothing to go on from. {estimate.status}")
        raise Stop(code)
    return estimate, said.design


def _design_table(file: Path) -> dict[str, Any]:
    """The table alone: the data that the file names may lie elsewhere by now."""
    import tomllib

    from dynident.io.problem_file.schema import DesignTable

    found = tomllib.loads(file.read_text(encoding="utf-8-sig")).get("design")
    return DesignTable.model_validate(found).model_dump(exclude_unset=True) if found else {}
