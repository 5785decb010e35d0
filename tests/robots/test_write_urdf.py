"""Does a robot that was written to a file move as the estimate says?"""

import tomllib

import numpy as np
import pytest
from robot_makers import random_robot

import dynident as di
from dynident.errors import NotSupported, ProblemError
from dynident.robots.model import RobotModel
from dynident.robots.write_urdf import write_urdf
from robot_records import drive_values, record, torques_of, true_values


def changed(arm, seed=0):
    """Other parameters of possible bodies: each link a mixture of itself and of others."""
    rng = np.random.default_rng(seed)
    links = arm.tree.inertial.reshape(-1, 10)
    mixed = rng.uniform(0.2, 1, (len(links), len(links))) @ links
    return dict(zip(arm.inertial_names, mixed.ravel(), strict=True)) | {n: float(rng.uniform(0.1, 3)) for n in arm.drive_names}


def motion(arm, seed=1):
    return np.random.default_rng(seed).uniform(-1.5, 1.5, (3, arm.dof))


@pytest.mark.parametrize("text", [di.library.six_axis_urdf(), *(random_robot(seed) for seed in range(4))])
def test_the_written_file_has_the_torques_of_the_parameters(text, tmp_path):
    arm = RobotModel(text)
    values = changed(arm)
    again = RobotModel(write_urdf(arm, values, tmp_path / "arm.urdf"))
    expected = np.array(arm.regressor(*motion(arm))) @ [values[n] for n in arm.inertial_names]
    found = np.array(again.regressor(*motion(arm))) @ again.tree.inertial
    assert found == pytest.approx(expected, rel=1e-10, abs=1e-10 * np.max(np.abs(expected)))
    assert again.nominal_values["Fc_1"].start == values["Fc_1"] and again.nominal_values["Fv_2"].start == values["Fv_2"]


@pytest.mark.parametrize("text", [di.library.six_axis_urdf(), random_robot(1, mimic=False)])
def test_pinocchio_reads_the_same_torques_from_the_written_file(text, tmp_path):
    pin = pytest.importorskip("pinocchio", reason="needs Pinocchio: pip install pin")
    arm = RobotModel(text)
    values = changed(arm)
    model = pin.buildModelFromUrdf(str(write_urdf(arm, values, tmp_path / "arm.urdf")))
    q, dq, ddq = motion(arm)
    pq, pv, pa, columns = pin.neutral(model), np.zeros(model.nv), np.zeros(model.nv), []
    for k, name in enumerate(arm.joints):
        it = model.joints[model.getJointId(name)]
        pq[it.idx_q:it.idx_q + it.nq] = (np.cos(q[k]), np.sin(q[k])) if it.nq == 2 else q[k]
        pv[it.idx_v], pa[it.idx_v] = dq[k], ddq[k]
        columns.append(it.idx_v)
    theirs = pin.rnea(model, model.createData(), pq, pv, pa)[columns]
    ours = np.array(arm.regressor(q, dq, ddq)) @ [values[n] for n in arm.inertial_names]
    assert theirs == pytest.approx(ours, rel=1e-8, abs=1e-8 * np.max(np.abs(ours)))


def test_what_urdf_cannot_hold_stands_beside_it(tmp_path):
    arm = RobotModel(di.library.two_link_urdf(), motor_inertia=True, friction=("coulomb", "viscous", "cubic"))
    values = changed(arm)
    beside = tomllib.loads(write_urdf(arm, values, tmp_path / "arm.urdf").with_suffix(".toml").read_text())
    assert beside["joint"]["turn"]["F3_1"] == values["F3_1"] and beside["joint"]["tilt"]["Ia_2"] == values["Ia_2"]
    assert beside["joint"]["turn"]["friction"] == ["coulomb", "viscous", "cubic"]


def test_locked_joints_are_written_as_fixed_ones(tmp_path):
    arm = RobotModel(di.library.six_axis_urdf(), lock=["j5", "j6"])
    assert RobotModel(write_urdf(arm, changed(arm), tmp_path / "arm.urdf")).joints == ("j1", "j2", "j3", "j4")
    bent = RobotModel(di.library.six_axis_urdf(), lock={"j5": 0.3})
    with pytest.raises(NotSupported, match="locked away from zero"):
        write_urdf(bent, changed(bent), tmp_path / "bent.urdf")


def test_a_mass_that_no_body_has_is_refused(tmp_path):
    arm = RobotModel(di.library.two_link_urdf())
    with pytest.raises(ProblemError, match="the mass of link 2 is not positive"):
        write_urdf(arm, changed(arm) | {"m_2": -0.1}, tmp_path / "arm.urdf")


def test_visuals_and_limits_stay(tmp_path):
    text = di.library.two_link_urdf().replace('<link name="base"/>', '<link name="base"><visual><box/></visual></link>')
    arm = RobotModel(text)
    written = write_urdf(arm, changed(arm), tmp_path / "arm.urdf").read_text()
    assert "<visual><box /></visual>" in written and 'effort="60.0"' in written


def torques_along(arm, seed=2):
    """Of the drives, friction and motors included, at ten places."""
    q, dq, ddq = np.random.default_rng(seed).uniform(-1.5, 1.5, (3, 10, arm.dof))
    return torques_of(arm, {name: it.start for name, it in arm.nominal_values.items()}, q, dq, ddq)


