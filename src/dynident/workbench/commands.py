"""Commands: what would one type to do the same without the page, in a shell and in Python?"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from dynident.workbench import results

METHODS = ("automatic", "single_shooting", "multiple_shooting", "full_discretization", "least_squares", "prediction_error",
           "kalman", "moving_horizon", "boundary_value", "multistart", "inverse_dynamics", "set_membership")


def methods() -> list[str]:
    """Names of all methods; `tests/workbench` compares them with the registry, which takes long to load."""
    return list(METHODS)


def same_elsewhere(file: Path | None, dirty: bool, folder: Path) -> dict[str, Any]:
    """Texts to copy; `save_first` where the file on disk is not what the page shows."""
    if file is None:
        return {}
    out = results.next_folder(file)
    problem, target = (shlex.quote(_relative(path, folder)) for path in (file, out))
    shell = (f"dynident check {problem}\ndynident fit {problem} --out {target}\ndynident report {target}")
    python = (f"import dynident as di\n\nsaid = di.read_problem({_relative(file, folder)!r})\n"
              f"print(di.check(said.problem))\nestimate = di.identify(said.problem, said.method or None)\nprint(estimate)\n"
              "for record in said.validation:\n    print(estimate.validate(record))\n"
              f"estimate.save({_relative(out, folder)!r})\n")
    return {"shell": shell, "python": python, "save_first": dirty}


def _relative(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)
