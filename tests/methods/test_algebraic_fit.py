"""Fits of models with algebraic variables: the estimates of the same model without them, by every way of asking."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dynident as di

KINETICS = {"a": "-k1*a + k3*b*c", "b": "k1*a - k3*b*c - k2*b**2"}
TRUTH = np.array([0.04, 3e7, 1e4])
T = np.concatenate([[0], np.logspace(-4, 4, 60)])
STD = {"a": 1e-3, "b": 1e-7, "c": 1e-3}
SETTINGS = {"outputs": ["a", "b", "c"], "parameters": ["k1", "k2", "k3"]}


def robertson(balance: str) -> di.EquationModel:
    """Robertson's reaction; c follows from a balance, or has a rate of its own."""
    if not balance:
        return di.EquationModel(states={**KINETICS, "c": "k2*b**2"}, **SETTINGS)
    return di.EquationModel(states=KINETICS, algebraic={"c": balance}, **SETTINGS)


@pytest.fixture(scope="module")
def measured() -> dict[str, np.ndarray]:
    k1, k2, k3 = TRUTH
    exact = solve_ivp(lambda t, x: [-k1 * x[0] + k3 * x[1] * x[2], k1 * x[0] - k3 * x[1] * x[2] - k2 * x[1]**2, k2 * x[1]**2],
                      (0, T[-1]), [1, 0, 0], method="Radau", t_eval=T, rtol=1e-9, atol=1e-13).y
    rng = np.random.default_rng(0)
    return {name: y + STD[name] * rng.normal(size=T.size) for name, y in zip("abc", exact, strict=True)}


def problem(model: di.EquationModel, measured: dict[str, np.ndarray]) -> di.Problem:
    run = di.Experiment(T, outputs=measured, noise={name: di.Gaussian(std) for name, std in STD.items()},
                        initial={name: 1.0 if name == "a" else 0.0 for name in model.states})
    return di.Problem(model, [run], [di.Parameter("k1", 0.05, 0, 1), di.Parameter("k2", 2e7, 0, 1e9),
                                     di.Parameter("k3", 2e4, 0, 1e6)])


@pytest.mark.parametrize("balance", ["a + b + c - 1", "(a + b + c)**3 + (a + b + c) - 2"])
def test_robertson_with_its_balance_gives_the_estimates_of_three_rates(balance, measured):
    method = di.single_shooting(integrator="radau5")
    plain, with_balance = (di.identify(problem(robertson(it), measured), method, progress=False) for it in ("", balance))
    for name in ("k1", "k2", "k3"):
        assert with_balance.values[name] == pytest.approx(plain.values[name], rel=1e-8)
        assert with_balance.uncertainty.std(name) == pytest.approx(plain.uncertainty.std(name), rel=1e-6)


def decay(nonlinear: bool) -> di.EquationModel:
    loss = "z + z**3 - a*x - (a*x)**3" if nonlinear else "z - a*x"
    return di.EquationModel(states={"x": "-z"}, algebraic={"z": loss}, outputs={"y": "x", "loss": "z"})


def decay_problem(model: di.EquationModel) -> di.Problem:
    t = np.linspace(0, 3, 61)
    y = 2 * np.exp(-0.7 * t)
    ripple = 0.01 * np.sin(37 * t)
    run = di.Experiment(t, outputs={"y": y + ripple, "loss": 0.7 * y - ripple}, name="run",
                        noise={"y": di.Gaussian(0.01), "loss": di.Gaussian(0.01)})
    return di.Problem(model, [run], [di.Parameter("a", start=1.0, lower=0.01, upper=10)])


@pytest.mark.parametrize("method", [di.single_shooting(), di.multiple_shooting(), di.full_discretization(),
                                    di.full_discretization(integrator="radau"), di.least_squares(), di.automatic()],
                         ids=lambda m: m.kind)
@pytest.mark.parametrize("nonlinear", [False, True])
def test_direct_methods_give_the_estimate_without_the_variable(method, nonlinear):
    by_hand = di.EquationModel(states={"x": "-a*x"}, outputs={"y": "x", "loss": "a*x"})
    expected = di.identify(decay_problem(by_hand), method, progress=False)
    found = di.identify(decay_problem(decay(nonlinear)), method, progress=False)
    assert found.values["a"] == pytest.approx(expected.values["a"], rel=1e-7)


def test_consistent_first_values_are_reported():
    estimate = di.identify(decay_problem(decay(True)), di.single_shooting(), progress=False)
    first = estimate.trajectories[0].outputs["loss"][0]
    assert f"at the first sample: z = {first:.6g}." in estimate.notes[-1]


def test_what_filters_and_sets_cannot_take_they_refuse_by_name():
    for method in (di.kalman(), di.prediction_error(), di.boundary_value(), di.full_discretization(solver="ipopt")):
        with pytest.raises(di.NotSupported, match="'z' do not"):
            di.identify(decay_problem(decay(True)), method, progress=False)
    with pytest.raises(di.NotSupported, match="the algebraic variables 'z'"):
        di.identify(decay_problem(decay(False)), di.set_membership(), progress=False)


def test_a_saved_result_holds_the_algebraic_equations(tmp_path):
    estimate = di.identify(decay_problem(decay(True)), di.single_shooting(), progress=False)
    again = di.load(estimate.save(tmp_path / "result"))
    assert again.problem.model == decay(True)
    assert again.problem.model.algebraic == ("z",)
