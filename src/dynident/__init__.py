"""dynident: parameters of dynamical systems from measured records, with confidence intervals whose coverage is tested."""

# ruff: noqa: E402  Ctrl-C is looked after before anything is loaded that takes time
import os
import sys
from _signal import SIGINT, default_int_handler, getsignal, signal  # built in: Python's own `signal` would be loaded first


def _leave(number: object, frame: object) -> None:
    os.write(2, b"dynident: Stopped by Ctrl-C; nothing was written.\n")
    os._exit(130)


# The command (`python -m dynident`, or its script) ends at once until it is at work: there is nothing yet to clear away.
_as_module = sys.argv[:1] == ["-m"] and " -m dynident " in f"{' '.join(sys.orig_argv)} "
_as_script = os.path.basename("".join(sys.orig_argv[1:2])) in ("dynident", "dynident.exe")
if (_as_module or _as_script) and getsignal(SIGINT) is default_int_handler:
    signal(SIGINT, _leave)

import importlib
import re
from functools import cache
from types import ModuleType
from typing import Any

from dynident._util import hooks

__version__ = "0.1.0"

# What data classes call of the layers above them: how they are printed, drawn, checked on other records and saved.
hooks.register({
    "expression_text": "dynident.models.symbolic_source.expression_text",
    "first_state": "dynident.integrators.first_state.first_state_of",
    "estimate_text": "dynident.report.terminal.estimate_text",
    "estimate_html": "dynident.report.html_report.estimate_fragment",
    "estimate_figure": "dynident.report.figures.estimate_figure",
    "open_loop_residuals": "dynident.methods.open_loop.estimate_residuals",
    "judge_estimate": "dynident.verbs.judge.judge_estimate",
    "validate": "dynident.verbs.validate.validate",
    "to_urdf": "dynident.io.results.export.estimate_to_urdf",
    "save": "dynident.io.results.result_folder.save",
    "estimate_summary": "dynident.report.terminal.estimate_summary",
    "estimate_dict": "dynident.report.terminal.estimate_dict",
    "comparison_text": "dynident.report.terminal.comparison_text",
    "text_table": "dynident.report.terminal.plain_table",
    "profile_text": "dynident.report.terminal.profile_text",
    "profile_figure": "dynident.report.figures.profile_figure",
    "plan_text": "dynident.report.terminal.plan_text",
    "plan_figure": "dynident.report.figures.plan_figure",
    "example_record": "dynident.demo.example_records.example_record",
    "records_from_table": "dynident.io.readers.tables.from_table",
    "write_columns": "dynident.io.results.signal_tables.save_columns",
    "boundary_text": "dynident.report.terminal.boundary_text",
    "boundary_figure": "dynident.report.figures.boundary_figure",
    "iterations_figure": "dynident.report.figures.iterations_figure",
})


@cache
def public_names() -> dict[str, str]:
    """Public names and the modules that hold them, from the one list of them: the stub that type checkers read too."""
    with open(os.path.join(__path__[0], "__init__.pyi"), encoding="utf-8") as stub:
        return {name: home for home, name in re.findall(r"^from (\S+) import (\w+) as \2$", stub.read(), re.MULTILINE)}


def __getattr__(name: str) -> Any:
    """A public name, loaded when first asked for, so that `import dynident` stays quick."""
    if name == "__all__":
        return sorted(public_names())
    if name not in public_names():
        raise AttributeError(f"dynident has no attribute '{name}'")
    home = public_names()[name]
    found = getattr(importlib.import_module(home), name, None) if home != __name__ else None
    return importlib.import_module(f"{home}.{name}") if found is None else found  # a module is public as a whole


class _PublicFirst(ModuleType):
    """A public function stays in front of the folder of the same name, which importing would put in its place."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not isinstance(value, ModuleType) or public_names().get(name, __name__) == __name__:
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _PublicFirst


def __dir__() -> list[str]:
    return [*sorted(public_names()), "__version__"]
