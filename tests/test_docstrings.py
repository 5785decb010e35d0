"""Every public name explains itself: a sentence, its parameters with their defaults, an example that runs, its page."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynident as di
from dynident.boundary.solve_bvp.result import BoundarySolution
from dynident.fleet.result import FleetResult
from dynident.io.problem_file.read import ProblemFile
from dynident.statistics.bootstrap_result import Bootstrap
from dynident.statistics.covariance import Covariance
from dynident.statistics.coverage_result import Coverage
from dynident.statistics.diagnostic import Check
from dynident.statistics.identifiability import StructuralIdentifiability
from dynident.statistics.profile_likelihood import Profile
from dynident.verbs.bootstrap import LeaveOneOut

DOCS = Path(__file__).parents[1] / "docs"
RETURNED = {it.__name__: it for it in (  # users meet them, and never make one
    Covariance, Check, Profile, Bootstrap, LeaveOneOut, Coverage, StructuralIdentifiability, ProblemFile, FleetResult,
    BoundarySolution)}
NAMES = {name: getattr(di, name) for name in di.__all__} | RETURNED
SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
PAGE = re.compile(r"See\s+the\s+manual,\s+([\w/]+)\.")
ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \w+)*) : (.+)$", re.MULTILINE)
DESCRIBED = re.compile(r"^(\S.*)\n((?:    .*(?:\n|$)|\n)*)", re.MULTILINE)  # an entry, and the lines below it
UNIT = re.compile(r"\bunits?\b|seconds?|\bHz\b|\brad\b|\bm/s|N m|\bin m\b|\bkg\b|standard deviations\.|likewise", re.IGNORECASE)
NO_UNIT = re.compile(r"\blevel\b|correlations|the same of|share|fraction|relative|factor|times the|logarithm|as text over",
                     re.IGNORECASE)
each_name = pytest.mark.parametrize("name", NAMES)


def sections(text: str) -> dict[str, str]:
    parts = SECTION.split(text)
    return dict(zip(["", *parts[1::2]], parts[::2], strict=True))


def entries(section: str) -> dict[str, str]:
    """Name -> type, of the parameters or attributes of a section."""
    return {name.lstrip("*"): kind for names, kind in ENTRY.findall(section) for name in names.split(", ")}


def parameters(it: Any) -> dict[str, Any]:
    """Name -> default of what a function or a class is called with; `inspect.Parameter.empty` where there is none."""
    defaults = {f.name: f.default_factory() for f in fields(it) if callable(f.default_factory)} if is_dataclass(it) else {}
    try:
        given = inspect.signature(it).parameters
    except ValueError:  # an exception that takes a message
        return {}
    return {name: defaults.get(name, p.default) for name, p in given.items()}


def says_default(kind: str, default: Any) -> bool:
    if default is inspect.Parameter.empty:
        return "default" not in kind and "optional" not in kind
    if default is None or (not isinstance(default, (str, tuple)) and np.size(default) == 0) or default == {}:
        return kind.endswith("optional")
    return kind.endswith("default " + (f'"{default}"' if isinstance(default, str) else repr(default)))


@each_name
def test_docstring_has_its_sections(name):
    it, found = NAMES[name], sections(inspect.getdoc(NAMES[name]) or "")
    wanted = ["Examples"]
    if inspect.isfunction(it):
        wanted += ["Parameters", "Returns", "Raises"]
    if inspect.isclass(it) and parameters(it):
        wanted += ["Attributes"] if "Attributes" in found and "Parameters" not in found else ["Parameters"]
    assert [section for section in wanted if section not in found] == []
    assert re.match(r"[A-Z].*?[.?](\s|$)", found[""], re.DOTALL), "it begins with a sentence"


@each_name
@pytest.mark.parametrize("section", ["Parameters", "Attributes", "Returns", "Raises"])
def test_every_entry_of_a_docstring_is_described(name, section):
    found = DESCRIBED.findall(sections(inspect.getdoc(NAMES[name]) or "").get(section, "") + "\n")
    assert [entry for entry, text in found if not text.strip()] == []


@each_name
def test_numbers_that_are_given_say_their_unit_or_that_they_have_none(name):
    found = DESCRIBED.findall(sections(inspect.getdoc(NAMES[name]) or "").get("Parameters", ""))
    assert [entry for entry, text in found if re.search(r" : .*\bfloat\b", entry)
            and not UNIT.search(" ".join(text.split())) and not NO_UNIT.search(" ".join(text.split()))] == []


@each_name
def test_docstring_raises_only_our_errors(name):
    raised = re.findall(r"^(\w+)$", sections(inspect.getdoc(NAMES[name]) or "").get("Raises", ""), re.MULTILINE)
    assert all(issubclass(getattr(di, error), di.DynidentError) for error in raised)


@each_name
def test_docstring_names_a_page_of_the_manual(name):
    page = PAGE.search(sections(inspect.getdoc(NAMES[name]) or "")[""])
    assert page, "write: See the manual, methods/kalman."
    assert (DOCS / f"{page.group(1)}.md").is_file()


@each_name
def test_docstring_lists_the_parameters_that_there_are(name):
    it = NAMES[name]
    if inspect.ismodule(it):
        return
    found, wanted = sections(inspect.getdoc(it) or ""), parameters(it)
    listed = entries(found.get("Parameters", "")) or entries(found.get("Attributes", ""))
    assert list(listed) == list(wanted)
    if "Parameters" in found:
        wrong = {key: kind for key, kind in listed.items() if not says_default(kind, wanted[key])}
        assert not wrong, f"defaults are {[(key, wanted[key]) for key in wrong]}"


@each_name
def test_example_of_a_docstring_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = inspect.getdoc(NAMES[name]) or ""
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    assert test.examples
    said: list[str] = []
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    doctest.DocTestRunner(verbose=False, optionflags=options).run(test, out=said.append)
    assert not said, "".join(said)


def public_members(it: type) -> Iterator[tuple[str, Any]]:
    for name, member in vars(it).items():
        bare = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if not name.startswith("_") and inspect.isfunction(bare):
            yield name, getattr(it, name)


@pytest.mark.parametrize("name", [name for name, it in NAMES.items() if inspect.isclass(it)])
def test_public_methods_of_a_class_say_what_they_do(name):
    silent = [member for member, it in public_members(NAMES[name]) if not inspect.getdoc(it)]
    assert silent == []
