"""Unknowns that run off to infinity: are they told from an optimum that is far away, and what is said of them?

The mass of the thesis, Sec. 7.2, with a negative mass at the start: a mass, a stiffness and a damping that grow together
let it stand still, which is the best that a model can do whose every motion explodes.
"""

import itertools
from typing import Any

import numpy as np
import pytest

import dynident as di

SPRING = di.EquationModel(states={"y": "v", "v": "(u - b*v - k*y)/m"}, outputs={"position": "y"}, inputs=["u"],
                          parameters=["m", "k", "b"])
STD = 0.01
TIME = np.linspace(0, 10, 101)
WEIGHTS: dict[str, Any] = {"process_noise": dict.fromkeys(("y", "v", "m", "k", "b"), 1.0), "measurement_noise": 0.1,
           "initial_noise": {"y": 1.0, "v": 1.0}, "measurements": "continuous"}  # Sec. 7.2


def swinging() -> di.Experiment:
    still = di.Experiment(TIME, {"u": np.sin(0.8 * TIME) + np.sin(1.2 * TIME)}, {}, hold="linear", initial={"y": 0, "v": 0})
    clean = di.simulate(SPRING, {"m": 1, "k": 1, "b": 1}, still, substeps=8).outputs["position"]
    measured = clean + STD * np.random.default_rng(0).standard_normal(TIME.size)
    return di.Experiment(TIME, still.inputs, {"position": measured}, {"position": di.Gaussian(STD)}, hold="linear")


RUN = swinging()


def spring(*start: float) -> di.Problem:
    return di.Problem(SPRING, [RUN], [di.InitialState("y", start=0.0), di.InitialState("v", start=0.0),
                                      *(di.Parameter(n, start=s) for n, s in zip("mkb", start, strict=True))])


@pytest.mark.parametrize("method", [di.multiple_shooting(), di.full_discretization()], ids=lambda m: m.kind)
def test_a_mass_that_runs_off_is_no_optimum(method):
    words = "minimum lies at infinity in m, k, b: ten times as far from the start the model fits"
    with pytest.raises(di.NotConverged, match=words) as stopped:
        di.identify(spring(-0.7, 4.5, 0.66), method)
    assert stopped.value.estimate.status.code == "unbounded_minimum"
    assert abs(stopped.value.estimate.values["m"]) > 1e3 * 0.7
    assert "NOT CONVERGED" in str(stopped.value.estimate)


def test_an_optimum_far_away_is_one():
    """Linear in its parameter, so that the optimum is known: sum(s y) / sum(s s), a hundred thousand times the start."""
    model = di.EquationModel(states={"x": "c*u"}, outputs={"y": "x"}, inputs=["u"])
    u = np.cos(TIME)
    slope = np.append(0.0, np.cumsum((u[1:] + u[:-1]) / 2 * np.diff(TIME)))  # exact for inputs that are lines
    y = 1e5 * slope + np.random.default_rng(1).standard_normal(TIME.size)
    run = di.Experiment(TIME, {"u": u}, {"y": y}, {"y": di.Gaussian(1e-3)}, hold="linear", initial={"x": 0.0})
    found = di.identify(di.Problem(model, [run], [di.Parameter("c", start=1.0)]), di.single_shooting())
    assert found.converged and found.status.code == "converged"
    assert found.values["c"] == pytest.approx(slope @ y / (slope @ slope), rel=1e-9)


@pytest.mark.parametrize("method", [di.multiple_shooting(segments=4), di.single_shooting()], ids=lambda m: m.kind)
def test_a_logarithm_that_runs_off_to_zero_is_no_optimum(method):
    """The record falls, and a positive rate can only let it rise: the smaller, the better."""
    model = di.EquationModel(states={"x": "r*x"}, outputs={"y": "x"})
    run = di.Experiment(TIME, {}, {"y": np.exp(-0.3 * TIME)}, {"y": di.Gaussian(STD)})
    with pytest.raises(di.NotConverged, match="infinity in r") as stopped:
        di.identify(di.Problem(model, [run], [di.Parameter("r", start=0.1, log=True)]), method)
    assert stopped.value.estimate.status.code == "unbounded_minimum"


def test_boundary_value_finds_the_minimum_whatever_the_signs_of_the_start():
    method = di.boundary_value(**WEIGHTS)
    reference = di.identify(spring(1, 1, 1), method, progress=False)
    for signs in itertools.product((-1, 1), repeat=3):
        found = di.identify(spring(*np.multiply(signs, (2.0, 0.4, 3.0))), method, progress=False)
        assert found.cost == pytest.approx(reference.cost, rel=1e-6), signs
        assert [found.values[n] for n in "mkb"] == pytest.approx([reference.values[n] for n in "mkb"], rel=1e-4), signs


def test_bounds_keep_boundary_value_from_turning_signs():
    """A mass below zero by its bound: the minimum with a positive one is no answer."""
    own = spring(-0.7, 4.5, 0.66)
    bounded = own.replace(parameters=[di.Parameter("m", start=-0.7, lower=-1e9, upper=-0.1) if p is own.parameters[2] else p
                                      for p in own.parameters])
    with pytest.raises(di.NotConverged) as stopped:
        di.identify(bounded, di.boundary_value(**WEIGHTS), progress=False)
    assert stopped.value.estimate.status.code == "unbounded_minimum"
    assert stopped.value.estimate.values["m"] <= -0.1
