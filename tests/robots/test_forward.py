"""Does an arm go through the methods that simulate, and do both ways agree?"""

import importlib
from dataclasses import replace

import casadi as ca
import numpy as np
import pytest

import dynident as di
from dynident.errors import NotSupported
from dynident.methods.direct import MultipleShooting
from dynident.robots.model import RobotModel
from dynident.robots.singular_inertia import unresisted_joint
from dynident.verbs.simulated_arm import dependent_parameters, simulated_arm
from robot_records import record, true_values

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


def forward_place(arm: RobotModel) -> tuple[list[float], list[float], list[float]]:
    """Some positions and velocities, accelerations, and the torques that these ask for."""
    rng = np.random.default_rng(3)
    q, dq, ddq = rng.normal(size=(3, arm.dof))
    values = {name: it.start for name, it in arm.nominal_values.items()}
    torque = arm.torques(*(ca.SX(v) for v in (q, dq, ddq)), values)
    return [*q, *dq], list(ddq), np.asarray(ca.evalf(torque)).ravel().tolist()


@pytest.mark.parametrize("friction", [("coulomb", "viscous"), ("coulomb", "viscous", "load")])
@pytest.mark.parametrize("urdf", [di.library.two_link_urdf, di.library.six_axis_urdf])
def test_forward_dynamics_undo_inverse_dynamics(urdf, friction):
    arm = RobotModel(urdf(), friction=friction, motor_inertia=True)
    arm = arm.with_values(dict.fromkeys(arm.drive_names, 0.1))
    x, ddq, torque = forward_place(arm)
    model = arm.forward(["Fc_1"])
    assert model.algebraic_system is None or model.algebraic_system.affine == ("load" not in friction)
    assert np.allclose(np.asarray(model.rate(0, x, torque, [0.1])).ravel()[arm.dof:], ddq, rtol=1e-9, atol=1e-9)


def test_six_joints_are_fitted_by_shooting_with_algebraic_accelerations():
    arm = RobotModel(di.library.six_axis_urdf(), sign_velocity=0.5)
    arm = arm.with_values(dict.fromkeys(arm.drive_names, 1.0))
    time, rng = np.arange(0, 1, 0.01), np.random.default_rng(1)
    truth = {name: it.start for name, it in arm.nominal_values.items()}
    weight = np.asarray(arm.equations.algebraic_system.residual(
        0, np.zeros(12), np.zeros(6), np.zeros(6), list(truth.values()))).ravel()
    torque = {f"tau{k + 1}": weight[k] + 5 * np.sin((2 + k) * time) for k in range(6)}
    start = {f"{state}(0)": 0.0 for state in arm.states}
    moved = di.simulate(arm, truth | start, di.Experiment(time, inputs=torque, hold="linear", name="run"))
    seen = {name: y + rng.normal(0, 1e-4, y.size) for name, y in moved.outputs.items()}
    run = di.Experiment(time, inputs=torque, outputs=seen, initial=dict.fromkeys(arm.states, 0.0), hold="linear", name="run")
    free = [di.Parameter(name, start=2 * truth[name]) for name in ("Fv_1", "Fc_4", "hx_3", "Iyy_2")]
    estimate = di.identify(di.Problem(arm, [run], free), di.multiple_shooting(), progress=False)
    for p in free:
        low, high = estimate.uncertainty.interval(p.name, 0.999)
        assert low <= truth[p.name] <= high


def test_parameters_that_torques_tell_in_sums_only_rest(run):
    """All free: the sums that change nothing are no unknowns of the search, and the sums that do are those of the truth."""
    start = {name: 1.2 * value if name[0] == "F" else value for name, value in TRUTH.items()} | {"Izz_2": 0.02}
    free = [di.Parameter(name, start=start[name]) for name in ARM.parameters]
    found = di.identify(di.Problem(ARM, [run], free), di.multiple_shooting(), progress=False)
    inverse = di.identify(di.Problem(ARM, [run]), di.inverse_dynamics(consistent=False))
    fixed = [name for name in ARM.parameters if name not in found.problem.names]
    assert set(fixed) == set(ARM.parameters) - {b.name for b in inverse.base}
    begun = {p.name: p.start for p in found.problem.parameters}
    assert all(found.values[name] == begun[name] for name in fixed)
    assert all(begun[name] == start[name] for name in ("Fc_1", "Fv_2", "Izz_2"))  # stated, unlike the file's others
    assert "torques tell these only in sums" in found.notes[1] and "Izz_2" in found.notes[1]
    for b in inverse.base:
        truth = sum(c * TRUTH[n] for n, c in b.coefficients.items())
        low, high = found.uncertainty.interval(b.name, 0.999)
        shift = sum(c * begun[n] for n, c in b.coefficients.items() if n != b.name)
        assert low + shift <= truth <= high + shift


