"""Is the map of CONTRIBUTING true: the figure of the layers, and the walk of one record from file to report?"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dynident.codegen.compiler import compiler
from dynident.demo import copy_to

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def figure():
    spec = importlib.util.spec_from_file_location("architecture_figure", ROOT / "tools" / "architecture_figure.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_figure_is_the_one_that_the_layers_give_today(figure, theme):
    drawn = (ROOT / "docs" / "_static" / f"architecture_{theme}.svg").read_text(encoding="utf-8")
    assert drawn == figure.figure(theme), "run `make figure`"


def test_figure_has_every_folder_and_says_what_it_holds(figure):
    folders = {path.parent.name for path in (ROOT / "src" / "dynident").glob("*/__init__.py")}
    shown = {name for layer in figure.layers() for name in layer}
    assert folders <= shown
    assert {name for name in folders if not figure.purposes().get(name)} == set()


FOLLOW = """
import json, sys
import dynident

source, seen = dynident.__path__[0], {}


def follow(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(source):
        seen.setdefault((code.co_filename[len(source) + 1:].replace(chr(92), "/"), code.co_qualname))


walk = compile(open("walk.py").read(), "walk", "exec")
sys.setprofile(follow)
exec(walk, {})
sys.setprofile(None)
print(json.dumps(list(seen)))
"""


def walk() -> tuple[str, list[tuple[str, str]]]:
    """The code of the walk, and (file, function) of each step."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.split("## One record from file to report\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    return code, re.findall(r"^\| `([\w/]+\.py)` \| `([\w.]+)` \|", section, re.MULTILINE)


@pytest.fixture
def first_calls(tmp_path):
    """(file, function) of the package in the order in which a fit first calls them, in a process that knows nothing yet."""
    if compiler() is None:
        pytest.skip("the walk is that of a machine with a C compiler")
    copy_to(tmp_path / "dynident-demo")
    (tmp_path / "walk.py").write_text(walk()[0], encoding="utf-8")
    run = subprocess.run([sys.executable, "-c", FOLLOW], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return [tuple(step) for step in json.loads(run.stdout.splitlines()[-1])]


def test_functions_of_the_walk_exist():
    for file, function in walk()[1]:
        found = importlib.import_module(f"dynident.{file.removesuffix('.py').replace('/', '.')}")
        for part in function.split("."):
            found = getattr(found, part)
        assert callable(found), (file, function)


def test_a_fit_takes_the_walk_in_its_order(first_calls):
    steps = walk()[1]
    assert len(steps) > 30
    missed = [step for step in steps if step not in first_calls]
    assert missed == []
    assert sorted(steps, key=first_calls.index) == steps
