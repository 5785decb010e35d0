"""`dynident check`: can the data answer the question? Asked before any fit."""

from __future__ import annotations

from dynident.cli.common import NOT_GOOD, AllowCode, AllowOutside, ProblemPath, Stop, method_named, read


def run(problem: ProblemPath, allow_outside: AllowOutside = False, allow_code: AllowCode = False) -> None:
    """Check a problem before fitting it: excitation, what can be determined, and advice.

    Exit code 1 if the data cannot answer the question, 2 if the method cannot take the problem or the [design]
    table asks for nothing that can be planned.

    Example: dynident check problem.toml
    """
    from dynident.design.design_input import check_table
    from dynident.methods.presets import plain_method
    from dynident.verbs.check import check

    said = read(problem, allow_outside, allow_code)
    found = check(said.problem)
    print(found)
    (method_named("", said.method) or plain_method(said.problem)).check_supports(said.problem)
    if said.design:
        check_table(said.problem, said.design)
    if not found.ok:
        raise Stop(NOT_GOOD)
