"""Is prediction_error() the likelihood that it claims to be, and do its intervals hold the truth?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from noisy_plants import KINDS, dense_likelihood, linear_problem, oscillator, tank
from scipy.linalg import expm

import dynident as di
from dynident.kalman.prediction_error import innovations
from dynident.kalman.prediction_error.scoring import TOTAL_LEAST_SQUARES, KeptHessian, evaluate
from dynident.kalman.prediction_error.setup import build_prediction
from dynident.statistics.distributions import chi_square_quantile

VALUES = {"k": 2.0, "d": 0.3, "b": 1.1, "x(0)": 0.1, "v(0)": -0.2}
INITIAL = {"x": VALUES["x(0)"], "v": VALUES["v(0)"]}
OUTPUT_STD = {"x": 0.3, "f": 0.5}
LINEAR = [(hold, feedthrough) for hold in ("zero", "linear") for feedthrough in (False, True)]


def setup_at(problem, substeps=1):
    setup = build_prediction(problem, {"v": None, "x": 0.2}, "runge_kutta", substeps)
    values = setup.coordinates(np.array([VALUES[name] for name in problem.names]))
    return setup, np.concatenate([values, np.log([0.7, *(OUTPUT_STD[name] for name in problem.model.outputs)])])


def system():
    """A of (3.1) with the input and its slope as states."""
    A = np.zeros((4, 4))
    A[0, 1], A[1, :3], A[2, 3] = 1.0, (-VALUES["k"], -VALUES["d"], VALUES["b"]), 1.0
    return A


def runge_kutta(h):
    return sum(np.linalg.matrix_power(system() * h, k) / f for k, f in enumerate((1, 1, 2, 6, 24)))


def simpson(h):
    F, D = runge_kutta(h)[:2, :2], np.diag([0.2, 0.7]) * np.sqrt(h / 6)
    return F @ D, (3 * np.eye(2) + 6 * F - F @ F) / 4 @ D, D


def van_loan(h):
    A, Q = system()[:2, :2], np.diag([0.2, 0.7]) ** 2
    M = expm(np.block([[-A, Q], [np.zeros((2, 2)), A.T]]) * h)
    return (np.linalg.cholesky(M[2:, 2:].T @ M[:2, 2:]),)


@pytest.mark.parametrize(("hold", "feedthrough"), LINEAR)
def test_likelihood_of_a_linear_plant_is_the_one_of_all_samples_at_once(hold, feedthrough):
    problem = linear_problem(hold, feedthrough, INITIAL)
    setup, theta = setup_at(problem)
    exact = dense_likelihood(problem, VALUES, {}, 0.4, OUTPUT_STD, runge_kutta, simpson)
    assert evaluate(setup, theta).value == pytest.approx(exact, rel=1e-10, abs=1e-8)


def test_likelihood_tends_to_that_of_continuous_time_as_steps_shrink():
    problem = linear_problem("zero", True, INITIAL)
    exact = dense_likelihood(problem, VALUES, {}, 0.4, OUTPUT_STD, lambda h: expm(system() * h), van_loan)
    errors = [abs(evaluate(*setup_at(problem, substeps), derivatives=False).value - exact) for substeps in (2, 4, 8)]
    assert errors[2] < 1e-5
    assert errors[0] / errors[1] > 4 and errors[1] / errors[2] > 4  # second order and better: 5 to 7 with unequal samples


@pytest.mark.parametrize("kind", ["likelihood", TOTAL_LEAST_SQUARES])
@pytest.mark.parametrize(("hold", "feedthrough"), LINEAR)
def test_gradient_is_the_derivative(hold, feedthrough, kind):
    setup, theta = setup_at(linear_problem(hold, feedthrough))
    differences = [(evaluate(setup, theta + d, kind, False).value - evaluate(setup, theta - d, kind, False).value) / 2e-5
                   for d in 1e-5 * np.eye(theta.size)]
    np.testing.assert_allclose(evaluate(setup, theta, kind).gradient, differences, rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize(("hold", "feedthrough"), LINEAR)
def test_twin_gives_what_the_compiled_loop_gives(hold, feedthrough, monkeypatch):
    setup, theta = setup_at(linear_problem(hold, feedthrough))
    compiled = evaluate(setup, theta)
    monkeypatch.setattr(innovations, "_library", lambda model: None)
    twin = evaluate(setup, theta)
    assert twin.value == pytest.approx(compiled.value, rel=1e-12)
    np.testing.assert_allclose(twin.information, compiled.information, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(twin.innovations[0].mean, compiled.innovations[0].mean, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("plant", [tank, oscillator])
def test_without_other_noise_answer_and_cost_are_those_of_output_error(plant):
    problem, _ = plant(3, "none")
    shooting, found = (di.identify(problem, method, progress=False) for method in ("multiple_shooting", "prediction_error"))
    assert found.criterion == "output error"
    assert found.values == shooting.values and found.cost == shooting.cost
    assert "show no correlation in time" in found.notes[0]


def test_stated_noise_that_is_not_there_costs_a_little_width():
    """It is taken to be as large as the record may hide, not zero."""
    problem, _ = oscillator(1, "none")
    problem = problem.replace(process_noise={"v": di.Gaussian()})
    found = di.identify(problem, "prediction_error", progress=False)
    plain = di.identify(problem.with_output_noise_only(), "multiple_shooting", progress=False)
    for name in ("k", "d", "b"):
        assert found.values[name] == pytest.approx(plain.values[name], abs=0.5 * plain.uncertainty.std(name))
        assert 1.0 < found.uncertainty.std(name) / plain.uncertainty.std(name) < 1.8


@pytest.mark.parametrize("plant", [tank, oscillator])
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_hold_the_truth(plant, kind):
    repeats, inside, errors = 25, 0, []
    for seed in range(repeats):
        problem, truth = plant(seed, kind)
        found = di.identify(problem, "prediction_error", progress=False)
        for name, value in truth.items():
            low, high = found.uncertainty.interval(name)
            inside += low <= value <= high
            errors.append((found.values[name] - value) / found.uncertainty.std(name))
    trials = repeats * len(truth)
    assert inside >= 0.95 * trials - 3 * np.sqrt(trials * 0.95 * 0.05)  # errors of one record are correlated: three sigma
    spread = np.sqrt(chi_square_quantile(0.9999, repeats) / repeats)
    assert np.std(errors) < spread


def test_noise_of_a_sensor_taken_for_a_disturbance_attenuates_and_is_said():
    """The first lesson: where the noise is decides the answer."""
    misses = {"sensor": 0, "behind": 0}
    for seed in range(10):
        problem, truth = tank(seed, "sensor")
        wrong = problem.replace(experiments=[e.without_input_noise() for e in problem.experiments],
                                process_noise={"u": di.Gaussian()})
        for place, asked in (("sensor", problem), ("behind", wrong)):
            found = di.identify(asked, "prediction_error", progress=False)
            low, high = found.uncertainty.interval("a")
            misses[place] += not low <= truth["a"] <= high
    assert misses["sensor"] <= 3 and misses["behind"] >= 8
    assert found.criterion == "prediction error" and any("were it that of its sensor" in note for note in found.notes)


def test_a_free_initial_state_does_not_make_the_noise_vanish():
    """It meets the first sample exactly, whose likelihood would grow without end."""
    for seed in range(8):
        problem, _ = tank(seed, "process")
        found = di.identify(problem, "prediction_error", progress=False)
        setup = build_prediction(problem, {"h": None}, "runge_kutta", 1)
        assert setup.records[0].counted.sum() == problem.experiments[0].samples - 1
        assert found.uncertainty.std("h(0)") > 1e-5


def test_undisturbed_states_of_a_silent_problem_are_found_out():
    problem, _ = oscillator(2, "process")
    found = di.identify(problem.replace(process_noise={}), "prediction_error", progress=False)
    assert found.criterion == "prediction error" and "not white" in found.notes[0]
    assert found.process_noise["v"] == pytest.approx(0.3, rel=0.2)


def test_records_share_parameters_and_each_keeps_its_state():
    first, truth = oscillator(4, "process")
    second, _ = oscillator(5, "process")
    both = first.replace(experiments=[first.experiments[0].with_name("a"), second.experiments[0].with_name("b")])
    one, two = (di.identify(p, "prediction_error", progress=False) for p in (first, both))
    assert set(two.values) >= {"k", "x(0)[a]", "x(0)[b]"}
    assert two.uncertainty.std("k") < 0.85 * one.uncertainty.std("k")  # 0.71 for records alike
    assert abs(two.values["k"] - truth["k"]) < 4 * two.uncertainty.std("k")


def test_a_bound_is_kept_and_a_prior_is_heard():
    problem, _ = oscillator(6, "behind")
    free = di.identify(problem, "prediction_error", progress=False)
    bound = free.values["k"] - 2 * free.uncertainty.std("k")
    held = problem.replace(parameters=[di.Parameter("k", bound * 0.9, upper=bound), *problem.parameters[1:]])
    found = di.identify(held, "prediction_error", progress=False)
    assert found.values["k"] == bound and found.uncertainty.remark("k") == "at its upper bound"
    std = free.uncertainty.std("k")
    known = problem.replace(parameters=[di.Parameter("k", 4.0, prior=di.Prior(free.values["k"] + std, std)),
                                        *problem.parameters[1:]])
    found = di.identify(known, "prediction_error", progress=False)
    assert found.values["k"] == pytest.approx(free.values["k"] + std / 2, abs=0.1 * std)  # halfway: both know as much
    assert found.uncertainty.std("k") == pytest.approx(std / np.sqrt(2), rel=0.05)


@pytest.mark.parametrize("kind", ["process", "sensor"])
def test_an_equality_gives_what_substituting_it_gives(kind):
    """Two ways to write one model: values and intervals are the same to a thousandth of a standard error."""
    problem, truth = oscillator(6, kind)
    share = truth["d"] / truth["k"]
    tied = di.identify(problem.replace(constraints=(f"d == {share}*k",)), "prediction_error", progress=False)
    written = di.EquationModel.from_definition({
        **problem.model.definition(), "definitions": {"d": f"{share}*k"},
        "parameters": [name for name in problem.model.parameters if name != "d"]})
    left = [p for p in problem.parameters if getattr(p, "name", "") != "d"]
    substituted = di.identify(problem.replace(model=written, parameters=left), "prediction_error", progress=False)
    for name in ("k", "b"):
        std = substituted.uncertainty.std(name)
        assert tied.values[name] == pytest.approx(substituted.values[name], abs=1e-3 * std)
        assert tied.uncertainty.std(name) == pytest.approx(std, rel=1e-3)
    assert tied.values["d"] == pytest.approx(share * tied.values["k"], rel=1e-7)


def test_an_inequality_holds_where_it_is_in_the_way_and_nowhere_else():
    problem, _ = oscillator(6, "process")
    free = di.identify(problem, "prediction_error", progress=False)
    limit = free.values["k"] + 2 * free.uncertainty.std("k")
    held = di.identify(problem.replace(constraints=(f"k + 0*d >= {limit}",)), "prediction_error", progress=False)
    assert held.values["k"] == pytest.approx(limit, rel=1e-7) and any("held by the constraint" in note for note in held.notes)
    same = di.identify(problem.replace(constraints=(f"k + 0*d <= {limit}",)), "prediction_error", progress=False)
    assert same.values["k"] == pytest.approx(free.values["k"], abs=1e-3 * free.uncertainty.std("k"))
    assert not any("constraint" in note for note in same.notes)


def test_result_is_saved_with_its_criterion_and_noises(tmp_path):
    problem, _ = tank(0, "sensor")
    found = di.identify(problem, "prediction_error", progress=False)
    again = di.load(found.save(tmp_path / "result"))
    assert again.criterion == found.criterion == "errors in variables"
    assert again.input_noise == found.input_noise == {"u": 0.3}
    assert again.problem.experiments[0].input_noise == problem.experiments[0].input_noise
    assert "Criterion: errors in variables" in str(again)


def test_a_hessian_that_is_carried_on_becomes_that_of_a_quadratic():
    """The symmetric rank-one update along as many independent steps as there are entries is exact (Nocedal and Wright, 6.2)."""
    rng = np.random.default_rng(0)
    root = rng.standard_normal((4, 4))
    true, free = root @ root.T, np.array([True, False, True, True, True])
    kept = KeptHessian(free, np.eye(4))
    for step in np.eye(5)[free] + 0.1 * rng.standard_normal((4, 5)):
        kept = kept.along(step, np.insert(true @ step[free], 1, 7.0))
    np.testing.assert_allclose(kept.matrix, true, rtol=1e-9)
    assert kept.along(np.zeros(5), np.zeros(5)) is kept  # says nothing about it


def test_what_a_gap_makes_wide_does_not_stick_out():
    """Behind missing samples an innovation is large, and foreseen to be."""
    for seed in range(2):
        problem, _ = tank(seed, "process")
        (run,) = problem.experiments
        h = np.array(run.outputs["h"])
        for begin in range(50, 400, 70):
            h[begin:begin + 30] = np.nan
        estimate = di.identify(problem.replace(experiments=[replace(run, outputs={"h": h})]), di.prediction_error(),
                               progress=False)
        assert estimate.verdict.grade == "A" and "stick out" not in estimate.verdict.sentence


@pytest.mark.parametrize(("plant", "initial"), [(tank, {"h(0)": 1.5}), (oscillator, {"x(0)": 0.0, "v(0)": 0.0})])
def test_intervals_of_initial_states_hold_them(plant, initial):
    """A few samples tell of a first state, and their scores add up to zero at the end: its spread is not taken from them."""
    inside = []
    for seed in range(8):
        estimate = di.identify(plant(seed, "sensor")[0], di.prediction_error(), progress=False)
        assert estimate.criterion == "errors in variables"
        inside += [low <= truth <= high for name, truth in initial.items()
                   for low, high in [estimate.uncertainty.interval(name)]]
    assert np.mean(inside) > 0.8


@pytest.mark.parametrize(("kind", "printed"), [("sensor", "sensor of u 0.3 (std, given)"), ("behind", "behind u 0."),
                                               ("process", "on h 0.01")])
def test_noises_beside_those_of_the_outputs_are_printed(kind, printed):
    text = " ".join(str(di.identify(tank(0, kind)[0], progress=False)).split())
    assert f"disturbed {printed}" in text


@pytest.mark.parametrize(("kind", "stated"), [("sensor", True), ("behind", True), ("sensor", False), ("behind", False)])
def test_where_the_noise_of_an_input_is_stands_in_one_note(kind, stated):
    problem = tank(0, kind)[0] if stated else tank(0, kind)[0].with_output_noise_only()
    found = di.identify(problem, "prediction_error", progress=False)
    assert found.criterion != "output error"
    assert sum("sensor" in note or "behind" in note for note in found.notes) == 1


def test_a_place_that_does_not_matter_is_said_beside_the_criterion():
    found = di.identify(oscillator(1, "behind")[0].replace(process_noise={"u": di.Gaussian(1e-4)}), "prediction_error",
                        progress=False)
    assert "noise of u is stated; whether that of u is in its sensor or acts behind it moves no unknown" in found.notes[0]
