"""Does a controller's log become the right joints in the right units, and are mistakes noticed?"""

import numpy as np
import pytest

import dynident as di
from dynident.errors import ProblemError

ARM = di.RobotModel(di.library.two_link_urdf())
T = np.linspace(0, 4, 201)
LOG = {"t": T, "q1": np.sin(T), "q2": 0.5 * np.cos(2 * T), "dq1": np.cos(T), "dq2": -np.sin(2 * T), "tau1": T, "tau2": -T}


def written(tmp_path, columns):
    file = tmp_path / "log.csv"
    np.savetxt(file, np.column_stack(list(columns.values())), delimiter=",", header=",".join(columns), comments="")
    return file


def test_columns_are_found_by_number(tmp_path):
    run = di.read_robot(written(tmp_path, LOG), ARM)
    assert list(run.inputs) == ["tau1", "tau2"] and list(run.outputs) == ["q1", "q2", "dq1", "dq2"]
    assert run.outputs["q2"] == pytest.approx(LOG["q2"])


def test_columns_are_found_by_the_joints_names_in_any_order(tmp_path):
    log = {"time": T, "tilt": LOG["q2"], "turn": LOG["q1"], "tilt_effort": LOG["tau2"], "turn_effort": LOG["tau1"]}
    run = di.read_robot(written(tmp_path, log), ARM)
    assert run.outputs["q1"] == pytest.approx(LOG["q1"]) and run.inputs["tau2"] == pytest.approx(LOG["tau2"])


def test_commanded_positions_are_inputs_beside_the_torques(tmp_path):
    log = LOG | {"q1_cmd": 2 * LOG["q1"], "asked": 3 * LOG["q2"]}
    named = {"q2_command": "asked"}
    run = di.read_robot(written(tmp_path, log), ARM, columns=named)
    assert set(run.inputs) == {"tau1", "tau2", "q1_command", "q2_command"}
    assert run.inputs["q2_command"] == pytest.approx(3 * LOG["q2"])
    degrees = {k: v if k in ("t", "tau1", "tau2") else np.rad2deg(v) for k, v in log.items()}
    again = di.read_robot(written(tmp_path, degrees), ARM, columns=named, degrees=True)
    assert again.inputs["q1_command"] == pytest.approx(2 * LOG["q1"])


def test_currents_become_torques_by_gains(tmp_path):
    log = {k: v for k, v in LOG.items() if not k.startswith("tau")} | {"i1": T, "i2": -T}
    file = written(tmp_path, log)
    assert di.read_robot(file, ARM, gains={"turn": 10, "tilt": 4}).inputs["tau2"] == pytest.approx(-4 * T)
    with pytest.raises(ProblemError, match=r"holds motor currents .* and no torques. Give the drive gains in N m/A"):
        di.read_robot(file, ARM)


@pytest.mark.parametrize(("gains", "said"), [
    ([1, 2, 3], "one number for each of the 2 joints"), (10, "one number for each"), (["a", "b"], "one number for each"),
    ([10, 0], "not zero"), ({"turn": 10}, "one number for each"), ({"turn": 10, "elbow": 4}, "there is no joint 'elbow'")])
def test_gains_that_make_no_torques_are_refused(tmp_path, gains, said):
    log = {k: v for k, v in LOG.items() if not k.startswith("tau")} | {"i1": T, "i2": -T}
    with pytest.raises(ProblemError, match=said):
        di.read_robot(written(tmp_path, log), ARM, gains=gains)


def test_degrees_betray_themselves(tmp_path):
    log = LOG | {k: np.rad2deg(LOG[k]) for k in ("q1", "q2", "dq1", "dq2")}
    file = written(tmp_path, log)
    with pytest.raises(ProblemError, match=r"these look like degrees\. Say degrees=True"):
        di.read_robot(file, ARM)
    assert di.read_robot(file, ARM, degrees=True).outputs["dq2"] == pytest.approx(LOG["dq2"])


@pytest.mark.parametrize(("factors", "said"), [
    ({"dq1": 57.3, "dq2": 57.3}, "dq1, dq2 are each about 57 times .* velocities look like degrees per second"),
    ({"q1": 5.73, "dq1": 0.1}, "dq1 is about 1/57 of .* positions look like degrees"),
    ({"dq2": 1e-3}, "dq2 is about 0.001 times .* the time is not in seconds"),
    ({"dq2": -1.0}, "dq2 is the derivative of its position with the other sign")])
def test_velocities_that_are_no_derivatives_are_noticed(tmp_path, factors, said):
    with pytest.raises(ProblemError, match=said):
        di.read_robot(written(tmp_path, LOG | {name: factor * LOG[name] for name, factor in factors.items()}), ARM)


def test_noisy_velocities_are_no_mistake(tmp_path):
    noise = np.random.default_rng(0).normal(0, 0.3, (2, T.size))
    log = LOG | {"dq1": LOG["dq1"] + noise[0], "q1": LOG["q1"] + 1e-3 * noise[1], "q2": 0 * T, "dq2": 0 * T}
    assert list(di.read_robot(written(tmp_path, log), ARM).outputs) == ["q1", "q2", "dq1", "dq2"]


def test_degrees_betray_themselves_without_limits_in_the_file(tmp_path):
    import re

    free = di.RobotModel(re.sub("<limit[^>]*>", "", di.library.two_link_urdf()))
    log = LOG | {k: np.rad2deg(LOG[k]) for k in ("q1", "q2", "dq1", "dq2")}
    with pytest.raises(ProblemError, match=r"no arm turns its joints by more than 12.6: these look like degrees"):
        di.read_robot(written(tmp_path, log), free)


def test_a_position_beyond_its_limit_asks_for_the_order(tmp_path):
    with pytest.raises(ProblemError, match="Is the order of the columns that of the arm"):
        di.read_robot(written(tmp_path, LOG | {"q2": 1000 * LOG["q2"]}), ARM)


def test_velocities_of_other_joints_are_noticed(tmp_path):
    with pytest.raises(ProblemError, match="dq1 is the derivative of q2, not of q1"):
        di.read_robot(written(tmp_path, LOG | {"dq1": LOG["dq2"], "dq2": LOG["dq1"]}), ARM)


@pytest.mark.parametrize(("lost", "said"), [("q2", r"position of joint 2 \(tilt\)"), ("tau2", "no torque of joint 2"),
                                            ("t", "say which is time")])
def test_what_is_missing_is_named(tmp_path, lost, said):
    with pytest.raises(ProblemError, match=said):
        di.read_robot(written(tmp_path, {k: v for k, v in LOG.items() if k != lost}), ARM)


def test_a_column_can_be_named(tmp_path):
    log = {k if k != "q2" else "angle of the arm": v for k, v in LOG.items()}
    run = di.read_robot(written(tmp_path, log), ARM, columns={"q2": "angle of the arm"})
    assert run.outputs["q2"] == pytest.approx(LOG["q2"])
