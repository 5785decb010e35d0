"""How often does a fleet of usual machines show one that stands out, and is an odd one seen in a small fleet?"""

from __future__ import annotations

import numpy as np
import pytest

from dynident.fleet.outliers import find_outliers

FLEETS = 400


def shown(machines: int, odd: float = 0.0) -> float:
    """Share of fleets in which something stands out; one machine is `odd` spreads away."""
    names, seen = [f"machine {k}" for k in range(machines)], 0
    for seed in range(FLEETS):
        values = 20 + np.random.default_rng(seed + 1000).standard_normal(machines)
        values[0] += odd
        seen += bool(find_outliers("Fc", names, names, values, np.full(machines, 0.1))[0])
    return seen / FLEETS


@pytest.mark.parametrize("machines", [5, 6, 9, 20, 100])
def test_usual_fleets_show_one_as_often_as_promised(machines):
    assert shown(machines) == pytest.approx(0.05, abs=3 * np.sqrt(0.05 * 0.95 / FLEETS))


def test_a_gross_outlier_is_seen_in_a_small_fleet():
    assert shown(6, odd=15.0) > 0.8
    assert shown(20, odd=8.0) > 0.95
