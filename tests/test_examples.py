"""Every example runs, and ends with the number that it promises."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "examples"


@pytest.fixture
def example(monkeypatch, tmp_path, capsys):
    """Run an example in an empty folder; gives its variables and what it printed."""

    def run(name: str, *arguments: str):
        source = Path(sys.modules["dynident"].__file__).parents[1]
        monkeypatch.setenv("PYTHONPATH", str(source))  # for examples that start the command line
        monkeypatch.chdir(tmp_path)
        (path,) = FOLDER.glob(f"{name}*.py")
        monkeypatch.setattr(sys, "argv", [str(path), *arguments])
        variables = runpy.run_path(str(path), run_name="__main__")
        return variables, capsys.readouterr().out

    import dynident  # noqa: F401  the package whose folder is handed on

    return run


def holds(estimate, truth, names):
    """Which of the intervals hold the truth, at 99.9 %: a seed is not a coverage test."""
    inside = []
    for name in names:
        low, high = estimate.uncertainty.interval(name, 0.999)
        inside.append(low <= truth[name] <= high)
    return inside


def test_first_fit_finds_the_truth(example):
    known, said = example("01")
    assert known["estimate"].converged
    assert all(holds(known["estimate"], known["truth"], known["truth"]))
    assert "the truth is 95" in said.splitlines()[-1]


def test_other_record_is_predicted_down_to_its_noise(example, tmp_path):
    known, said = example("02")
    assert all(test.passed for test in known["validation"].tests)
    assert known["again"].values == known["estimate"].values
    assert (tmp_path / "validated_axis" / "results" / "report.html").is_file()
    assert "99.95 %" in said.splitlines()[-1]


def test_two_experiments_share_what_is_shared(example):
    known, _ = example("03")
    estimate = known["estimate"]
    truth = {"m": 1.5, "k": 20.0, "d[cold]": 1.0, "d[warm]": 0.6}
    assert all(holds(estimate, truth, truth))
    assert "d" not in estimate.values


def test_what_the_data_cannot_tell_is_named_before_and_after_the_fit(example):
    known, said = example("04")
    assert not known["found"].ok
    assert "only m1 + m2 is determined" in str(known["found"])
    both_free = known["both_free"]
    assert both_free.values["m1"] + both_free.values["m2"] == pytest.approx(6.0, abs=0.02)
    assert "unidentifiable" in str(both_free)
    assert all(holds(known["weighed"], known["truth"], ["m1", "m2", "d"]))
    assert "the truth is 6" in said


def test_robust_loss_finds_noise_and_damping_among_wild_samples(example):
    known, _ = example("05")
    assert known["robust"].noise_std["angle"] == pytest.approx(0.01, rel=0.2)
    assert known["squares"].noise_std["angle"] > 0.05  # the wild samples are taken for noise
    assert all(holds(known["robust"], known["truth"], ["p", "d"]))
    assert known["error"]["the robust loss"] < known["error"]["least squares"]


@pytest.mark.compiled
def test_real_servo_reaches_the_best_known_error(example):
    beside = FOLDER.parent / ".." / "shared" / "data" / "emps" / "DATA_EMPS.csv"
    if not beside.is_file():
        with pytest.raises(SystemExit) as left:
            example("06")
        assert not left.value.code  # says so and ends well
        return
    known, _ = example("06")
    assert 1e3 * known["rmse"] == pytest.approx(2.419, abs=1e-3)  # the published digits
    published = {"M": 95.47, "Fv": 215.4, "Fc": 19.33, "offset": -3.285}
    assert {name: known["estimate"].values[name] for name in published} == pytest.approx(published, rel=1e-3)


def test_only_methods_that_start_from_the_measurements_find_the_pendulum(example):
    known, said = example("07")
    found = known["comparison"]
    assert found["single_shooting"].statistics["reduced_chi2"] > 1000
    for name in ("multiple_shooting", "full_discretization"):
        assert found[name].converged
        assert all(holds(found[name], known["truth"], ["p"]))
    assert "NOT agree" in said


def test_problem_file_gives_the_same_from_the_shell(example, tmp_path):
    known, _ = example("08")
    assert known["saved"]["converged"]
    assert known["low"] < 0.004 < known["high"]
    assert (tmp_path / "cooling" / "results" / "report.html").is_file()


def test_delta_robot_finds_table_1_through_its_fmu(example):
    pytest.importorskip("fmpy", reason="FMUs need FMPy: pip install dynident[fmu]")
    from dynident.codegen import compiler

    if compiler.compiler() is None:
        pytest.skip("the export of the robot needs a C compiler")
    known, said = example("13")
    truth = {name: value for name, (_, value) in known["TABLE_1"].items()}
    assert all(holds(known["estimate"], truth, truth))
    assert "Gear efficiency" in said


@pytest.mark.slow
def test_every_method_finds_the_robot_and_the_combinations_are_named(example, tmp_path):
    known, said = example("09", "--starts", "1", "--out", str(tmp_path))
    assert all(v[0] < 1.05 * known["best"] for v in (known["by_nodes"][100], known["full"]))
    assert {"robot_fits.png", "robot_objectives.png", "robot_densities.png"} <= {p.name for p in tmp_path.iterdir()}
    assert "give the same outputs" in said


@pytest.mark.slow
def test_real_double_pendulum_is_followed_and_predicted(example):
    if not (FOLDER.parent / ".." / "shared" / "data" / "double_pendulum").is_dir():
        pytest.skip("the records of the double pendulum are not beside the project")
    known, _ = example("10")
    estimate = known["estimate"]
    assert estimate.converged
    assert all(estimate.statistics[f"fit_{name}"] > 90 for name in known["pendulum"].outputs)
    assert all(np.median([v.fit[name] for v in known["validations"]]) > 75 for name in known["pendulum"].outputs)


@pytest.mark.slow
def test_narrower_smoothing_comes_closer_to_a_model_that_sticks(example):
    known, said = example("14")
    found = known["found"]
    assert all(holds(found[None], known["truth"], known["truth"]))
    misses = [found[width].statistics["reduced_chi2"] for width in (2e-3, 5e-4, 1e-4)]
    assert misses == sorted(misses, reverse=True)
    assert misses[-1] > 1.1 > found[None].statistics["reduced_chi2"]
    assert "the truth is 28" in said.splitlines()[-1]


@pytest.mark.compiled
def test_drive_train_keeps_the_truth(example):
    variables, printed = example("12_drive_train", "--short")
    assert variables["kept"] and "inside: True" in printed


@pytest.mark.compiled
def test_planned_records_are_as_sharp_as_predicted_and_find_the_friction(example):
    known, said = example("15")
    assert known["history"][-1] <= known["WANTED"] < known["history"][0]
    assert all(holds(known["estimate"], known["truth"], known["truth"]))
    assert "were achieved" in said and "NOT achieved" not in said


def test_fleet_shows_the_axis_with_too_much_friction(example):
    known, said = example("19")
    assert {s.machine for s in known["result"].outliers if not s.record} == {"axis06"}
    assert known["result"].good
    shared = known["result"].shared
    assert abs(shared.values[0] - 200) < 4 * shared.std("Fv")
    assert "the truth is 32" in said.splitlines()[-1]


def test_default_design_is_sharper_than_the_selective_cost_on_the_drive_train(example):
    known, said = example("16")
    assert known["gain"] > 1.3  # a prototype found 1.5 for this order
    assert known["chosen"].width_after["beta"] > 0.9 * known["tracking"].width_after["beta"]
    assert "times smaller than tracking alone" in " ".join(said.split())


@pytest.mark.compiled
def test_designed_inputs_are_compared_by_what_they_prove(example, tmp_path):
    known, said = example("20", "--short")
    assert known["kept"] and (tmp_path / "fig9.png").is_file()
    assert all(e.method.max_boxes == 40 and e.method.subdivisions == 50 for e in known["estimates"].values())
    assert "holds the truth: True" in said.splitlines()[-1]


@pytest.mark.compiled
def test_flexible_rotor_is_found_from_the_starts_of_the_thesis(example, tmp_path):
    known, said = example("18")
    assert (tmp_path / "rotor_residues.png").is_file()
    for study in known["studies"](False):
        for (number, solver), estimate in known["results"][study.name].items():
            if solver == "smoother":  # the other solvers are shown for comparison
                assert estimate.converged, (study.name, number)
                for name, truth in study.truth.items():  # a hundredth of the model's own weights' freedom and of the grid
                    assert abs(estimate.values[name] / truth - 1) < 0.05, (study.name, name)
    assert "converged from 6 of 6 starts" in said.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.compiled
def test_flexible_rotor_is_found_from_every_start_of_the_thesis(example):
    known, said = example("18", "--full")
    assert "converged from 15 of 15 starts" in said.splitlines()[-1]
    davidenko = [known["results"]["one mass (Table 7.1)"][number, "davidenko"] for number in "123"]
    for estimate, printed in zip(davidenko, (23, 38, 64), strict=True):  # Table 7.1
        assert estimate.converged and estimate.counts["iterations"] <= 1.1 * printed


def test_robot_arm_is_identified_and_predicts_another_motion(example, tmp_path):
    known, said = example("21", "--short")
    assert np.mean(known["inside"]) >= 0.8  # of 95 % intervals from one record, whose errors are shared
    assert min(known["validation"].fit.values()) > 95
    assert all(e.rms < e.rms_nominal for e in known["estimate"].robot.errors[:4])
    assert (tmp_path / "excitation.csv").is_file() and "intervals hold the truth" in said.splitlines()[-1]


def test_current_driven_axis_is_right_as_stated_and_wrong_by_output_error(example):
    known, said = example("22")
    assert known["inside"]["as stated"] >= 10 and known["inside"]["output error"] <= 8  # of 12
    assert all(e.criterion == "errors in variables" for e in known["fits"]["as stated"])
    assert all(abs(e.values["Fv"] / 5e-4 - 1) < 0.3 for e in known["fits"]["as stated"])
    assert said.splitlines()[-1].startswith("intervals hold the truth")
