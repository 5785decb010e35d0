"""Models without states, whose outputs follow from the inputs at once: which methods take them, what do others say?"""

from __future__ import annotations

import numpy as np
import pytest

import dynident as di

T = np.linspace(0, 1, 30)
U = np.sin(7 * T)
Y = 2 * U + 1 + 0.01 * np.random.default_rng(3).uniform(-1, 1, T.size)
LINE = di.EquationModel(states={}, outputs={"y": "a*u + b"}, inputs=["u"])
REGRESSORS = np.column_stack([U, np.ones_like(U)])


def line(noise: di.Gaussian | di.Bounded | None = None, constraints: tuple[str, ...] = ()) -> di.Problem:
    run = di.Experiment(T, {"u": U}, {"y": Y}, noise={"y": noise or di.Gaussian(0.01)})
    return di.Problem(LINE, run, [di.Parameter("a", 1.0, -5, 5), di.Parameter("b", 0.5, -5, 5)], constraints)


@pytest.mark.parametrize("method", [None, "single_shooting", "multiple_shooting", "least_squares"])
def test_line_is_that_of_linear_regression(method):
    a, b = np.linalg.lstsq(REGRESSORS, Y)[0]
    values = di.identify(line(), method, progress=False).values
    assert abs(values["a"] - a) < 1e-6 and abs(values["b"] - b) < 1e-6


@pytest.mark.parametrize("method", [None, "single_shooting", "multiple_shooting", "least_squares"])
@pytest.mark.parametrize("constraint", ["a == 3*b", "a >= 3*b"])  # both hold with equality: the free optimum is a = 2 b
def test_constraint_is_kept(method, constraint):
    b = np.linalg.lstsq(REGRESSORS @ [[3], [1]], Y)[0][0]
    values = di.identify(line(constraints=(constraint,)), method, progress=False).values
    assert abs(values["a"] - 3 * b) < 1e-6 and abs(values["b"] - b) < 1e-6


def test_one_iteration_is_not_several():
    linear = di.identify(line(constraints=("a == 3*b",)), "single_shooting", progress=False)
    assert linear.counts["iterations"] == 1 and "after 1 iteration from" in linear.status


@pytest.mark.parametrize("method", ["full_discretization", "kalman", "moving_horizon", "boundary_value", "set_membership"])
def test_method_that_follows_a_motion_says_that_there_is_none(method):
    problem = line(di.Bounded(0.01) if method == "set_membership" else None)
    with pytest.raises(di.NotSupported, match=f"{method} needs a model with states.*single_shooting"):
        di.identify(problem, method, progress=False)


def test_profile_of_a_line_is_its_linear_interval():
    estimate = di.identify(line(), "single_shooting", progress=False)
    left = Y - REGRESSORS @ np.linalg.lstsq(REGRESSORS, Y)[0]  # white, and less than the given std: they say what the noise is
    spread = np.sqrt(np.diag(np.linalg.inv(REGRESSORS.T @ REGRESSORS)) * (left @ left) / 28)
    for name, std in zip("ab", spread, strict=True):
        low, high = di.profile(estimate, name).interval(name, 0.95)
        assert (high - low) / 2 == pytest.approx(2.04841 * std, rel=1e-4)  # Student's t with 28 degrees of freedom
