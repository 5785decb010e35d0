"""`dynident demo`: the whole way from a problem file to a validated report, on an embedded example."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynident.cli import check, fit

Out = Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where the example and its result go.")]


def run(out: Out = Path("dynident-demo")) -> None:
    """Copy an embedded example (a servo axis with friction), check it, fit it, validate it, and report.

    Example: dynident demo --out dynident-demo
    """
    from dynident.demo import copy_to

    problem, *records = copy_to(out)
    results = out / "results"
    print(f"The example is in {out}: {problem.name} with {' and '.join(record.name for record in records)}.\n")
    _step(f"dynident check {problem}")
    check.run(problem)
    _step(f"dynident fit {problem} --out {results}")
    fit.run(problem, results)
    print(f"""
The records are simulated, so the truth is known: M = 95 kg, Fv = 200 N s/m, Fc = 20 N, offset = -3 N.
The second record was not fitted; how well the model describes it stands under 'validated'.

Next:
  open {results / 'report.html'} in a browser
  edit {problem} (start values, method, equations) and fit again
  dynident compare {problem} --methods single_shooting,multiple_shooting
  dynident check your_own.toml""")


def _step(command: str) -> None:
    print(f"$ {command}")
