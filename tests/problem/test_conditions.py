"""Constants per experiment, first states and noise as formulas, groups: what a problem makes of them, and what it refuses."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import dynident as di

REACTION = di.EquationModel(states={"A": "-k1*A + k2*B", "B": "k1*A - k2*B"}, outputs={"seen": "A + offset"})
T = np.linspace(0, 3, 7)


def run(name: str = "run", **fields) -> di.Experiment:
    given = {"outputs": {"seen": np.linspace(2, 1, 7)}, "constants": {"offset": 0.5}, "initial": {"A": "dose*f", "B": 0}}
    given |= fields
    given["constants"] = {"dose": 2.0, **given["constants"]}
    return di.Experiment(T, name=name, **given)


def unknowns(*more: di.Parameter) -> list[di.Parameter]:
    return [di.Parameter("k1", start=0.5, lower=0), di.Parameter("k2", start=0.4, lower=0), di.Parameter("f", start=1.0), *more]


def refused(experiments, parameters, model=REACTION) -> str:
    with pytest.raises(di.ProblemError) as caught:
        di.Problem(model, experiments, parameters)
    return " ".join(caught.value.faults)


def test_constants_hold_in_their_own_experiment():
    problem = di.Problem(REACTION, [run("a"), run("b", constants={"offset": -1.0, "dose": 3.0})], unknowns())
    at = np.array([0.5, 0.4, 1.5])
    first, second = (problem.parameters_and_initial_state(at, e) for e in (0, 1))
    offset = problem.model.parameters.index("offset")
    assert (first[0][offset], second[0][offset]) == (0.5, -1.0)
    assert (first[1][0], second[1][0]) == (3.0, 4.5)  # dose*f
    assert problem.names == ("k1", "k2", "f")


def test_a_parameter_may_be_known_in_some_experiments_only():
    problem = di.Problem(REACTION, [run("a"), run("b", constants={"offset": 0.5, "k2": 0.25})], unknowns())
    (k2,) = [u for u in problem.unknowns if u.name == "k2"]
    assert k2.experiments == (0,)
    assert problem.parameters_and_initial_state(np.array([1, 9, 1.0]), 1)[0][problem.model.parameters.index("k2")] == 0.25


def test_parameters_per_group_are_one_unknown_for_each_group():
    runs = [run("a", group="blue"), run("b", group="red"), run("c", group="blue")]
    problem = di.Problem(REACTION, runs, [di.Parameter("k1", start=0.5, per="group"), *unknowns()[1:]])
    groups = {u.name: u.experiments for u in problem.unknowns if u.quantity == "k1"}
    assert groups == {"k1[blue]": (0, 2), "k1[red]": (1,)}


def test_per_experiment_is_what_shared_false_says():
    both = [di.Problem(REACTION, [run("a"), run("b")], [given, *unknowns()[1:]]).names
            for given in (di.Parameter("k1", start=0.5, per="experiment"), di.Parameter("k1", start=0.5, shared=False))]
    assert both[0] == both[1] == ("k1[a]", "k1[b]", "k2", "f")


def test_a_common_unknown_std_is_one_name_in_several_signals():
    model = di.EquationModel(states={"x": "-k*x"}, outputs={"y": "x", "z": "2*x"})
    record = di.Experiment(T, outputs={"y": np.exp(-T), "z": 2 * np.exp(-T)}, initial={"x": 1},
                           noise={"y": di.Gaussian("s"), "z": di.Gaussian("s")})
    problem = di.Problem(model, [record], [di.Parameter("k", start=1.0), di.Parameter("s", start=0.1, lower=0)])
    assert problem.names == ("k", "s")
    assert problem.noise_outputs == ({"y": "std_y", "z": "std_z"},)


def test_formulas_may_name_outputs_and_each_formula_of_an_output_is_an_output():
    runs = [run("a", noise={"seen": di.Gaussian("s*abs(seen)")}), run("b", noise={"seen": di.Gaussian("s")})]
    problem = di.Problem(REACTION, runs, unknowns(di.Parameter("s", start=0.1, lower=0)))
    assert problem.noise_outputs == ({"seen": "std_seen"}, {"seen": "std_seen_2"})
    assert problem.model.output_texts["std_seen"] == "s*abs((A + offset))"


def test_stating_a_problem_again_changes_nothing():
    record, s = run(noise={"seen": di.Gaussian("s*seen")}), di.Parameter("s", start=0.1, lower=0)
    problem = di.Problem(REACTION, [record], unknowns(s))
    again = problem.replace(parameters=problem.parameters)
    assert again.model is problem.model or again.model == problem.model
    assert again.content_hash() == problem.content_hash()
    assert pickle.loads(pickle.dumps(problem)).content_hash() == problem.content_hash()


def test_an_unused_constant_is_a_note_and_no_fault():
    problem = di.Problem(REACTION, [run(constants={"offset": 0.5, "temperature": 293.0})], unknowns())
    assert problem.notes == ("run: the constant 'temperature' is used in no equation and no formula.",)
    assert di.EquationModel(states={"x": "-k*x"}, constants={"g": 9.81}).notes == (
        "The model's constant 'g' is used in no equation.",)
    estimate = di.identify(problem, di.single_shooting(), progress=False)
    assert any("temperature" in note for note in estimate.notes)


@pytest.mark.parametrize(("fields", "said"), [
    ({"initial": {"A": "dose*g", "B": 0}}, "'g' is neither a parameter nor a constant"),
    ({"initial": {"A": "B", "B": 0}}, "'B' is not known before the record begins"),
    ({"initial": {"A": "dose*", "B": 0}}, "dose*"),
    ({"noise": {"seen": di.Gaussian("a*seen")}}, "standard deviation of 'seen' is 'a*seen', but 'a' is neither"),
    ({"constants": {"A": 1.0, "offset": 0.5}}, "'A' is a constant of the experiment, but a state of the model"),
    ({"constants": {}}, "parameter 'offset' has no entry"),
    ({"initial": di.SteadyState(constants={"k3": 1.0})}, "the constant 'k3' on the way to rest is not one of the experiment"),
    ({"initial": di.SteadyState(initial={"C": 1.0})}, "'C' begins on its way to rest, but is not a state"),
    ({"noise": {"seen": di.Gaussian(0.1)}, "outputs": {"seen": np.ones(7)}, "constants": {"k1": 1.0, "offset": 0}},
     "parameter 'k1' is a constant of every experiment, and declared as an unknown too")])
def test_what_makes_no_sense_is_refused(fields, said):
    assert said in refused([run(**fields)], unknowns())


def test_a_constant_that_another_experiment_has_must_be_given_everywhere():
    assert "b: the model's parameter 'offset' is a constant of other experiments" in refused(
        [run("a"), di.Experiment(T, outputs={"seen": T}, initial={"A": 1, "B": 0}, name="b")], unknowns())


def test_a_group_must_be_said_by_every_experiment():
    assert "b: parameter 'k1' has one value per group" in refused(
        [run("a", group="blue"), run("b")], [di.Parameter("k1", start=0.5, per="group"), *unknowns()[1:]])


def test_formulas_take_a_model_with_equations():
    model = di.SimulatorModel(lambda t, u, p: {"y": p.a * t}, parameters=["a"], outputs=["y"])
    record = di.Experiment(T, outputs={"y": T}, noise={"y": di.Gaussian("s")})
    assert "takes a model with equations, not a SimulatorModel" in refused(
        [record], [di.Parameter("a", start=1), di.Parameter("s", start=1)], model)


def test_repeated_times_are_refused_where_they_have_no_meaning():
    discrete = di.EquationModel(next={"x": "a*x"}, sample_time=1.0)
    record = di.Experiment([0, 1, 1, 2], outputs={"x": [1, 0.5, 0.6, 0.3]})
    assert "time repeats at sample 2" in refused([record], [di.Parameter("a", start=0.5)], discrete)


@pytest.mark.parametrize(("prior", "value", "residual"), [
    (di.Prior(2.0, 0.5), 3.0, 2.0), (di.Prior(-1.0, 0.5, on="log10"), 1.0, 2.0), (di.Prior(0.0, 0.25, on="ln"), np.e, 4.0)])
def test_priors_are_normal_on_their_scale(prior, value, residual):
    assert prior.residual(value) == pytest.approx(residual, rel=1e-12)
    h = 1e-6 * value
    assert prior.derivative(value) == pytest.approx((prior.residual(value + h) - prior.residual(value - h)) / (2 * h), rel=1e-6)
    change = (prior.derivative(value + h) - prior.derivative(value - h)) / (2 * h)
    assert prior.second_derivative(value) == pytest.approx(change, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize(("parameter", "said"), [
    (di.Parameter("k1", start=1, lower=0, prior=di.Prior(0, 1, on="log2")), "not on 'log2'"),
    (di.Parameter("k1", start=1, prior=di.Prior(0, 1, on="ln")), "needs lower = 0 or more"),
    (di.Parameter("k1", start=1, per="day"), 'per is \'day\'; write "experiment" or "group"'),
    (di.Parameter("k1", start=1, per="group", shared=False), "keep one of the two")])
def test_wrong_scales_and_groups_are_refused(parameter, said):
    assert said in refused([run(group="g")], [parameter, *unknowns()[1:]])
