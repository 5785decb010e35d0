"""Does a robot that was written to a file move as the estimate says?"""

import tomllib

import numpy as np
import pytest
from robot_makers import random_robot

import dynident as di
from dynident.errors import NotSupported, ProblemError
from dynident.robots.model import RobotModel
from dynident.robots.write_urdf import write_urdf


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
