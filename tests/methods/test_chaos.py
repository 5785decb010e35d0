"""Chaos: what a record of an unstable motion determines is said so, with intervals, and what it does not is named."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dynident as di

TRUTH = {"s": 10.0, "r": 28.0, "b": 8 / 3, "x(0)": 1.0, "y(0)": 2.0, "z(0)": 20.0}
FIRST = [di.InitialState("x", start=0), di.InitialState("y", start=0), di.InitialState("z", start=10)]
NOISE = 0.5


def lorenz(gain="s", measured="x"):
    return di.EquationModel(states={"x": f"{gain}*(y - x)", "y": "x*(r - z) - y", "z": "x*y - b*z"},
                            outputs={name: name for name in measured})


def record(measured="x", duration=20.0):
    """The Lorenz system by an integrator that shares nothing with ours; a difference grows 1e7-fold and more."""
    time = np.linspace(0, duration, int(50 * duration) + 1)
    path = solve_ivp(lambda t, x: [10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]], (0, duration),
                     [1, 2, 20], t_eval=time, rtol=1e-12, atol=1e-12, method="DOP853").y
    noisy = path + NOISE * np.random.default_rng(0).standard_normal(path.shape)
    return di.Experiment(time, outputs={name: noisy["xyz".index(name)] for name in measured})


@pytest.fixture(scope="module")
def estimate():
    parameters = [di.Parameter(name, start=0.9 * TRUTH[name], lower=0) for name in ("s", "r", "b")]
    return di.identify(di.Problem(lorenz(), [record()], parameters + FIRST), progress=False)


@pytest.mark.slow
def test_parameters_of_a_chaotic_record_have_intervals_that_hold_the_truth(estimate):
    assert estimate.believed and estimate.uncertainty.unidentifiable == ()
    holds_the_truth(estimate)
    assert not [note for note in estimate.notes if "nothing measured" in note]


def holds_the_truth(estimate):
    """With intervals that are of use."""
    for name, true in TRUTH.items():
        std = estimate.uncertainty.std(name)
        assert abs(estimate.values[name] - true) <= 4 * std, name
        assert std <= (NOISE if name.endswith("(0)") else 0.03 * true), name


def test_all_that_a_chaotic_record_of_all_states_determines_is_said():
    parameters = [di.Parameter(name, start=0.99 * TRUTH[name], lower=0) for name in ("s", "r", "b")]
    found = di.identify(di.Problem(lorenz(measured="xyz"), [record("xyz")], parameters + FIRST),
                        di.multiple_shooting(segments=100, integrator="radau5"), progress=False)
    assert found.uncertainty.unidentifiable == ()
    holds_the_truth(found)


@pytest.mark.slow
def test_a_chaotic_model_is_not_called_stiff(estimate):
    assert not [note for note in estimate.notes if "stiff" in note]
    assert [note for note in estimate.notes if "are not accurate at the solution: fitted again by radau5" in note]


@pytest.mark.slow
def test_a_product_in_a_chaotic_model_is_named_and_the_rest_determined():
    starts = {"s": 4.5, "c": 2, "r": 25, "b": 2.4}
    parameters = [di.Parameter(name, start=start, lower=0) for name, start in starts.items()]
    found = di.identify(di.Problem(lorenz("s*c"), [record()], parameters + FIRST), progress=False)
    assert found.uncertainty.unidentifiable == ("s", "c")
    assert [note for note in found.notes if "c*s" in note or "s*c" in note]


def test_one_unknown_alone_is_not_hard_to_tell_from_itself():
    exact = [di.Parameter(name, start=TRUTH[name]) for name in ("s", "r", "b")]
    exact += [di.InitialState(state, start=TRUTH[f"{state}(0)"]) for state in "xyz"]
    check = di.check(di.Problem(lorenz(), [record()], exact))
    assert not [finding for finding in check.findings if "hard to tell apart" in str(finding) and len(finding.names) < 2]
