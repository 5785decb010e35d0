"""Does inverse dynamics find what made the torques, and do its intervals keep their promise?"""

import importlib
import re
from dataclasses import replace

import numpy as np
import pytest

import dynident as di
from dynident.errors import NotSupported, ProblemError
from dynident.inverse_dynamics.consistency import impossible_links, pseudo_inertia
from dynident.inverse_dynamics.setup import motion_bandwidth, torque_record, zero_phase
from robot_records import fourier_motion, record, torques_of, true_values

TWO, SIX = di.library.two_link_urdf(), di.library.six_axis_urdf()


def fit(arm, records, **options):
    return di.identify(di.Problem(arm, records), di.inverse_dynamics(**options))


def true_base(estimate, values):
    return np.array([sum(c * values[name] for name, c in b.coefficients.items()) for b in estimate.base])


@pytest.mark.parametrize("text", [TWO, SIX])
@pytest.mark.parametrize("velocities", [True, False])
def test_exact_torques_give_the_base_parameters_that_made_them(text, velocities):
    arm = di.RobotModel(text, motor_inertia=True, offset=True)
    wrong = arm.with_values({name: 1.2 * it.start for name, it in arm.nominal_values.items()})
    estimate = fit(wrong, [record(arm, true_values(arm), rate=200.0, velocities=velocities)], decimate=1, filter=50.0)
    found, expected = np.array([b.value for b in estimate.base]), true_base(estimate, true_values(arm))
    std = np.array([b.std for b in estimate.base])
    assert np.max(np.abs(found - expected) / (np.abs(expected) + np.max(np.abs(expected)))) < 2e-3
    assert np.max(np.abs(found - expected) / std) < 20  # what is left is the filter's error, not noise
    assert max(estimate.noise_std.values()) < 0.05


def test_the_rank_is_that_of_the_motion():
    arm = di.RobotModel(SIX)
    moving, resting = record(arm, true_values(arm)), record(arm, true_values(arm))
    outputs = {name: y if name[-1] != "6" else np.zeros_like(y) for name, y in resting.outputs.items()}
    t, q, dq, ddq = fourier_motion(6)
    for signal in (q, dq, ddq):
        signal[:, 5] = 0
    tau = torques_of(arm, true_values(arm), q, dq, ddq)
    resting = di.Experiment(t, inputs={f"tau{k + 1}": tau[:, k] for k in range(6)}, outputs=outputs, hold="linear",
                            name="joint 6 rests")
    assert len(fit(arm, [resting], consistent=False).base) < len(fit(arm, [moving], consistent=False).base)


def test_base_parameters_explain_the_torques_of_any_parameters_that_share_them():
    """Two sets with equal base parameters have equal torques along any other motion."""
    arm = di.RobotModel(SIX)
    estimate = fit(arm, [record(arm, true_values(arm))], consistent=False)
    motion = fourier_motion(6, seed=9)[1:]
    error = torques_of(arm, estimate.robot.parameters, *motion) - torques_of(arm, true_values(arm), *motion)
    assert np.max(np.abs(error)) < 2e-3 * np.max(np.abs(torques_of(arm, true_values(arm), *motion)))


def test_a_rounded_right_angle_makes_no_parameter_where_there_is_noise():
    """With 1.5708 a motor's inertia differs from its link's by 4e-6 of its column: noise made -1100 +- 12000 kg m^2 of that."""
    link = '<link name="{}"><inertial><origin xyz="0.1 0.02 0.1"/><mass value="2"/><inertia ixx=".02" iyy=".02" izz=".01"/>' \
           '</inertial></link>'
    chain = [("base", "trunk", 0.0), ("trunk", "arm", -1.5708), ("arm", "hand", 1.5708)]
    joints = "".join(f'<joint name="to_{child}" type="revolute"><parent link="{parent}"/><child link="{child}"/>'
                     f'<axis xyz="0 0 1"/><origin xyz="0.05 0 0.3" rpy="{angle} 0 0"/></joint>'
                     for parent, child, angle in chain)
    text = f'<robot name="rounded">{"".join(map(link.format, ("base", "trunk", "arm", "hand")))}{joints}</robot>'
    counts = []
    for written in (text, text.replace("1.5708", repr(np.pi / 2))):
        arm = di.RobotModel(written, motor_inertia=True)
        found = fit(arm, [record(arm, true_values(arm), noise=0.02)], consistent=False)
        assert max(abs(b.value - t) for b, t in zip(found.base, true_base(found, true_values(arm)), strict=True)) < 1.0
        counts.append(len(found.base))
    assert counts[0] == counts[1]


