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


def test_no_note_or_remark_claims_an_interval_that_is_not_printed(wrong):
    """Notes said "printed intervals are corrected for it", and a remark "interval ends at its lower bound"."""
    words = " ".join(str(wrong).split())
    assert "autocorrelated" in words and "printed intervals are" not in words and "its interval is" not in words
    low, high = wrong.uncertainty.interval("T")
    problem = wrong.problem.replace(parameters=[di.Parameter("T", 0.8, low + 0.2 * (high - low))])
    near = di.identify(problem, "single_shooting", progress=False)
    assert near.uncertainty.remark("T") == "interval ends at its lower bound" and near.to_dict()["T"]["remark"] == "withheld"


def test_a_band_of_chi_square_is_as_wide_as_errors_that_are_alike_leave_it():
    """Slow noise of the given size was called "the given noise std looks 1.17 times too large" by the band of white noise."""
    time, loud = np.linspace(0, 20, 400), 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        slow = rng.standard_normal(400)
        for k in range(1, 400):
            slow[k] = 0.9 * slow[k - 1] + np.sqrt(1 - 0.9**2) * slow[k]
        u = np.sign(np.sin(0.9 * time) + 0.4 * np.sin(2.3 * time))
        model = di.EquationModel(states={"x": "(g*u - x)/T"}, inputs=["u"])
        run = di.simulate(model, {"g": 1.0, "T": 0.5, "x(0)": 0.0}, di.Experiment(time, {"u": u}))
        record = di.Experiment(time, {"u": u}, {"x": run.outputs["x"] + 0.02 * slow}, {"x": di.Gaussian(0.02)},
                               initial={"x": 0.0})
        estimate = di.identify(di.Problem(model, [record], [di.Parameter("g", 1.2), di.Parameter("T", 0.4)]), "single_shooting",
                               progress=False)
        loud += any("chi-square" in note for note in estimate.notes)
    assert loud <= 2  # one in a hundred is expected; 9 of 20 by the band of white noise


def test_the_notebook_marks_a_bad_verdict_by_a_sign_and_promises_no_interval(wrong):
    shown = wrong._repr_html_()
    assert "[!] C</strong>" in shown and "Intervals are withheld" in shown and "In repeated experiments" not in shown
    other = wrong.validate(wrong.problem.experiments[0].with_name("other"))
    assert f"<b>other</b>, not fitted: {other.verdict.sentence}" in replace(wrong, validations=(other,))._repr_html_()


def test_the_notebook_sets_no_alarm_over_a_good_verdict():
    record = di.Experiment(TIME, outputs={"x": np.exp(-TIME) + np.random.default_rng(1).normal(0, 0.02, 200)})
    decay = di.Problem(di.EquationModel(states={"x": "-k*x"}), [record], [di.Parameter("k", 1.5)])
    assert "[!]" not in di.identify(decay, "single_shooting", progress=False)._repr_html_()
