"""check, simulate, validate and compare: do they answer, and refuse in a sentence what they cannot?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dynident as di
from dynident.statistics.diagnostic import DiagnosticCode
from problems import MACHINES

MSD, PENDULUM = MACHINES["mass_spring_damper"], MACHINES["pendulum"]


# identify


@pytest.mark.parametrize("method, sentence", [
    (di.single_shooting, r"the method is the function single_shooting itself; call it: single_shooting\(\)"),
    (5, "a method is made by one of automatic, single_shooting, .* 5 is none"),
    ({"kind": ["kalman"]}, "There is no method"),
])
def test_what_is_no_method_is_refused_in_a_sentence(method, sentence):
    with pytest.raises(di.ProblemError, match=sentence):
        di.identify(MSD.problem(1), method)


# simulate


@pytest.mark.parametrize("name", list(MACHINES))
def test_simulation_follows_the_independent_integrator(name):
    machine = MACHINES[name]
    run = di.Experiment(machine.time, machine.inputs, initial=machine.initial, hold=machine.hold)
    exact = machine.states()
    states = di.simulate(machine.model, machine.truth, run).states
    for i, state in enumerate(machine.model.states):
        assert np.max(np.abs(states[state] - exact[:, i])) < 2e-7 * np.max(np.abs(exact[:, i])), state


def test_initial_states_come_from_the_values_or_from_the_record():
    bare = di.Experiment(PENDULUM.time)
    named = di.simulate(PENDULUM.model, PENDULUM.all_true, bare)
    known = di.simulate(PENDULUM.model, PENDULUM.truth, di.Experiment(PENDULUM.time, initial=PENDULUM.initial))
    assert np.array_equal(named.outputs["angle"], known.outputs["angle"])


def test_estimate_is_simulated_again_as_it_was_fitted():
    estimate = di.identify(MSD.problem(1), progress=False)
    again = di.simulate(MSD.model, estimate.values, MSD.record(1), substeps=estimate.counts["substeps"])
    np.testing.assert_allclose(again.outputs["position"], estimate.trajectories[0].outputs["position"], atol=1e-9)


def test_steps_that_are_never_short_enough_are_said():
    buzzing = di.EquationModel(states={"x": "a*sin(a*t)"}, outputs={"y": "x"})
    run = di.Experiment(np.linspace(0, 1, 11), initial={"x": 0.0})
    with pytest.warns(UserWarning, match="still changes the simulation at 1,024 sub-steps"):
        di.simulate(buzzing, {"a": 1e6}, run)


def test_everything_that_simulate_lacks_is_listed():
    with pytest.raises(di.ProblemError) as refused:
        di.simulate(MSD.model, {"m": 1.0, "dd": 1.0, "k": 1.0}, di.Experiment(MSD.time, name="bare"))
    said = refused.value.faults
    assert any("parameter 'd'. Give it in `values`. Did you mean 'dd'?" in f for f in said)
    assert any("bare: the model's input 'F' is not in the record" in f for f in said)
    assert any("initial state of 'x': give 'x(0)' in the values, or `initial` in the record" in f for f in said)
    assert len(said) == 5  # what is missing, and the name that nothing has


DECAY = di.EquationModel(states={"x": "-k*x"})


@pytest.mark.parametrize("values, sentence", [
    ({"k": 1, "x(0)": 5}, "run: the initial state of 'x' is 5 in the values and 0.0 in the record's `initial`; keep one"),
    ({"k": 1, "x(0)[run]": 5}, "run: the initial state of 'x' is 5 in the values"),
    ({"k": 1, "K": 99}, "the model has no parameter and no initial state 'K'. Did you mean 'k'?"),
    ({"k": 1, "z(0)": 3}, "no initial state 'z(0)'. Did you mean 'x(0)'?"),
    ({"k": np.nan}, "'k' is nan; give a finite number"),
    ({"k": "fast"}, "'k' is 'fast'; give a finite number"),
])
def test_values_that_simulate_would_not_use_are_refused(values, sentence):
    with pytest.raises(di.ProblemError) as refused:
        di.simulate(DECAY, values, di.Experiment([0, 1.0], initial={"x": 0}, name="run"))
    (fault,) = refused.value.faults
    assert sentence in fault


def test_values_of_an_estimate_with_several_records_serve_each_of_them():
    values = {"k[a]": 1.0, "k[b]": 2.0, "x(0)[a]": 3.0, "x(0)[b]": 4.0}
    end = {name: di.simulate(DECAY, values, di.Experiment([0, 1.0], name=name)).states["x"][-1] for name in "ab"}
    assert abs(end["a"] - 3 * np.exp(-1)) < 1e-6 and abs(end["b"] - 4 * np.exp(-2)) < 1e-6
    assert di.simulate(DECAY, {"k": 1, "x(0)": 5}, di.Experiment([0, 1.0], initial={"x": 5})).states["x"][0] == 5


def test_simulation_that_blows_up_is_one_sentence():
    model = di.EquationModel(states={"x": "a*x**2"})
    run = di.Experiment(np.linspace(0, 2, 21), initial={"x": 1.0}, name="far")
    with pytest.raises(di.ProblemError, match=r"^far: .*t = 1.*Change the values"):
        di.simulate(model, {"a": 1.0}, run)


@pytest.mark.parametrize("substeps", [0, -1, 2.5, "many"])
def test_number_of_steps_must_be_one(substeps):
    run = di.Experiment(PENDULUM.time, initial=PENDULUM.initial)
    with pytest.raises(di.ProblemError, match="substeps"):
        di.simulate(PENDULUM.model, PENDULUM.truth, run, substeps=substeps)


# validate


@pytest.fixture(scope="module")
def fitted() -> di.Estimate:
    return di.identify(MSD.problem(1), progress=False)


def test_validation_on_another_record_of_the_same_machine(fitted):
    other = replace(MSD, inputs={"F": -0.5 * MSD.inputs["F"]}, initial={"x": 0.5, "v": 0.0})
    validation = fitted.validate(other.record(9, initial=dict(other.initial)))
    assert validation.rmse["position"] == pytest.approx(0.01, rel=0.2)
    swing = np.std(other.record(9).outputs["position"])
    assert validation.fit["position"] == pytest.approx(100 * (1 - validation.rmse["position"] / swing), abs=1e-6)
    assert all(test.passed for test in validation.tests if test.name == "whiteness")


def test_validation_finds_a_model_that_is_wrong(fitted):
    softer = replace(MSD, truth={**MSD.truth, "k": 0.8})
    validation = fitted.validate(softer.record(9, initial=dict(softer.initial)))
    assert validation.rmse["position"] > 0.02
    assert any(not test.passed for test in validation.tests)


def test_initial_state_of_a_validation_record_is_fitted_and_nothing_else(fitted):
    other = replace(MSD, initial={"x": 1.0, "v": -1.0})
    validation = fitted.validate(other.record(9))
    assert validation.rmse["position"] == pytest.approx(0.01, rel=0.25)
    assert validation.trajectory.states["x"][0] == pytest.approx(1.0, abs=0.03)


def test_record_without_a_signal_of_the_model_is_refused(fitted):
    with pytest.raises(di.ProblemError, match="it holds no measured signal to compare with"):
        fitted.validate(di.Experiment(MSD.time, MSD.inputs))
    strange = di.Experiment(MSD.time, MSD.inputs, {"positon": MSD.time}, initial=MSD.initial)
    with pytest.raises(di.ProblemError, match=r"'positon' is not an output of the model. Did you mean 'position'"):
        fitted.validate(strange)


def test_parameter_of_its_own_in_each_record_has_no_value_for_another():
    runs = [MSD.record(1, name="a"), MSD.record(2, name="b")]
    estimate = di.identify(di.Problem(MSD.model, runs, MSD.parameters(d={"shared": False})), progress=False)
    with pytest.raises(di.NotSupported, match="'d' has a value of its own in each fitted experiment"):
        estimate.validate(MSD.record(3))


# compare


def test_methods_side_by_side_agree():
    comparison = di.compare(PENDULUM.problem(1), ["single_shooting", di.multiple_shooting(segments=4),
                                                  {"kind": "multiple_shooting", "segments": 9}], progress=False)
    assert list(comparison)[:2] == ["single_shooting", "multiple_shooting"]
    assert "segments=9" in list(comparison)[2]
    values = [estimate.values["p"] for estimate in comparison.values()]
    assert values == pytest.approx([values[0]] * 3, rel=1e-6)
    assert "p" in str(comparison)


def test_method_that_cannot_or_does_not_converge_leaves_the_others():
    methods = [di.multiple_shooting(segments=10_000), di.single_shooting(max_iterations=1), di.single_shooting()]
    comparison = di.compare(PENDULUM.problem(1), methods, progress=False)
    assert "cannot be cut into 10000 segments" in comparison.failed["multiple_shooting"]
    converged = [estimate.converged for estimate in comparison.values()]
    assert converged == [False, True]
    assert "cannot be cut" in str(comparison)


# check


def test_check_before_a_good_fit_finds_no_error():
    check = di.check(MSD.problem(1))
    assert check.ok


def test_check_names_what_the_data_cannot_tell_apart():
    model = di.EquationModel(states={"x": "v", "v": "F/(m1 + m2) - d*v"}, outputs={"position": "x"}, inputs=["F"])
    run = di.Experiment(MSD.time, MSD.inputs, {"position": MSD.record(1).outputs["position"]})
    unknown = [di.Parameter("m1", 2.0), di.Parameter("m2", 0.5), di.Parameter("d", 1.0)]
    check = di.check(di.Problem(model, [run], unknown))
    assert not check.ok
    (error,) = [f for f in check.findings if f.severity == "error"]
    assert error.code is DiagnosticCode.STRUCTURALLY_UNIDENTIFIABLE
    assert error.names == ("m1", "m2") and "m1 + m2" in error.sentence


def test_check_works_where_a_whole_simulation_diverges():
    model = di.EquationModel(states={"x": "a*x**2 - x"})
    t = np.linspace(0, 3, 61)
    run = di.Experiment(t, outputs={"x": 1 / (0.5 * np.exp(t) + 0.5)}, noise={"x": di.Gaussian(1e-3)})
    problem = di.Problem(model, [run], [di.Parameter("a", 2.0)])
    with pytest.raises(di.ProblemError):
        di.identify(problem, di.single_shooting(), progress=False)
    assert di.check(problem).ok


def test_check_refuses_a_start_that_diverges_everywhere():
    model = di.EquationModel(states={"x": "-log(a - t)"})
    run = di.Experiment(np.linspace(0, 3, 61), outputs={"x": np.linspace(0, 1, 61)})
    with pytest.raises(di.ProblemError, match="even when each segment starts from the measurements"):
        di.check(di.Problem(model, [run], [di.Parameter("a", 1.0)]))


def test_dead_channel_short_record_and_dead_input_are_warned_of():
    t = np.linspace(0, 1, 8)
    run = di.Experiment(t, {"F": np.ones(8)}, {"position": np.zeros(8)}, name="dull")
    problem = di.Problem(MSD.model, [run], MSD.parameters())
    said = str(di.check(problem))
    assert "only 8 samples" in said and "stays at 1 throughout" in said and "a dead channel" in said


def test_starts_are_counted_among_methods_that_minimise_the_same():
    """A filter corrects its states at each sample, so that its residuals are smaller than those of any simulation."""
    problem = MACHINES["mass_spring_damper"].problem(seed=4)
    boxed = [di.Parameter(p.name, p.start, 0.3, 3.0) for p in problem.parameters if isinstance(p, di.Parameter)]
    found = di.compare(di.Problem(problem.model, problem.experiments, boxed),
                       [di.single_shooting(), di.multiple_shooting(), di.kalman(process_noise={"v": 0.3})], starts=2)
    assert found["kalman"].cost < found["single_shooting"].cost
    for label in ("single_shooting", "multiple_shooting"):
        assert found[label].counts["reached the best"] == 2
    assert found["kalman"].counts["reached the best"] >= 1
