"""The command line: which commands are there, and what does the shell get to know?

Exit codes: 0 good; 1 the answer is not (no convergence, a check that failed), what there is was written; 2 the input
is wrong; 3 and 4 the verdict is that the model describes the record roughly, or not; 70 a fault of dynident itself; 130
stopped by Ctrl-C, the best point so far was written where there is one.
"""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Sequence
from typing import TextIO

import typer

from dynident._util.harmless_text import harmless_output
from dynident._util.operating_system import noted_interrupts
from dynident.cli import (
    check,
    compare,
    coverage,
    demo,
    design,
    export,
    fit,
    fleet,
    fmu,
    init,
    methods,
    open,
    papers,
    profile,
    report,
    robot,
    simulate,
    validate,
    watch,
)
from dynident.cli.common import BAD_INPUT, INTERRUPTED, NOT_GOOD, OUR_FAULT, Stop, print_error

app = typer.Typer(name="dynident", no_args_is_help=True, add_completion=False, rich_markup_mode=None,
                  pretty_exceptions_enable=False,
                  context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})

COMMANDS = {"check": check, "fit": fit, "simulate": simulate, "validate": validate, "compare": compare, "coverage": coverage,
            "methods": methods, "fleet": fleet, "profile": profile, "design": design,
            "report": report, "open": open, "robot": robot, "init": init, "demo": demo, "watch": watch}
for _name, _module in COMMANDS.items():
    app.command(_name)(_module.run)
GROUPS = {"fmu": fmu, "export": export, "papers": papers}
for _name, _group in GROUPS.items():
    app.add_typer(_group.app, name=_name)


def _print_version(wanted: bool) -> None:
    if wanted:
        from dynident.io.results.estimate_json import versions

        typer.echo(", ".join(f"{name} {number}" for name, number in versions().items()))
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True,
                                 help="Print the versions of dynident and what it computes with."),
    debug: bool = typer.Option(False, "--debug", help="Show where an error came from (the Python traceback)."),
) -> None:
    """Identify the parameters of dynamical systems from measured data.

    Nothing at hand? `dynident demo` fits an embedded example.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run a command and leave with its exit code; an error is a sentence on stderr, with --debug a traceback."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no ± gets a ?, not an error
    debug = "--debug" in given
    given = ["--debug"] * debug + [a for a in given if a != "--debug"]  # accepted before and after the command
    with noted_interrupts(leaving=arguments is None) as interrupts, warnings.catch_warnings(), harmless_output():
        if not debug:
            warnings.showwarning = _say_warning
        code = _run(given, debug, interrupts)
    sys.exit(code)


def _say_warning(message: Warning | str, category: type[Warning], filename: str, lineno: int, file: TextIO | None = None,
                 line: str | None = None) -> None:
    """Our own words as a line; those of Python, NumPy and other libraries are shown with --debug, as they are."""
    if category is UserWarning:
        print_error(str(message))


def _run(arguments: list[str], debug: bool, interrupts: Sequence[int]) -> int:
    from dynident.errors import DynidentError, NotConverged

    try:
        code = app(args=arguments, prog_name="dynident", standalone_mode=False) or 0
        if code != INTERRUPTED:  # which is what typer makes of Ctrl-C; older versions raise Abort
            return code
        raise KeyboardInterrupt
    except Stop as stop:
        return stop.code
    except (KeyboardInterrupt, typer.Abort):
        print_error("Stopped by Ctrl-C; no file is half written.")
        return INTERRUPTED
    except Exception as error:
        if debug:
            import traceback

            traceback.print_exc()
        if interrupts and not isinstance(error, DynidentError):  # which CasADi, say, turned into an error of its own
            print_error("Stopped by Ctrl-C; no file is half written.")
            return INTERRUPTED
        if hasattr(error, "exit_code") and hasattr(error, "show"):  # a misspelt option, a missing argument
            error.show()
            return int(error.exit_code)
        if isinstance(error, NotConverged):
            print_error(str(error))
            return NOT_GOOD
        if isinstance(error, DynidentError):
            print_error(str(error))
            return BAD_INPUT
        if isinstance(error, OSError):
            print_error(f"{error.filename or 'A file'}: {error.strerror or error}.")
            return BAD_INPUT
        print_error(f"This is a fault of dynident, not yours: {type(error).__name__}: {error}"
                 + ("" if debug else "\nRun with --debug for the details, and please report it."))
        return OUR_FAULT
