"""Claims about what a reader sees first, and beside which number: what the page was once found to lack."""

import re
from dataclasses import replace

import drawings
import numpy as np
import pytest
import sample
from scipy.stats import chi2

import dynident as di
import dynident.report as report
from dynident.estimate.estimate import Iteration
from dynident.report.estimate_charts import convergence_chart
from dynident.report.result_table import percent
from dynident.report.sections.residuals import residuals_section
from dynident.report.sections.result import correlation, interpretation, result
from dynident.statistics.verdict import Cause, Grade, Verdict


def words(page: object) -> str:
    text = re.sub(r"<(script|style)\b.*?</\1>", " ", str(page), flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", text).split())


def judged(grade: Grade, made, validation: Grade | None = None):
    """The estimate with a verdict of our choice on itself and, if one is named, on another record."""
    check = () if validation is None else (replace(sample.checked(), verdict=Verdict(validation, "said of it.")),)
    made = replace(made, validations=check)
    made.__dict__["verdict"] = Verdict(grade, "said of the fit.", Cause.NONE)
    return made


def determined(made):
    """All unknowns have an interval."""
    return replace(made, uncertainty=replace(made.uncertainty, unidentifiable=(), active={}))


def strip(made, folder) -> tuple[str, str]:
    """Colour and words of the verdict."""
    page = report.html(made, folder / "page.html").read_text(encoding="utf-8")
    found = re.search(r'<div class="verdict (\w+)".*?</div>', page, re.DOTALL)
    return found[1], words(found[0])


@pytest.mark.parametrize(("fit", "other", "colour"), [
    (Grade.NOISE, None, "green"), (Grade.NOISE, Grade.NOISE, "green"), (Grade.NOISE, Grade.NOT, "red"),
    (Grade.ROUGH, Grade.NOISE, "orange"), (Grade.NOT, None, "red"), (Grade.UNJUDGED, None, "grey")])
def test_the_strip_is_as_red_as_the_worst_of_its_lines(fit, other, colour, tmp_path):
    found, said = strip(judged(fit, determined(sample.estimate()), other), tmp_path)
    assert found == colour
    assert (f"{other} run 5 , not fitted: said of it." in said) if other else "No other record was predicted" in said


def test_unknowns_that_are_not_determined_are_named_in_the_strip_which_is_not_green(tmp_path):
    colour, said = strip(judged(Grade.NOISE, sample.estimate()), tmp_path)
    assert colour == "amber"
    assert "Not determined by these data: offset (1 of 5 unknowns)." in said


def test_a_band_is_explained_only_where_one_is_drawn(tmp_path):
    for made in (sample.estimate(), sample.estimate(noise_std={})):
        text = report.html(made, tmp_path / "page.html").read_text(encoding="utf-8")
        bands = [c for panel in drawings.charts(text)[0].panels for c in panel.curves if c.classes[0] == "band"]
        assert bool(bands) == ("Shaded: where 95 % of the residuals belong" in words(text)) == bool(made.noise_std)


def test_the_measured_curve_is_wide_and_below_the_model(tmp_path):
    page = report.html(sample.estimate(samples=2000), tmp_path / "page.html").read_text(encoding="utf-8")
    first, second = drawings.charts(page)[0].panels[0].curves
    assert (first.name, second.name) == ("measured", "fitted")
    assert "wide" in first.classes and "thin" in second.classes


def searched(*steps: float, iterations: int):
    history = tuple(Iteration(n, 1e3 / (n + 1), step, 0.0, (1.0,) * 5) for n, step in enumerate(steps))
    return replace(sample.estimate(), history=history, counts={"iterations": iterations})


def test_convergence_counts_as_the_status_does_and_marks_where_the_search_began_again():
    chart = convergence_chart(searched(0.0, 1.0, 0.5, 0.0, 0.2, 0.0, 0.1, iterations=4))
    assert chart.breaks == (2.0, 3.0)
    cost = chart.panels[0].curves[0]
    assert np.nanmax(cost.x) == 4.0
    assert np.isnan(cost.y).sum() == 2  # the line is broken where it begins again


def test_entries_that_do_not_account_for_the_iterations_are_numbered_as_they_come():
    chart = convergence_chart(searched(0.0, 0.0, 0.0, iterations=2))
    assert chart.breaks == () and chart.panels[0].curves[0].x.tolist() == [0.0, 1.0, 2.0]


def test_no_two_curves_of_a_panel_look_alike():
    made = sample.estimate(experiments=6)
    for panel in convergence_chart(made).panels:
        looks = [(curve.color, curve.dashed) for curve in panel.curves]
        assert len(set(looks)) == len(looks)


def test_a_fit_has_what_the_noise_allows_beside_it_and_chi_square_its_band():
    said = words(result(sample.estimate()))
    assert re.search(r"fit of velocity 91\.7 % the noise allows 9\d\.\d %", said)
    low, high = (chi2.ppf(share, 794) / 794 for share in (0.005, 0.995))
    assert f"reduced chi-square 1.03 99 % band {low:.3g} to {high:.3g}" in said


def test_chi_square_of_estimated_noise_is_called_one_by_construction():
    made = sample.estimate()
    free = [replace(e, noise={name: type(noise)() for name, noise in e.noise.items()}) for e in made.problem.experiments]
    assert "1 by construction" in words(result(replace(made, problem=replace(made.problem, experiments=tuple(free)))))


def test_each_unknown_has_its_relative_error_start_and_place_between_bounds():
    page = str(result(sample.estimate()))
    said = words(page)
    assert re.search(r"M 49\.87 ± 0\.50 kg ± 1(\.0)? % 50 1 to 500", said)  # half of the interval over the value
    assert 'aria-label="49.87 between 1 and 500"' in page
    assert "Held fixed: gain = 35.15 N/V, v(0) = 0 m/s." in said


def test_small_quantities_have_a_prefix_of_their_unit():
    said = words(residuals_section(sample.estimate()))
    assert re.search(r"400 measured values, mean -?[\d.]+ µm, std 1(\.\d+)? mm,|std 99\d µm,|std 9\d\d µm,", said)


def test_intervals_of_both_kinds_stand_side_by_side_only_where_they_differ():
    made = sample.estimate()
    assert "errors independent" in words(interpretation(made))
    same = replace(made.uncertainty, corrected=made.uncertainty.matrix, std_if_released={})
    assert "the intervals are the same" in words(interpretation(replace(made, uncertainty=same)))


def test_where_predictions_were_judged_the_page_shows_them_and_says_so(tmp_path):
    ahead = {k: {"position": 99.0 - k / 10, "velocity": 99.0} for k in (1, 10)}
    simulated = replace(sample.checked(), ahead=ahead)
    for validation in (simulated, replace(simulated, predicted=True)):
        page = words(report.html(sample.estimate(), tmp_path / "page.html", [validation]).read_text(encoding="utf-8"))
        assert ("Graded and drawn are predictions from sample to sample" in page) == validation.predicted
        assert (f"98.0 % over 10 samples ({percent(validation.fit['position'])} simulated)" in page) == validation.predicted


def test_heading_date_and_command_say_what_this_page_is(tmp_path):
    page = report.html(sample.estimate(), tmp_path / "page.html", name="servo", command="dynident fit servo.toml")
    text = page.read_text(encoding="utf-8")
    assert "<h1>servo</h1>" in text and "<title>servo</title>" in text
    assert re.search(r"Written \d{4}-\d\d-\d\d \d\d:\d\d", text)
    assert '<code>dynident fit servo.toml</code><button type="button" class="copy">' in text


def test_correlation_is_a_triangle_without_its_diagonal():
    page = str(correlation(sample.estimate()))
    rows = [row.count("<td") for row in re.findall(r"<tr><th scope=\"row\">.*?</tr>", page, re.DOTALL)]
    assert rows == [1, 2, 3, 4] and "1.00" not in words(page)


def test_of_many_unknowns_the_most_correlated_are_shown():
    said = words(correlation(sample.estimate(experiments=40)))
    assert "Of 44 unknowns the 24 with the largest correlations are shown." in said


def test_residuals_are_correlated_with_the_input():
    charts = drawings.charts(str(residuals_section(sample.estimate())))
    assert sum("with the input u" in chart.described for chart in charts) == 2  # one per output


def test_the_run_and_the_tests_of_residuals_are_folded(tmp_path):
    page = report.html(sample.estimate(), tmp_path / "page.html", [sample.checked()]).read_text(encoding="utf-8")
    folded = " ".join(re.findall(r"<details>.*?</details>", page, re.DOTALL))
    assert "problem hash" in folded and 'class="tests"' in folded
    assert 'class="graded"' not in folded and 'class="result"' not in folded


def test_a_long_verdict_is_read_in_paragraphs():
    from dynident.report.html_report import paragraphs

    said = "Describes the record roughly: rms 0.19. That is q of b. Two routes ended here. To go on: fit each alone."
    assert paragraphs(said) == ["Describes the record roughly: rms 0.19.", "That is q of b. Two routes ended here.",
                                "To go on: fit each alone."]
    assert paragraphs("Cannot be judged.") == ["Cannot be judged."]


def test_no_percentage_is_printed_of_a_value_that_may_be_zero(tmp_path):
    """A first state of -0.0005 with an interval of 0.0008 was "± 158 %"."""
    time = np.linspace(0, 5, 101)
    record = di.Experiment(time, outputs={"y": 2 * time + 0.01 * np.random.default_rng(0).standard_normal(101)})
    line = di.EquationModel(states={}, inputs=[], outputs={"y": "a*t + b"}, parameters=["a", "b"])
    estimate = di.identify(di.Problem(line, [record], [di.Parameter("a", 1.0), di.Parameter("b", 0.0)]), progress=False)
    low, high = estimate.uncertainty.interval("b")
    assert low < 0 < high
    page = di.report.html(estimate, tmp_path / "page.html").read_text(encoding="utf-8")
    assert len(re.findall(r"± [\d.]+ %", page.split('id="result"')[1].split("</table>")[0])) == 1
