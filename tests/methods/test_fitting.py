"""The loop around the solver: what it says about itself."""

from __future__ import annotations

import dynident as di
import pytest
from problems import MACHINES


@pytest.mark.parametrize("method", [di.single_shooting(), di.multiple_shooting(), di.full_discretization()])
@pytest.mark.parametrize("noise_known", [True, False])
def test_status_counts_all_iterations_of_all_rounds(method, noise_known):
    estimate = di.identify(MACHINES["two_mass"].problem(noise_known=noise_known), method)
    assert f"after {estimate.counts['iterations']} iterations" in estimate.status
    assert len(estimate.history) >= estimate.counts["iterations"]
