"""Starts at which the slope of an unknown vanishes though the outputs depend on it: is the fit led away, and what is said?"""

import numpy as np
import pytest

import dynident as di
from dynident.statistics.diagnostic import DiagnosticCode

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
    assert at_zero.status.code == "converged_from_perturbed_start" or "beside" in at_zero.status  # an attempt of the smoother
    assert at_one.status.code == "converged" and "beside" not in at_one.status


def test_a_minimum_without_slope_is_kept():
    """The record grows, and a square can only let it fall: 0 is the best, and its slope vanishes."""
    grown = decay(SQUARE, di.Parameter("a", start=0.0))
    run = di.Experiment(TIME, {}, {"y": 2 - grown.experiments[0].outputs["y"]}, {"y": di.Gaussian(STD)}, {"x": 1.0})
    found = di.identify(grown.replace(experiments=[run]), di.single_shooting())
    assert found.values["a"] == pytest.approx(0.0, abs=1e-6)


def test_check_blames_the_start_and_not_the_record():
    findings = {f.subject: f for f in di.check(decay(SQUARE, di.Parameter("a", start=0.0))).findings if f.severity != "info"}
    assert findings["a"].code is DiagnosticCode.ZERO_SENSITIVITY and "zero sensitivity at a = 0" in findings["a"].sentence


def test_check_still_blames_the_model_for_a_product():
    """m and l act as m*l alone, wherever they start."""
    found = di.check(decay(PRODUCT, di.Parameter("m", start=1.0), di.Parameter("l", start=1.0)))
    assert found.codes[0] is DiagnosticCode.STRUCTURALLY_UNIDENTIFIABLE


# conditions that act in jumps

SWITCHED = di.EquationModel(states={"x": "-a*x + where(x > T, -x, 0) + u"}, inputs=["u"], outputs={"y": "x"})


def switched() -> di.Problem:
    time = np.linspace(0, 10, 101)
    u = 1 + np.sin(time)
    still = di.Experiment(time, {"u": u}, {}, initial={"x": 0.0})
    with pytest.warns(UserWarning, match="halving the steps"):  # a condition is met inside of a step, never on its ends
        clean = di.simulate(SWITCHED, {"a": 1.0, "T": 0.5}, still).outputs["y"]
    y = clean + STD * np.random.default_rng(0).standard_normal(time.size)
    run = di.Experiment(time, {"u": u}, {"y": y}, {"y": di.Gaussian(STD)}, {"x": 0.0})
    return di.Problem(SWITCHED, [run], [di.Parameter("a", 0.9, 0, 5), di.Parameter("T", 0.4, 0, 5)])


@pytest.fixture(scope="module")
def condition() -> di.Problem:
    return switched()


@pytest.mark.parametrize("method", [di.single_shooting(), di.multiple_shooting(), di.boundary_value()], ids=lambda m: m.kind)
def test_a_parameter_that_acts_in_jumps_is_not_called_converged(condition, method):
    with pytest.raises(di.NotConverged, match="T has a piecewise constant effect") as stopped:
        di.identify(condition, method, progress=False)
    assert stopped.value.estimate.status.code == "piecewise_constant"


def test_implicit_steps_across_a_jump_end_with_a_sentence(condition):
    with pytest.raises(di.DynidentError, match=r"piecewise constant|an implicit step has no solution"):
        di.identify(condition, di.full_discretization(), progress=False)


def test_differences_find_what_derivatives_do_not_see(condition):
    found = di.identify(condition, di.least_squares(), progress=False)
    assert abs(found.values["T"] - 0.5) < 4 * found.uncertainty.std("T") < 0.05


def test_check_and_structure_see_what_acts_in_jumps(condition):
    found = di.check(condition)
    assert [(f.code, f.names) for f in found.findings if f.severity == "error"] == [(DiagnosticCode.PIECEWISE_CONSTANT, ("T",))]
    shown = di.structural_identifiability(SWITCHED, {"a": 1.0, "T": 0.5}, 10.0, initial={"x": 0.0})
    assert shown.identifiable and shown.jumps == ("T",)


def test_check_blames_equal_starts_for_a_sum():
    """exp(-a t) + exp(-b t) shows a and b, but at a = b only their sum."""
    model = di.EquationModel(states={"x": "-a*x", "z": "-b*z"}, outputs={"y": "x + z"})
    run = di.Experiment(TIME, {}, {"y": np.exp(-TIME) + np.exp(-2 * TIME)}, {"y": di.Gaussian(STD)}, {"x": 1.0, "z": 1.0})
    (error,) = (f for f in di.check(di.Problem(model, [run], [di.Parameter("a", 1.0), di.Parameter("b", 1.0)])).findings
                if f.severity == "error")
    assert error.code is DiagnosticCode.UNIDENTIFIABLE_AT_START and "input" not in error.advice
    assert "cannot be told apart at a = 1, b = 1, to first order, though elsewhere they can" in error.sentence


def test_check_names_no_law_that_holds_at_round_starts_only():
    """Two compartments: k01 + k21, k12 + k02 and k21*k12 are determined; at .22, .66, .44, .33 also 2 k01 + 3 k02 looks so."""
    model = di.EquationModel(states={"x1": "-(k01 + k21)*x1 + k12*x2 + u", "x2": "k21*x1 - (k12 + k02)*x2"},
                             outputs={"y": "x1"}, inputs=["u"])
    run = di.Experiment(TIME, {"u": 1.0 * (TIME < 1)}, {"y": 0 * TIME}, {"y": di.Gaussian(1e-3)}, {"x1": 0.0, "x2": 0.0})
    starts = {"k01": 0.22, "k21": 0.66, "k12": 0.44, "k02": 0.33}
    found = di.check(di.Problem(model, [run], [di.Parameter(n, v) for n, v in starts.items()]))
    assert found.codes[0] is DiagnosticCode.STRUCTURALLY_UNIDENTIFIABLE and "2 k01" not in str(found)


def test_structure_refuses_names_that_the_model_does_not_have():
    for wrong in ({"inputs": {"w": 1.0}}, {"duration": -1.0}, {"values": {"a": 1.0, "T": 0.5, "z(0)": 1.0}}):
        with pytest.raises(di.ProblemError):
            di.structural_identifiability(SWITCHED, **({"values": {"a": 1.0, "T": 0.5}, "duration": 1.0} | wrong))
