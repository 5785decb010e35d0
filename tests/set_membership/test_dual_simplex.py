"""Are the multipliers of the dual simplex method those of a general solver, on programs of few variables and many rows?"""

import numpy as np
import pytest
from scipy.optimize import linprog

from dynident.set_membership.dual_simplex import ScaledRows, dual_multipliers


def random_program(seed):
    """A d <= b that a point between bounds of very different sizes fulfils, a fifth of its rows with nothing to spare."""
    rng = np.random.default_rng(seed)
    size, count = int(rng.integers(1, 9)), int(rng.integers(1, 600))
    radius = 10 ** rng.uniform(-4, 3, size)
    a = rng.normal(size=(count, size)) / radius
    if seed % 3 == 0:  # neighbouring rows nearly the same, as those of neighbouring samples
        a = np.cumsum(a, axis=0) / np.sqrt(np.arange(1, count + 1))[:, None]
    b = a @ (rng.uniform(-0.9, 0.9, size) * radius) + rng.uniform(0, 0.5, count) * (rng.random(count) > 0.2)
    cost = np.zeros(size)
    cost[rng.integers(size)] = rng.choice([-1, 1])
    return a, b, radius, cost


@pytest.mark.parametrize("seed", range(40))
def test_weak_duality_with_its_multipliers_gives_the_least_cost(seed):
    a, b, radius, cost = random_program(seed)
    multipliers = dual_multipliers(ScaledRows.of(a, b, radius), cost)
    assert multipliers is not None and np.all(multipliers >= 0)
    bound = -(multipliers @ b) - np.abs(cost + a.T @ multipliers) @ radius
    solved = linprog(cost, a, b, bounds=[(-r, r) for r in radius], method="highs")
    assert bound == pytest.approx(solved.fun, abs=1e-7 * float(np.abs(cost) @ radius))  # HiGHS meets its rows to 1e-7


def test_where_nothing_fits_there_are_no_multipliers_of_a_least_cost():
    a, b = np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([-0.5, -0.5])  # d1 <= -0.5 and d1 >= 0.5
    assert dual_multipliers(ScaledRows.of(a, b, np.ones(2)), np.array([0.0, 1.0])) is None


def test_a_cost_of_nothing_needs_no_multipliers():
    a, b = np.array([[1.0, 2.0]]), np.array([0.5])
    assert np.all(dual_multipliers(ScaledRows.of(a, b, np.ones(2)), np.zeros(2)) == 0)
