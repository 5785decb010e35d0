"""Claims: where the verdict withholds intervals, no sentence speaks of what they promise, and none is printed elsewhere."""

from dataclasses import replace

import numpy as np
import pytest

import dynident as di
from dynident.statistics.verdict import Grade

TIME = np.linspace(0, 5, 200)
INPUT = np.sign(np.sin(2 * TIME) + 0.4 * np.sin(5.3 * TIME))


@pytest.fixture(scope="module")
def wrong() -> di.Estimate:
    """A lag of first order on the record of one of second order: what is left is slow, so there are corrected intervals."""
    true = di.EquationModel(states={"v": "(w - v)/0.4", "w": "(u - w)/0.1"}, inputs=["u"], outputs={"v": "v"})
    run = di.simulate(true, {"v(0)": 0.0, "w(0)": 0.0}, di.Experiment(TIME, {"u": INPUT}))
    noise = np.random.default_rng(3).normal(0, 0.01, 200)
    record = di.Experiment(TIME, {"u": INPUT}, {"v": run.outputs["v"] + noise}, initial={"v": 0.0})
    lag = di.EquationModel(states={"v": "(u - v)/T"}, inputs=["u"], outputs={"v": "v"})
    return di.identify(di.Problem(lag, [record], [di.Parameter("T", 0.8)]), "single_shooting", progress=False)


def test_the_terminal_says_why_no_interval_is_printed(wrong):
    assert wrong.verdict.grade is Grade.ROUGH
    words = " ".join(str(wrong).split())
    assert "Intervals are withheld: they would hold for a right model" in words
    assert "In repeated experiments" not in words and "corrected intervals are printed" not in words


def test_the_page_prints_no_interval_in_another_section(wrong, tmp_path):
    di.report.html(wrong, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    low, high = wrong.uncertainty.interval("T")
    half = f"{(high - low) / 2:.1g}"
    meant = page.split('id="meaning"', 1)[1].split("</section>", 1)[0]
    assert "withheld" in meant and "In repeated experiments" not in page and half not in meant and "±" not in meant


def test_what_a_wrong_model_leaves_over_is_not_called_noise(wrong, tmp_path):
    """The page said of a C: "94.3 %, the noise allows 94.3 %"."""
    validation = wrong.validate(wrong.problem.experiments[0].with_name("other"))
    assert not validation.attainable and "noise allows" not in str(validation)
    di.report.html(wrong, tmp_path / "page.html")
    assert "noise allows" not in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "rms of the residuals, maybe not of noise alone" in " ".join(str(wrong).split())


def test_few_samples_that_stick_out_are_a_reason_for_a_large_chi_square():
    time = np.linspace(0, 5, 200)
    values = np.exp(-time) + np.random.default_rng(1).normal(0, 0.02, 200)
    values[::40] += 0.5
    record = di.Experiment(time, outputs={"x": values}, noise={"x": di.Gaussian(0.02)}, initial={"x": 1.0})
    estimate = di.identify(di.Problem(di.EquationModel(states={"x": "-k*x"}), [record], [di.Parameter("k", 1.5)]),
                           "single_shooting", progress=False)
    (note,) = (note for note in estimate.notes if "chi-square" in note)
    assert note.endswith("the model is wrong, or single samples stick out.")


def test_the_notebook_marks_a_bad_verdict_by_a_sign_and_promises_no_interval(wrong):
    shown = wrong._repr_html_()
    assert "[!] C</strong>" in shown and "Intervals are withheld" in shown and "In repeated experiments" not in shown
    other = wrong.validate(wrong.problem.experiments[0].with_name("other"))
    assert f"<b>other</b>, not fitted: {other.verdict.sentence}" in replace(wrong, validations=(other,))._repr_html_()


def test_the_notebook_sets_no_alarm_over_a_good_verdict():
    record = di.Experiment(TIME, outputs={"x": np.exp(-TIME) + np.random.default_rng(1).normal(0, 0.02, 200)})
    decay = di.Problem(di.EquationModel(states={"x": "-k*x"}), [record], [di.Parameter("k", 1.5)])
    assert "[!]" not in di.identify(decay, "single_shooting", progress=False)._repr_html_()
