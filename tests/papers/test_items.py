"""Claims about the items of the papers: all are found, computed as recorded, written whole, and shown on a page."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name

import pytest
from matplotlib.figure import Figure

from dynident.cli import main
from dynident.codegen.compiler import compiler
from dynident.errors import ProblemError
from dynident.papers import registry, run_item
from dynident.papers.misprints import MISPRINTS
from dynident.papers.outcome import Agreement, compared, not_reproduced
from dynident.papers.page import markdown
from dynident.papers.registry import ITEMS, PAPERS, Item

ROOT = Path(__file__).parents[2]
IN_A_SECOND = ["direct/table-1", "direct/table-2", "intervals/automaton", "intervals/measurements", "fmi/eq-7a",
               "thesis/table-7.1", "thesis/fig-7.4", "thesis/practical", "filter/table-3-operations", "filter/fig-4"]
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
ROOM = 0.25  # of a number: iterations and errors differ between processors, claims do not


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(["papers", *arguments])
    return left.value.code


def assert_as_recorded(item: Item) -> None:
    """The same agreement, and in what it says of ours the same words with numbers that are close; its figure can be drawn."""
    outcome, _ = run_item.compute(item, quick=True)
    if outcome.draw is not None:
        outcome.draw(Figure())
    kept = run_item.recorded()[item.id]
    assert outcome.agreement is kept.agreement, outcome.line
    assert outcome.theirs == kept.theirs
    assert NUMBER.sub("#", outcome.ours) == NUMBER.sub("#", kept.ours), outcome.ours
    for ours, then in zip(NUMBER.findall(outcome.ours), NUMBER.findall(kept.ours), strict=True):
        assert abs(float(ours) - float(then)) <= ROOM * max(abs(float(then)), 1e-3), outcome.ours


def test_every_item_has_one_id_and_stands_where_the_registry_says():
    assert len({item.id for item in ITEMS}) == len(ITEMS)
    assert all(item.paper in PAPERS and callable(resolve_name(item.place)) for item in ITEMS)


WANTED = {
    "direct": "table-1 fig-4 table-2 fig-2 fig-3 fig-3-causes redundancy real-robot schemes multistep",
    "intervals": "automaton simulation fig-6 criterion-19 fig-7 fig-8 fig-9 why-19 measurements",
    "fmi": "fig-1 eq-7a table-1 figs-4-6 covariance another-tool",
    "thesis": "eq-3.13 shooting damped-newton mixed-euler estimates fig-6.2 linear-test table-6.1 table-7.1 fig-7.3 fig-7.4 "
              "table-7.3 table-7.5 table-7.6 table-7.7 table-7.8 practical",
    "filter": "table-1 schemes table-2-operations table-3-operations fig-4 table-2-errors fig-5 eq-32 claims free-claims"}


def test_every_table_figure_and_algorithm_of_the_papers_has_its_item():
    assert {f"{paper}/{slug}" for paper, slugs in WANTED.items() for slug in slugs.split()} == {item.id for item in ITEMS}


def test_the_record_has_every_item():
    assert set(run_item.recorded()) == {item.id for item in ITEMS}


def test_quick_forms_were_quick_when_they_were_recorded():
    kept = run_item.recorded()
    assert {name: own.cpu_seconds for name, own in kept.items() if own.cpu_seconds >= 20} == {}
    assert sum(own.cpu_seconds for own in kept.values()) < 600


def test_full_forms_of_the_record_are_of_the_items_as_they_are_and_come_to_the_same_verdict_or_say_so():
    quick, full = run_item.recorded(), run_item.recorded("full")
    page = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    assert len(full) >= 30
    for name, own in full.items():
        assert own.theirs == quick[name].theirs
        if own.agreement is not quick[name].agreement:
            assert f"<br>**Full form**: {own.verdict}" in page


def test_a_full_form_is_shown_where_it_says_something_else_and_only_there():
    quick = run_item.recorded()
    same, other = quick["thesis/table-6.1"], quick["thesis/table-7.1"]
    full = {same.id: replace(same, form="full", cpu_seconds=9.0), other.id: replace(other, form="full", ours="nothing at all")}
    said = markdown(quick, full)
    assert said.count("**Full form**") == 1 and "<br>**Full form**: nothing at all" in said


def test_page_of_the_manual_is_what_the_record_says():
    assert (ROOT / "docs" / "papers.md").read_text(encoding="utf-8") == markdown(run_item.recorded(), run_item.recorded("full"))


def test_what_the_manual_says_of_eq_7a_is_what_its_item_computed():
    said = re.search(r"hold\s+it in (\d+) % of cases", (ROOT / "docs" / "explain" / "intervals.md").read_text(encoding="utf-8"))
    assert f"hold the truth in {said[1]} % of repeats as printed" in run_item.recorded()["fmi/eq-7a"].ours


def test_every_misprint_is_on_the_page_with_its_place():
    page = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    assert len(MISPRINTS) >= 14
    assert {m.paper for m in MISPRINTS} == set(PAPERS)
    assert all(m.place in page and m.meant.replace("|", "\\|") in page for m in MISPRINTS)


@pytest.mark.compiled
@pytest.mark.parametrize("name", IN_A_SECOND)
def test_items_come_out_as_recorded(name):
    assert_as_recorded(run_item.item_named(name))


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("item", [item for item in ITEMS if item.id not in IN_A_SECOND], ids=lambda item: item.id)
def test_all_items_come_out_as_recorded(item):
    if item.id.startswith("fmi/"):
        pytest.importorskip("fmpy", reason="FMUs need FMPy: pip install dynident[fmu]")
        if compiler() is None:
            pytest.skip("the export of an FMU needs a C compiler")
    if item.id == "direct/real-robot" and run_item.compute(item, quick=True)[0].agreement is Agreement.NOT_REPRODUCED:
        pytest.skip("the record of the double pendulum is not here")
    if item.id == "fmi/another-tool":
        pytest.importorskip("pythonfmu", reason="needs pythonfmu")
    assert_as_recorded(item)


def test_run_writes_table_figure_and_line(tmp_path, capsys):
    assert run("run", "direct/table-1", "--quick", "--out", str(tmp_path)) == 0
    assert "direct/table-1: n_x M + n_p variables" in capsys.readouterr().out
    base = tmp_path / "direct"
    assert {path.name for path in base.iterdir()} == {f"table-1.{kind}" for kind in ("csv", "json", "png", "svg")}
    rows = list(csv.reader((base / "table-1.csv").open(encoding="utf-8")))
    assert rows[0][0] == "method" and len(rows) == 5
    assert json.loads((base / "table-1.json").read_text(encoding="utf-8"))["form"] == "quick"


@pytest.fixture
def three_items(monkeypatch):
    """Three toys, of which the second fails as long as `broken` holds something; each notes that it was computed."""
    computed, broken = [], [True]

    def place(name):
        def compute(quick, tell):
            computed.append(name)
            tell("half way")
            if name == "two" and broken:
                raise ProblemError("two is broken.")
            return compared(name == "one", "1", name, "it is not one", ("a",), [(1,)])
        return compute

    items = tuple(Item("direct", name, name, "a toy", "1 s", name) for name in ("one", "two", "three.3"))
    monkeypatch.setattr(registry, "ITEMS", items)
    monkeypatch.setattr(run_item, "resolve_name", place)
    return computed, broken


def test_run_all_goes_on_where_it_was_stopped(three_items, tmp_path, capsys):
    computed, broken = three_items
    assert run("run", "all", "--quick", "--out", str(tmp_path)) == 1
    assert "direct/two: two is broken." in capsys.readouterr().err
    broken.clear()
    assert run("run", "all", "--quick", "--out", str(tmp_path)) == 0
    assert computed == ["one", "two", "three.3", "two"]
    said = capsys.readouterr().out
    assert "direct/one (from the folder): 1 | one | agrees" in said
    assert "direct/three.3 (from the folder): 1 | three.3 | differs because it is not one" in said
    assert run("run", "all", "--out", str(tmp_path)) == 0 and len(computed) == 7  # the full form is another one
    assert run("run", "all", "--again", "--out", str(tmp_path)) == 0 and len(computed) == 10


def test_misspelt_item_is_named_with_its_neighbour(capsys):
    assert run("run", "direct/tabel-1") == 2
    assert "direct/table-1" in capsys.readouterr().err


def test_list_says_of_each_item_what_it_is_and_whether_it_agrees(capsys):
    assert run() == 0
    said = capsys.readouterr().out
    kept = run_item.recorded()
    for item in ITEMS:
        line = next(line for line in said.splitlines() if line.split()[:1] == [item.id])
        assert kept[item.id].agreement in line and item.reproduces in line


def test_page_is_one_file_with_every_item_and_the_figures_that_are_there(tmp_path, capsys):
    assert run("run", "direct/table-1", "--quick", "--out", str(tmp_path)) == 0
    assert run("page", "--out", str(tmp_path), "--markdown", str(tmp_path / "p.md"), "--record", str(tmp_path / "r.csv")) == 0
    page = (tmp_path / "papers.html").read_text(encoding="utf-8")
    assert all(item.id in page for item in ITEMS)
    assert page.count("data:image/svg+xml") == 1 and "http://" not in page.replace("http://www.w3.org", "")
    assert "1 differ, 51 not run" in page and 'href="#direct/table-1"' in page and 'id="direct/table-1"' in page
    assert "the numbers of direct/table-1" in page and "<th>method</th>" in page
    assert all(citation.split(",")[0] in page for _, citation in PAPERS.values())
    assert "not run yet: dynident papers run direct/fig-4" in (tmp_path / "p.md").read_text(encoding="utf-8")
    rows = list(csv.DictReader((tmp_path / "r.csv").open(encoding="utf-8")))
    assert [row["id"] for row in rows if row["form"] == "quick"] == ["direct/table-1"]
    assert {row["id"] for row in rows if row["form"] == "full"} == set(run_item.recorded("full"))  # kept as they were


def test_what_is_not_reproduced_says_why():
    assert not_reproduced("a figure", "the record is lost").line == "a figure | - | not reproduced because the record is lost"
    assert compared(True, "1", "1", "", ("a",), [(1,)], sense="the sign").line == "1 | 1 | agrees: the sign"
    assert compared(False, "1", "2", "2 is not 1", ("a",), [(1,)]).agreement is Agreement.DIFFERS


def test_the_command_line_loads_no_item_before_one_is_asked_for():
    code = ("import sys, dynident.cli\nassert not [n for n in sys.modules if n.startswith('dynident.papers')]\n"
            "import dynident.papers.registry\nassert 'casadi' not in sys.modules and 'matplotlib' not in sys.modules")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
