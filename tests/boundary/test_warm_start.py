"""Does the smoother begin where it is told to, and with the weight that it is told to?"""

from __future__ import annotations

import numpy as np
import pytest

import dynident as di
from problems import MACHINES


@pytest.fixture(scope="module")
def spring():
    problem = MACHINES["mass_spring_damper"].problem(seed=3)
    return problem, di.identify(problem, di.boundary_value(), progress=False)


def test_a_smoother_that_begins_at_its_own_answer_stays_there(spring):
    problem, estimate = spring
    again = di.identify(problem, di.boundary_value(initial_guess=estimate), progress=False)
    assert again.counts["attempts"] == 1
    assert again.counts["iterations"] <= 2
    assert again.history[0].cost == pytest.approx(estimate.cost, rel=1e-3)
    for name in problem.names:
        assert again.values[name] == pytest.approx(estimate.values[name], abs=0.01 * estimate.uncertainty.std(name))


def test_a_table_with_states_and_values_is_a_start(spring):
    problem, estimate = spring
    states = estimate.trajectories[0].states
    table = {"time": problem.experiments[0].time, **states, **{n: estimate.values[n] for n in problem.model.parameters}}
    far = problem.replace(parameters=[di.Parameter(p, 300.0) for p in problem.model.parameters])
    again = di.identify(far, di.boundary_value(initial_guess=table, max_restarts=0), progress=False)
    assert again.counts["attempts"] == 1
    assert again.counts["iterations"] <= 2
    assert again.history[0].cost < 2 * estimate.cost
    assert "given trajectory" in str(again.status)


@pytest.mark.parametrize("solver", ["newton", "davidenko"])
def test_a_root_finder_begins_along_the_trajectory_too(spring, solver):
    problem, estimate = spring
    cold = di.identify(problem, di.boundary_value(solver=solver), progress=False)
    warm = di.identify(problem, di.boundary_value(solver=solver, initial_guess=estimate), progress=False)
    assert warm.history[0].cost < 0.1 * cold.history[0].cost
    assert warm.values == pytest.approx(cold.values, rel=1e-4)


def test_a_parameter_that_drifts_stands_still_along_a_guess(spring):
    problem, estimate = spring
    drifting = di.boundary_value(process_noise={"v": 0.01, "k": 0.05}, initial_guess=estimate)
    again = di.identify(problem, drifting, progress=False)
    cold = di.identify(problem, di.boundary_value(process_noise={"v": 0.01, "k": 0.05}), progress=False)
    assert again.cost == pytest.approx(cold.cost, rel=1e-4)


def test_a_weight_factor_is_a_process_noise_divided_by_its_root(spring):
    problem, _ = spring
    factor = di.identify(problem, di.boundary_value(process_noise={"v": 0.02}, weight_factor=16.0), progress=False)
    smaller = di.identify(problem, di.boundary_value(process_noise={"v": 0.005}), progress=False)
    assert factor.cost == pytest.approx(smaller.cost, rel=1e-9)
    assert factor.values == pytest.approx(smaller.values, rel=1e-9)


def test_a_weaker_model_follows_the_record_more_closely(spring):
    problem, estimate = spring
    weak = di.identify(problem, di.boundary_value(weight_factor=1e-4), progress=False)
    rms = [float(np.sqrt(np.mean(e.residuals[0]["position"] ** 2))) for e in (weak, estimate)]
    assert rms[0] < 0.98 * rms[1]


def test_the_limit_of_iterations_is_kept(spring):
    problem, _ = spring
    far = problem.replace(parameters=[di.Parameter(p, 300.0) for p in problem.model.parameters])
    with pytest.raises(di.NotConverged) as stopped:
        di.identify(far, di.boundary_value(max_iterations=1, max_restarts=0), progress=False)
    counts = stopped.value.estimate.counts
    assert counts["iterations"] <= counts["attempts"] + 1  # one of each attempt, one in the user's own coordinates


@pytest.mark.parametrize(("option", "words"), [({"weight_factor": 0.0}, "weight_factor = 0.0; give a positive number"),
                                               ({"weight_factor": "much"}, "weight_factor = 'much'"),
                                               ({"initial_guess": 3}, "initial_guess = 3; give an estimate")])
def test_what_is_no_factor_and_no_trajectory_is_refused(option, words):
    with pytest.raises(di.ProblemError, match=words):
        di.boundary_value(**option)


def test_what_is_saved_holds_the_factor_and_no_signals(spring):
    options = di.boundary_value(weight_factor=0.5, initial_guess=spring[1]).options()
    assert options["weight_factor"] == 0.5
    assert "initial_guess" not in options
