"""Do the symplectic schemes keep the energy of an undamped oscillator over 100,000 periods, and show their orders?"""

from __future__ import annotations

import numpy as np
import pytest

import dynident as di
from dynident.integrators import integrator_named
from dynident.integrators.grid import grid_of
from dynident.integrators.propagation import propagator_for

SPRING = di.EquationModel(states={"q": "v", "v": "-q"})
STEPS_PER_PERIOD = 20
SCHEMES = ["symplectic_euler", "leapfrog", "leapfrog_printed"]


def marched(name: str, periods: int, steps: int) -> np.ndarray:
    t = np.arange(periods * steps + 1) * (2 * np.pi / steps)
    grid = grid_of(SPRING, di.Experiment(t, outputs={"q": np.full(t.size, np.nan)}))
    march = propagator_for(SPRING, integrator_named(name), ())
    return march.run(grid, np.array([0, t.size - 1]), np.array([[1.0, 0.0]]), np.zeros(0), False).states


@pytest.mark.parametrize("name", SCHEMES)
def test_energy_error_is_bounded_over_a_hundred_thousand_periods(name):
    x = marched(name, 100_000, STEPS_PER_PERIOD)
    error = np.abs(np.sum(x**2, axis=1) - 1)
    h = 2 * np.pi / STEPS_PER_PERIOD
    bound = {"symplectic_euler": h / (2 - h)}.get(name, h**2 / 4 * 1.1)  # of the modified energies q^2+v^2-hqv, ...
    assert np.max(error[-1000 * STEPS_PER_PERIOD:]) <= 1.01 * np.max(error[:1000 * STEPS_PER_PERIOD])
    assert np.max(error) < 2 * bound


@pytest.mark.parametrize(("name", "order"), [("symplectic_euler", 1), ("leapfrog", 2), ("leapfrog_printed", 2)])
def test_order_on_the_undamped_oscillator(name, order):
    errors = [np.max(np.abs(marched(name, 1, steps)[-1] - [1.0, 0.0])) for steps in (100, 200, 400)]
    assert np.log2(np.array(errors[:-1]) / errors[1:])[-1] >= order - 0.1
