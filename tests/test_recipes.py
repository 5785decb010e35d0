"""Are the recipes of CONTRIBUTING ("How to add") all that it takes? Each is carried out on a copy of the package: the toy of
`tests/recipes/` goes to its place, its line into the registry that the recipe names, and the toy is used."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOYS = Path(__file__).parent / "recipes"


@dataclass(frozen=True)
class Line:
    """An entry of a registry, and the import that it needs."""

    file: str
    registry: str
    entry: str
    needs: str = ""


@dataclass(frozen=True)
class Recipe:
    """Title in CONTRIBUTING, where the toy goes, and the lines that make it known."""

    title: str
    home: str
    lines: tuple[Line, ...]


RECIPES = {
    "integrator": Recipe("An integrator", "integrators/midpoint.py", (
        Line("integrators/__init__.py", "INTEGRATORS", "MIDPOINT", "from dynident.integrators.midpoint import MIDPOINT"),)),
    "solver": Recipe("A solver", "solvers/cautious.py", (
        Line("solvers/__init__.py", "SOLVERS", '"cautious": Cautious', "from dynident.solvers.cautious import Cautious"),)),
    "transcription": Recipe("A transcription", "transcription/counted_shooting.py", ()),
    "direct_method": Recipe("A transcription", "methods/counted.py", (
        Line("methods/presets.py", "METHODS", '"counted": "dynident.methods.counted:Counted"'),)),
    "method": Recipe("A method", "methods/grid_search.py", (
        Line("methods/presets.py", "METHODS", '"grid_search": "dynident.methods.grid_search:GridSearch"'),)),
    "uncertainty": Recipe("A kind of uncertainty", "statistics/grid_spacing.py", (
        Line("io/results/estimate_json.py", "UNCERTAINTIES", '"grid_spacing": GridSpacing',
             "from dynident.statistics.grid_spacing import GridSpacing"),)),
    "section": Recipe("A section of the report", "report/sections/sample_count.py", (
        Line("report/sections/__init__.py", "SECTIONS", "SAMPLE_COUNT",
             "from dynident.report.sections.sample_count import SAMPLE_COUNT"),)),
    "command": Recipe("A command", "cli/count.py", (
        Line("cli/__init__.py", "COMMANDS", '"count": count', "from dynident.cli import count"),)),
    "reader": Recipe("A reader", "io/readers/json_columns.py", (
        Line("io/readers/tables.py", "READERS", '".json": read_json',
             "from dynident.io.readers.json_columns import read_json"),)),
    "library_model": Recipe("A model of the library", "models/library/bucket.py", (
        Line("models/library/__init__.py", "__all__", '"bucket"', "from dynident.models.library.bucket import bucket"),
        Line("models/library/machines.py", "TYPICAL", '"bucket": {"k": 1.0}'))),
}
USED = [name for name in RECIPES if name != "direct_method"]  # which is used with its transcription


def recipe_texts() -> dict[str, str]:
    """Title -> text, of the section of CONTRIBUTING."""
    section = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## How to add\n")[1].split("\n## ")[0]
    recipes = re.findall(r"^\*\*(.+?)\*\*(.*?)(?=^\*\*|\Z)", section, re.MULTILINE | re.DOTALL)
    return {title: " ".join(text.split()) for title, text in recipes}


def add_line(package: Path, line: Line) -> None:
    """The entry as the first of its registry, the import above that."""
    file = package / line.file
    text = file.read_text(encoding="utf-8")
    found = re.search(rf"^{line.registry}\b[^=\n]*= *(?:\w+\()?[\[({{]", text, re.MULTILINE)
    assert found, f"{line.file} has no {line.registry}"
    file.write_text(f"{text[:found.start()]}{line.needs}\n{found[0]}{line.entry}, {text[found.end():]}", encoding="utf-8")


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What using each toy says: nothing, or a traceback."""
    folder = tmp_path_factory.mktemp("recipes")
    package = folder / "src" / "dynident"
    shutil.copytree(ROOT / "src" / "dynident", package, ignore=shutil.ignore_patterns("__pycache__"))
    for name, recipe in RECIPES.items():
        assert not (package / recipe.home).exists()
        shutil.copy(TOYS / f"{name}.py", package / recipe.home)
        for line in recipe.lines:
            add_line(package, line)
    run = subprocess.run([sys.executable, str(TOYS / "run.py"), *USED], cwd=folder, capture_output=True, text=True, check=False,
                         env={**os.environ, "PYTHONPATH": str(package.parent)})
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", USED)
def test_recipe_makes_a_toy_that_works(said, name):
    assert said[name] == ""


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_names_the_folder_and_the_registry(name):
    text, recipe = recipe_texts()[RECIPES[name].title], RECIPES[name]
    assert f"`{recipe.home.rsplit('/', 1)[0]}/" in text
    for line in recipe.lines:
        assert f"`{line.registry}`" in text and f"{line.file}`" in text, f"the recipe does not name {line}"
