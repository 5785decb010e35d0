"""What is handed on tells the truth: versions that are locked, lower bounds, the citation, the commands of make."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PINNED = re.compile(r"[A-Za-z0-9._-]+==[\w.]+")
SYSTEMS = ("Linux", "macOS", "Windows")


def tool(name: str):
    spec = importlib.util.spec_from_file_location(f"tools_{name}", ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def locked() -> dict[str, str]:
    """Package -> version, of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert all(PINNED.fullmatch(line) for line in pins), "a name and a version a line; no address, no path"
    return {canonical(name): version for name, version in (line.split("==") for line in pins)}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


@pytest.mark.parametrize("extra", ["", "dev", "docs"])
def test_every_package_that_make_installs_is_locked_within_its_bounds(extra):
    versions = locked()
    for requirement in PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]:
        name, how, bound = re.fullmatch(r"([\w.-]+)(>=|==)([\w.]+)", requirement).groups()
        version = versions[canonical(name)]
        assert numbers(version) >= numbers(bound), requirement
        assert how == ">=" or version == bound, requirement


def test_dynident_itself_is_not_locked():
    assert "dynident" not in locked()


def test_lowest_versions_are_those_declared():
    lowest = tool("lowest")
    assert lowest.lowest("numpy>=1.26") == "numpy==1.26"
    assert {line.split("==")[0] for line in lowest.requirements()} >= {re.split("[<>=]", r)[0] for r in PROJECT["dependencies"]}
    with pytest.raises(ValueError, match="states no lower bound"):
        lowest.lowest("numpy")


def test_lowest_versions_of_all_that_is_optional_are_tried():
    """MF4 and ROS bags asked for versions that do not go with NumPy 2, or with a bare .mcap file, as nobody had tried them."""
    said = {line.split("==")[0] for line in tool("lowest").requirements()}
    extras = PROJECT["optional-dependencies"]
    asked = {re.split("[<>=]", each)[0] for name in extras.keys() - {"all", "dev", "docs", "mpi"} for each in extras[name]}
    assert asked - said == set()


def test_a_lock_holds_names_and_versions_only():
    pinned = tool("lock").PINNED
    assert pinned.match("numpy==2.4.6")
    for line in ("-e /home/me/dynident", "numpy @ file:///somewhere/numpy.whl", "# Editable Git install", "WARNING: Location"):
        assert not pinned.match(line)


def test_the_citation_has_the_version_and_the_licence_of_the_package():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {PROJECT['version']}\n" in text
    assert f"license: {PROJECT['license']}\n" in text
    assert re.findall(r'- name: "(.*)"', text) == [author["name"] for author in PROJECT["authors"]]


def test_commands_of_make_that_pages_name_exist():
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("**/*.md")]
    named = {name for page in pages for name in re.findall(r"`make ([a-z-]+)[`, ]", page.read_text(encoding="utf-8"))}
    assert named and named <= targets


def test_readme_says_which_systems_were_tried():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (sentence,) = re.findall(r"^Tried on .*?\.(?=\s)", text, re.MULTILINE | re.DOTALL)
    assert all(name in sentence for name in SYSTEMS)


def test_counts_of_the_tree_tell_what_is_there(tmp_path):
    counts = tool("counts")
    for name, text in {"__init__.py": "", "a.py": "from dynident.b import Twice\nLIMIT, NAME = 2.5, 'x'\nhasattr(1, 'real')\n",
                       "b.py": "class Twice:\n    def f(self):\n        \"\"\"Doc.\"\"\"\n        x = 1\n        return x\n",
                       "c.py": "class Twice:\n    pass\n"}.items():
        (tmp_path / name).write_text(text)
    found = counts.counts(tmp_path)
    assert found["Python files"] == "4" and found["lines of Python"] == "10"
    assert found["class names with two homes"] == "1 of 1" and found["modules with one importer"] == "1"
    assert found["of these below 60 lines and in its folder"] == "1" and found["hasattr and getattr"] == "1"
    assert found["numbers that are module-level constants"] == "1"
    assert found["lines a function: median, longest"] == "3, 3"
    assert counts.counts(counts.HERE)["class names with two homes"].startswith("0 of ")