def test_words_say_what_is_gathered():
    arm = di.RobotModel(TWO)
    words = [b.words for b in fit(arm, [record(arm, true_values(arm))]).base]
    assert any("Izz_1" in w and "+" in w for w in words)
    turret = {"m_1", "hx_1", "hy_1", "hz_1", "Ixx_1", "Ixy_1", "Ixz_1", "Iyy_1", "Iyz_1"}
    assert set(arm.without_effect) == {*turret, "m_2"}  # joint 2 sits on the axis of joint 1


def inside(arm, values, repeats, noise, memory, **motion):
    hits = []
    for seed in range(repeats):
        estimate = fit(arm, [record(arm, values, noise=noise, memory=memory, noise_seed=seed, **motion)], consistent=False)
        truth = true_base(estimate, values)
        hits += [b.interval[0] <= true <= b.interval[1] for b, true in zip(estimate.base, truth, strict=True)]
    return np.mean(hits)


def test_intervals_hold_the_truth_under_coloured_noise():
    arm = di.RobotModel(TWO, offset=True)
    assert inside(arm, true_values(arm), 30, 0.05, 0.95) >= 0.90


@pytest.mark.slow
def test_intervals_of_six_joints_hold_the_truth_under_coloured_noise():
    arm = di.RobotModel(SIX, offset=True, motor_inertia=True)
    assert inside(arm, true_values(arm), 20, 0.03, 0.95, duration=30.0) >= 0.90


def test_plain_intervals_would_not():
    """The test above can fail: intervals for independent errors hold the truth far less often."""
    arm, hits = di.RobotModel(TWO, offset=True), []
    values = true_values(arm)
    for seed in range(15):
        estimate = fit(arm, [record(arm, values, noise=0.05, memory=0.98, noise_seed=seed)], consistent=False, decimate=2)
        for b, true in zip(estimate.base, true_base(estimate, values), strict=True):
            hits.append(abs(b.value - true) <= 1.96 * estimate.uncertainty.std(b.name, "plain"))
    assert np.mean(hits) < 0.8


@pytest.fixture(scope="module")
def two_links():
    arm = di.RobotModel(TWO, motor_inertia=True)
    return arm, record(arm, true_values(arm), noise=0.02)


def test_a_held_parameter_stays():
    arm = di.RobotModel(TWO)
    run = record(arm, true_values(arm))
    problem = di.Problem(arm, [run], [di.Parameter("Fc_1", start=5.0, free=False)])
    estimate = di.identify(problem, di.inverse_dynamics(consistent=False))
    assert estimate.values["Fc_1"] == 5.0 and "Fc_1" not in estimate.problem.names


def test_what_is_held_stays_where_values_are_made_possible(two_links):
    """Also where the price is high, and nothing of what is held is said to act on nothing."""
    pytest.importorskip("clarabel", reason="needs Clarabel: pip install dynident[robots]")
    arm, run = two_links
    held = {"Fc_1": 5.0, "hx_2": 0.5}
    estimate = di.identify(di.Problem(arm, [run], [di.Parameter(n, start=v, free=False) for n, v in held.items()]),
                           di.inverse_dynamics())
    assert {name: estimate.robot.parameters[name] for name in held} == held
    assert not impossible_links(arm, estimate.robot.parameters) and estimate.robot.price["tau1"] > 0
    assert not {*held} & {*estimate.robot.without_effect}
    assert "14 free parameters of 16" in estimate.notes[0]