def test_where_only_the_file_gives_a_start_the_search_begins_at_inverse_dynamics(run):
    """Friction and motors that the file does not know; what was stated, bounded away or given to the arm stays."""
    arm = RobotModel(ARM.urdf, motor_inertia=True, sign_velocity=0.1, values={"Fv_1": 1.5})
    inverse = di.identify(di.Problem(arm, [run], [di.Parameter(n, free=n != "Fv_1") for n in ("Fc_1", "Fv_1", "Fc_2", "Fv_2")]),
                          di.inverse_dynamics())
    given = [di.Parameter("Fc_1"), di.Parameter("Fv_1"), di.Parameter("Fc_2", upper=1e-3), di.Parameter("Fv_2")]
    problem, notes = simulated_arm(di.Problem(arm, [run], given))
    starts = {p.name: p.start for p in problem.parameters}
    assert starts == {"Fc_1": inverse.values["Fc_1"], "Fv_1": 1.5, "Fc_2": 0.0, "Fv_2": inverse.values["Fv_2"]}
    assert "2 of 4 parameters" in notes[0] and "inverse_dynamics()" in notes[0]


def test_simulations_leave_the_command_of_a_record_alone(run):
    told = replace(run, inputs={**run.inputs, "q1_command": run.outputs["q1"], "q2_command": run.outputs["q2"]})
    free = [di.Parameter("Fv_1", 1.5), di.Parameter("Fv_2", 1.5)]
    posed, plain = (simulated_arm(di.Problem(ARM, [it], free))[0] for it in (told, run))
    assert posed.content_hash() == plain.content_hash()
    with pytest.raises(di.ProblemError, match="'q3_command' is not an input"):
        di.Problem(ARM, [replace(run, inputs={**run.inputs, "q3_command": run.outputs["q1"]})], free)


def test_where_inverse_dynamics_find_no_start_it_is_said_why(run):
    short = run.rows(np.arange(run.samples) < 20)
    problem, notes = simulated_arm(di.Problem(RobotModel(ARM.urdf, motor_inertia=True), [short], [di.Parameter("Fv_1")]))
    assert [p.start for p in problem.parameters] == [0.0]
    assert "20 samples are too few" in notes[0] and notes[0].startswith("The start values are those of the robot's file")


def test_without_possible_bodies_only_drives_are_begun(run, monkeypatch):
    """Without Clarabel the links that torques give may be impossible, and their motion cannot be simulated."""
    monkeypatch.setattr(importlib.import_module("dynident.inverse_dynamics.consistency"), "impossible_links", lambda *_: (2,))
    arm = RobotModel(ARM.urdf, sign_velocity=0.1)
    problem, _ = simulated_arm(di.Problem(arm, [run], [di.Parameter(name) for name in arm.parameters]))
    starts = {p.name: p.start for p in problem.parameters}
    assert all(starts[name] == it.start for name, it in arm.nominal_values.items() if name in arm.inertial_names)
    assert starts["Fv_1"] == pytest.approx(TRUTH["Fv_1"], rel=0.2)


def test_bounded_parameters_do_not_rest(run):
    bounded = [di.Parameter(name, start=TRUTH[name], lower=0.0, upper=10.0) for name in ("Izz_1", "Izz_2")]
    free = [*bounded, *(di.Parameter(name, start=TRUTH[name]) for name in ARM.parameters if name not in ("Izz_1", "Izz_2"))]
    problem = di.Problem(ARM, [run], free)
    assert "Izz_2" not in dependent_parameters(problem, ARM)


POINT = """<robot name="point"><link name="base"/><link name="arm"><inertial><origin xyz="0 0 0.5"/><mass value="2"/>
<inertia ixx="0.1" iyy="0.1" izz="0.05"/></inertial></link><link name="hand"><inertial><origin xyz="{at}"/><mass value="1"/>
<inertia ixx="0" iyy="0" izz="0"/></inertial></link>
<joint name="shoulder" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/></joint>
<joint name="wrist" type="revolute"><parent link="arm"/><child link="hand"/><origin xyz="0 0 1"/><axis xyz="0 1 0"/></joint>
</robot>"""


