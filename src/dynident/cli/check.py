"""`dynident check`: can the data answer the question? Asked before any fit."""

from __future__ import annotations

from dynident.cli.shared import NOT_GOOD, AllowOutside, AllowPython, ProblemPath, Stop, read


def run(problem: ProblemPath, allow_outside: AllowOutside = False, allow_python: AllowPython = False) -> None:
    """Check a problem before fitting it: excitation, what can be determined, and advice.

    Leaves with 1 if the data cannot answer the question.

    Example: `dynident check problem.toml`
    """
    from dynident.methods import check

    found = check(read(problem, allow_outside, allow_python).problem)
    print(found)
    if not found.ok:
        raise Stop(NOT_GOOD)
