"""Tables made from the code, so that they never go stale: a line `<!-- table: integrators -->` becomes that table.

Each table is a function without arguments below; TABLES holds them by name.
"""

from __future__ import annotations

import ast
import csv
import importlib
import importlib.util
import inspect
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import dynident
from dynident.cli import app
from dynident.integrators import INTEGRATORS, MULTISTEP, PAPER_VARIANTS, integrator_named
from dynident.io.readers.tables import READERS
from dynident.maths import CONSTANTS, FUNCTIONS
from dynident.methods.options import option_rows
from dynident.methods.presets import METHODS, method_class
from dynident.models.library import __all__ as LIBRARY
from dynident.problem.noise import LOSSES
from dynident.solvers import SOLVERS

ROOT = Path(__file__).parents[2]
GRADES = ("A", "A~", "A!", "B~", "B", "C", "D", "?")
EXAMPLES = ROOT / "examples"
SOURCE = ROOT / "src" / "dynident"
PLACE = re.compile(r"^<!-- table: ([\w-]+) -->$", re.MULTILINE)
NUMBER = re.compile(r"([A-Z][A-Z_0-9, ]*) = (.*?)(?:  # .*)?$")
API_PLACE = re.compile(r"^<!-- api: ([\w., ]+) -->$", re.MULTILINE)
PAGE = re.compile(r"See\s+the\s+manual,\s+([\w/]+)\.")