@pytest.fixture(scope="module")
def identified():
    arm = RobotModel(di.library.two_link_urdf(), motor_inertia=True, friction=("coulomb", "viscous", "offset", "cubic"),
                     gravity=(0, 0, 9.81), sign_velocity=0.02)
    return arm, di.identify(di.Problem(arm, [record(arm, true_values(arm), noise=0.01)]), di.inverse_dynamics())


def test_an_identified_arm_is_a_model_that_predicts_the_torques_of_any_motion(identified):
    arm, estimate = identified
    found, truth = RobotModel.from_identified(estimate), arm.with_values(true_values(arm))
    error = torques_along(found) - torques_along(truth)
    assert np.max(np.abs(error)) < 0.02 * np.max(np.abs(torques_along(truth)))
    assert np.max(np.abs(torques_along(arm) - torques_along(truth))) > 0.2 * np.max(np.abs(torques_along(truth)))


def test_files_of_an_identified_arm_come_back_whole(identified, tmp_path):
    """Friction laws, motors, gravity and the width of the sign too: what URDF alone does not hold."""
    pytest.importorskip("clarabel", reason="a fitted mass need not be positive without Clarabel")
    _, estimate = identified
    found = RobotModel.from_identified(estimate)
    again = RobotModel.from_identified(estimate.to_urdf(tmp_path / "identified.urdf"))
    assert (again.friction, again.gravity, again.sign_velocity) == (found.friction, found.gravity, 0.02)
    assert torques_along(again) == pytest.approx(torques_along(found), rel=1e-9, abs=1e-9)
    assert torques_along(RobotModel(tmp_path / "identified.urdf")) != pytest.approx(torques_along(found), rel=0.1)


def test_files_written_twice_are_the_same(identified, tmp_path):
    arm = RobotModel(di.library.six_axis_urdf(), friction={"j2": ["load", "coulomb"]}, motor_inertia=True, lock=["j6"])
    first = arm.with_values(drive_values(arm)).to_urdf(tmp_path / "first.urdf")
    again = RobotModel.from_identified(first)
    assert again.friction == arm.friction and again.joints == arm.joints
    second = again.to_urdf(tmp_path / "second.urdf")
    assert second.with_suffix(".toml").read_text() == first.with_suffix(".toml").read_text()
    third = RobotModel.from_identified(second)
    assert torques_along(third) == pytest.approx(torques_along(arm.with_values(drive_values(arm))), rel=1e-10, abs=1e-10)


def test_an_arm_fitted_by_its_forward_dynamics_is_a_model_and_a_file(tmp_path):
    arm = RobotModel(di.library.two_link_urdf(), sign_velocity=0.1)
    time = np.arange(0, 2, 0.01)
    torque = {"tau1": 4 * np.sin(2 * time), "tau2": -6 * np.cos(1.5 * time)}
    start = dict.fromkeys(arm.states, 0.0)
    truth = {name: it.start for name, it in arm.nominal_values.items()} | {"Fv_1": 2.0, "Fv_2": 1.0}
    moved = di.simulate(arm, truth | {f"{name}(0)": 0.0 for name in start}, di.Experiment(time, inputs=torque, name="run"))
    run = di.Experiment(time, inputs=torque, outputs=moved.outputs, initial=start,
                        noise=dict.fromkeys(arm.outputs, di.Gaussian(1e-3)))
    estimate = di.identify(di.Problem(arm, [run], [di.Parameter("Fv_1", 1.0), di.Parameter("Fv_2", 0.5)]),
                           di.multiple_shooting(), progress=False)
    with pytest.raises(NotSupported, match=r"from_identified\(estimate, arm\)\.to_urdf"):
        estimate.to_urdf(tmp_path / "forward.urdf")
    again = RobotModel.from_identified(RobotModel.from_identified(estimate, arm).to_urdf(tmp_path / "forward.urdf"))
    assert again.nominal_values["Fv_2"].start == estimate.values["Fv_2"] == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize(("old", "new", "said"), [
    ('[joint."tilt"]', '[joint."tild"]', "joint 'tild' does not move in arm.urdf.*'tilt' moves in arm.urdf and is missing"),
    ("gravity", "gravitation", "'gravitation' is not what to_urdf writes"),
    ("Fc_1 = 0.0", "Fc_1 = 'much'", "joint 'turn': Fc_1 = 'much' is no number"),
    ("Fc_1", "Fx_1", "there is no parameter 'Fx_1'"),
    ('"viscous"', '"viscose"', "friction 'viscose' is not known"),
    ("[joint", "[[joint", "arm.toml cannot be read"),
])
def test_a_drive_file_that_does_not_fit_is_refused(old, new, said, tmp_path):
    path = RobotModel(di.library.two_link_urdf()).to_urdf(tmp_path / "arm.urdf")
    beside = path.with_suffix(".toml")
    assert old in beside.read_text()
    beside.write_text(beside.read_text().replace(old, new))
    with pytest.raises(ProblemError, match=f"(?s){said}"):
        RobotModel.from_identified(path)


def test_a_urdf_without_its_drive_file_is_not_taken_for_the_whole(tmp_path):
    path = RobotModel(di.library.two_link_urdf()).to_urdf(tmp_path / "arm.urdf")
    path.with_suffix(".toml").unlink()
    with pytest.raises(ProblemError, match=r"arm.toml does not exist.*RobotModel\(path\)"):
        RobotModel.from_identified(path)


@pytest.mark.parametrize("given", [3, None, di.library])
def test_what_is_no_identified_arm_is_refused(given):
    with pytest.raises(ProblemError, match="from_identified takes an estimate"):
        RobotModel.from_identified(given)
