"""Does the ladder carry every kind of problem: long and short, gaps, modes, priors, bounds, starts at 0?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dynident as di
from problems import MACHINES, staircase

RNG = np.random.default_rng


def decay(samples=40, std=0.01, seed=0, end=5.0, **parameter):
    time = np.linspace(0, end, samples)
    y = np.exp(-time) + std * RNG(seed).standard_normal(samples)
    return di.Problem(di.EquationModel(states={"x": "-k*x"}), [di.Experiment(time, {}, {"x": y})],
                      [di.Parameter("k", **{"start": 0.3, **parameter})])


def near(estimate, truth, errors=5.0):
    for name, value in truth.items():
        assert estimate.values[name] == pytest.approx(value, abs=errors * estimate.uncertainty.std(name)), name


@pytest.mark.parametrize("parameter", [
    {}, {"lower": 0.0}, {"lower": 0.1, "upper": 0.3}, {"start": 0.0}, {"start": -2.0}, {"start": 50.0, "upper": 50.0},
    {"start": 1e-3, "log": True}, {"start": 5.0, "lower": 1e-3, "upper": 1e3, "log": True}])
def test_bounds_of_any_kind_starts_at_0_at_a_bound_and_of_the_other_sign(parameter):
    estimate = di.identify(decay(**parameter), progress=False)
    if parameter.get("upper") == 0.3:
        assert estimate.values["k"] == 0.3
    else:
        near(estimate, {"k": 1.0})
        assert estimate.believed


@pytest.mark.parametrize("samples", [10, 20, 21])
def test_short_records_climb_the_same_ladder(samples):
    """A8: below 21 samples multiple shooting is single shooting; the ladder is the same."""
    near(di.identify(decay(samples, start=100.0), progress=False), {"k": 1.0})


@pytest.mark.slow
def test_a_hundred_thousand_samples():
    time = np.linspace(0, 1000, 100_001)
    u = staircase(time, 1.3, 1.0, 1)
    y = np.zeros(time.size)
    decline = np.exp(-0.01 * 1.7)
    for k in range(time.size - 1):
        y[k + 1] = decline * y[k] + (1 - decline) * u[k] / 1.7
    y += 0.01 * RNG(0).standard_normal(time.size)
    model = di.EquationModel(states={"x": "u - k*x"}, inputs=["u"])
    estimate = di.identify(di.Problem(model, [di.Experiment(time, {"u": u}, {"x": y})], [di.Parameter("k", 60.0)]),
                           progress=False)
    near(estimate, {"k": 1.7})
    assert estimate.believed


def test_missing_samples_uneven_times_and_outputs_with_unequal_noise():
    machine = MACHINES["two_mass"]
    rng = RNG(5)
    keep = np.sort(rng.choice(machine.time.size, 150, replace=False))
    keep[0] = 0
    time, clean = machine.time[keep], machine.outputs()
    uneven = {n: u[keep] for n, u in machine.inputs.items()}
    model = machine.model
    # what is held between uneven samples is another input: simulated anew
    run = di.Experiment(time, uneven, {}, initial=machine.initial)
    clean = di.simulate(model, machine.truth, run).outputs
    measured = {n: clean[n] + s * rng.standard_normal(time.size) for n, s in (("x1", 1e-4), ("x2", 1e-2))}
    measured["x1"][20:40] = np.nan
    estimate = di.identify(di.Problem(model, [di.Experiment(time, uneven, measured)], machine.parameters()), progress=False)
    near(estimate, machine.truth)
    assert estimate.believed


def test_a_prior_counts_in_the_cost_by_which_ends_are_compared():
    tight = decay()
    told = tight.replace(parameters=[di.Parameter("k", 0.3, prior=di.Prior(1.0, 1e-4))])
    assert di.identify(told, progress=False).values["k"] == pytest.approx(1.0, abs=5e-4)


def test_only_first_states_are_unknown():
    time = np.linspace(0, 3, 60)
    y = 4 * np.exp(-time) + 0.01 * RNG(0).standard_normal(60)
    problem = di.Problem(di.EquationModel(states={"x": "-x"}), [di.Experiment(time, {}, {"x": y})])
    estimate = di.identify(problem, progress=False)
    assert estimate.values["x(0)"] == pytest.approx(4.0, abs=0.02)
    assert estimate.believed


def test_a_model_with_modes_takes_the_stages_that_it_can():
    ball = di.EquationModel(
        modes={"flying": di.Mode({"h": "v", "v": "-g"})}, outputs={"h": "h"},
        transitions=[di.Transition("flying", "flying", when="h < 0", reset={"v": "-e*v", "h": "0"})],
        parameters=["g", "e"], states=["h", "v"])
    time = np.linspace(0, 2.4, 121)
    run = di.Experiment(time, initial={"h": 1.0, "v": 0.0})
    clean = di.simulate(ball, {"g": 9.81, "e": 0.8}, run).outputs["h"]
    measured = di.Experiment(time, {}, {"h": clean + 0.005 * RNG(0).standard_normal(121)}, initial={"h": 1.0, "v": 0.0})
    unknowns = [di.Parameter("g", 5.0, 1.0, 100.0), di.Parameter("e", 0.6, 0.05, 1.0)]
    estimate = di.identify(di.Problem(ball, [measured], unknowns), progress=False)
    near(estimate, {"g": 9.81, "e": 0.8})
    assert "smooth" not in {row.stage for row in estimate.stages}


def test_noise_that_was_given_wrong_does_not_stop_belief():
    for factor in (0.3, 1.0, 3.0):
        machine = MACHINES["two_mass"]
        said = {n: factor * s for n, s in machine.std.items()}
        run = machine.record(3)
        run = replace(run, noise={n: di.Gaussian(s) for n, s in said.items()})
        estimate = di.identify(di.Problem(machine.model, [run], machine.parameters()), progress=False)
        near(estimate, machine.truth)
        assert estimate.believed


def test_parameters_that_are_an_experiment_s_own():
    machine = MACHINES["pendulum"]
    runs = [machine.record(seed, name=f"run {seed}") for seed in range(2)]
    parameters = [replace(p, shared=p.name != "d", start=3 * p.start) for p in machine.parameters()]
    estimate = di.identify(di.Problem(machine.model, runs, parameters), progress=False)
    assert estimate.values["p"] == pytest.approx(machine.truth["p"], rel=0.01)
    assert {"d[run 0]", "d[run 1]"} <= set(estimate.problem.names)


def test_results_of_the_ladder_are_saved_and_read(tmp_path):
    estimate = di.identify(decay(start=300.0), progress=False)
    again = di.load(estimate.save(tmp_path / "result"))
    assert (again.believed, again.belief_reason, again.arrived_by) == (
        estimate.believed, estimate.belief_reason, estimate.arrived_by)
    assert [row.stage for row in again.stages] == [row.stage for row in estimate.stages]
    assert again.method == estimate.method
    page = (tmp_path / "result" / "report.html").read_text()
    assert "simulations with sensitivities" in page


@pytest.mark.parametrize("method", [di.multiple_shooting(), di.boundary_value(), di.kalman(), di.full_discretization()],
                         ids=lambda m: m.kind)
def test_every_estimate_has_open_loop_residuals(method):
    machine = MACHINES["mass_spring_damper"]
    problem = machine.problem(seed=3)
    estimate = di.identify(problem, method, progress=False)
    initial = {s: estimate.values[f"{s}(0)"] for s in problem.model.states}
    by_hand = machine.outputs({n: estimate.values[n] for n in problem.model.parameters}, initial)["position"]
    expected = problem.experiments[0].outputs["position"] - by_hand
    assert estimate.open_loop_residuals()[0]["position"] == pytest.approx(expected, abs=1e-4 * np.std(by_hand))
