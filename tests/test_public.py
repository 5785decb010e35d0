"""Public means listed: what can be reached, what is listed and what a type checker sees are the same names."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import dynident


def test_names_that_can_be_reached_are_those_that_are_listed():
    assert sorted({*dynident.PUBLIC, *dynident.MODULES}) == sorted(dynident.__all__)
    assert len(set(dynident.__all__)) == len(dynident.__all__)
    for name in dynident.__all__:
        assert getattr(dynident, name) is not None


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(dynident.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {alias.asname or alias.name for node in block.body if isinstance(node, ast.ImportFrom)
            for alias in node.names}
    assert seen == set(dynident.__all__)


def test_a_public_function_is_not_hidden_by_the_folder_of_its_name():
    folders = {path.parent.name for path in Path(dynident.__file__).parent.glob("*/__init__.py")}
    for name in sorted(folders & set(dynident.PUBLIC)):
        importlib.import_module(f"dynident.{name}")
        assert callable(getattr(dynident, name))
