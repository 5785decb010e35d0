"""Claim: names, units, notes and paths that strangers chose are text on every page, never markup."""

from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

import numpy as np
import pytest
import sample

import dynident as di
import dynident.report as report
from dynident.fleet.outliers import Outlier, RobustCentre
from dynident.fleet.page import write_fleet_page
from dynident.fleet.result import FailedRecord, FleetResult
from dynident.statistics.verdict import Cause, Grade, Verdict

KNOWN = {"html", "head", "meta", "title", "style", "body", "div", "header", "p", "h1", "h2", "h3", "nav", "a", "main",
         "section", "article", "table", "thead", "tbody", "tfoot", "tr", "th", "td", "ul", "li", "dl", "dt", "dd", "small",
         "strong", "b", "br",
         "svg", "path", "line", "circle", "rect", "text", "figure", "span", "button", "details", "summary", "code", "footer",
         "script"}


def planted(place: str) -> str:
    """Markup that closes whatever it may stand in, and carries the name of its place."""
    return f"'\"></title></style></script></svg><img src=x onerror=alert(1)><script>{place}</script>{{{{7*7}}}}"


class Seen(HTMLParser):
    """Tags, attributes and text as a browser reads them."""

    def __init__(self, page: str):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.text = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_data(self, text):
        self.text.append(text)


def only_text(page: str, places: list[str], scripts: int) -> None:
    seen = Seen(page)
    assert set(seen.tags) <= KNOWN, set(seen.tags) - KNOWN  # no img
    assert seen.tags.count("script") == scripts
    assert not [name for name, _ in seen.attributes if name.startswith("on")]
    words = "".join(seen.text) + "".join(value or "" for _, value in seen.attributes)
    for place in places:
        assert f"<script>{place}</script>{{{{7*7}}}}" in words, place  # it is there, as it was given


def named(length: int = 40) -> di.Estimate:
    """An estimate in which everything that has a name, a unit or a sentence has planted ones."""
    made = sample.estimate(experiments=2, samples=length, parameter=planted("parameter"), output=planted("output"))
    experiments = [replace(e, name=planted(f"experiment {k}"), source=planted("path"),
                           units={planted("output"): planted("unit"), "velocity": planted("unit"), "time": planted("time")})
                   for k, e in enumerate(made.problem.experiments)]
    parameters = [replace(p, unit=planted("parameter unit")) for p in made.problem.parameters]
    problem = di.Problem(made.problem.model, experiments, parameters)
    values = dict(zip(problem.names, [*list(made.values.values())[:4], 1e-5, 1e-5], strict=True)) | problem.fixed_values()
    found = np.array([values[name] for name in problem.names])
    uncertainty = replace(sample.covariance(problem, found), reason=planted("reason"), combinations=(planted("combination"),))
    part = Verdict(Grade.SMALL_REMAINDER, planted("sentence"), Cause.STRUCTURE, {}, planted("subject"))
    made = replace(made, problem=problem, values=values, uncertainty=uncertainty, notes=(planted("note"),),
                   status=planted("status"), validations=(validated(),))
    made.__dict__["verdict"] = replace(part, parts=(part, part))  # as if it had been asked for before
    return made


def validated() -> di.Validation:
    part = Verdict(Grade.ROUGH, planted("validation sentence"), Cause.NONE, {}, planted("validation subject"))
    return replace(sample.checked(output=planted("output")), experiment=planted("validated"),
                   notes=(planted("validation note"),), verdict=replace(part, parts=(part,)))


def test_an_estimate_of_strangers_names_is_text(tmp_path):
    page = report.html(named(), tmp_path / "page.html", name=planted("heading"), command=planted("command"))
    only_text(page.read_text(encoding="utf-8"), [
        "parameter", "output", "experiment 0", "unit", "time", "parameter unit", "combination", "note", "status", "sentence",
        "subject", "validation sentence", "validation subject", "validated", "validation note", "heading", "command",
        "path"], 1)


def test_a_comparison_of_strangers_names_is_text(tmp_path):
    page = report.comparison_html({planted("label"): named(), "other": named()}, tmp_path / "page.html")
    only_text(page.read_text(encoding="utf-8"), ["label", "parameter", "parameter unit", "output"], 0)


def test_a_fragment_of_strangers_names_is_text():
    only_text(report.estimate_fragment(named()), ["parameter", "parameter unit", "note", "sentence"], 0)


@pytest.mark.parametrize("dated", [False, True])
def test_a_fleet_of_strangers_names_is_text(tmp_path, dated):
    name, count = planted("parameter"), 20
    values = np.linspace(1.0, 2.0, count)
    times = tuple(datetime(2026, 1, 1 + k, tzinfo=UTC) if dated else float(k) for k in range(count))
    made = FleetResult(
        tmp_path, count + 1, tuple(planted(f"record {k}") for k in range(count)),
        tuple(planted(f"machine {k}") for k in range(count)), times, (name,), {name: planted("unit")}, {name: values},
        {name: np.full(count, 0.01)}, {name: RobustCentre(1.5, 0.1)},
        (Outlier(name, planted("machine 3"), planted("record 3"), 9.0, 0.1, 1.5, 0.1, 40.0),),
        (FailedRecord(planted("lost"), planted("machine of it"), planted("status"), planted("reason")),), None, False,
        (planted("note"),), ("A",) * count)
    page = write_fleet_page(made, tmp_path / "fleet.html").read_text(encoding="utf-8")
    only_text(page, ["parameter", "machine 3", "record 3", "unit", "lost", "reason", "note"], 1)