def test_a_joint_that_nothing_resists_is_named_where_it_is_simulated_or_fitted_by_simulation():
    """A hand that is a point on the axis of its joint."""
    arm, time = RobotModel(POINT.format(at="0 0 0"), motor_inertia=True), np.arange(0, 3, 0.01)
    values = {name: it.start for name, it in arm.nominal_values.items()}
    torque = {"tau1": np.sin(time), "tau2": 0 * time}
    rest = dict.fromkeys([f"{state}(0)" for state in arm.states], 0.1)
    with pytest.raises(di.ProblemError, match=r"joint 2 \('wrist'\): .* Give link 'hand' .* Ia_2"):
        di.simulate(arm, values | rest, di.Experiment(time, inputs=torque))
    moved = di.simulate(arm, values | rest | {"Ia_2": 0.1, "Fv_1": 1.0}, di.Experiment(time, inputs=torque))
    noise = np.random.default_rng(0)
    seen = {name: y + noise.normal(0, 1e-3, y.size) for name, y in moved.outputs.items()}
    run = di.Experiment(time, inputs=torque, outputs=seen)
    with pytest.raises(di.ProblemError, match=r"joint 2 \('wrist'\).*These are the start values"):
        di.identify(di.Problem(arm, [run], [di.Parameter("Fv_1", 0.5)]), di.multiple_shooting())
    found = di.identify(di.Problem(arm, [run], [di.Parameter("Fv_1", 0.5), di.Parameter("Ia_2", 0.1, free=False)]),
                        di.multiple_shooting(), progress=False)
    assert found.values["Fv_1"] == pytest.approx(1.0, rel=0.01)


def test_where_only_one_position_is_singular_it_is_given():
    """Two massless links that carry a point, stretched out."""
    urdf = POINT.format(at="0 0 1").replace('mass value="2"', 'mass value="0"').replace("0.1", "0").replace("0.05", "0")
    arm = RobotModel(urdf)
    values = {name: it.start for name, it in arm.nominal_values.items()}
    assert unresisted_joint(arm, values, np.array([[0.3, 1.0]])) == ""
    assert "at q = 0.3, 0:" in unresisted_joint(arm, values, np.array([[0.3, 0.0], [0.3, 1.0]]))
    assert unresisted_joint(ARM, TRUTH, np.zeros((1, 2))) == ""


@pytest.mark.parametrize("axis", ["0 0 1", "0.1 0.2 0.3", "0.13 0.27 0.31", "0.077 0.2 0.111"])
def test_a_point_on_an_axis_is_found_whatever_rounding_leaves_of_its_inertia(axis):
    """Its inertia about an oblique axis is not zero but some 1e-17 of its own, of either sign."""
    urdf = POINT.format(at=axis).replace('1"/><axis xyz="0 1 0"/>', f'1"/><axis xyz="{axis}"/>')
    arm = RobotModel(urdf)
    assert "joint 2 ('wrist')" in unresisted_joint(arm, {n: it.start for n, it in arm.nominal_values.items()}, np.zeros((1, 2)))


def test_check_says_where_an_arm_is_checked(run):
    with pytest.raises(NotSupported, match=r"says itself what the torques tell"):
        di.check(di.Problem(ARM, [run]))


def test_the_record_of_an_unstable_arm_is_cut_before_a_fit_is_tried(monkeypatch):
    """A whole record through which differences between states grow beyond all digits is not tried first."""
    arm = ARM.with_values({"Fc_1": 0.0, "Fc_2": 0.0, "Fv_1": 0.0, "Fv_2": 0.0})
    run = record(arm, true_values(arm) | {"Fv_1": 0.2, "Fv_2": 0.2, "Fc_1": 0.0, "Fc_2": 0.0}, duration=30.0, rate=50.0)
    run = replace(run, noise=dict.fromkeys(arm.outputs, di.Gaussian(1e-3)))
    tried = []
    identify = MultipleShooting.identify
    monkeypatch.setattr(MultipleShooting, "identify", lambda self, problem, *rest: tried.append(problem) or identify(
        self, problem, *rest))
    found = di.identify(di.Problem(arm, [run], [di.Parameter("Fv_1", 0.5), di.Parameter("Fv_2", 0.5)]), di.multiple_shooting(),
                        progress=False)
    assert len(tried) == 1 and len(tried[0].experiments) > 1 and "unstable along it" in found.notes[0]
    assert [found.values["Fv_1"], found.values["Fv_2"]] == pytest.approx([0.2, 0.2], rel=0.05)


def test_a_parameter_that_starts_next_to_nothing_has_the_size_of_its_kind(run):
    """From a motor inertia of 1e-7 every end was a thousand starts away, and was looked for at infinity with a second solve."""
    arm = RobotModel(ARM.urdf, motor_inertia=True, sign_velocity=0.1)
    given = [di.Parameter("Ia_1", 1e-7), di.Parameter("Ia_2", 0.2), di.Parameter("Fv_1", 1.0, scale=3.0)]
    by_name = {p.name: p for p in simulated_arm(di.Problem(arm, [run], given))[0].parameters}
    assert [by_name[name].scale for name in ("Ia_1", "Ia_2", "Fv_1")] == [pytest.approx(0.002), None, 3.0]