def test_with_a_few_declared_nothing_else_moves(two_links):
    arm, run = two_links
    few = [di.Parameter("Fv_2", start=1.0), di.Parameter("Fc_2")]
    estimate = di.identify(di.Problem(arm, [run], few), di.inverse_dynamics())
    file = {name: it.start for name, it in arm.nominal_values.items()}
    assert {n for n, v in file.items() if estimate.robot.parameters[n] != v} == {"Fv_2", "Fc_2"}
    assert estimate.robot.without_effect == arm.without_effect


def test_what_cannot_be_made_possible_is_said_with_what_is_held(two_links):
    pytest.importorskip("clarabel", reason="needs Clarabel: pip install dynident[robots]")
    arm, run = two_links
    estimate = di.identify(di.Problem(arm, [run], [di.Parameter("Ixx_2", start=-3.0, free=False)]), di.inverse_dynamics())
    assert estimate.robot.parameters["Ixx_2"] == -3.0
    assert any("No physically consistent parameters were found with Ixx_2 held" in note for note in estimate.notes)


def test_strong_friction_is_not_drawn_to_the_zero_of_a_file():
    """A slide loses tens of newtons where a wrist loses tenths of a newton metre; what torques tell of either stands."""
    pytest.importorskip("clarabel", reason="needs Clarabel: pip install dynident[robots]")
    arm = di.RobotModel(TWO)
    run = record(arm, true_values(arm) | {"Fv_2": 600.0, "Fc_2": 250.0}, noise=0.02)
    estimate = fit(arm, [run])
    free = fit(arm, [run], consistent=False)
    for name in arm.drive_names:
        assert abs(estimate.values[name] - free.values[name]) < 0.1 * free.uncertainty.std(name)
    assert max(estimate.robot.price.values()) < 1e-3 * max(e.rms for e in estimate.robot.errors)


def test_declared_parameters_are_the_only_unknowns():
    arm = di.RobotModel(TWO).with_values(true_values(di.RobotModel(TWO)))
    problem = di.Problem(arm, [record(arm, true_values(arm) | {"Fv_2": 3.0})], [di.Parameter("Fv_2", start=1.0)])
    estimate = di.identify(problem, di.inverse_dynamics(consistent=False))
    assert estimate.problem.names == ("Fv_2",) and estimate.values["Fv_2"] == pytest.approx(3.0, rel=1e-3)


def test_weights_per_joint_beat_one_weight_where_joints_differ():
    arm = di.RobotModel(SIX)
    values, errors = true_values(arm), {"joints": [], "none": []}
    for seed in range(5):
        run = record(arm, values, noise=0.02, noise_seed=seed)
        for weighting, found in errors.items():
            estimate = fit(arm, [run], weighting=weighting, consistent=False)
            found += [b.value - t for b, t in zip(estimate.base, true_base(estimate, values), strict=True) if b.name == "Fv_6"]
    assert np.std(errors["joints"]) < np.std(errors["none"])


def test_huber_shrugs_off_spikes():
    arm = di.RobotModel(TWO)
    values = true_values(arm)
    run = record(arm, values, noise=0.01)
    spiky = {name: np.where(np.arange(run.samples) % 97 < 3, u + 60.0, u) for name, u in run.inputs.items()}
    run = di.Experiment(run.time, inputs=spiky, outputs=run.outputs, hold="linear", name="spikes")
    far = {w: np.abs([b.value - t for e in [fit(arm, [run], weighting=w, consistent=False, decimate=1)]
                      for b, t in zip(e.base, true_base(e, values), strict=True)]).max() for w in ("joints", "huber")}
    assert far["huber"] < far["joints"]


def test_load_dependent_friction_is_found_by_iteration():
    arm = di.RobotModel(SIX, friction=("coulomb", "viscous", "load"))
    values = true_values(arm)
    estimate = fit(arm, [record(arm, values, rate=200.0)], decimate=1, filter=50.0, consistent=False)
    assert [estimate.values[f"Fl_{k}"] for k in (1, 2, 3)] == pytest.approx([values[f"Fl_{k}"] for k in (1, 2, 3)], rel=0.05)


