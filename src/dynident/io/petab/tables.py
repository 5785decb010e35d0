"""PEtab tables: rows of tab-separated files, formulas of observables, and what is refused by name."""

from __future__ import annotations

import ast
import csv
import math
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Any

from dynident._util.expressions import syntax_tree
from dynident.errors import NotSupported, ProblemError
from dynident.io.petab.sbml import safe_name
from dynident.io.readers.columns import existing_file

Row = Mapping[str, str]
RENAMED = {"ln": "log", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "max": "maximum", "min": "minimum", "Abs": "abs"}


def load_yaml(path: Path) -> dict[str, Any]:
    """The content of the file that names the others; only plain data, no objects."""
    try:
        import yaml
    except ImportError:
        raise NotSupported("PEtab problems are named by a YAML file, which takes PyYAML: "
                           "pip install \"dynident[petab]\".") from None
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8-sig"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ProblemError(f"{path.name} is not valid YAML: {' '.join(str(error).split())}.") from None
    if not isinstance(content, dict) or "problems" not in content:
        raise ProblemError(f"{path.name} is not a PEtab problem: it names no `problems`. A problem of dynident is a TOML file.")
    version = str(content.get("format_version", "1"))
    if not version.startswith("1"):
        raise NotSupported(f"{path.name} is of PEtab version {version}; version 1 is read.")
    return content


def read_rows(path: Path, needed: tuple[str, ...]) -> list[tuple[int, Row]]:
    """Rows of a table with their line, cells without blanks around them."""
    path = existing_file(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ProblemError(f"{path.name} is not text in UTF-8: {error}.") from None
    lines = list(csv.reader(text.splitlines(), delimiter="\t"))
    header = [name.strip() for name in lines[0]] if lines else []
    if missing := [name for name in needed if name not in header]:
        raise ProblemError(f"{path.name}, line 1: there is no column {', '.join(missing)}; the header is {', '.join(header)}.")
    return [(k, {name: cell.strip() for name, cell in zip(header, [*cells, *[""] * len(header)], strict=False)})
            for k, cells in enumerate(lines[1:], 2) if any(cell.strip() for cell in cells)]


def number_or_none(text: str) -> float | None:
    """A number, or None where the text is a name; NaN where it is empty."""
    if not text:
        return math.nan
    try:
        return float(text)
    except ValueError:
        return None


def formula(text: str, where: str, placeholders: Mapping[str, str], known: Container[str] = ()) -> str:
    """A formula of PEtab in the grammar of our equations, with placeholders filled in; `known` are names of parameters."""
    try:
        tree = syntax_tree(text.replace("^", "**").strip())
    except SyntaxError:
        raise ProblemError(f"{where}: '{text}' cannot be read.") from None
    changed = _Rewritten(where, placeholders, known).visit(tree)
    return ast.unparse(ast.fix_missing_locations(changed))


class _Rewritten(ast.NodeTransformer):
    def __init__(self, where: str, placeholders: Mapping[str, str], known: Container[str]):
        self.where, self.placeholders, self.known = where, placeholders, known

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.placeholders:
            return syntax_tree(self.placeholders[node.id]).body
        if node.id.startswith(("observableParameter", "noiseParameter")) and node.id not in self.known:
            raise ProblemError(f"{self.where}: no measurement row gives {node.id}.")
        return ast.Name("t" if node.id == "time" else safe_name(node.id), node.ctx)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        given = [self.visit(each) for each in node.args]
        if name == "pow" and len(given) == 2:
            return ast.BinOp(given[0], ast.Pow(), given[1])
        if name in ("log10", "log2") and len(given) == 1:
            base = ast.Call(ast.Name("log", ast.Load()), [ast.Constant(float(name[3:]))], [])
            return ast.BinOp(ast.Call(ast.Name("log", ast.Load()), given, []), ast.Div(), base)
        if name == "piecewise":
            found = given[-1] if len(given) % 2 else ast.Constant(0.0)
            for value, condition in reversed(list(zip(given[0:len(given) - len(given) % 2:2], given[1::2], strict=True))):
                found = ast.Call(ast.Name("where", ast.Load()), [condition, value, found], [])
            return found
        return ast.Call(ast.Name(RENAMED.get(name, name), ast.Load()), given, [])
