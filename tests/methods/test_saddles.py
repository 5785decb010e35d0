"""Is an end left at which every first derivative vanishes, but beside which the cost falls?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.signal import lfilter

import dynident as di
from dynident.methods.saddles import falling_directions, leaves_more_than_noise, lower_beside

METHODS = {"single": di.single_shooting(), "multiple": di.multiple_shooting(), "full": di.full_discretization(),
           "default": None}
RATES = (0.5, 4.0)


def noise(time, std):
    return std * np.random.default_rng(0).standard_normal(time.size)


def decays(std=0.01, start=2.0, **bounds):
    """Two decays of which the sum is measured; from one rate for both, no method that follows a gradient tells them apart."""
    time = np.linspace(0, 6, 121)
    y = sum(np.exp(-k * time) for k in RATES) + noise(time, 0.01)
    model = di.EquationModel(states={"x": "-k1*x", "y": "-k2*y"}, outputs={"sum": "x + y"})
    run = di.Experiment(time, {}, {"sum": y}, noise={"sum": di.Gaussian(std)}, initial={"x": 1.0, "y": 1.0})
    return di.Problem(model, [run], [di.Parameter(k, start, **bounds) for k in ("k1", "k2")])


def lags():
    """Two first-order lags in parallel, driven."""
    time = np.linspace(0, 20, 201)
    u = np.sign(np.sin(0.9 * time) + 0.3 * np.sin(2.3 * time))
    y = noise(time, 0.01)
    for k in RATES:
        pole = np.exp(-k * (time[1] - time[0]))
        y = y + lfilter([0.0, 1 - pole], [1.0, -pole], u)
    model = di.EquationModel(states={"x": "k1*(u - x)", "y": "k2*(u - y)"}, outputs={"sum": "x + y"}, inputs=["u"])
    run = di.Experiment(time, {"u": u}, {"sum": y}, initial={"x": 0.0, "y": 0.0})
    return di.Problem(model, [run], [di.Parameter(k, 1.0) for k in ("k1", "k2")])


def rates(estimate):
    return sorted(float(estimate.values[k]) for k in ("k1", "k2"))


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("problem", [decays(), decays(std=None), lags(), decays(log=True), decays(lower=0.1, upper=9.0)],
                         ids=["given", "estimated", "driven", "logarithms", "bounds"])
def test_a_saddle_between_alike_terms_is_left(problem, method):
    estimate = di.identify(problem, method, progress=False)
    assert rates(estimate) == pytest.approx(RATES, rel=0.05)
    assert "beside a saddle, along k1, k2" in str(estimate.status)


@pytest.mark.parametrize(("loss", "stick_out"), [("huber", 0.1), ("cauchy", 0.0), ("cauchy", 0.1)])
def test_a_saddle_of_a_robust_loss_is_left(loss, stick_out):
    """Second derivatives of the sum of squares bend up there, for what sticks out; those of the loss bend down."""
    problem = decays()
    (run,) = problem.experiments
    rows = np.random.default_rng(2).random(run.samples) < stick_out
    problem = problem.replace(experiments=[replace(run, outputs={"sum": run.outputs["sum"] - 3 * rows})])
    estimate = di.identify(problem, di.single_shooting(loss=loss), progress=False)
    assert rates(estimate) == pytest.approx(RATES, rel=0.05)
    assert "beside a saddle, along k1, k2" in str(estimate.status)


def test_the_default_needs_no_other_stage_for_it():
    estimate = di.identify(decays(std=None), progress=False)
    assert [row.stage for row in estimate.stages] == ["plain"]
    assert estimate.believed


def test_a_saddle_on_a_bound_is_left_inwards():
    """At q = 0 the cost has no slope, and bends down where q may go."""
    time = np.linspace(0, 3, 61)
    model = di.EquationModel(states={"x": "q**2 - x"})
    run = di.Experiment(time, {}, {"x": 4 * (1 - np.exp(-time)) + noise(time, 0.01)}, initial={"x": 0.0})
    for q in (di.Parameter("q", 0.0, lower=0.0), di.Parameter("q", 0.0, upper=0.0)):
        found = di.identify(di.Problem(model, [run], [q]), di.single_shooting(), progress=False)
        assert abs(found.values["q"]) == pytest.approx(2.0, abs=0.01)


def at(problem, values):
    finite = di.single_shooting().transcribe(problem, 4, {"sum": 0.01})
    point = finite.start()
    point = replace(point, unknowns=finite.coordinates.coordinates(np.array([values[n] for n in problem.names], float)))
    return finite, finite.linearization(point), finite.evaluate(point)


def test_the_direction_that_falls_is_the_one_that_tells_the_terms_apart():
    """Along (1, -1) residuals have no slope, and along (1, 1) the cost bends up."""
    problem = decays()
    time, y = problem.experiments[0].time, problem.experiments[0].outputs["sum"]
    k = minimize_scalar(lambda rate: np.sum((y - 2 * np.exp(-rate * time)) ** 2), (0.5, 2.0), tol=1e-10).x
    finite, there, _ = at(problem, {"k1": k, "k2": k})
    directions = falling_directions(problem, finite, there)
    assert directions.shape == (2, 1)
    assert directions[0, 0] == pytest.approx(-directions[1, 0], rel=1e-2)
    assert directions[0, 0] > 0
    beside = lower_beside(problem, finite, there)
    assert beside is not None
    assert beside.names == ("k1", "k2")
    assert np.sum((y - sum(np.exp(-v * time) for v in beside.values)) ** 2) < 0.99 * np.sum((y - 2 * np.exp(-k * time)) ** 2)


def test_nothing_falls_beside_the_minimum_of_a_wrong_model():
    """What is left is no noise, and all the same the cost bends up all around."""
    time = np.linspace(0, 6, 121)
    model = di.EquationModel(states={"x": "-k1*x + k2"}, outputs={"sum": "x"})
    run = di.Experiment(time, {}, {"sum": np.exp(-0.5 * time) + np.exp(-4 * time) + noise(time, 0.01)},
                        noise={"sum": di.Gaussian(0.01)}, initial={"x": 2.0})
    problem = di.Problem(model, [run], [di.Parameter("k1", 1.0), di.Parameter("k2", 0.1)])
    estimate = di.identify(problem, di.single_shooting(), progress=False)
    finite, there, evaluation = at(problem, estimate.values)
    assert leaves_more_than_noise(evaluation, 119, estimated=False) and leaves_more_than_noise(evaluation, 119, estimated=True)
    assert falling_directions(problem, finite, there).shape[1] == 0
    assert "saddle" not in str(estimate.status)


def test_an_end_that_leaves_noise_is_not_asked():
    estimate = di.identify(decays(start=1.0).replace(parameters=[di.Parameter("k1", 0.7), di.Parameter("k2", 3.0)]),
                           di.single_shooting(), progress=False)
    _, _, there = at(decays(), estimate.values)
    assert not leaves_more_than_noise(there, 119, estimated=False)
    assert not leaves_more_than_noise(there, 119, estimated=True)
