"""Does the tree keep the order that CONTRIBUTING promises: layers, names that occur once, a glossary that is complete?"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

import dynident as di

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "dynident"
GLOSSARY = ROOT / "docs" / "design" / "glossary.md"
CORE = ("problem", "codegen", "models", "integrators", "transcription", "linalg", "solvers", "statistics", "estimate",
        "methods", "verbs")
LONGEST_FILE, LONGEST_FUNCTION = 420, 44  # lines


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def modules(*folders: str) -> list[Path]:
    tops = [SOURCE / folder for folder in folders] or [SOURCE]
    return sorted(path for top in tops for path in top.rglob("*.py"))


def classes(path: Path) -> list[str]:
    return [node.name for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef)]


def glossary() -> dict[str, tuple[str, str, str]]:
    """Our word -> (the textbook's term, one sentence, the file)."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in GLOSSARY.read_text().splitlines()
            if line.startswith("| `")]
    return {row[0].strip("`"): (row[1], row[2], row[3].strip("`")) for row in rows}


def test_a_folder_imports_only_from_those_below_it():
    linter = pytest.importorskip("importlinter.cli", reason="needs import-linter: pip install dynident[dev]")
    assert linter.lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_logo=True) == 0


def test_a_class_name_occurs_once():
    homes = defaultdict(list)
    for path in modules():
        for name in classes(path):
            homes[name].append(str(path.relative_to(SOURCE)))
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def test_no_two_files_of_the_core_share_a_name():
    homes = defaultdict(list)
    for path in modules(*CORE):
        if path.name != "__init__.py":
            homes[path.name].append(str(path.relative_to(SOURCE)))
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def test_files_and_functions_stay_short():
    long_files = [str(p.relative_to(SOURCE)) for p in modules() if len(p.read_text().splitlines()) > LONGEST_FILE]
    functions = [(str(p.relative_to(SOURCE)), node.name) for p in modules() for node in ast.walk(tree_of(p))
                 if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= LONGEST_FUNCTION + 8]
    assert (long_files, functions) == ([], [])


def test_every_file_says_in_its_first_line_what_it_answers():
    assert [str(p.relative_to(SOURCE)) for p in modules() if not ast.get_docstring(tree_of(p))] == []


def test_the_glossary_has_every_public_name_and_every_class_of_the_core():
    wanted = set(di.__all__) | {name for path in modules(*CORE) for name in classes(path) if not name.startswith("_")}
    assert wanted - set(glossary()) == set()


def test_the_glossary_names_files_that_hold_the_word():
    for word, (_term, sentence, file) in glossary().items():
        path = SOURCE / file
        assert path.exists(), f"{word}: {file}"
        assert sentence, word
        named = f"{path.stem} {path.parent.name} {path.read_text()}"  # a module is named by its file
        assert re.search(rf"\b{re.escape(word)}\b", named), f"{word} is not in {file}"