def table(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table in Markdown; a bar inside of a cell is escaped."""
    lines = [list(headings), ["---"] * len(list(headings)), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in line) + " |"
                     for line in lines)


def first_sentence(thing: Any) -> str:
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


def integrators() -> str:
    def kind(integrator: Any) -> str:
        words = {"Explicit": "explicit", "Implicit": "implicit", "Adaptive": "chooses its own steps",
                 "Multistep": "two-step, full discretization only"}
        form = ", position and velocity only" if integrator.position_velocity else ""
        return words[type(integrator).__name__] + form

    return table(["name", "order", "kind", "remark"],
                 [[f"`{i.name}`", getattr(i, "order", "adaptive"), kind(i), i.summary]
                  for i in [*INTEGRATORS, *MULTISTEP, *map(integrator_named, PAPER_VARIANTS)]])


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
    by: dict[Any, list[str]] = {}
    for end, read in READERS.items():
        by.setdefault(read, []).append(f"`{end}`")
    return table(["file name ends in", "what is read"], [[", ".join(ends), first_sentence(read)] for read, ends in by.items()])


def functions() -> str:
    return ", ".join(f"`{name}`" for name in [*FUNCTIONS, *CONSTANTS])


def library() -> str:
    """Every ready model with its typical values and units, from the library itself; then what else is there."""
    models = dynident.library.EXAMPLES
    others = [(name, getattr(dynident.library, name)) for name in LIBRARY if name not in models]
    return "\n\n".join([
        table(["`di.library.`", "what it is", "inputs", "measured", "typical values"], [_library_row(name) for name in models]),
        table(["`di.library.`", "what else there is"],
              [[f"`{name}`", f"`{first_sentence(it)}`"] for name, it in others if inspect.isfunction(it)])])


def _library_row(name: str) -> list[Any]:
    made = getattr(dynident.library, name)
    model, typical = made(), dynident.library.TYPICAL[name]

    def with_unit(signal: str) -> str:
        return f"{signal} [{model.units[signal]}]" if model.units.get(signal) else signal

    values = [f"{parameter} = {value:g} {model.units.get(parameter, '')}".strip() for parameter, value in typical.items()]
    return [f"`{name}`", f"`{first_sentence(made)}`", ", ".join(map(with_unit, model.inputs)) or "none",
            ", ".join(map(with_unit, model.outputs)), ", ".join(values)]


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


def documented(names: str) -> str:
    """The classes, functions and modules of a line `<!-- api: Problem, Parameter -->`, from their docstrings.

    A name with dots is one that users meet and that is not public, such as the class of a result.
    """
    return "\n\n".join(_documented(name if "." in name else f"dynident.{name}") for name in names.split(", "))


def _documented(path: str) -> str:
    module, _, name = path.rpartition(".")
    it = getattr(importlib.import_module(module), name)
    if inspect.ismodule(it):
        body = re.sub(r"\n(\w+)\n-{3,}\n", r"\n\n.. rubric:: \1\n\n", with_link(inspect.getdoc(it) or ""))
        return f"## `di.{name}`\n\n```{{eval-rst}}\n{body}\n\n{_contents(it)}\n```"
    if name in METHODS:
        from sphinx.ext.napoleon import Config, NumpyDocstring

        body = str(NumpyDocstring(with_link(inspect.getdoc(it) or ""), Config(napoleon_use_rtype=False)))
        text = f".. py:function:: {path}{short_signature(it)}\n\n{textwrap.indent(body, '   ')}"
    else:
        members = "\n   :members:" if inspect.isclass(it) and not issubclass(it, Exception) else ""
        message = "(message)" if inspect.isclass(it) and issubclass(it, Exception) and "__init__" not in vars(it) else ""
        text = f".. {'autoclass' if inspect.isclass(it) else 'autofunction'}:: {path}{message}{members}"
    return f"## `{'di.' if module == 'dynident' else ''}{name}`\n\n```{{eval-rst}}\n{text}\n```"


def short_signature(made: type) -> str:
    """Names and defaults; nothing for what only dynident makes. Types stand in the docstring."""
    if "\nParameters\n---" not in (inspect.getdoc(made) or ""):
        return ""
    factories = {f.name: f.default_factory() for f in fields(made) if callable(f.default_factory)} if is_dataclass(made) else {}
    given = [p.replace(annotation=p.empty, default=factories.get(p.name, p.default))
             for p in inspect.signature(made).parameters.values()]
    return str(inspect.Signature(given))


def _contents(module: Any) -> str:
    """What a public module holds, a line each."""
    names = getattr(module, "__all__", None) or [n for n, it in vars(module).items() if getattr(it, "__module__", "") ==
                                                  module.__name__ and not n.startswith("_")]
    rows = [(n, getattr(module, n)) for n in names]
    return "\n".join(f"- `{n}`: {first_sentence(it)}" for n, it in rows if inspect.isfunction(it) or inspect.isclass(it))


def with_link(text: str) -> str:
    """The docstring with its pointer to a page of the manual as a link."""
    return PAGE.sub(r"See the manual, :doc:`/\1`.", text)


def counts() -> str:
    """How large the tree is and how fine its grain, before and today."""
    spec = importlib.util.spec_from_file_location("counts", ROOT / "tools" / "counts.py")
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    rows = [[what, tool.BEFORE[what], today] for what, today in tool.counts(SOURCE).items()]
    return table(["", "e292de4", "this tree"], rows)


def tolerances() -> str:
    """Every number that decides, section by section, in the words of `tolerances.py`."""
    parts: list[str] = []
    lines = (SOURCE / "tolerances.py").read_text(encoding="utf-8").splitlines()
    rows: list[list[str]] = []
    for k, line in enumerate(lines):
        if line.startswith("# -- "):
            parts += [table(["name", "value", "unit; why"], rows)] if rows else []
            parts.append(f"### {line[5:6].upper()}{line[6:].strip(' -')}")
            rows = []
        elif named := NUMBER.match(line):
            rows.append([f"`{named[1]}`", f"`{named[2]}`", remark(lines, k)])
    return "\n\n".join([*parts, table(["name", "value", "unit; why"], rows)])


def other_numbers() -> str:
    """Every other real number with a name, by its file."""
    rows = []
    for path in sorted(SOURCE.rglob("*.py")):
        text, file = path.read_text(encoding="utf-8"), path.relative_to(SOURCE).as_posix()
        for node in ast.parse(text).body if path.name != "tolerances.py" else []:
            if isinstance(node, ast.Assign) and is_real(node.value):
                name, value = (ast.get_source_segment(text, part) or "" for part in (node.targets[0], node.value))
                said = remark(text.splitlines(), (node.end_lineno or node.lineno) - 1)
                rows.append([f"`{file}`", f"`{name}`", f"`{' '.join(value.split())}`", said])
    return table(["file", "name", "value", "what it is"], rows)


def remark(lines: list[str], k: int) -> str:
    """The comment beside a number, and its lines below."""
    words = [lines[k].partition("  # ")[2]]
    while words[0] and k + len(words) < len(lines) and lines[k + len(words)].startswith("# ") and not lines[
            k + len(words)].startswith("# -- "):
        words.append(lines[k + len(words)][2:])
    return " ".join(words)


def is_real(node: ast.expr) -> bool:
    """Numbers of which one has a fraction or an exponent, or arithmetic with them."""
    parts = list(ast.walk(node))
    allowed = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Tuple, ast.expr_context)
    return all(isinstance(part, allowed) for part in parts) and any(
        isinstance(part, ast.Constant) and isinstance(part.value, float) for part in parts)


def verdict_ends() -> str:
    """How often each grade was given, by what is known to be true: ends that no threshold of the rule was tuned on."""
    counts: Counter[tuple[str, str]] = Counter()
    with (ROOT / "benchmarks" / "verdict_ends.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            beyond = "" if row["label"] == "right" or row["beyond the noise"] == "yes" else " within the noise"
            length = "60 samples and more" if int(row["samples"]) >= 60 else "fewer than 60"
            counts[f"{row['label']}{beyond}, {row['noise']} noise, {length}", row["grade"]] += 1
    cases = sorted({case for case, _ in counts}, key=lambda case: ("right" not in case, "within" in case, case))
    rows = [[case, *(counts[case, g] or "" for g in GRADES), sum(counts[case, g] for g in GRADES)] for case in cases]
    return table(["truth", *GRADES, "all"], rows)


TABLES: dict[str, Callable[[], str]] = {
    make.__name__.replace("_", "-"): make for make in (
        integrators, solvers, methods, capabilities, options, losses, readers, functions, library, commands, examples, counts,
        tolerances, other_numbers, verdict_ends)}


def filled(text: str) -> str:
    """The text of a page with its tables and docstrings put in; an unknown table is an error."""
    text = API_PLACE.sub(lambda place: documented(place.group(1)), text)
    return PLACE.sub(lambda place: TABLES[place.group(1)](), text)


def setup(app: Any) -> dict[str, Any]:
    def put_in(app: Any, page: str, source: list[str]) -> None:
        source[0] = filled(source[0])

    def link(app: Any, what: str, name: str, it: Any, options: Any, lines: list[str]) -> None:
        lines[:] = with_link("\n".join(lines)).split("\n")

    def shorten(app: Any, what: str, name: str, it: Any, options: Any, signature: Any, returned: Any) -> Any:
        return (short_signature(it), None) if what == "class" else None

    app.connect("source-read", put_in)
    app.connect("autodoc-process-signature", shorten)
    app.connect("autodoc-process-docstring", link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