def test_auto_friction_keeps_the_law_that_is_there_and_says_what_each_brought():
    truth = di.RobotModel(TWO, friction=("coulomb", "viscous", "cubic"))
    values = true_values(truth) | {"F3_1": 1.5, "F3_2": 0.0}
    runs = [record(truth, values, noise=0.01, motion_seed=seed) for seed in (0, 1)]
    estimate = fit(di.RobotModel(TWO, friction="auto"), runs, consistent=False)
    laws = di.RobotModel.from_definition(estimate.robot.robot).friction
    assert "cubic" in laws[0] and "cubic" not in laws[1]
    assert {trial.split(":")[0] for trial in estimate.robot.friction} == {"offset", "asymmetric", "load", "cubic", "stribeck"}


def test_parameters_are_those_of_possible_bodies():
    pytest.importorskip("clarabel", reason="needs Clarabel: pip install dynident[robots]")
    arm = di.RobotModel(SIX, motor_inertia=True)
    estimate = fit(arm, [record(arm, true_values(arm), noise=0.2, memory=0.9)])
    loose = fit(arm, [record(arm, true_values(arm), noise=0.2, memory=0.9)], consistent=False)
    assert impossible_links(arm, loose.robot.parameters) != ()
    assert impossible_links(arm, estimate.robot.parameters) == ()
    assert all(estimate.robot.parameters[f"{kind}_{k}"] >= -1e-6 for kind in ("Fc", "Fv", "Ia") for k in range(1, 7))
    assert 0 <= max(estimate.robot.price.values()) < 0.2 * max(loose.noise_std.values())
    assert [b.value for b in estimate.base] == pytest.approx([b.value for b in loose.base])


def test_the_weight_of_the_file_holds_consistent_values_at_it_at_a_price():
    pytest.importorskip("clarabel", reason="needs Clarabel: pip install dynident[robots]")
    arm = di.RobotModel(TWO)
    runs = [record(arm, true_values(arm), noise=0.2, memory=0.9)]
    fits = [fit(arm, runs, towards_file=weight) for weight in (1e-8, 1e-2, 1e2)]
    away = [np.linalg.norm([e.robot.parameters[n] - v for n, v in arm.nominal_inertial().items()]) for e in fits]
    prices = [max(e.robot.price.values()) for e in fits]
    assert away[0] > 2 * away[1] > 4 * away[2] and prices[0] < prices[1] < prices[2]
    assert all(impossible_links(arm, e.robot.parameters) == () for e in fits)
    assert [b.value for b in fits[2].base] == [b.value for b in fits[0].base]  # as fitted, whatever the weight


def test_pseudo_inertia_is_positive_for_a_body_of_points():
    points = np.random.default_rng(0).normal(size=(5, 3))
    second = sum(np.outer(p, p) for p in points)
    inertia = np.trace(second) * np.eye(3) - second
    ten = [5.0, *points.sum(axis=0), *inertia[np.triu_indices(3)]]
    expected = sum(np.outer(np.append(p, 1), np.append(p, 1)) for p in points)
    assert pseudo_inertia(ten) == pytest.approx(expected)


def test_instruments_see_the_bias_that_noisy_positions_make():
    arm = di.RobotModel(TWO)
    values = true_values(arm)
    clean = fit(arm, [record(arm, values, noise=0.02)], instruments=True, consistent=False)
    noisy = fit(arm, [record(arm, values, noise=0.005, position_noise=1e-4, velocities=False)], instruments=True,
                consistent=False, filter=30.0, decimate=2)
    assert clean.robot.hausman.p_value > 0.01
    assert noisy.robot.hausman.p_value < 1e-3
    true, least_squares = values["Iyy_2"], noisy.values["Iyy_2"]
    assert abs(noisy.robot.instrumental["Iyy_2"] - true) < 0.1 * abs(least_squares - true)
    assert clean.robot.didim.outside == 0 and "Confirmed: along a smoothing spline of the motion" in " ".join(clean.notes)
    assert abs(noisy.robot.didim.base["Iyy_2"] - true) < 0.1 * abs(least_squares - true)
    assert noisy.robot.didim.name == "Iyy_2" and "Not confirmed" in " ".join(noisy.notes)


