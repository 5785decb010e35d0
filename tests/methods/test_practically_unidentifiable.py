"""Data that leave a direction open: the fit ends, at the optimum where there is one and on the way to infinity otherwise.

Michaelis-Menten kinetics, x' = -V x / (K + x), fitted to a first-order decay: V and K grow together as far as the noise
lets them, for some records to a finite optimum and for others for ever, where the model is the decay itself.
"""

import numpy as np
import pytest
from scipy.optimize import least_squares

import dynident as di

STD = 0.01
METHODS = {"full": di.full_discretization(integrator="runge_kutta"), "multiple": di.multiple_shooting(),
           "single": di.single_shooting()}
VISIBLE = 0.2**2  # of the cost, in squared standard errors; nobody can call what is below it worse
SAME = 0.01  # standard errors between two solvers that stop at 1e-5 of one, along a direction that is hardly seen


def decay(samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    time = np.linspace(0, 5, samples)
    return time, np.exp(-0.8 * time) + STD * np.random.default_rng(seed).normal(size=samples)


def kinetics(samples: int, seed: int) -> di.Problem:
    time, y = decay(samples, seed)
    model = di.EquationModel(states={"x": "-V*x/(K + x)"}, outputs={"y": "x"})
    return di.Problem(model, [di.Experiment(time=time, outputs={"y": y}, noise={"y": di.Gaussian(STD)})],
                      [di.Parameter("V", start=1.0), di.Parameter("K", start=1.0)])


def cost_at_infinity(samples: int, seed: int) -> float:
    """Of the decay itself, fitted by scipy."""
    time, y = decay(samples, seed)
    found = least_squares(lambda p: (p[0] * np.exp(-p[1] * time) - y) / STD, [1.0, 1.0], xtol=1e-12, ftol=1e-12)
    return 2 * float(found.cost)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("samples", "seed"), [(101, 0), (101, 1), (3001, 1), (3001, 2)])
def test_optimum_at_infinity_ends_where_nobody_can_tell_the_difference(method, samples, seed):
    limit = cost_at_infinity(samples, seed)
    estimate = di.identify(kinetics(samples, seed), METHODS[method])
    assert estimate.converged
    assert limit - 1e-6 * limit <= estimate.cost <= limit + VISIBLE
    assert "unidentifiable" in str(estimate)
    assert ("limit case: V, K unbounded" in estimate.status) == (estimate.values["V"] > 1e3)  # that far, it is asked
    assert (estimate.status.code == "converged_limit_case") == (estimate.values["V"] > 1e3)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("samples", "seed"), [(101, 2), (3001, 0), *(
    pytest.param(30_001, seed, marks=pytest.mark.compiled) for seed in (1, 2))])
def test_finite_optimum_is_not_passed_on_the_way(method, samples, seed):
    """Pieces of a noisy record want V far beyond the optimum, where nothing is seen any more that would lead back."""
    found = di.identify(kinetics(samples, seed), METHODS[method])
    reference = di.identify(kinetics(samples, seed), di.single_shooting())
    assert found.cost < cost_at_infinity(samples, seed)
    assert found.cost == pytest.approx(reference.cost, abs=SAME**2)
    off = (found.values["V"] - reference.values["V"]) / reference.uncertainty.std("V")
    assert abs(off) < SAME
