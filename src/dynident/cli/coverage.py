"""`dynident coverage`: may I believe these intervals?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynident.cli.common import AllowCode, AllowOutside
from dynident.cli.design import what_is_known

Known = Annotated[Path, typer.Argument(metavar="PROBLEM.toml|RESULTS/", show_default=False, help=(
    "A problem file, which is fitted first, or the folder that `dynident fit` wrote."))]
Repeats = Annotated[int, typer.Option("--repeats", "-r", help="Simulated records; 200 tell a share of 95 % to 3 %.")]
Seed = Annotated[int, typer.Option("--seed", help="The same seed gives the same numbers.")]
Workers = Annotated[int, typer.Option("--workers", "-j", help="Processes side by side.")]
Resume = Annotated[Path | None, typer.Option("--resume", metavar="FILE", show_default=False, help=(
    "Keep every refit in a file; called again, only those that are missing are computed."))]


def run(known: Known, repeats: Repeats = 200, seed: Seed = 0, workers: Workers = 1, resume: Resume = None,
        allow_outside: AllowOutside = False, allow_code: AllowCode = False) -> None:
    """Simulate the fitted model with all its noises, refit, and count how often the intervals hold the truth.

    Example: dynident coverage results/ --repeats 200 --resume coverage.jsonl
    """
    from contextlib import nullcontext

    from dynident.estimate.estimate import Estimate
    from dynident.parallel.process_pool import process_pool
    from dynident.verbs.coverage import coverage

    estimate, _ = what_is_known(known, False, allow_outside, allow_code)
    assert isinstance(estimate, Estimate)
    with process_pool(workers) if workers > 1 else nullcontext() as pool:
        print(coverage(estimate, repeats, seed, pool, resume=resume))
