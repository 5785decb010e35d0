"""What does the shell get from `dynident robot` and `dynident init`?"""

from pathlib import Path

import numpy as np
import pytest

import dynident as di
from dynident.cli import main
from dynident.inverse_dynamics.setup import torque_record
from dynident.report import html
from robot_records import coloured, record, torques_of, true_values

ARM = di.RobotModel(di.library.two_link_urdf(), offset=True, motor_inertia=True)
UR10E = Path(__file__).parents[3] / "shared" / "data" / "ur10e"
GAINS = [14.87, 13.26, 11.13, 10.62, 11.03, 11.47]  # N m/A


def shell(*words):
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    return end.value.code


def csv(path, run):
    columns = {"t": run.time, **run.outputs, **run.inputs}
    np.savetxt(path, np.column_stack(list(columns.values())), delimiter=",", header=",".join(columns), comments="")
    return path


@pytest.fixture
def files(tmp_path):
    (tmp_path / "arm.urdf").write_text(di.library.two_link_urdf())
    csv(tmp_path / "fit.csv", record(ARM, true_values(ARM), noise=0.02))
    csv(tmp_path / "other.csv", record(ARM, true_values(ARM), noise=0.02, motion_seed=3))
    return tmp_path


def test_a_robot_is_identified_from_the_shell(files, capsys):
    words = ("robot", files / "arm.urdf", files / "fit.csv", "--validate", files / "other.csv", "--instruments", "--out",
             files / "out")
    assert shell(*words) == 0
    said = capsys.readouterr().out
    assert "Durbin-Wu-Hausman" in said and "No command was recorded" in said
    assert "other, not fitted: RMS tau1" in said and "while the joint moves" in said
    estimate = di.load(files / "out")
    assert len(estimate.base) > 10 and estimate.validations[0].experiment == "other"


def test_mistakes_are_sentences(files, capsys):
    assert shell("robot", files / "arm.urdf", files / "fit.csv", "--gains", "a,b", "--out", files / "out") == 2
    assert "separated by commas" in capsys.readouterr().err
    assert shell("robot", files / "arm.urdf", files / "fit.csv", "--friction", "coulom", "--out", files / "out") == 2
    assert "Did you mean 'coulomb'" in capsys.readouterr().err


def test_init_writes_a_script_that_runs(files, capsys, monkeypatch):
    monkeypatch.chdir(files)
    assert shell("init", "--urdf", "arm.urdf", "--out", "first.py") == 0
    assert "t, q1, q2, tau1, tau2" in capsys.readouterr().out
    (files / "fit.csv").rename(files / "excitation.csv")
    (files / "other.csv").rename(files / "point_to_point.csv")
    script = (files / "first.py").read_text().replace('friction="auto"', 'friction=["coulomb", "viscous"]')
    if not _has_clarabel():
        script = script.replace('estimate.to_urdf("identified.urdf")', "")  # a fitted mass need not be positive
    exec(compile(script, "first.py", "exec"), {})
    assert shell("init", "--urdf", "arm.urdf", "--out", "first.py") == 2


def _has_clarabel():
    from dynident.inverse_dynamics.consistency import have_clarabel

    return have_clarabel()


def test_the_page_shows_errors_and_base_parameters_in_words(tmp_path):
    estimate = di.identify(di.Problem(ARM, [record(ARM, true_values(ARM), noise=0.02)]), di.inverse_dynamics())
    text = html(estimate, tmp_path / "page.html").read_text()
    assert "Base parameters" in text and estimate.base[0].words in text and "Act on nothing" in text


@pytest.mark.skipif(not UR10E.exists(), reason="needs the UR10e records of the shared data")
def test_ur10e_has_58_base_parameters_and_predicts_its_second_record():
    arm = di.RobotModel(UR10E / "ur10e.urdf", motor_inertia=True, offset=True)
    run, other = (di.read_robot(UR10E / f"{name}.csv", arm, gains=GAINS) for name in ("excitation", "point_to_point"))
    estimate = di.identify(di.Problem(arm, [run]), di.inverse_dynamics())
    assert len(estimate.base) == 58
    by_name = {b.name: b for b in estimate.base}
    assert by_name["hz_3"].words == "hz_3 + 0.571 m_4 + 0.571 m_5 + 0.571 m_6"
    assert by_name["hz_3"].interval[0] < 4.655 < by_name["hz_3"].interval[1]  # what another program found
    validation = estimate.validate(other)
    assert np.all(np.array(list(validation.rmse.values())) < [2.6, 3.7, 1.5, 0.35, 1.3, 1.6])


@pytest.mark.slow
@pytest.mark.skipif(not UR10E.exists(), reason="needs the UR10e records of the shared data")
def test_ur10e_keeps_load_dependent_friction_where_gravity_loads_the_joint():
    arm = di.RobotModel(UR10E / "ur10e.urdf", motor_inertia=True, friction="auto")
    estimate = di.identify(di.Problem(arm, [di.read_robot(UR10E / "excitation.csv", arm, gains=GAINS)]), di.inverse_dynamics())
    laws = di.RobotModel.from_definition(estimate.robot.robot).friction
    assert ["load" in own for own in laws] == [False, True, True, False, False, False]
    validation = estimate.validate(di.read_robot(UR10E / "point_to_point.csv", arm, gains=GAINS))
    assert validation.rmse["tau2"] < 2.6 and validation.rmse["tau3"] < 0.8


@pytest.mark.slow
@pytest.mark.skipif(not UR10E.exists(), reason="needs the UR10e records of the shared data")
def test_ur10e_intervals_hold_the_truth_along_its_own_motion():
    """Torques of the identified arm along the measured motion, with coloured errors of the size that was found."""
    arm = di.RobotModel(UR10E / "ur10e.urdf", motor_inertia=True, offset=True)
    run = di.read_robot(UR10E / "excitation.csv", arm, gains=GAINS)
    found = di.identify(di.Problem(arm, [run]), di.inverse_dynamics())
    truth, motion = found.robot.parameters, torque_record(arm, run, "auto", "auto").motion
    tau = torques_of(arm, truth, motion.q, motion.dq, motion.ddq)
    outputs = {f"{kind}{k + 1}": getattr(motion, kind)[:, k] for kind in ("q", "dq") for k in range(6)}
    hits = []
    for seed in range(8):
        noisy = tau + coloured(tau.shape, 0.98, seed) * list(found.noise_std.values())
        inputs = {f"tau{k + 1}": noisy[:, k] for k in range(6)}
        again = di.Experiment(motion.time, inputs=inputs, outputs=outputs, hold="linear")
        for b in di.identify(di.Problem(arm, [again]), di.inverse_dynamics(consistent=False)).base:
            hits.append(b.interval[0] <= sum(c * truth[name] for name, c in b.coefficients.items()) <= b.interval[1])
    assert np.mean(hits) >= 0.90