def with_command(arm, run, q):
    return replace(run, inputs={**run.inputs, **{f"q{k + 1}_command": q[:, k] for k in range(arm.dof)}})


def test_a_recorded_command_sees_noise_within_the_bandwidth_of_the_motion():
    """Slow errors of positions pass any filter of the measured motion; a command knows nothing of them. Without friction, whose
    sign is no linear function of a noisy velocity."""
    arm = di.RobotModel(TWO, friction="none")
    values, (_, q, _, _) = true_values(arm), fourier_motion(2)
    off = {name: ([], []) for name in ("Izz_1", "Iyz_2")}
    for seed in range(8):
        slow = zero_phase(np.random.default_rng(seed).normal(size=q.shape), 0.4, 100.0)
        seen = q + 0.05 * slow / np.std(slow, axis=0)
        run = replace(record(arm, values, noise=0.01, velocities=False, noise_seed=seed),
                      outputs={f"q{k + 1}": seen[:, k] for k in range(2)})
        blind, told = (fit(arm, [it], instruments=True, consistent=False, filter=5.0)
                       for it in (run, with_command(arm, run, q)))
        truth = dict(zip([b.name for b in told.base], true_base(told, values), strict=True))
        for name, errors in off.items():
            for it, found in zip((blind, told), errors, strict=True):
                found.append(it.robot.instrumental[name] - truth[name])
        assert told.robot.hausman.p_value < 1e-6
    for by_motion, by_command in off.values():  # chance leaves a fifth of the bias by motion in a mean of eight
        assert abs(np.mean(by_command)) < 0.5 * abs(np.mean(by_motion))
    assert any("recorded command (q1_command, ...)" in note for note in told.notes)
    assert any("No command was recorded in 'run 0'" in note for note in blind.notes)


@pytest.mark.slow
def test_with_a_command_the_hausman_test_is_still_silent_where_nothing_is_biased():
    arm, fired = di.RobotModel(TWO, offset=True), []
    _, q, _, _ = fourier_motion(2)
    for seed in range(8):
        run = record(arm, true_values(arm), noise=0.05, memory=0.9, noise_seed=seed, position_noise=1e-7)
        fired.append(fit(arm, [with_command(arm, run, q)], consistent=False, instruments=True).robot.hausman.biased)
    assert np.sum(fired) <= 2


def test_a_command_of_some_joints_is_not_taken():
    arm = di.RobotModel(TWO)
    run = record(arm, true_values(arm))
    q = np.column_stack([run.outputs["q1"], run.outputs["q2"]])
    only = replace(run, inputs={**run.inputs, "q1_command": q[:, 0]})
    assert torque_record(arm, only, "auto", "auto").command is None
    assert torque_record(arm, with_command(arm, run, q), "auto", "auto").command is not None


def test_didim_follows_load_dependent_friction():
    arm = di.RobotModel(SIX, friction=("coulomb", "viscous", "load"))
    values = true_values(arm)
    run = record(arm, values, duration=10.0)
    found = fit(arm, [run], decimate=2, filter=30.0, consistent=False, instruments=True).robot.didim
    assert found.converged and found.base["Fl_2"] == pytest.approx(values["Fl_2"], rel=0.1)


def test_checks_of_the_motion_come_back_from_disk(tmp_path):
    arm = di.RobotModel(TWO)
    estimate = fit(arm, [record(arm, true_values(arm), noise=0.02)], instruments=True)
    assert di.load(estimate.save(tmp_path / "result")).robot.didim == estimate.robot.didim


@pytest.mark.slow
@pytest.mark.parametrize("memory", [0.0, 0.95])
def test_the_hausman_test_fires_as_rarely_as_it_says(memory):
    arm, fired = di.RobotModel(TWO, offset=True), []
    for seed in range(40):
        run = record(arm, true_values(arm), noise=0.05, memory=memory, noise_seed=seed)
        fired.append(fit(arm, [run], consistent=False, instruments=True).robot.hausman.biased)
    assert np.sum(fired) <= 6  # of 40 at 5 %: more happen once in fifty


