"""Does a shooting method do what its options say, and say what it did?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dynident as di
from dynident.methods.presets import method_class, method_from
from problems import MACHINES, thinned

MSD, PENDULUM, TWO_MASS, SERVO = (MACHINES[n] for n in ("mass_spring_damper", "pendulum", "two_mass", "servo_axis"))


def found(problem: di.Problem, method=None) -> di.Estimate:
    return di.identify(problem, method, progress=False)


# noise that nobody sized


@pytest.mark.parametrize("method", [di.single_shooting(), di.multiple_shooting(segments=8)], ids=["single", "multiple"])
def test_unknown_noise_of_two_outputs_is_found_and_weighs_them_rightly(method):
    """One output ten times noisier: the fit is that with the estimated sizes given."""
    sizes = {"x1": 1e-3, "x2": 1e-2}
    blind = di.Problem(TWO_MASS.model, [TWO_MASS.record(5, std=sizes, noise_known=False)], TWO_MASS.parameters())
    estimate = found(blind, method)
    assert estimate.noise_std == pytest.approx(sizes, rel=0.2)  # 201 samples each: 5 % standard error
    run = blind.experiments[0]
    told = di.Experiment(run.time, run.inputs, run.outputs, {n: di.Gaussian(s) for n, s in estimate.noise_std.items()})
    same = found(di.Problem(TWO_MASS.model, [told], TWO_MASS.parameters()), method)
    for name in blind.names:
        assert estimate.values[name] == pytest.approx(same.values[name], abs=1e-2 * same.uncertainty.std(name)), name
        assert estimate.uncertainty.std(name) == pytest.approx(same.uncertainty.std(name), rel=0.02), name


def test_unknown_noise_of_one_output_changes_nothing_but_the_scale():
    known, blind = (MSD.problem(5, noise_known=k) for k in (True, False))
    a, b = found(known), found(blind)
    for name in known.names:
        assert b.values[name] == pytest.approx(a.values[name], rel=1e-5), name
    scale = b.noise_std["position"] / 0.01
    assert scale == pytest.approx(1, abs=0.2)
    assert b.uncertainty.std("k") == pytest.approx(scale * a.uncertainty.std("k"), rel=1e-3)
    assert b.statistics["reduced_chi2"] == pytest.approx(1)


def test_noise_known_in_one_record_and_unknown_in_another_is_estimated_from_the_other():
    sized, blind = MSD.record(1, std={"position": 0.002}, name="sized"), MSD.record(2, noise_known=False, name="blind")
    estimate = found(di.Problem(MSD.model, [sized, blind], MSD.parameters()))
    assert estimate.noise_std["position"] == pytest.approx(0.01, rel=0.2)


def test_wrong_noise_level_is_said():
    estimate = found(MSD.problem(5, std={"position": 0.01}).replace(experiments=[
        replace(MSD.record(5), noise={"position": di.Gaussian(0.002)})]))
    (note,) = [n for n in estimate.notes if "reduced chi-square" in n]
    assert "times too small" in note


# what an estimate admits


def test_single_start_is_called_one():
    assert "from one start" in found(PENDULUM.problem(1)).status


def test_errors_that_keep_company_are_flagged_and_the_wider_interval_is_printed():
    """Correlation 0.9 from sample to sample: ten neighbours say hardly more than one of them."""
    rng = np.random.default_rng(4)
    time = np.linspace(0, 10, 401)
    machine = replace(MSD, time=time, inputs={"F": np.interp(time, MSD.time, MSD.inputs["F"])}, hold="linear")
    errors = np.zeros(401)
    for k in range(1, 401):
        errors[k] = 0.9 * errors[k - 1] + 0.01 * np.sqrt(1 - 0.81) * rng.standard_normal()
    run = machine.record(None)
    run = replace(run, outputs={"position": run.outputs["position"] + errors})
    estimate = found(di.Problem(MSD.model, [run], MSD.parameters()))
    assert estimate.uncertainty.default_kind == "corrected"
    assert any("autocorrelated" in note for note in estimate.notes)
    assert estimate.uncertainty.std("k", "corrected") > 2 * estimate.uncertainty.std("k", "plain")


def test_parameter_that_can_hardly_be_told_has_an_open_interval():
    """A term a millionth of the noise: its parameter is determined on paper only."""
    model = di.EquationModel(states={"x": "-a*x"}, outputs={"y": "x + 1e-9*faint*sin(t)"})
    t = np.linspace(0, 3, 60)
    y = np.exp(-0.7 * t) + 0.01 * np.random.default_rng(3).standard_normal(60)
    run = di.Experiment(t, outputs={"y": y}, noise={"y": di.Gaussian(0.01)})
    estimate = found(di.Problem(model, [run], [di.Parameter("a", 1.0), di.Parameter("faint", 1.0)]))
    low, high = estimate.uncertainty.interval("faint")
    assert np.isinf(low) and np.isinf(high)
    assert any(note.startswith("faint is practically unidentifiable") for note in estimate.notes)
    assert abs(estimate.values["a"] - 0.7) < 4 * estimate.uncertainty.std("a")


# steps between samples


@pytest.mark.parametrize("name", list(MACHINES))
@pytest.mark.parametrize("method", [di.single_shooting(), di.multiple_shooting(segments=9)], ids=["single", "multiple"])
def test_automatic_steps_are_fine_enough(name, method):
    """Halving them moves no unknown by a tenth of its standard error."""
    machine = thinned(MACHINES[name], 3)  # few samples, so that one step between them would not do
    estimate = found(machine.problem(2), method)
    finer = found(machine.problem(2), replace(method, substeps=2 * estimate.counts["substeps"]))
    for unknown in estimate.problem.names:
        moved = abs(estimate.values[unknown] - finer.values[unknown]) / estimate.uncertainty.std(unknown)
        assert moved < 0.1, unknown
    assert not [n for n in estimate.notes if "integrator" in n]


def test_automatic_steps_do_not_depend_on_how_the_record_is_cut():
    machine = thinned(SERVO, 3)
    counts = {found(machine.problem(2), method).counts["substeps"] for method in (
        di.single_shooting(), di.multiple_shooting(segments=4), di.multiple_shooting(segments=25))}
    assert len(counts) == 1 and counts.pop() > 1


@pytest.mark.parametrize("method", [di.single_shooting(integrator="euler"),
                                    di.multiple_shooting(segments=20, integrator="euler")], ids=["single", "multiple"])
def test_too_few_steps_on_demand_are_noted_and_enough_are_not(method):
    estimate = found(MSD.problem(2), replace(method, substeps=2))
    (note,) = [n for n in estimate.notes if "integrator's error" in n]
    assert "2 sub-steps of euler" in note and "standard errors" in note
    enough = found(MSD.problem(2), replace(method, integrator="runge_kutta", substeps=100))
    assert not [n for n in enough.notes if "integrator" in n]


def test_stiff_model_is_fitted_by_cvodes_and_radau():
    model = di.EquationModel(states={"x": "-fast*(x - y)", "y": "-slow*y"})
    t = np.linspace(0, 3, 31)
    y = np.exp(-0.8 * t)
    run = di.Experiment(t, outputs={"y": y + 1e-3 * np.cos(30 * t)}, noise={"y": di.Gaussian(1e-3)}, initial={"x": 1.0})
    problem = di.Problem(model, [run], [di.Parameter("fast", 1e4, free=False), di.Parameter("slow", 0.3)])
    for integrator in ("cvodes", "radau"):
        assert found(problem, di.single_shooting(integrator=integrator)).values["slow"] == pytest.approx(0.8, abs=3e-3)


# priors


def test_prior_and_data_are_weighed_by_their_variances():
    """A constant measured 25 times with std 0.5 against a prior of std 0.2: the closed form of the weighted mean."""
    model = di.EquationModel(states={"x": "0*x"}, outputs={"y": "x + level"})
    t = np.arange(25.0)
    y = 3.0 + 0.5 * np.random.default_rng(1).standard_normal(25)
    run = di.Experiment(t, outputs={"y": y}, noise={"y": di.Gaussian(0.5)}, initial={"x": 0.0})
    estimate = found(di.Problem(model, [run], [di.Parameter("level", 1.0, prior=di.Prior(2.0, 0.2))]))
    data, known = 25 / 0.5**2, 1 / 0.2**2
    assert estimate.values["level"] == pytest.approx((data * np.mean(y) + known * 2.0) / (data + known), rel=1e-6)
    assert estimate.uncertainty.std("level") == pytest.approx(1 / np.sqrt(data + known), rel=1e-6)


def test_prior_tells_apart_what_the_data_cannot():
    model = di.EquationModel(states={"x": "-(a + b)*x"})
    t = np.linspace(0, 3, 40)
    y = np.exp(-0.9 * t) + 0.01 * np.random.default_rng(3).standard_normal(40)
    run = di.Experiment(t, outputs={"x": y}, noise={"x": di.Gaussian(0.01)}, initial={"x": 1.0})
    prior = di.Prior(0.5, 0.1)
    estimate = found(di.Problem(model, [run], [di.Parameter("a", 0.4, prior=prior), di.Parameter("b", 0.4)]))
    assert not estimate.uncertainty.unidentifiable
    assert estimate.values["a"] == pytest.approx(0.5, abs=1e-4)
    assert estimate.values["a"] + estimate.values["b"] == pytest.approx(0.9, abs=0.03)
    assert estimate.uncertainty.std("b") == pytest.approx(0.1, rel=0.02)


# several records


def test_shared_parameters_use_all_records_and_own_ones_only_theirs():
    second = replace(MSD, truth={**MSD.truth, "d": 2.0}, initial={"x": -0.2, "v": 0.1})
    runs = [MSD.record(1, name="a"), second.record(2, name="b")]
    problem = di.Problem(MSD.model, runs, MSD.parameters(d={"shared": False}))
    for method in (di.single_shooting(), di.multiple_shooting(segments=5)):
        estimate = found(problem, method)
        truth = {"m": 1.0, "k": 1.0, "d[a]": 1.0, "d[b]": 2.0, "x(0)[a]": 0.3, "x(0)[b]": -0.2}
        for name, value in truth.items():
            assert abs(estimate.values[name] - value) < 4 * estimate.uncertainty.std(name), name
        alone = found(MSD.problem(1), method)
        assert estimate.uncertainty.std("k") < 0.95 * alone.uncertainty.std("k")


def test_two_copies_of_a_record_halve_the_variance():
    runs = [MSD.record(2, name=name, initial=dict(MSD.initial)) for name in "ab"]  # errors are of the given size
    twice, once = found(di.Problem(MSD.model, runs, MSD.parameters())), found(
        di.Problem(MSD.model, runs[:1], MSD.parameters()))
    for name in "mdk":
        assert twice.values[name] == pytest.approx(once.values[name], rel=1e-6)
        assert twice.uncertainty.std(name) == pytest.approx(once.uncertainty.std(name) / np.sqrt(2), rel=1e-4)


def test_records_of_different_length_and_start():
    late = PENDULUM.record(2, name="late")
    shifted = di.Experiment(late.time + 100.0, outputs=late.outputs, noise=late.noise, name="late")
    early = PENDULUM.record(1, name="early").window(0, 2)
    problem = di.Problem(PENDULUM.model, [early, shifted], PENDULUM.parameters())
    estimate = found(problem, di.multiple_shooting())
    for name, value in PENDULUM.truth.items():
        assert abs(estimate.values[name] - value) < 4 * estimate.uncertainty.std(name)


# records with little in them


@pytest.mark.parametrize("method", [di.single_shooting(), di.multiple_shooting()], ids=["single", "multiple"])
def test_record_of_two_samples(method):
    model = di.EquationModel(states={"x": "-a*x"})
    run = di.Experiment([0.0, 1.0], outputs={"x": [1.0, 0.5]}, noise={"x": di.Gaussian(0.01)})
    estimate = found(di.Problem(model, [run], [di.Parameter("a", 1.0)]), method)
    assert estimate.values["a"] == pytest.approx(np.log(2), rel=1e-5)
    assert estimate.values["x(0)"] == pytest.approx(1.0)


def test_one_sample_and_one_unknown():
    model = di.EquationModel(states={"x": "-x"})
    run = di.Experiment([0.0], outputs={"x": [2.0]}, noise={"x": di.Gaussian(0.1)})
    estimate = found(di.Problem(model, [run]))
    assert estimate.values == pytest.approx({"x(0)": 2.0})
    assert estimate.uncertainty.std("x(0)") == pytest.approx(0.1)


def test_output_on_which_nothing_was_measured_is_no_obstacle():
    run = TWO_MASS.record(3)
    outputs = {"x1": run.outputs["x1"], "x2": np.full(run.samples, np.nan)}
    dead = di.Experiment(run.time, run.inputs, outputs)
    without = di.Experiment(run.time, run.inputs, {"x1": run.outputs["x1"]})
    known = [di.InitialState(s, x, free=False) for s, x in TWO_MASS.initial.items()]
    a, b = (found(di.Problem(TWO_MASS.model, [r], [*TWO_MASS.parameters(), *known]), di.single_shooting())
            for r in (dead, without))
    assert [a.values[n] for n in a.problem.names] == pytest.approx([b.values[n] for n in b.problem.names])
    assert set(a.noise_std) == {"x1"}
    assert np.all(np.isfinite(a.trajectories[0].outputs["x2"]))  # what the model does is known all the same


def test_gaps_and_missing_samples_are_left_out_and_the_model_goes_on_through_them():
    run = MSD.record(3)
    y = run.outputs["position"].copy()
    y[40:70] = np.nan
    y[::7] = np.nan
    holes = di.Experiment(run.time, run.inputs, {"position": y}, run.noise)
    for method in (di.single_shooting(), di.multiple_shooting(segments=10)):
        estimate = found(di.Problem(MSD.model, [holes], MSD.parameters()), method)
        for name, value in MSD.truth.items():
            assert abs(estimate.values[name] - value) < 4 * estimate.uncertainty.std(name), name
        assert np.array_equal(np.isnan(estimate.residuals[0]["position"]), np.isnan(y))
        model = estimate.trajectories[0].outputs["position"]
        assert np.all(np.isfinite(model))
        assert np.max(np.abs(model - MSD.outputs()["position"])) < 0.05


def test_state_that_nothing_shows_is_found_too():
    """Only the first mass is measured; where the second begins has to be inferred."""
    run = TWO_MASS.record(4)
    seen = di.Experiment(run.time, run.inputs, {"x1": run.outputs["x1"]}, {"x1": di.Gaussian(1e-3)})
    problem = di.Problem(TWO_MASS.model, [seen], TWO_MASS.parameters())
    single, multiple = found(problem, di.single_shooting()), found(problem, di.multiple_shooting())
    assert multiple.cost == pytest.approx(single.cost, rel=1e-6)
    for name, value in TWO_MASS.all_true.items():
        assert abs(multiple.values[name] - value) < 4 * multiple.uncertainty.std(name), name


def test_poor_starts_are_taken_by_multiple_shooting():
    """From each corner of a box four decades wide, in which the pendulum swings from once to forty times."""
    for start in (0.3, 3.0, 30.0, 100.0):
        problem = di.Problem(PENDULUM.model, [PENDULUM.record(2)], [di.Parameter("p", start, 0.01, 100),
                                                                    di.Parameter("d", 1.0, 0, 100)])
        estimate = found(problem, di.multiple_shooting())
        assert abs(estimate.values["p"] - 9.81) < 4 * estimate.uncertainty.std("p"), start


# options


def test_default_method_is_the_ladder_that_begins_with_multiple_shooting():
    chosen = di.multiple_shooting(integrator="runge_kutta")  # which an estimate names, where the choice was left to the fit
    assert found(PENDULUM.problem(1)).method == di.automatic(method=chosen)
    assert method_from(None) == di.automatic()


def test_methods_come_by_name_and_table():
    table = {"kind": "multiple_shooting", "segments": 5, "loss": "huber"}
    assert method_from(table) == di.multiple_shooting(segments=5, loss="huber")
    assert method_from("single_shooting") == di.single_shooting()
    for name in ("single_shooting", "multiple_shooting"):
        assert method_from(method_class(name)().options()) == method_class(name)()


@pytest.mark.parametrize("options, sentence", [
    ({"segments": 0}, "segments = 0; give a whole number from 1 on"), ({"segments": 2.5}, "segments = 2.5"),
    ({"segments": True}, "segments = True"),
    ({"substeps": 0}, 'substeps = 0; give a whole number from 1 on, or "auto"'),
    ({"substeps": "many"}, "substeps = 'many'"), ({"max_iterations": 0}, "max_iterations = 0"),
    ({"solver": "gauss_newtn"}, "There is no solver 'gauss_newtn'. Did you mean 'gauss_newton'?"),
    ({"integrator": "rk4"}, "There is no integrator 'rk4'"),
])
def test_option_that_makes_no_sense_is_refused(options, sentence):
    with pytest.raises(di.ProblemError) as refused:
        di.multiple_shooting(**options)
    assert sentence in str(refused.value)


def test_unknown_method_and_unknown_option_are_named_with_the_nearest():
    with pytest.raises(di.ProblemError, match=r"no method 'multipel_shooting'.*Did you mean 'multiple_shooting'"):
        method_from("multipel_shooting")
    with pytest.raises(di.ProblemError) as refused:
        method_from({"kind": "multiple_shooting", "segmets": 3, "intergrator": "euler"})
    hints = [fault.split(". ")[-1] for fault in refused.value.faults]
    assert hints == ["Did you mean 'segments'?", "Did you mean 'integrator'?"]


# refusals before a fit


def test_more_segments_than_intervals_are_refused_with_the_most_possible():
    with pytest.raises(di.ProblemError, match=r"has 121 samples and cannot be cut into 500 segments; use 1 to 120"):
        found(PENDULUM.problem(), di.multiple_shooting(segments=500))
    most = found(PENDULUM.problem(), di.multiple_shooting(segments=120))
    assert most.cost == pytest.approx(found(PENDULUM.problem(), di.single_shooting()).cost, rel=1e-6)


def test_bounded_errors_are_refused_and_never_turned_into_a_standard_deviation():
    run = PENDULUM.record()
    bounded = di.Experiment(run.time, outputs=run.outputs, noise={"angle": di.Bounded(0.03)})
    with pytest.raises(di.NotSupported) as refused:
        found(di.Problem(PENDULUM.model, [bounded], PENDULUM.parameters()))
    assert "errors of angle are Bounded" in str(refused.value) and "set_membership()" in str(refused.value)


@pytest.mark.parametrize("method", [di.single_shooting(), di.multiple_shooting()], ids=["single", "multiple"])
def test_start_at_which_the_model_is_not_finite_is_refused_with_state_time_and_values(method):
    model = di.EquationModel(states={"quiet": "-quiet", "x": "-log(a - t)"})
    t = np.linspace(0, 2, 41)
    run = di.Experiment(t, outputs={"quiet": np.exp(-t), "x": t}, name="slide")
    with pytest.raises(di.ProblemError) as refused:
        found(di.Problem(model, [run], [di.Parameter("a", 1.01)]), method)
    said = str(refused.value)
    assert "state 'x' is no longer finite at t = 1.05 in 'slide'" in said
    assert "a = 1.01" in said and "quiet(0) = " in said and "Choose other start values" in said


def test_start_that_blows_up_over_the_record_points_to_multiple_shooting():
    model = di.EquationModel(states={"x": "a*x**2 - x"})
    t = np.linspace(0, 3, 61)
    run = di.Experiment(t, outputs={"x": 1 / (0.5 * np.exp(t) + 0.5)}, noise={"x": di.Gaussian(1e-3)}, name="slide")
    problem = di.Problem(model, [run], [di.Parameter("a", 3.0)])
    with pytest.raises(di.ProblemError, match=r"use multiple_shooting\(\), which starts from the measurements"):
        found(problem, di.single_shooting())
    assert found(problem, di.multiple_shooting(segments=12)).values["a"] == pytest.approx(0.5, abs=1e-2)


@pytest.mark.parametrize("method", [di.single_shooting(), di.multiple_shooting()], ids=["single", "multiple"])
def test_start_at_which_a_derivative_is_infinite_is_refused(method):
    model = di.EquationModel(states={"x": "-sqrt(a)*x"})
    t = np.linspace(0, 2, 41)
    run = di.Experiment(t, outputs={"x": np.exp(-t)}, initial={"x": 1.0})
    with pytest.raises(di.ProblemError, match=r"derivatives of the simulation are not finite \(a = 0\)"):
        found(di.Problem(model, [run], [di.Parameter("a", 0.0, lower=0)]), method)


def test_trial_simulations_that_overflow_print_nothing(capfd, recwarn):
    """From where the model says nothing moves, the first step leads to growth beyond all numbers."""
    model = di.EquationModel(states={"x": "a*x"})
    t = np.linspace(0, 20, 101)
    run = di.Experiment(t, outputs={"x": np.exp(0.2 * t)}, noise={"x": di.Gaussian(1e-3)}, initial={"x": 1.0})
    estimate = found(di.Problem(model, [run], [di.Parameter("a", -3.0)]), di.single_shooting())
    assert estimate.values["a"] == pytest.approx(0.2, rel=1e-3)
    out, err = capfd.readouterr()
    assert out == err == "" and not recwarn.list
