"""What the commands have in common: options, progress, exit codes, and how an error is said."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dynident._util.harmless_text import styled
from dynident._util.progress import Said, Tell, live_line, plain_lines

if TYPE_CHECKING:
    from rich.console import Console

    from dynident.estimate.estimate import Estimate
    from dynident.io.problem_file.read import ProblemFile
    from dynident.problem.problem import Problem

GOOD, NOT_GOOD, BAD_INPUT, ROUGH, WRONG, OUR_FAULT, INTERRUPTED = 0, 1, 2, 3, 4, 70, 130

ProblemPath = Annotated[Path, typer.Argument(metavar="PROBLEM.toml", help="The problem file.", show_default=False)]
ResultsPath = Annotated[Path, typer.Argument(metavar="RESULTS/", help="The folder that `dynident fit --out` wrote.",
                                             show_default=False)]
AllowOutside = Annotated[bool, typer.Option("--allow-outside", help=(
    "Let the problem file name data outside its folder."))]
AllowCode = Annotated[bool, typer.Option("--allow-code", help=(
    "Run code that the problem file or the saved result brings along: an FMU, or a model in a Python file."))]


Strict = Annotated[bool, typer.Option("--strict", help=(
    "Leave with 3 also where the verdict is amber (A!, B~, B): for scripts that want no doubt."))]


class Stop(Exception):
    """End the command with this exit code; everything has been said."""

    def __init__(self, code: int):
        super().__init__(code)
        self.code = code


def print_error(sentence: str) -> None:
    """Say what is wrong, on stderr."""
    print(f"dynident: {sentence}", file=sys.stderr, flush=True)


def read(path: Path, allow_outside: bool, allow_code: bool) -> ProblemFile:
    from dynident.io.problem_file.read import read_problem

    return read_problem(path, allow_outside=allow_outside, allow_code=allow_code)


def with_progress(said: Said | None = None) -> AbstractContextManager[Tell]:
    """Progress for a person at a terminal, or for a log; `said` makes the line, that of an iteration unless given."""
    return live_line(sys.stderr, said=said) if sys.stderr.isatty() else plain_lines(sys.stderr, said=said)


def fit_problem(problem: Problem, method: Any) -> tuple[Estimate, int]:
    """The estimate, converged or not, and 0, 1 or 130: how the search ended; `exit_code` adds what the verdict says."""
    from dynident.io.results.fit_folder import best_point, was_interrupted

    with with_progress() as tell:
        estimate = best_point(problem, method, tell)
    return estimate, INTERRUPTED if was_interrupted(estimate) else GOOD if estimate.converged else NOT_GOOD


def exit_code(estimate: Estimate, interrupted: bool, strict: bool) -> int:
    """What a fit leaves with: 130 after Ctrl-C, 1 where it did not converge and is not believed, else by its verdict."""
    if interrupted:
        return INTERRUPTED
    if not estimate.converged and not estimate.believed:
        return NOT_GOOD
    return estimate.verdict.exit_code(strict)


def print_why(code: int, sentence: str) -> None:
    """Why a command leaves with 3 or 4, on stderr."""
    if code in (ROUGH, WRONG):
        print_error(f"exit code {code}: {sentence}")


def page() -> Console:
    """Where results are printed."""
    from rich.console import Console

    return Console(file=styled(sys.stdout), highlight=False)


def method_named(name: str, in_file: dict[str, Any]) -> Any:
    """The method of the file, or the named one; its options come from the file if the file names the same kind."""
    from dynident.methods.presets import method_from

    wanted = in_file if name in ("", in_file.get("kind")) else {"kind": name}
    return method_from(wanted) if wanted else None


def assignments(texts: list[str], option: str) -> dict[str, str]:
    """NAME=VALUE from the command line, all faults at once."""
    from dynident.errors import ProblemError

    parts = [text.partition("=") for text in texts]
    faults = [f'{option} {text}: write NAME=VALUE, such as {option} M=95.'
              for text, (name, equals, value) in zip(texts, parts, strict=True) if not (name and equals and value)]
    if faults:
        raise ProblemError(faults)
    return {name.strip(): value.strip() for name, _, value in parts}
