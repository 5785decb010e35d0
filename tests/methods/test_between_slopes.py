"""Starts at which the slope of an unknown vanishes though the outputs depend on it: is the fit led away, and what is said?"""

import numpy as np
import pytest

import dynident as di

TIME = np.linspace(0, 3, 50)
STD = 0.01
SQUARE = di.EquationModel(states={"x": "-a**2*x"}, outputs={"y": "x"}, parameters=["a"])
PRODUCT = di.EquationModel(states={"x": "-m*l*x"}, outputs={"y": "x"}, parameters=["m", "l"])
METHODS = [di.single_shooting(), di.multiple_shooting(), di.full_discretization(), di.boundary_value(), di.least_squares()]


def decay(model: di.EquationModel, *parameters: di.Parameter) -> di.Problem:
    y = np.exp(-0.5 * TIME) + STD * np.random.default_rng(0).standard_normal(TIME.size)
    return di.Problem(model, [di.Experiment(TIME, {}, {"y": y}, {"y": di.Gaussian(STD)}, {"x": 1.0})], list(parameters))


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.kind)
def test_square_from_zero_finds_what_is_found_from_one(method):
    at_zero, at_one = (di.identify(decay(SQUARE, di.Parameter("a", start=a)), method, progress=False) for a in (0.0, 1.0))
    assert at_zero.values["a"] == pytest.approx(at_one.values["a"], abs=1e-3 * at_one.uncertainty.std("a"))
    assert "beside" in at_zero.status and "beside" not in at_one.status


def test_a_minimum_without_slope_is_kept():
    """The record grows, and a square can only let it fall: 0 is the best, and its slope vanishes."""
    grown = decay(SQUARE, di.Parameter("a", start=0.0))
    run = di.Experiment(TIME, {}, {"y": 2 - grown.experiments[0].outputs["y"]}, {"y": di.Gaussian(STD)}, {"x": 1.0})
    found = di.identify(grown.changed(experiments=[run]), di.single_shooting())
    assert found.values["a"] == pytest.approx(0.0, abs=1e-6)


def test_check_blames_the_start_and_not_the_record():
    findings = {f.subject: f for f in di.check(decay(SQUARE, di.Parameter("a", start=0.0))).findings if f.severity == "error"}
    assert "at a = 0, though elsewhere it does" in findings["a"].sentence and "Start it somewhere else" in findings["a"].advice


def test_check_still_blames_the_model_for_a_product():
    """m and l act as m*l alone, wherever they start."""
    found = str(di.check(decay(PRODUCT, di.Parameter("m", start=1.0), di.Parameter("l", start=1.0))))
    assert "It is the model that hides it" in found
