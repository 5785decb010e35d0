"""Does an arm go through the methods that simulate, and do both ways agree?"""

import numpy as np
import pytest

import dynident as di
from dynident.errors import NotSupported
from dynident.robots.model import RobotModel

ARM = RobotModel(di.library.two_link_urdf(), values={"Fc_1": 1.0, "Fc_2": 0.5, "Fv_1": 2.0, "Fv_2": 1.0}, sign_velocity=0.1)
TRUTH = {name: it.start for name, it in ARM.nominal_values.items()}
TIME = np.arange(0, 4, 0.01)
TORQUE = {"tau1": 4 * np.sin(2 * TIME), "tau2": -6 * np.cos(1.5 * TIME) - 2 * np.sin(3 * TIME)}


@pytest.fixture(scope="module")
def run():
    moved = di.simulate(ARM, TRUTH | {"q1(0)": 0.0, "q2(0)": 2.8, "dq1(0)": 0.0, "dq2(0)": 0.0},
                        di.Experiment(TIME, inputs=TORQUE, name="run"))
    noise = np.random.default_rng(0)
    seen = {name: y + noise.normal(0, 1e-4, y.size) for name, y in moved.outputs.items()}
    return di.Experiment(TIME, inputs=TORQUE, outputs=seen, name="run")


def test_multiple_shooting_takes_an_arm_and_finds_its_friction(run):
    free = [di.Parameter(name, start=1.5 * TRUTH[name]) for name in ("Fc_1", "Fv_1", "Fc_2", "Fv_2")]
    estimate = di.identify(di.Problem(ARM, [run], free), di.multiple_shooting())
    for name in ("Fc_1", "Fv_1", "Fc_2", "Fv_2"):
        low, high = estimate.uncertainty.interval(name, 0.999)
        assert low <= TRUTH[name] <= high
        assert estimate.values[name] == pytest.approx(TRUTH[name], rel=0.05)


def test_without_a_method_an_arm_goes_by_inverse_dynamics(run):
    assert di.identify(di.Problem(ARM, [run])).method.kind == "inverse_dynamics"


def test_inverse_and_forward_agree(run):
    free = [di.Parameter(name, start=TRUTH[name]) for name in ("Fv_1", "Fv_2")]
    forward = di.identify(di.Problem(ARM, [run], free), di.multiple_shooting())
    inverse = di.identify(di.Problem(ARM, [run], free), di.inverse_dynamics(consistent=False, filter=20.0, decimate=1))
    for name in ("Fv_1", "Fv_2"):
        assert inverse.values[name] == pytest.approx(forward.values[name], rel=0.03)


def test_six_joints_are_refused_with_the_way_out():
    with pytest.raises(NotSupported, match="Use inverse_dynamics"):
        RobotModel(di.library.six_axis_urdf()).forward(["Fc_1"])
    with pytest.raises(NotSupported, match="Load-dependent friction"):
        RobotModel(di.library.two_link_urdf(), friction=["load"]).forward(["Fl_1"])


def test_check_says_where_an_arm_is_checked(run):
    with pytest.raises(NotSupported, match=r"says itself what the torques tell"):
        di.check(di.Problem(ARM, [run]))
