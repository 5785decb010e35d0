"""Do single and multiple shooting, by both solvers, say the same about the same data?"""

from __future__ import annotations

import numpy as np
import pytest

import dynident as di
from problems import MACHINES

WAYS = {"single, Levenberg-Marquardt": di.single_shooting(),
        "single, Gauss-Newton": di.single_shooting(solver="gauss_newton"),
        "multiple": di.multiple_shooting(), "multiple, 7 segments": di.multiple_shooting(segments=7)}


@pytest.fixture(scope="module", params=list(MACHINES))
def estimates(request):
    problem = MACHINES[request.param].problem(seed=3)
    return {way: di.identify(problem, method, progress=False) for way, method in WAYS.items()}


@pytest.mark.parametrize("way", list(WAYS)[1:])
def test_values_agree_to_six_digits_and_standard_errors_to_three(estimates, way):
    first, other = estimates["single, Levenberg-Marquardt"], estimates[way]
    assert other.cost == pytest.approx(first.cost, rel=1e-9)
    for name in first.problem.names:
        std = first.uncertainty.std(name)
        # six digits of the value, or of its standard error where the value happens to be nearly zero
        assert other.values[name] == pytest.approx(first.values[name], rel=1e-6, abs=1e-4 * std), name
        assert other.uncertainty.std(name) == pytest.approx(std, rel=1e-3), name


def test_truth_lies_within_four_standard_errors(estimates):
    estimate = estimates["multiple"]
    (machine,) = [m for m in MACHINES.values() if m.model == estimate.problem.model]
    for name, truth in machine.all_true.items():
        assert abs(estimate.values[name] - truth) < 4 * estimate.uncertainty.std(name), name


def test_residuals_are_as_large_as_the_noise(estimates):
    reduced = estimates["multiple"].statistics["reduced_chi2"]
    dof = estimates["multiple"].statistics["dof"]
    assert abs(reduced - 1) < 4 * np.sqrt(2 / dof)


@pytest.mark.parametrize("name", list(MACHINES))
def test_data_without_noise_give_the_truth_back(name):
    machine = MACHINES[name]
    for method in (di.single_shooting(), di.multiple_shooting()):
        estimate = di.identify(machine.problem(seed=None, noise_known=False), method, progress=False)
        for parameter, truth in machine.all_true.items():
            # the integrator is asked for 1e-9 of the signals; the weakest parameter of these sees a thousandth of them
            assert estimate.values[parameter] == pytest.approx(truth, rel=1e-5, abs=1e-6), parameter
