"""Tables made from the code, so that they never go stale: a line `<!-- table: integrators -->` becomes that table.

Each table is a function without arguments below; TABLES holds them by name.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import dynident
from dynident.cli import app
from dynident.integrators import INTEGRATORS, PAPER_VARIANTS, integrator_named
from dynident.io.readers.tables import READERS
from dynident.maths import CONSTANTS, FUNCTIONS
from dynident.methods.options import option_rows
from dynident.methods.presets import METHODS, method_class
from dynident.models.library import __all__ as LIBRARY
from dynident.problem.losses import LOSSES
from dynident.solvers import SOLVERS

EXAMPLES = Path(__file__).parents[2] / "examples"
PLACE = re.compile(r"^<!-- table: ([\w-]+) -->$", re.MULTILINE)


def table(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table in Markdown; a bar inside of a cell is escaped."""
    lines = [list(headings), ["---"] * len(list(headings)), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in line) + " |"
                     for line in lines)


def first_sentence(thing: Any) -> str:
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


def integrators() -> str:
    def kind(integrator: Any) -> str:
        words = {"Explicit": "explicit", "Implicit": "implicit", "Adaptive": "chooses its own steps"}
        form = ", position and velocity only" if integrator.position_velocity else ""
        return words[type(integrator).__name__] + form

    return table(["name", "order", "kind", "remark"],
                 [[f"`{i.name}`", getattr(i, "order", "adaptive"), kind(i), i.summary]
                  for i in [*INTEGRATORS, *map(integrator_named, PAPER_VARIANTS)]])


def solvers() -> str:
    return table(["name", "what it is"], [[f"`{name}`", first_sentence(inspect.getmodule(make)).rstrip(".") + ". "
                                           + first_sentence(make)] for name, make in SOLVERS.items()])


def methods() -> str:
    return table(["kind", "what it does"], [[f"`{kind}`", first_sentence(method_class(kind))] for kind in METHODS])


def capabilities() -> str:
    """What each method takes, with its usual options."""
    rows = {kind: method_class(kind)().capabilities for kind in METHODS if kind != "multistart"}
    features = [f.name for f in fields(next(iter(rows.values()))) if f.type == "Support"]
    return table(["", *(f"`{kind}`" for kind in rows)],
                 [[feature.replace("_", " "), *(getattr(takes, feature) for takes in rows.values())] for feature in features])


def options() -> str:
    """Every option of every method with its default and what it says."""
    parts = []
    for kind in METHODS:
        rows = [[f"`{it.name}`", f"`{it.default!r}`", it.doc + (f" In {it.unit}." if it.unit else "")]
                for it in option_rows(method_class(kind))]
        parts += [f"### `{kind}`", first_sentence(method_class(kind)), table(["option", "default", "what it says"], rows)]
    return "\n\n".join(parts)


def losses() -> str:
    return ", ".join(f"`{name}`" for name in LOSSES)


def readers() -> str:
    return table(["file name ends in", "read by"],
                 [[f"`{end}`", f"`{read.__name__}`"] for end, read in READERS.items()])


def functions() -> str:
    return ", ".join(f"`{name}`" for name in [*FUNCTIONS, *CONSTANTS])


def library() -> str:
    made = [(name, getattr(dynident.library, name)) for name in LIBRARY]
    return table(["`di.library.`", "what it is"],
                 [[f"`{name}`", f"`{first_sentence(it)}`"] for name, it in made if inspect.isfunction(it)])


def commands() -> str:
    found = [(command.name, command.callback) for command in app.registered_commands]
    found += [(f"{group.name} {command.name}", command.callback) for group in app.registered_groups
              for command in group.typer_instance.registered_commands]
    return table(["command", "what it does"], [[f"`dynident {name}`", first_sentence(it)] for name, it in found])


def examples() -> str:
    """Every example whole, under the question it answers."""
    def question(path: Path) -> str:
        return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or path.stem).split("\n")[0].rstrip(".")

    return "\n\n".join(f"## {question(path)}\n\n`{path.name}`\n\n```{{literalinclude}} ../examples/{path.name}\n```"
                       for path in sorted(EXAMPLES.glob("*.py")))


def api() -> str:
    """Every public name, in the order of its kind."""
    parts = []
    groups: dict[str, list[str]] = {"Functions": [], "Classes": [], "Errors": [], "Modules": []}
    for name in dynident.__all__:
        it = getattr(dynident, name)
        group = ("Modules" if inspect.ismodule(it) else "Functions" if not inspect.isclass(it)
                 else "Errors" if issubclass(it, Exception) else "Classes")
        groups[group].append(name)
    for group, names in groups.items():
        parts.append(f"## {group}")
        for name in names:
            it = getattr(dynident, name)
            parts.append(f"`di.{name}`: {first_sentence(it)}" if group == "Modules" else _documented(name, it))
    return "\n\n".join(parts)


def _documented(name: str, it: Any) -> str:
    directive = "autoclass" if inspect.isclass(it) else "autofunction"
    members = "\n   :members:" if inspect.isclass(it) and not issubclass(it, Exception) else ""
    return f"```{{eval-rst}}\n.. {directive}:: dynident.{name}{members}\n```"


TABLES: dict[str, Callable[[], str]] = {
    make.__name__: make for make in (integrators, solvers, methods, capabilities, options, losses, readers, functions, library,
                                     commands, examples, api)}


def filled(text: str) -> str:
    """The text of a page with its tables put in; an unknown table is an error."""
    return PLACE.sub(lambda place: TABLES[place.group(1)](), text)


def setup(app: Any) -> dict[str, Any]:
    def put_in(app: Any, page: str, source: list[str]) -> None:
        source[0] = filled(source[0])

    app.connect("source-read", put_in)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
