"""Does each scheme have the order it claims, and the properties it is chosen for?"""

from __future__ import annotations

import numpy as np
import pytest

import dynident as di
from dynident.integrators import INTEGRATORS, PAPER_VARIANTS, integrator_named
from dynident.integrators.grid import grid_of
from dynident.integrators.propagation import propagator_for
from dynident.integrators.scheme import Adaptive
from problems import independent_states

FIXED_STEP = [i for i in [*INTEGRATORS, *map(integrator_named, PAPER_VARIANTS)] if not isinstance(i, Adaptive)]
ONE_STAGE = [integrator_named("gauss_legendre", 1), integrator_named("radau", 1)]  # midpoint and implicit Euler
OSCILLATOR = di.EquationModel(states={"q": "v", "v": "-a*sin(q) - d*v + u + 0.3*cos(2*t)"}, inputs=["u"],
                              parameters=["a", "d"])
VALUES = np.array([4.0, 0.4])
FIRST = np.array([1.0, 0.5])


def oscillator_rate(t, x, u, p):
    return [x[1], -4.0 * np.sin(x[0]) - 0.4 * x[1] + u[0] + 0.3 * np.cos(2 * t)]


def forced_run(samples: int = 9) -> di.Experiment:
    """An input that bends at every sample and moves linearly in between."""
    t = np.linspace(0, 4, samples)
    return di.Experiment(t, inputs={"u": 2 * np.sin(1.7 * t)}, outputs={"q": np.zeros(samples)}, hold="linear")


def marched(model, integrator, experiment, substeps, p, x0):
    grid = grid_of(model, experiment, substeps)
    return propagator_for(model, integrator, ()).run(grid, np.array([0, grid.nodes - 1]), x0[None], p, False).states


@pytest.mark.parametrize("integrator", [*FIXED_STEP, *ONE_STAGE], ids=lambda i: i.name)
def test_scheme_shows_its_order(integrator):
    run = forced_run()
    exact = independent_states(oscillator_rate, run.time, run.inputs["u"][:, None], FIRST, {}, "linear")
    counts = [16, 32, 64] if integrator.order < 3 else [8, 16, 32] if integrator.order < 5 else [1, 2, 4]
    errors = [np.max(np.abs(marched(OSCILLATOR, integrator, run, n, VALUES, FIRST) - exact)) for n in counts]
    assert min(errors) > 1e-11  # far above the error of the reference, or the slope below says nothing
    observed = np.log2(np.array(errors[:-1]) / errors[1:])
    assert observed[-1] == pytest.approx(integrator.order, abs=0.25)


def test_schemes_of_order_5_and_more_are_measured_at_all():
    assert {i.name for i in FIXED_STEP if i.order >= 5} >= {"radau"}


PENDULUM = di.EquationModel(states={"q": "v", "v": "-sin(q)"})


def energy_error(name: str) -> tuple[float, float]:
    """Largest relative error of the energy in the first tenth and in the last tenth of 100 swings."""
    t = np.linspace(0, 700, 3501)
    run = di.Experiment(t, outputs={"q": np.zeros(t.size)})
    x = marched(PENDULUM, integrator_named(name), run, 1, np.zeros(0), np.array([1.0, 0.0]))
    energy = x[:, 1] ** 2 / 2 - np.cos(x[:, 0]) + 1
    error = np.abs(energy / energy[0] - 1)
    return float(np.max(error[:350])), float(np.max(error[-350:]))


@pytest.mark.parametrize("name", [i.name for i in FIXED_STEP if i.position_velocity])
def test_energy_of_a_swing_stays_bounded_with_symplectic_schemes(name):
    begin, end = energy_error(name)
    assert end < 1.2 * begin


@pytest.mark.parametrize("name", ["euler", "heun", "runge_kutta"])
def test_energy_drifts_with_the_others(name):
    begin, end = energy_error(name)
    assert end > 5 * begin


@pytest.mark.parametrize("name", [i.name for i in FIXED_STEP if i.position_velocity])
@pytest.mark.parametrize("states", [{"x": "-a*x"}, {"q": "v + a*q", "v": "-q"}, {"q": "v", "v": "-a*q", "i": "-i + v"}],
                         ids=["first order", "position that leaks", "a state beside the pairs"])
def test_model_without_positions_and_velocities_is_refused_in_a_sentence(name, states):
    model = di.EquationModel(states=states)
    t = np.linspace(0, 1, 11)
    run = di.Experiment(t, outputs={next(iter(states)): np.cos(t)})
    problem = di.Problem(model, [run], [di.Parameter("a", 1.0)])
    with pytest.raises(di.NotSupported) as refused:
        di.identify(problem, di.single_shooting(integrator=name), progress=False)
    assert "position" in str(refused.value) and "velocit" in str(refused.value)


def test_damping_makes_leapfrog_no_worse_than_order_two():
    """As printed in the filter paper it would be of order 1 here."""
    run = forced_run()
    strong = np.array([4.0, 3.0])
    exact = marched(OSCILLATOR, integrator_named("runge_kutta"), run, 512, strong, FIRST)
    errors = [np.max(np.abs(marched(OSCILLATOR, integrator_named("leapfrog"), run, n, strong, FIRST) - exact))
              for n in (32, 64)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.2)


@pytest.mark.parametrize("name", ["trapezoid", "radau"])
def test_implicit_schemes_are_stable_where_explicit_ones_blow_up(name):
    """x' = -2000 (x - cos t) in steps of 0.05: a hundred times too long for an explicit scheme."""
    model = di.EquationModel(states={"x": "-2000*(x - cos(t))"})
    t = np.linspace(0, 2, 41)
    run = di.Experiment(t, outputs={"x": np.cos(t)})
    stiff = marched(model, integrator_named(name), run, 1, np.zeros(0), np.array([1.0]))[:, 0]
    assert np.max(np.abs(stiff - np.cos(t))) < 2e-3
    short = di.Experiment(t[:5], outputs={"x": t[:5]})
    explicit = marched(model, integrator_named("runge_kutta"), short, 1, np.zeros(0), np.array([1.0]))
    assert np.max(np.abs(explicit)) > 1e6


def test_unknown_integrator_is_named_with_the_nearest_known():
    with pytest.raises(di.ProblemError, match=r"no integrator 'runge_kuta'.*Did you mean 'runge_kutta'"):
        di.single_shooting(integrator="runge_kuta")