def test_without_clarabel_impossible_links_are_named(monkeypatch):
    monkeypatch.setattr(importlib.import_module("dynident.inverse_dynamics.result"), "have_clarabel", lambda: False)
    arm = di.RobotModel(SIX, motor_inertia=True)
    estimate = fit(arm, [record(arm, true_values(arm), noise=0.2, memory=0.9)])
    assert estimate.robot.price == {}
    assert any("No body has the inertias of link" in note and "dynident[robots]" in note for note in estimate.notes)


def test_validation_predicts_torques_of_another_motion():
    arm = di.RobotModel(SIX)
    estimate = fit(arm, [record(arm, true_values(arm), noise=0.02)])
    other = estimate.validate(record(arm, true_values(arm), noise=0.02, motion_seed=5))
    assert min(other.fit.values()) > 90
    assert "while the joint moves" in other.notes[0]


def test_the_file_is_worse_than_the_fit_where_it_is_wrong():
    arm = di.RobotModel(SIX)
    wrong = arm.with_values({"hx_2": 3.5, "m_6": 3.0})
    errors = fit(wrong, [record(arm, true_values(arm), noise=0.01)]).robot.errors
    assert errors[1].rms_nominal > 3 * errors[1].rms


def test_a_validation_stands_beside_the_robots_file(tmp_path):
    """With its inertias, and friction fitted to the same record as ours; also after a detour over the disk."""
    right = di.RobotModel(TWO)
    wrong = right.with_values({"hz_2": 2 * right.nominal_values["hz_2"].start})
    estimate = fit(wrong, [record(right, true_values(right), noise=0.01)])
    file = estimate.robot.of_file
    assert all(file[name] == value for name, value in wrong.nominal_inertial().items()) and file["Fc_1"] > 0
    estimate.save(tmp_path / "out")
    other = record(right, true_values(right), noise=0.01, motion_seed=5)
    for it in (estimate, di.load(tmp_path / "out")):
        ours, theirs = re.findall(r": ([\d.e, +-]+?)(?: \(tau1|\.$)", it.validate(other).notes[0])
        by_joint = [[float(word) for word in words.split(",")] for words in (ours, theirs)]
        assert by_joint[1][1] > 100 * by_joint[0][1]  # the file's centre of link 2 is off, which joint 1 does not feel
        assert by_joint[1][0] == pytest.approx(by_joint[0][0], rel=0.5)


def test_results_come_back_from_disk(tmp_path):
    arm = di.RobotModel(TWO)
    estimate = fit(arm, [record(arm, true_values(arm), noise=0.02)])
    again = di.load(estimate.save(tmp_path / "result"))
    assert [str(b) for b in again.base] == [str(b) for b in estimate.base]
    assert again.validate(record(arm, true_values(arm), motion_seed=3)).rmse.keys() == {"tau1", "tau2"}


def test_zero_phase_keeps_the_phase_and_the_motion():
    t = np.arange(0, 20, 0.01)
    slow, fast = np.sin(2 * np.pi * 0.5 * t), 0.3 * np.sin(2 * np.pi * 20 * t)
    assert zero_phase((slow + fast)[:, None], 5.0, 100.0)[200:-200, 0] == pytest.approx(slow[200:-200], abs=1e-3)
    assert motion_bandwidth(slow[:, None], 100.0) == pytest.approx(0.5, abs=0.15)


def test_a_torque_that_is_held_acts_half_a_sample_later():
    arm = di.RobotModel(TWO)
    exact = record(arm, true_values(arm), rate=100.0)
    middle = np.append((exact.time[1:] + exact.time[:-1]) / 2, exact.time[-1])  # what a drive would hold from each sample on
    held = di.Experiment(exact.time, inputs={n: np.interp(middle, exact.time, u) for n, u in exact.inputs.items()},
                         outputs=exact.outputs, hold="zero", name="held")
    errors = []
    for run in (held, di.Experiment(held.time, inputs=held.inputs, outputs=held.outputs, hold="linear", name="as measured")):
        found = fit(arm, [run], consistent=False)
        errors.append(np.max(np.abs(np.array([b.value for b in found.base]) - true_base(found, true_values(arm)))))
    assert errors[0] < 0.2 * errors[1]


