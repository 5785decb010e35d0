"""Does a method say before the fit, and without one, what it has against a problem?"""

from __future__ import annotations

import numpy as np
import pytest

import dynident as di

T = np.linspace(0, 1, 11)


def plain(runs: int = 1, noise=None, **changes) -> di.Problem:
    model = di.EquationModel(states={"x": "-a*x + u"}, outputs={"y": "x"}, inputs=["u"])
    records = [di.Experiment(T, {"u": 0 * T}, {"y": np.exp(-T)}, {"y": noise or di.Gaussian(0.01)}, {"x": 1}, name=f"run {k}")
               for k in range(runs)]
    return di.Problem(model, records, [di.Parameter("a", start=2)], **changes)


def hybrid() -> di.Problem:
    model = di.EquationModel(modes={"up": di.Mode({"x": "a"}), "down": di.Mode({"x": "-a"})},
                             transitions=[di.Transition("up", "down", when="x > 0.5")], states=["x"], outputs={"y": "x"})
    record = di.Experiment(T, outputs={"y": 0.5 - abs(T - 0.5)}, noise={"y": di.Gaussian(0.01)}, initial={"x": 0}, mode="up")
    return di.Problem(model, [record], [di.Parameter("a", start=1.1, lower=0.5, upper=2)])


CASES = [
    (hybrid, di.kalman(), "kalman needs a model with one mode"),
    (hybrid, di.moving_horizon(), "moving_horizon needs a model with one mode"),
    (hybrid, di.boundary_value(), "boundary_value needs a model with one mode"),
    (hybrid, di.full_discretization(), "single_shooting(), multiple_shooting() and least_squares()"),
    (hybrid, di.set_membership(), "needs a bound on the errors of y, but these are Gaussian"),
    (hybrid, di.multiple_shooting(integrator="radau"), "'radau' cannot follow the modes"),
    (hybrid, di.least_squares(integrator="cvodes"), "'cvodes' cannot follow the modes"),
    (hybrid, di.multistart(di.kalman(), starts=2), "kalman needs a model with one mode"),
    (plain, di.kalman(process_noise={"z": 1}), "process_noise names 'z'"),
    (plain, di.boundary_value(process_noise={"z": 1}), "process_noise names 'z'"),
    (lambda: plain(2), di.boundary_value(solver="newton"), "takes one experiment, but there are 2"),
    (lambda: plain(2), di.boundary_value(refine=True), "refine = true solves the boundary value problem of one experiment"),
    (plain, di.multiple_shooting(segments=40), "cannot be cut into 40 segments"),
    (lambda: plain(constraints=["a <= 3"]), di.single_shooting(solver="levenberg_marquardt"), "takes bounds on parameters"),
    (lambda: plain(constraints=["x <= 3"]), di.full_discretization(solver="gauss_newton"), "no bounds on states"),
    (plain, di.least_squares(global_search=100), "A search needs bounds on both sides; give lower and upper for a"),
    (lambda: plain(noise=di.Bounded(0.1)), di.kalman(), "the errors of y are Bounded"),
    (lambda: plain(noise=di.Bounded(0.1)), di.set_membership(), "starts from a box, but a has no bounds"),
]


@pytest.mark.parametrize("problem, method, sentence", CASES, ids=lambda it: it if isinstance(it, str) else "")
def test_refusal_before_the_fit_is_that_of_the_fit(problem, method, sentence):
    asked = problem()
    with pytest.raises(di.DynidentError) as before:
        method.check_supports(asked)
    with pytest.raises(di.DynidentError) as during:
        di.identify(asked, method, progress=False)
    assert sentence in str(before.value)
    assert str(before.value) == str(during.value) and type(before.value) is type(during.value)


@pytest.mark.parametrize("method", [di.single_shooting(), di.multiple_shooting(), di.least_squares()])
def test_methods_that_follow_the_modes_refuse_nothing(method):
    asked = hybrid()
    method.check_supports(asked)
    assert di.identify(asked, method, progress=False).values["a"] == pytest.approx(1, abs=0.05)
