"""Does a direct method begin where it is told to?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dynident as di
from problems import MACHINES


@pytest.fixture(scope="module")
def two_mass():
    problem = MACHINES["two_mass"].problem(seed=3)
    return problem, di.identify(problem, di.multiple_shooting(), progress=False)


@pytest.mark.parametrize("method", [di.single_shooting, di.multiple_shooting, di.full_discretization])
def test_a_fit_that_begins_at_an_estimate_stays_there(method, two_mass):
    problem, estimate = two_mass
    again = di.identify(problem, method(initial_guess=estimate), progress=False)
    assert again.counts["iterations"] <= 2
    for name in problem.names:
        harmless = 0.02 * estimate.uncertainty.std(name)  # what integrators may differ by
        assert again.values[name] == pytest.approx(estimate.values[name], abs=harmless)


def test_a_table_of_states_and_values_is_a_start(two_mass):
    problem, estimate = two_mass
    states = estimate.trajectories[0].states
    table = {"time": problem.experiments[0].time, **states, **{n: estimate.values[n] for n in ("m1", "m2", "k", "b")}}
    again = di.identify(problem, di.multiple_shooting(initial_guess=table), progress=False)
    assert again.counts["iterations"] <= 3
    assert again.values["k"] == pytest.approx(estimate.values["k"], rel=1e-6)


def test_states_of_the_record_are_a_start(two_mass):
    problem, estimate = two_mass
    again = di.identify(problem, di.multiple_shooting(initial_guess="measured"), progress=False)
    assert again.values["k"] == pytest.approx(estimate.values["k"], rel=1e-6)


def test_each_experiment_begins_at_its_own_first_state():
    machine = MACHINES["two_mass"]
    problem = di.Problem(machine.model, [machine.record(seed, name=f"run {seed}") for seed in range(2)], machine.parameters())
    estimate = di.identify(problem, di.multiple_shooting(), progress=False)
    again = di.identify(problem, di.single_shooting(initial_guess=estimate), progress=False)
    assert again.history[0].cost == pytest.approx(estimate.cost, rel=1e-6)


def test_a_table_that_lacks_a_state_or_names_a_stranger_is_refused(two_mass):
    problem, _ = two_mass
    with pytest.raises(di.ProblemError, match="no column 'x2'") as refused:
        di.identify(problem, di.multiple_shooting(initial_guess={"time": [0.0], "x1": [0.0], "v1": [0], "v2": [0], "zz": 1}))
    assert any("zz" in fault for fault in refused.value.faults)
    with pytest.raises(di.ProblemError, match="initial_guess = 3; give an estimate"):
        di.multiple_shooting(initial_guess=3)


def test_what_is_saved_of_a_method_holds_no_signals(two_mass):
    _, estimate = two_mass
    assert "initial_guess" not in di.multiple_shooting(initial_guess=estimate).options()
    assert di.multiple_shooting(initial_guess="measured").options()["initial_guess"] == "measured"


def test_values_outside_of_the_bounds_are_taken_to_them(two_mass):
    problem, estimate = two_mass
    far = replace(estimate, values={**estimate.values, "m1": -5.0})
    again = di.identify(problem, di.single_shooting(initial_guess=far), progress=False)
    assert again.history[0].values[problem.names.index("m1")] == 0.01
    assert np.isfinite(again.cost)
