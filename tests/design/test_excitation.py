"""Does a planned motion keep its limits, rest at its ends and tell more than a random one?"""

import numpy as np
import pytest
from scipy.optimize import approx_fprime

import dynident as di
from dynident.design.excitation import _Search, fourier_basis, joint_limits, log_variances, log_volume
from dynident.errors import ProblemError

TWO = di.RobotModel(di.library.two_link_urdf(), motor_inertia=True)


@pytest.mark.parametrize("criterion", [log_volume, log_variances])
def test_the_gradient_is_that_of_the_criterion(criterion):
    search = _Search.of(TWO, 10.0, 3, joint_limits(TWO, {}), {"arm": [(-1, 1), (-1, 1), (-0.1, 0.05)]}, 0.9)
    trials = [search.feasible(search.random(np.random.default_rng(k))) for k in range(5)]
    base = search.base_columns(trials)
    scales = search.column_lengths(trials, base)
    for x in (trials[0], 1.4 * trials[1]):  # the second one leaves its limits
        gradient = search.cost(x, base, scales, 100.0, criterion)[1]
        numeric = approx_fprime(x, lambda z: search.cost(z, base, scales, 100.0, criterion)[0], 1e-7)
        assert gradient == pytest.approx(numeric, abs=1e-5 * np.max(np.abs(gradient)))


def test_the_basis_is_differentiated_and_rests_at_both_ends():
    t = np.linspace(0, 7, 2001)
    q, dq, ddq = fourier_basis(t, 7.0, 4)
    assert np.gradient(q, t, axis=0)[1:-1] == pytest.approx(dq[1:-1], abs=1e-4)
    assert np.gradient(dq, t, axis=0)[1:-1] == pytest.approx(ddq[1:-1], abs=1e-3)
    for signal in (dq, ddq):
        assert signal[[0, -1]] == pytest.approx(np.zeros((2, 7)), abs=1e-9)


def test_limits_hold_between_the_samples_of_the_search():
    plan = di.excitation(TWO, duration=8, harmonics=4, limits={"acceleration": 6.0, "velocity": [1.5, 2.0]})
    q, dq, ddq = plan.motion(np.linspace(0, 8, 20001))
    assert np.all(np.abs(q) <= [3.0, 2.0])
    assert np.all(np.abs(dq) <= [1.5, 2.0]) and np.all(np.abs(ddq) <= 6.0)
    assert plan.notes == ()


def test_a_plan_tells_more_than_random_motions():
    plan = di.excitation(TWO, duration=10, harmonics=3)
    assert plan.log_det > max(plan.random_log_det) + 1
    assert plan.condition < np.median(plan.random_condition)


@pytest.mark.slow
def test_six_joints_stay_in_their_box():
    arm = di.RobotModel(di.library.six_axis_urdf(), motor_inertia=True, offset=True)
    plan = di.excitation(arm, workspace={"flange": [(-1.0, 1.0), (-1.0, 1.0), (0.1, 1.5)]})
    assert plan.log_det > max(plan.random_log_det) + 50 and plan.notes == ()


def test_the_controller_gets_a_table(tmp_path):
    plan = di.excitation(TWO, duration=4, harmonics=2)
    table = np.genfromtxt(plan.to_csv(tmp_path / "plan.csv", rate=50), delimiter=",", names=True)
    assert table["t"][-1] == pytest.approx(4.0) and table["dq2"][0] == pytest.approx(0, abs=1e-12)
    assert table["q1"] == pytest.approx(plan.motion(table["t"])[0][:, 0])


def test_what_the_file_does_not_limit_is_asked_for():
    unlimited = di.RobotModel(di.library.two_link_urdf().replace('velocity="4.0"', ""))
    with pytest.raises(ProblemError, match="gives no velocity limit for turn, tilt"):
        di.excitation(unlimited)
    for bad, said in [({"speed": 1}, "'speed' is none of"), ({"velocity": [1, 2, 3]}, "one per joint")]:
        with pytest.raises(ProblemError, match=said):
            di.excitation(TWO, limits=bad)
    with pytest.raises(ProblemError, match="there is no moving link 'hand'"):
        di.excitation(TWO, workspace={"hand": [(0, 1)] * 3})


def test_other_motions_are_judged_by_the_same_criterion(tmp_path):
    arm = di.RobotModel(di.library.two_link_urdf())
    first = di.excitation(arm, duration=10, harmonics=3)
    t = np.linspace(0, 10, 1001)
    q, dq, _ = first.motion(t)
    lazy = di.Experiment(t, outputs={"q1": 0.1 * q[:, 0], "q2": 0.1 * q[:, 1]}, name="lazy")
    same = di.Experiment(t, outputs={"q1": q[:, 0], "q2": q[:, 1], "dq1": dq[:, 0], "dq2": dq[:, 1]}, name="same")
    plan = di.excitation(arm, duration=10, harmonics=3, compare={"itself": first, "as a record": same, "lazy": lazy})
    assert plan.others["itself"] == pytest.approx((plan.log_det, plan.condition), rel=1e-9)
    assert plan.others["as a record"][0] == pytest.approx(plan.log_det, abs=0.5)
    assert plan.others["lazy"][0] < plan.log_det - 5
    assert "lazy: scaled condition" in str(plan)


def test_what_cannot_be_compared_is_refused():
    arm = di.RobotModel(di.library.two_link_urdf())
    with pytest.raises(di.ProblemError, match="give a record"):
        di.excitation(arm, duration=10, harmonics=2, compare={"x": 3})


def test_a_plan_for_the_condition_has_a_better_one():
    arm = di.RobotModel(di.library.two_link_urdf(), motor_inertia=True)
    volume = di.excitation(arm, duration=10, harmonics=4)
    plan = di.excitation(arm, duration=10, harmonics=4, criterion="condition")
    assert plan.condition < 0.9 * min(volume.condition, *plan.random_condition) and plan.notes == ()
    with pytest.raises(ProblemError, match="'log det' and 'condition'"):
        di.excitation(arm, criterion="volume")
