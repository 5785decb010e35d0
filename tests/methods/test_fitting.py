"""The loop around the solver: what it says about itself."""

from __future__ import annotations

import pickle

import pytest

import dynident as di
from problems import MACHINES


@pytest.mark.parametrize("method", [di.single_shooting(), di.multiple_shooting(), di.full_discretization()])
@pytest.mark.parametrize("noise_known", [True, False])
def test_status_counts_all_iterations_of_all_rounds(method, noise_known):
    estimate = di.identify(MACHINES["two_mass"].problem(noise_known=noise_known), method)
    assert f"after {estimate.counts['iterations']} iterations" in estimate.status
    assert len(estimate.history) >= estimate.counts["iterations"]


def test_problem_method_and_estimate_cross_a_process_boundary():
    problem, method = MACHINES["mass_spring_damper"].problem(), di.multiple_shooting(segments=5)
    estimate = di.identify(*pickle.loads(pickle.dumps((problem, method))))
    again = pickle.loads(pickle.dumps(estimate))
    assert again.values == di.identify(problem, method).values
    assert again.problem.content_hash() == problem.content_hash()
