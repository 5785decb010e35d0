"""Guaranteed bounds on the page: bands with the truth, two chosen unknowns, a verdict that does not say 'converged'."""

from importlib.util import find_spec

import numpy as np
import pytest

import dynident as di
from dynident.codegen.compiler import compiler
from dynident.papers.drive_train import RigTruth, drive_train, drive_train_record, driving_cycles

pytestmark = pytest.mark.skipif(compiler() is None and find_spec("ival") is None,
                                reason="proved bounds need a C compiler, or crival")


@pytest.fixture(scope="module")
def rig():
    return drive_train_record(*driving_cycles(0.0, 4.0), RigTruth())


@pytest.fixture(scope="module")
def estimate(rig):
    problem = di.Problem(drive_train(), [rig.experiment], [
        di.Parameter("alpha", -3, -6, 0), di.Parameter("beta", 100, 10, 1000), di.Parameter("T_Fs", 0.1, 0, 0.3)])
    return di.identify(problem, di.set_membership("recursive", max_boxes=12, reset={"T_Fs": "speed"}), progress=False)


def test_bands_show_the_truth_and_the_chosen_paving(estimate, rig, tmp_path):
    page = di.report.html(estimate, tmp_path / "page.html", paving=("beta", "alpha"), truth={
        "alpha": -4.5, "beta": 65.0, "T_Fs": rig.breakaway}).read_text(encoding="utf-8")
    assert "in the plane of beta and alpha" in page and "alpha: truth" in page
    assert "is proved to be impossible" in page and "forward is possible" in page and "boxes" in page
    assert "alpha: truth" not in di.report.html(estimate, tmp_path / "plain.html").read_text(encoding="utf-8")


def test_boxes_at_the_end_survive_saving_and_hold_the_truth(estimate, tmp_path):
    estimate.save(tmp_path / "result")
    last = di.load(tmp_path / "result").uncertainty.last
    assert np.array_equal(last, estimate.uncertainty.last)
    place = [estimate.uncertainty.names.index(name) for name in ("alpha", "beta")]
    assert np.any(np.all((last[0][place] <= [[-4.5], [65.0]]) & (last[1][place] >= [[-4.5], [65.0]]), axis=0))


def test_what_cannot_be_drawn_is_said(estimate, tmp_path):
    with pytest.raises(di.ProblemError, match="Did you mean 'beta'"):
        di.report.html(estimate, tmp_path / "page.html", paving=("betta", "alpha"))
    with pytest.raises(di.ProblemError, match="two unknowns"):
        di.report.html(estimate, tmp_path / "page.html", paving=("beta",))


@pytest.mark.compiled
def test_a_refuted_model_is_not_called_converged(tmp_path):
    time = np.linspace(0, 3, 31)
    model = di.EquationModel(states={"x": "-k*x"})
    run = di.Experiment(time=time, outputs={"x": np.exp(-time) + 0.3 * (time > 1.45)}, noise={"x": di.Bounded(0.02)},
                        initial={"x": 1.0})
    found = di.identify(di.Problem(model, [run], [di.Parameter("k", 1, 0.2, 4)]), di.set_membership(), progress=False)
    assert found.uncertainty.refutation.time == pytest.approx(1.5)
    page = di.report.html(found, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Refuted." in page and "Converged" not in page.split("<h2")[0].split("<body")[1]
    assert str(found).startswith("[D] Does NOT describe the record, and that is proved.") and "\nRefuted." in str(found)
    assert found.verdict.cause == "refuted" and found.verdict.exit_code() == 4
