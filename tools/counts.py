"""Counts: how large is the house, and how is its grain? One line each, for a tree or for two of them side by side.

    python tools/counts.py                      # the tree that this file belongs to
    python tools/counts.py ../old/src/dynident  # another, and this one beside it
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median

HERE = Path(__file__).parents[1] / "src" / "dynident"
BEFORE = {  # `python tools/counts.py` of version 0.1 before the rooms, e292de4
    "Python files": "379", "lines of Python": "43,461", "lines a file: mean, median, largest": "115, 101, 394",
    "lines of C": "4,566", "class names with two homes": "40 of 406", "file names in two folders": "41",
    "modules with one importer": "129", "of these below 60 lines and in its folder": "36", "hasattr and getattr": "111",
    "numbers that are module-level constants": "545", "of these in tolerances.py": "0",
    "lines a function: median, longest": "5, 43"}
NAMED = re.compile(r"[\"'](dynident(?:\.\w+)+)(?::\w+)?[\"']")  # modules that are loaded by a name in a registry


def modules(source: Path) -> dict[str, Path]:
    """Dotted name -> file."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = ["dynident", *path.relative_to(source).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def importers(known: dict[str, Path], source: Path) -> dict[str, set[str]]:
    """Module -> modules that import it: inside of functions too, by name in a registry, and by the list of public names."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, path in known.items():
        text = path.read_text(encoding="utf-8")
        for module in [*imported(ast.parse(text), known), *(module_of(named, known) for named in NAMED.findall(text))]:
            found[module].add(name)
    listed = source / "__init__.pyi"
    if listed.is_file():
        for module in imported(ast.parse(listed.read_text(encoding="utf-8")), known):
            found[module].add("dynident")
    return {module: names - {module} for module, names in found.items() if module in known}


def module_of(named: str, known: dict[str, Path]) -> str:
    """Of a dotted name in a registry: the module, or that of the function which it ends with."""
    return named if named in known else named.rpartition(".")[0]


def imported(tree: ast.Module, known: dict[str, Path]) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = [f"{node.module}.{each.name}" for each in node.names]
            found += [name if name in known else node.module for name in inner]
    return found


def calls(tree: ast.Module, *names: str) -> int:
    return sum(isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names
               for node in ast.walk(tree))


def constants(tree: ast.Module) -> int:
    """Module-level names in capitals that are given a number."""
    found = 0
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], (ast.Name, ast.Tuple)):
            names = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else node.targets
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            if len(names) == len(values):
                found += sum(isinstance(name, ast.Name) and name.id.isupper() and is_number(value)
                             for name, value in zip(names, values, strict=True))
    return found


def is_number(node: ast.expr) -> bool:
    allowed = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
    parts = list(ast.walk(node))
    numbers = [part.value for part in parts if isinstance(part, ast.Constant)]
    return all(isinstance(part, allowed) for part in parts) and all(
        isinstance(number, (int, float)) and not isinstance(number, bool) for number in numbers)


def body_lines(node: ast.FunctionDef) -> int:
    """Lines of a function without those of its docstring."""
    first = node.body[0]
    return node.end_lineno - node.lineno + 1 - (first.end_lineno - first.lineno + 1 if ast.get_docstring(node) else 0)


def counts(source: Path) -> dict[str, str]:
    """What is counted, in words -> how many."""
    known = modules(source)
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in known.items()}
    lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in known.items()}
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    homes = Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))
    functions = [body_lines(node) for node in nodes if isinstance(node, ast.FunctionDef)]
    single = {name: next(iter(by)) for name, by in importers(known, source).items() if len(by) == 1}
    small = [name for name, by in single.items()
             if lines[name] < 60 and name.rpartition(".")[0] in (by.rpartition(".")[0], by)]
    files = Counter(path.name for path in known.values() if path.name != "__init__.py")
    return {
        "Python files": f"{len(known)}", "lines of Python": f"{sum(lines.values()):,}",
        "lines a file: mean, median, largest": f"{sum(lines.values()) / len(lines):.0f}, {median(lines.values()):.0f}, "
                                               f"{max(lines.values())}",
        "lines of C": f"{sum(len(path.read_text(encoding='utf-8').splitlines()) for path in source.rglob('*.c')):,}",
        "class names with two homes": f"{sum(n > 1 for n in homes.values())} of {len(homes)}",
        "file names in two folders": f"{sum(n > 1 for n in files.values())}",
        "modules with one importer": f"{len(single)}",
        "of these below 60 lines and in its folder": f"{len(small)}",
        "hasattr and getattr": f"{sum(calls(tree, 'hasattr', 'getattr') for tree in trees.values())}",
        "numbers that are module-level constants": f"{sum(constants(tree) for tree in trees.values())}",
        "of these in tolerances.py": f"{constants(trees['dynident.tolerances']) if 'dynident.tolerances' in trees else 0}",
        "lines a function: median, longest": f"{median(functions):.0f}, {max(functions)}",
    }


def main(others: list[Path]) -> None:
    trees = [counts(path) for path in (*others, HERE)]
    for what in trees[0]:
        print(f"{what:45} " + "  ".join(f"{tree[what]:>14}" for tree in trees))


if __name__ == "__main__":
    main([Path(each) for each in sys.argv[1:]])
