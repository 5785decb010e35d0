"""Public means listed: what can be reached, what is listed and what a type checker sees are the same names."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import dynident


def test_every_listed_name_can_be_reached():
    for name in dynident.__all__:
        assert getattr(dynident, name) is not None
    assert set(dir(dynident)) == {*dynident.__all__, "__version__"}


def test_the_list_holds_nothing_that_only_type_checkers_see():
    stub = ast.parse(Path(dynident.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    seen = [alias.asname or alias.name for node in stub.body if isinstance(node, (ast.Import, ast.ImportFrom))
            for alias in node.names]
    declared = [node.target.id for node in stub.body if isinstance(node, ast.AnnAssign)]
    assert sorted(seen) == dynident.__all__
    assert sorted(declared) == ["__all__", "__version__"]
    assert all(isinstance(node, (ast.ImportFrom, ast.AnnAssign)) for node in stub.body)


def test_a_public_function_is_not_hidden_by_the_folder_of_its_name():
    folders = {path.parent.name for path in Path(dynident.__file__).parent.glob("*/__init__.py")}
    for name in sorted(folders & set(dynident.__all__) - {"report"}):
        importlib.import_module(f"dynident.{name}")
        assert callable(getattr(dynident, name))
