"""The embedded example: its records come from the truth they claim, and the toolkit finds that truth again."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dynident.cli import main
from dynident.demo import FILES, copy_to, make_records
from dynident.io.problem_file.read import read_problem
from dynident.io.results.result_folder import load


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The folder after `dynident demo`."""
    folder = tmp_path_factory.mktemp("somewhere") / "demo"
    with pytest.raises(SystemExit) as left:
        main(["demo", "--out", str(folder)])
    assert left.value.code == 0
    return folder


def test_shipped_records_are_those_the_script_makes(tmp_path):
    for name, reference, seed in (("slide.csv", make_records.to_and_fro, make_records.SEED),
                                  ("slide_validation.csv", make_records.mixed_sines, make_records.VALIDATION_SEED)):
        made = make_records.record(reference, seed)
        shipped = np.loadtxt(make_records.Path(make_records.__file__).parent / name, delimiter=",", skiprows=1)
        one_count_and_its_effect = np.array([1e-9, 3e-3, 1.1e-5, 1e-5])  # where another machine rounds differently
        assert np.all(np.abs(made - shipped) < one_count_and_its_effect)


def test_noise_of_the_records_is_what_the_problem_file_says():
    rounding = make_records.ENCODER_COUNT / np.sqrt(12)
    assert np.hypot(make_records.ENCODER_JITTER, rounding) == pytest.approx(2.02e-5, rel=2e-3)
    assert make_records.TACHOMETER_STD == 2e-3


def test_problem_file_states_the_truth_and_starts_far_from_it(tmp_path):
    problem = read_problem(copy_to(tmp_path)[0]).problem
    text = (tmp_path / "servo.toml").read_text()
    for parameter in problem.parameters:
        truth = make_records.TRUTH[parameter.name]
        assert f"{parameter.name} = {truth:g} " in text
        assert abs(parameter.start - truth) > 0.4 * abs(truth)


def test_demo_finds_the_truth_within_its_own_intervals(demo):
    estimate = load(demo / "results")
    assert estimate.converged
    for name, truth in make_records.TRUTH.items():
        low, high = estimate.uncertainty.interval(name, level=0.9999)  # four intervals, one draw
        assert low < truth < high, f"{name}: {truth} is not in [{low}, {high}]"
        assert high - low < 0.2 * abs(truth), f"{name} is hardly determined"


def test_demo_validates_on_the_record_it_did_not_fit(demo):
    problem = read_problem(demo / "servo.toml")
    assert [record.name for record in problem.validation] == ["sines"]
    assert "sines" not in [e.name for e in problem.problem.experiments]
    (validation,) = load(demo / "results").validations
    assert validation.fit["position"] > 99 and validation.fit["velocity"] > 90


def test_demo_leaves_a_page_that_opens_offline_and_says_what_to_do_next(demo, capsys):
    page = (demo / "results" / "report.html").read_text()
    assert "<html" in page and 'src="http' not in page and "sines" in page
    assert json.loads((demo / "results" / "estimate.json").read_text())["converged"] is True


def test_copying_keeps_what_the_user_edited(tmp_path):
    copy_to(tmp_path)
    (tmp_path / "servo.toml").write_text("edited")
    copies = copy_to(tmp_path)
    assert (tmp_path / "servo.toml").read_text() == "edited"
    assert [copy.name for copy in copies] == list(FILES)