def test_uneven_samples_are_put_on_an_even_grid():
    arm = di.RobotModel(TWO)
    run = record(arm, true_values(arm), rate=200.0)
    rng = np.random.default_rng(0)
    keep = np.sort(rng.choice(run.samples, run.samples // 2, replace=False))
    keep = np.unique(np.concatenate([[0], keep, [run.samples - 1]]))
    uneven = di.Experiment(run.time[keep], inputs={n: u[keep] for n, u in run.inputs.items()},
                           outputs={n: y[keep] for n, y in run.outputs.items()}, hold="linear", name="uneven")
    even = torque_record(arm, uneven, 20.0, 1).motion
    assert np.ptp(np.diff(even.time)) < 1e-9
    found = fit(arm, [uneven], consistent=False)
    assert np.max(np.abs([b.value - t for b, t in zip(found.base, true_base(found, true_values(arm)), strict=True)])) < 0.05


@pytest.mark.parametrize(("change", "said"), [
    (lambda e: di.Experiment(e.time, inputs={"tau1": e.inputs["tau1"]}, outputs=e.outputs), "the model's input 'tau2'"),
    (lambda e: di.Experiment(e.time, inputs=e.inputs, outputs={"q1": e.outputs["q1"]}), "the position 'q2' of joint 2"),
    (lambda e: di.Experiment(e.time[:20], inputs={n: u[:20] for n, u in e.inputs.items()},
                             outputs={n: y[:20] for n, y in e.outputs.items()}, name="r"), "too few to differentiate"),
    (lambda e: di.Experiment(e.time, inputs={n: 0 * u for n, u in e.inputs.items()}, outputs=e.outputs, name="r"),
     "all torques are zero"),
    (lambda e: di.Experiment(e.time, inputs=e.inputs, outputs={n: 0 * y for n, y in e.outputs.items()}, name="r"),
     "no joint moves"),
    (lambda e: di.Experiment(e.time, inputs=e.inputs, outputs=e.outputs | {
        "q1": np.where((e.time > 3) & (e.time < 4), np.nan, e.outputs["q1"])}, name="r"), "Split the record"),
])
def test_a_bad_record_is_refused_in_a_sentence(change, said):
    arm = di.RobotModel(TWO)
    with pytest.raises(ProblemError, match=said):
        fit(arm, [change(record(arm, true_values(arm)))])


def test_a_record_may_name_signals_by_joints():
    arm = di.RobotModel(TWO)
    run = record(arm, true_values(arm))
    first, second = arm.joints
    theirs = {"q1": first, "q2": f"{second}_position", "dq1": f"{first}_velocity", "dq2": f"{second}_velocity",
              "tau1": first, "tau2": f"{second}_effort"}
    named = di.Experiment(
        run.time, inputs={theirs[n]: u for n, u in run.inputs.items()},
        hold={theirs["tau1"]: "linear", theirs["tau2"]: "linear"}, outputs={theirs[n]: y for n, y in run.outputs.items()},
        units={f"{second}_effort": "N m"}, name="named")
    found = fit(arm, [named])
    assert found.values == pytest.approx(fit(arm, [run]).values)
    assert found.validate(named).rmse == pytest.approx(found.validate(run).rmse)


def test_other_models_bounds_and_constraints_are_refused():
    run = record(di.RobotModel(TWO), true_values(di.RobotModel(TWO)))
    arm = di.RobotModel(TWO)
    starts = [di.Parameter(name, start=it.start or 0.1) for name, it in arm.nominal_values.items()]
    for problem, said in [(di.Problem(arm, [run], [di.Parameter("Fc_1", start=1, lower=0)]), "no bounds"),
                          (di.Problem(arm, [run], constraints=["hz_2 <= 5"]), "no constraints"),
                          (di.Problem(arm.equations, [run], starts), "takes a RobotModel")]:
        with pytest.raises(NotSupported, match=said):
            di.identify(problem, di.inverse_dynamics())
