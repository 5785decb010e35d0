"""Claims: one file, no network, names are text, and a failure cannot be overlooked."""

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import drawings
import numpy as np
import pytest
import sample

import dynident.report as report
from dynident.errors import DynidentError
from dynident.estimate.estimate import Estimate, StartResult
from dynident.report.sections import SECTIONS

EVIL = "</script><script>alert(1)</script>"
MEGABYTE = 1_000_000


class Read(HTMLParser):
    """What a browser would see: tags with attributes, scripts that run, data that does not, text."""

    def __init__(self, page: str):
        super().__init__(convert_charrefs=True)
        self.page, self.tags, self.runs, self.styles, self.text = page, [], [], [], []
        self.order = []  # tags, headings' names and texts as they come
        self._inside = None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.order.append(tag if tag == "h3" else (tag, dict(attributes)))
        self._inside = (tag, dict(attributes)) if tag in ("script", "style") else None

    def handle_endtag(self, tag):
        self._inside = None

    def handle_data(self, text):
        if self._inside is None:
            self.text.append(text)
            self.order.append(text.strip())
        elif self._inside[0] == "style":
            self.styles.append(text)
        else:
            self.runs.append(text)

    @property
    def charts(self) -> list[drawings.DrawnChart]:
        return drawings.charts(self.page)

    @property
    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def page_of(folder, estimate, **options) -> Read:
    return Read(report.html(estimate, folder / "page.html", **options).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return page_of(tmp_path_factory.mktemp("page"), sample.estimate(experiments=2), validations=[sample.checked()])


def test_nothing_is_loaded_from_outside(page):
    for tag, attributes in page.tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form")
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
    assert not re.search(r"url\(|@import|https?://", "".join(page.styles))
    assert set(re.findall(r"https?://[^\s\"']*", "".join(page.runs))) <= {"http://www.w3.org/2000/svg"}  # a name, not a place


def test_the_page_forbids_itself_every_request(page):
    policy = next(a["content"] for tag, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    for kind, contents in (("script-src ", page.runs), ("style-src ", page.styles)):
        hashed = policy.split(kind)[1].split(";")[0].split()
        assert hashed == [f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in contents]
    assert "http" not in policy and "*" not in policy


def test_one_script_comes_along_and_no_element_has_a_handler(page):
    assert len(page.runs) == 1
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|Function\(", page.runs[0])


def test_verdict_validation_plots_and_table_come_in_this_order(page):
    anchors = [attributes.get("id") for tag, attributes in page.tags if tag == "section"]
    assert anchors[:3] == ["validation", "signals", "result"] and anchors[-1] == "run"
    assert page.page.index('class="verdict') < page.page.index('id="validation"')


def test_every_section_has_its_place(page):
    anchors = [attributes.get("id") for tag, attributes in page.tags if tag == "section"]
    assert anchors == [section.anchor for section in SECTIONS if section.anchor in anchors]
    assert {"result", "meaning", "signals", "residuals", "correlation", "problem", "run"} <= set(anchors)


def test_sections_without_content_are_left_out(tmp_path):
    read = page_of(tmp_path, sample.estimate(history=()))
    anchors = [attributes.get("id") for tag, attributes in read.tags if tag == "section"]
    assert "convergence" not in anchors and "validation" not in anchors and "result" in anchors


def test_fitted_and_validated_fits_stand_beside_each_other(page):
    check = sample.checked()
    allowed = f"(the noise allows {check.attainable['position']:.1f} %)"
    assert f"position 98.3 % {check.fit['position']:.1f} % {allowed}" in page.words
    assert all(test.sentence in page.words for test in check.tests)


def test_measured_values_of_a_validation_are_those_of_the_record(page):
    check = sample.checked()
    panel = next(panel for chart in page.charts for panel in chart.panels if "predicted" in panel.legend)
    expected = check.trajectory.outputs["position"] + check.residuals["position"]
    assert np.allclose(panel.named("measured").y, expected, atol=1e-4 * np.ptp(expected))
    assert np.allclose(panel.named("measured").x, check.trajectory.time, atol=1e-4 * np.ptp(check.trajectory.time))


@pytest.mark.parametrize("where", ["parameter", "output"])
def test_a_script_in_a_name_is_shown_as_text(tmp_path, where):
    made = sample.estimate(**{where: EVIL})
    read = page_of(tmp_path, made)
    assert len(read.runs) == 1  # our own, and nothing from a name
    assert EVIL in read.words


def test_a_script_in_notes_status_meaning_and_labels_is_shown_as_text(tmp_path):
    made = sample.estimate(notes=(EVIL,), status=EVIL)
    made = replace(made, uncertainty=replace(made.uncertainty, reason=EVIL, combinations=(EVIL,)))
    assert len(page_of(tmp_path, made).runs) == 1
    assert "<script>" not in report.estimate_fragment(made)
    path = report.comparison_html({EVIL: made, "other": made}, tmp_path / "comparison.html")
    assert Read(path.read_text(encoding="utf-8")).runs == []


def test_failure_is_in_title_banner_and_ribbon(tmp_path):
    read = page_of(tmp_path, sample.not_converged())
    assert read.words.startswith("NOT CONVERGED: run 1")
    assert any(attributes.get("class") == "ribbon" for _, attributes in read.tags)
    assert any(attributes.get("role") == "alert" and "verdict" in attributes.get("class", "").split()
               for _, attributes in read.tags)


def test_success_shows_no_banner_of_failure(page):
    assert "converged" not in page.words.lower().replace("converged.", "", 1)
    assert not any(attributes.get("class") == "ribbon" for _, attributes in page.tags)


def test_a_long_record_is_thinned_with_its_spike_and_the_page_says_so(tmp_path):
    made = sample.estimate(samples=1_000_000)
    residuals = ({name: values.copy() for name, values in made.residuals[0].items()},)
    residuals[0]["position"][777_777] = 12.5
    path = report.html(replace(made, residuals=residuals), tmp_path / "page.html")
    read = Read(path.read_text(encoding="utf-8"))
    assert "of 1,000,000 samples at most 4000 are drawn" in read.words
    panel = next(p for chart in read.charts for p in chart.panels if p.title.startswith("position: measured"))
    assert panel.named("residual").y.max() == pytest.approx(12.5, rel=1e-4)
    assert panel.named("residual").x[np.argmax(panel.named("residual").y)] == pytest.approx(777_777 * 4e-6, abs=1e-3)
    assert path.stat().st_size < MEGABYTE


def test_a_short_record_is_not_called_thinned(page):
    assert "Thinned" not in page.words


def test_many_experiments_stay_a_page_that_can_be_sent(tmp_path):
    path = report.html(sample.estimate(experiments=24, samples=5000), tmp_path / "page.html")
    assert path.stat().st_size < MEGABYTE


def test_of_very_many_experiments_the_worst_are_drawn_and_the_page_says_so(tmp_path):
    made = sample.estimate(experiments=70, samples=500)
    residuals = [dict(each) for each in made.residuals]
    residuals[33]["position"] = 50 * residuals[33]["position"]
    path = report.html(replace(made, residuals=tuple(residuals)), tmp_path / "page.html")
    read = Read(path.read_text(encoding="utf-8"))
    drawn = [chart.described for chart in read.charts if "measured and fitted" in chart.described]
    assert 20 < len(drawn) < 70 and any(text.startswith("run 34:") for text in drawn)
    assert f"Of 70 experiments the {len(drawn)} with the largest residuals are drawn; all were fitted." in read.words
    assert path.stat().st_size < MEGABYTE


def test_a_gap_in_the_record_is_a_gap_in_the_curve(tmp_path):
    made = sample.estimate(samples=2000)
    velocity = made.problem.experiments[0].outputs["velocity"]
    path = page_of(tmp_path, made).charts[0].panels[2].named("measured")
    assert path.d.count("M") == 2 and path.x.size == np.sum(np.isfinite(velocity))


def test_open_interval_carries_no_number_on_the_page(page):
    assert re.search(r"offset 12\.3 unidentifiable N", page.words)


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(DynidentError, match=r"page\.html could not be written"):
        report.html(sample.estimate(), tmp_path / "file" / "page.html")


def test_what_is_not_determined_is_not_called_told_apart(page):
    assert "No two of the unknowns shown are correlated" in page.words
    assert "Left empty: Fc, offset" in page.words


def test_unknowns_that_are_hard_to_tell_apart_are_named(tmp_path):
    made = sample.estimate()
    matrix = made.uncertainty.corrected.copy()
    matrix[0, 1] = matrix[1, 0] = -0.99 * np.sqrt(matrix[0, 0] * matrix[1, 1])
    read = page_of(tmp_path, replace(made, uncertainty=replace(made.uncertainty, corrected=matrix)))
    assert "M and Fv (-0.990)" in read.words


def test_nothing_but_the_page_is_left_in_the_folder(tmp_path):
    report.html(sample.estimate(), tmp_path / "page.html")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_fragment_is_small_and_brings_no_script():
    fragment = report.estimate_fragment(sample.estimate())
    assert type(fragment) is str
    assert len(fragment) < 20_000 and "<script" not in fragment and "<style" not in fragment
    assert sample.estimate()._repr_html_() == fragment


def test_comparison_page_needs_no_script_and_draws_a_bar_per_unknown_and_label(tmp_path):
    estimates = {"single": sample.estimate(), "multiple": sample.shifted(sample.estimate(), "M", 5.0)}
    read = Read(report.comparison_html(estimates, tmp_path / "comparison.html").read_text(encoding="utf-8"))
    assert read.runs == []
    drawn = sum(tag == "circle" for tag, _ in read.tags)  # a value on each bar
    assert drawn == 2 * len(sample.estimate().problem.names)
    assert "do NOT agree on M" in read.words


def test_bars_that_do_not_overlap_are_drawn_apart(tmp_path):
    estimates = {"single": sample.estimate(), "multiple": sample.shifted(sample.estimate(), "M", 5.0)}
    read = Read(report.comparison_html(estimates, tmp_path / "comparison.html").read_text(encoding="utf-8"))
    bars = [a for tag, a in read.tags if tag == "line" and a["class"].startswith("reach")][:2]  # those of M
    assert float(bars[0]["x2"].rstrip("%")) < float(bars[1]["x1"].rstrip("%"))


def test_ends_of_a_scale_are_written_so_that_they_differ(tmp_path):
    one = sample.estimate()
    exact = replace(one, uncertainty=replace(one.uncertainty, matrix=1e-6 * one.uncertainty.matrix,
                                             corrected=1e-6 * one.uncertainty.corrected))
    read = Read(report.comparison_html({"one": exact}, tmp_path / "c.html").read_text(encoding="utf-8"))
    low, high = re.search(r"49\.8731\d* ± \S+ (49\.\d+) (49\.\d+)", read.words).groups()
    assert float(low) < 49.8731 < float(high)


def test_open_bars_reach_both_edges(tmp_path):
    read = Read(report.comparison_html({"one": sample.estimate()}, tmp_path / "c.html").read_text(encoding="utf-8"))
    open_bar = next(a for tag, a in read.tags if tag == "line" and "open" in a["class"])
    assert (open_bar["x1"], open_bar["x2"]) == ("0.0%", "100.0%")


def started(made: Estimate, costs: list[float], reached: int, **more: object) -> Estimate:
    """An estimate from several starts; those above 1000 did not converge, those without an end could not be fitted."""
    starts = tuple(StartResult({}, {}, cost, cost < 1000, "") for cost in costs)
    return replace(made, starts=starts, counts={**made.counts, "reached the best": reached, **more})


def lengths(read: Read, name: str) -> list[float | None]:
    """Bars under a heading of 'What it took', None where there is none."""
    at = next(k for k, both in enumerate(pairwise(read.order)) if both == ("h3", name))
    found: list[float | None] = []
    for item in read.order[at + 2:]:
        if isinstance(item, str):
            if item == "h3":
                break
            continue
        tag, attributes = item
        if tag == "svg":
            found.append(None)
        elif tag == "line" and attributes["class"].startswith("reach"):
            found[-1] = float(attributes["x2"].rstrip("%"))
    return found


@pytest.fixture
def efforts(tmp_path) -> Read:
    one = started(sample.estimate(), [10.0, 10.0, 12.0, 5000.0], 2, variables=3, equalities=0)
    other = started(replace(sample.estimate(), times={"fit": 0.5}), [10.0, 10.0, 10.0, np.inf], 3, variables=30_000)
    estimates = {"few": replace(one, times={"fit": 0.25}), "many": other}
    return Read(report.comparison_html(estimates, tmp_path / "comparison.html").read_text(encoding="utf-8"))


def test_what_it_took_is_drawn_in_proportion(efforts):
    assert lengths(efforts, "time") == [50.0, 100.0]
    assert lengths(efforts, "reached the best") == [50.0, 75.0]  # of four starts, not of the better method
    assert lengths(efforts, "equalities") == [0.0, None]  # nothing is not the same as not known


def test_numbers_far_apart_are_drawn_by_their_logarithms(efforts):
    few, many = lengths(efforts, "variables")
    assert many == 100.0 and few == pytest.approx(100 * np.log(3) / np.log(30_000), abs=0.01)
    assert "variables (logarithmic)" in efforts.words and "time (logarithmic)" not in efforts.words


def test_each_start_is_a_dot_and_those_that_failed_are_hollow(efforts):
    dots = [a for tag, a in efforts.tags if tag == "circle" and "r" in a and a["r"] == "4"]
    assert len(dots) == 7 and sum("hollow" in a["class"] for a in dots) == 1
    heights = [float(a["cy"].rstrip("%")) for a in dots]
    assert heights[0] == heights[1] == heights[4] > heights[2] > heights[3]  # the best at the bottom, on one scale
    assert "2 of 4 reached the best." in efforts.words
    assert "3 of 4 reached the best, 1 could not be fitted at all." in efforts.words


def test_without_several_starts_none_are_drawn(tmp_path):
    read = Read(report.comparison_html({"one": sample.estimate()}, tmp_path / "c.html").read_text(encoding="utf-8"))
    assert "Where the starts ended" not in read.words and "What it took" in read.words


def test_nothing_at_all_has_bars_without_length(tmp_path):
    free = replace(sample.estimate(), cost=0.0, times={})
    read = Read(report.comparison_html({"free": free, "lost": replace(free, cost=np.nan)}, tmp_path / "c.html").read_text(
        encoding="utf-8"))
    assert lengths(read, "cost") == [0.0, None]
