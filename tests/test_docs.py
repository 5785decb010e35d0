"""Every page of the manual tells the truth: its code runs, prints what it says, and its tables are complete.

In README.md and docs/: ```python blocks run in order, one namespace per page, beside the embedded example in
`dynident-demo`. A ```text block after one shows what it printed; `...` stands for anything in a line, and as a line of
its own for any number of lines. ```console blocks show commands after `$ ` and what they print. ```toml blocks with a
model are whole problems.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
import sys
import tomllib
from pathlib import Path

import pytest

from dynident import tolerances
from dynident.cli import main
from dynident.demo import copy_to
from dynident.io.problem_file import schema
from dynident.io.problem_file.read import read_problem
from dynident.methods.capabilities import Support
from dynident.methods.options import option_rows
from dynident.methods.presets import METHODS, method_from
from dynident.methods.substeps import MAX_SUBSTEPS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE = {"python", "console", "toml"}


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def words(text: str) -> list[str]:
    """Lines without their spacing; empty ones do not count, nor does how many iterations a solver took: that may differ in
    the last digit of the arithmetic."""
    text = re.sub(r"after \d+ iterations( in \d+ rounds)?", "after N iterations", text)
    return [line for line in (" ".join(line.split()) for line in text.splitlines()) if line]


def fits(shown: str, said: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, shown.split("..."))), said) is not None


def difference(shown: str, printed: str) -> str:
    """What of the shown lines was not printed, in this order; nothing if all is well."""
    said = words(printed)
    at, skipping = 0, False
    for line in words(shown):
        if line == "...":
            skipping = True
            continue
        ahead = range(at, len(said)) if skipping else range(at, min(at + 1, len(said)))
        found = next((k for k in ahead if fits(line, said[k])), None)
        if found is None:
            return f"the page shows\n    {line}\nwhere this was printed:\n" + "\n".join(f"    {x}" for x in said[at:])
        at, skipping = found + 1, False
    return "" if skipping or at == len(said) else f"more was printed: {said[at:]}"


def python(code: str, names: dict) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "page", "exec"), names)
    return out.getvalue()


def command(line: str, capsys) -> str:
    assert line.startswith("dynident "), f"only dynident can be tried in a console block, not: {line}"
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        main(line.split()[1:])
    said = capsys.readouterr()
    assert left.value.code == 0, f"{line}: {said.err}"
    return said.out


def console(text: str, capsys) -> None:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, shown = part.partition("\n")
        wrong = difference(shown, command(line, capsys))
        assert not wrong, f"$ {line}: {wrong}"


@pytest.mark.parametrize("page", [p for p in PAGES if any(kind in CODE for kind, _ in blocks(p))],
                         ids=lambda page: str(page.relative_to(ROOT)))
def test_page_does_what_it_shows(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    copy_to(tmp_path / "dynident-demo")
    names: dict = {"__name__": "page"}
    printed = None
    for kind, text in blocks(page):
        if kind == "python":
            printed = python(text, names)
        elif kind == "text" and printed is not None:
            wrong = difference(text, printed)
            assert not wrong, wrong
            printed = None
        elif kind == "console":
            console(text, capsys)
        elif kind == "toml" and "model" in tomllib.loads(text):
            Path("problem.toml").write_text(text, encoding="utf-8")
            assert read_problem("problem.toml").problem.experiments


def test_every_key_of_a_problem_file_is_explained():
    page = (ROOT / "docs" / "reference" / "problem_file.md").read_text(encoding="utf-8")
    parts = re.split(r"^## ", page, flags=re.MULTILINE)
    tables = {"[model]": schema.ModelTable, "[[experiment]]": schema.ExperimentTable,
              "[parameters]": schema.ParameterTable, "[design]": schema.DesignTable}
    for heading, table in tables.items():
        (part,) = [text for text in parts if text.startswith(heading)]
        missing = [key for key in table.model_fields if f"`{key}`" not in part]
        assert not missing, f"{heading} does not explain {missing}"
    assert all(f"## [{key}" in page or f"## [[{key}" in page for key in schema.ProblemTable.model_fields)
    assert all(f"`{key}`" in page for key in schema.OutputTable.model_fields | schema.PriorTable.model_fields)


def test_every_key_of_a_result_is_explained():
    from dynident.io.results.estimate_json import SavedEstimate

    page = (ROOT / "docs" / "reference" / "results.md").read_text(encoding="utf-8")
    saved = [field.name for field in dataclasses.fields(SavedEstimate) if field.metadata.get("saved", True)]
    missing = [key for key in saved if f"`{key}`" not in page]
    assert not missing


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "methods").glob("*.md")), ids=lambda page: page.stem)
def test_page_of_a_method_leads_to_its_equations_in_print(page):
    text = page.read_text(encoding="utf-8")
    if page.stem not in ("index", "fmu_tools"):
        assert "../papers.md" in text or re.search(r"\*\*Sources\.\*\*.*\(\d{4}\)", text, re.DOTALL)


THRESHOLDS = [  # page, words in which it says a threshold, the number that decides
    ("explain/identifiability.md", "above a condition of 10)", tolerances.COLLINEAR, 10.0),
    ("explain/identifiability.md", "singular values below 1e-8 of the largest", tolerances.SINGULAR_VALUE, 1e-8),
    ("explain/identifiability.md", "ten times its start value or scale", tolerances.UNIDENTIFIABLE_STD, 10.0),
    ("explain/steps.md", "below a fiftieth of a standard error", tolerances.INTEGRATION_TOLERANCE, 1 / 50),
    ("explain/gauss_newton.md", "more than a small part of a standard error: [1e-5]", tolerances.STEP_TOLERANCE, 1e-5),
    ("explain/steps.md", "64 sub-steps", MAX_SUBSTEPS, 64),
    ("explain/verdict.md", "small against the signal (up to a tenth)", tolerances.SMALL_REMAINDER, 0.1),
    ("explain/verdict.md", "graded C from 4 % on", tolerances.SMALL_REMAINDER_LINEAR, 0.04),
    ("explain/noise_places.md", "less than 0.3 standard errors", tolerances.ATTENUATION, 0.3),
    ("methods/automatic.md", "at most a tenth of the signal", tolerances.SMALL_REMAINDER, 0.1),
    ("methods/multistart.md", "less than a thousandth of the best cost", tolerances.SAME_OPTIMUM, 1e-3),
    ("methods/prediction_error.md", "where it exceeds 0.3 standard errors", tolerances.ATTENUATION, 0.3),
    ("methods/prediction_error.md", "more exact than the data (1e4 times)", tolerances.CONSTRAINT_WEIGHT, 1e4)]


@pytest.mark.parametrize(("page", "words", "number", "said"), THRESHOLDS)
def test_threshold_of_a_page_is_the_one_that_decides(page, words, number, said):
    assert words in " ".join((ROOT / "docs" / page).read_text(encoding="utf-8").split())
    assert number == said


SHOOTING = {"single_shooting", "multiple_shooting"}
SIMULATED = {*SHOOTING, "least_squares", "automatic"}
TAKEN = [  # page, words in which it says what methods take, the column of the table of capabilities, these methods
    ("choose.md", "`multiple_shooting()`, `least_squares()`, `prediction_error()` | these take them",
     "constraints", {*SIMULATED, "full_discretization", "prediction_error"}),
    ("howto/unknowns.md", "and [prediction error](../methods/prediction_error.md) take them", "constraints",
     {*SIMULATED, "full_discretization", "prediction_error"}),
    ("howto/unknowns.md", "are taken by full discretization alone", "state_bounds", {"full_discretization", "automatic"}),
    ("howto/dead_time.md", "(and `automatic`), `least_squares`. `full_discretization` takes a dead time",
     "dead_times", {*SIMULATED, "full_discretization"}),
    ("howto/algebraic.md", "least squares and `automatic()` take them", "nonlinear_algebraic_variables",
     {*SIMULATED, "full_discretization"}),
    ("howto/hybrid.md", "prediction error and boundary value need one mode", "hybrid_models", {*SIMULATED, "set_membership"}),
    ("howto/noise.md", "`single_shooting()` and the default take it", "noise_formulas", {"single_shooting", "automatic"}),
    ("howto/prepare.md", "takes filtered outputs; the default chooses it", "filtered_outputs", {"least_squares", "automatic"}),
    ("reference/models.md", "Shooting, `least_squares` and `automatic` take such models", "discrete_time", SIMULATED),
    ("explain/noise_places.md", "`boundary_value()` take process noise of states", "process_noise",
     {"kalman", "moving_horizon", "boundary_value", "prediction_error", "automatic"}),
    ("explain/noise_places.md", "`prediction_error()` takes all of it", "input_noise", {"prediction_error", "automatic"})]


@pytest.mark.parametrize(("page", "words", "column", "said"), TAKEN)
def test_a_page_names_the_methods_that_take_it(page, words, column, said):
    assert words in " ".join((ROOT / "docs" / page).read_text(encoding="utf-8").split())
    asked = [name for name in METHODS if name not in ("multistart", "inverse_dynamics")]  # wraps one; is for arms alone
    assert {name for name in asked if getattr(method_from({"kind": name}).capabilities, column) is Support.YES} == said


@pytest.mark.parametrize("name", METHODS)
def test_page_of_a_method_explains_every_option(name):
    page = (ROOT / "docs" / "methods" / f"{ {'moving_horizon': 'kalman'}.get(name, name) }.md").read_text(encoding="utf-8")
    options = [option.name for option in option_rows(type(method_from({"kind": name})))]
    assert [option for option in options if not re.search(rf"`{option}\b|\b{option}=", page)] == []


def test_every_table_can_be_made_and_is_shown_somewhere(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    sys.modules.pop("extensions", None)
    from extensions.registries import PLACE, TABLES

    wanted = {name for page in PAGES for name in PLACE.findall(page.read_text(encoding="utf-8"))}
    assert wanted == set(TABLES)
    assert all(make() for make in TABLES.values())


def test_every_public_name_stands_on_one_page_of_the_reference():
    import dynident as di

    pages = [page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs" / "reference" / "api").glob("*.md"))]
    names = [name for page in pages for line in re.findall(r"^<!-- api: (.+) -->$", page, re.MULTILINE) for name in
             line.split(", ") if "." not in name]
    assert sorted(names) == sorted(di.__all__)


@pytest.mark.slow
def test_manual_builds_without_a_warning(tmp_path):
    build = pytest.importorskip("sphinx.cmd.build")
    pytest.importorskip("myst_parser")
    pytest.importorskip("pydata_sphinx_theme")
    assert build.build_main(["-W", "-q", "-b", "html", "-d", str(tmp_path / "trees"), str(ROOT / "docs"),
                             str(tmp_path / "html")]) == 0
    page = (tmp_path / "html" / "reference" / "tables.html").read_text(encoding="utf-8")
    assert "runge_kutta" in page  # the tables were put in
