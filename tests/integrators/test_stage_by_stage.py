"""Is what is generated of a model small, whatever the scheme, and does the step around it do what the formula says?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dynident as di
from dynident.codegen import compiler
from dynident.codegen.c_source import LARGE, LARGE_LINES, QUICK, flags_by_size
from dynident.codegen.sparse_jacobian import band_order
from dynident.integrators import INTEGRATORS, PAPER_VARIANTS, integrator_named
from dynident.integrators.grid import grid_of
from dynident.integrators.propagation import CompiledPropagator, propagator_for
from dynident.integrators.propagation_interpreted import InterpretedPropagator
from dynident.integrators.rate_functions import rate_functions, step_source
from dynident.integrators.scheme import Adaptive, Implicit
from dynident.integrators.tableau import tableau_of

ALL = [i for i in [*INTEGRATORS, *map(integrator_named, PAPER_VARIANTS)] if not isinstance(i, Adaptive)]
GENERAL = [i for i in ALL if not i.position_velocity]
needs_compiler = pytest.mark.skipif(compiler.compiler() is None, reason="this machine has no C compiler")


def heat_equation(points: int) -> di.EquationModel:
    """A bar whose one end is held at u; each point exchanges heat with its neighbours and the air."""
    states = {f"T{i}": f"a*({'u' if i == 0 else f'T{i - 1}'} - 2*T{i} + {f'T{i + 1}' if i < points - 1 else f'T{i}'}) - b*T{i}"
              for i in range(points)}
    return di.EquationModel(states=states, inputs=["u"], outputs={"y": "T2"}, parameters=["a", "b"])


def record(model: di.EquationModel, samples: int = 21) -> di.Experiment:
    t = np.linspace(0, 2, samples)
    return di.Experiment(t, inputs={name: np.sin(3 * t) for name in model.inputs},
                         outputs={name: np.zeros(samples) for name in model.outputs})


def test_weights_of_a_scheme_sum_to_one_and_fractions_are_those_of_its_tableau():
    tableau = tableau_of(integrator_named("runge_kutta"))
    assert tableau.fractions == (0.0, 0.5, 0.5, 1.0)
    weights = [term.weight for term in tableau.next_state[0] if term.source == "k"]
    assert weights == pytest.approx([1 / 6, 1 / 3, 1 / 3, 1 / 6])
    assert tableau_of(integrator_named("radau")).stages == 3
    assert tableau_of(integrator_named("hermite_simpson")).nested


def test_leapfrog_asks_for_half_the_rates_where_forces_do_not_depend_on_velocities():
    leapfrog = integrator_named("leapfrog")
    assert (tableau_of(leapfrog).rates, tableau_of(leapfrog, forces_by_position=True).rates) == (4, 2)


@pytest.mark.parametrize("scheme", ["runge_kutta", "radau"])
def test_text_grows_with_the_entries_of_the_jacobian_and_not_with_its_size(scheme):
    lines = [step_source(heat_equation(n), integrator_named(scheme), (0, 1), True).count("\n") for n in (50, 100, 200)]
    assert lines[2] - lines[1] < 2.1 * (lines[1] - lines[0])
    assert lines[2] < 10_000


def test_generated_functions_ask_nowhere_whether_an_array_is_there():
    text = step_source(heat_equation(5), integrator_named("runge_kutta"), (0, 1), True)
    assert "!=0)" not in text and "?" not in text.split("dyn_rate_q")[1].split("}")[0]


def test_a_library_that_only_simulates_holds_no_derivatives():
    model = heat_equation(5)
    assert "int dyn_rate_q" not in step_source(model, integrator_named("runge_kutta"), (), False)
    assert rate_functions(model, (), False).derivatives == ()


def test_long_texts_are_compiled_with_less_effort():
    assert flags_by_size("\n" * LARGE_LINES) == QUICK
    assert flags_by_size("\n" * (LARGE_LINES + 1)) == LARGE


def test_states_that_couple_to_neighbours_stand_in_a_narrow_band_in_whatever_order_they_are_named():
    rng = np.random.default_rng(1)
    named = rng.permutation(40)
    places = [(int(named[i]), int(named[j])) for i in range(40) for j in range(40) if abs(i - j) <= 1]
    order = band_order(40, places)
    assert (order.lower, order.upper) == (1, 1) and sorted(order.place) == list(range(40))
    assert band_order(40, [(0, k) for k in range(40)]).lower == 39  # an arrow has no band


@needs_compiler
@pytest.mark.parametrize("integrator", GENERAL, ids=lambda i: i.name)
@pytest.mark.parametrize("points", [12, 40])  # printed rows and tables, full and banded elimination
def test_many_states_agree_with_the_interpreted_step(integrator, points):
    model = heat_equation(points)
    grid, first = grid_of(model, record(model, 6), 2), np.array([0, 2, 5])
    nodes, p = np.random.default_rng(3).normal(size=(2, points)), np.array([0.8, 0.3])
    fast, plain = propagator_for(model, integrator, (0, 1)), InterpretedPropagator(model, integrator, (0, 1))
    assert isinstance(fast, CompiledPropagator)
    a, b = (march.run(grid, first, nodes, p, True) for march in (fast, plain))
    for name in ("states", "outputs", "jacobian", "end_states", "end_jacobian"):
        size = np.max(np.abs(getattr(b, name)))
        tolerance = 1e-12 if isinstance(integrator, Implicit) else 1e-14
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=0, atol=tolerance * size, err_msg=name)


@pytest.mark.parametrize("make", [propagator_for, InterpretedPropagator])
@pytest.mark.parametrize("unknown", [[], [1]])
def test_columns_of_first_states_that_are_known_are_zero_in_the_first_segment_alone(make, unknown):
    model = heat_equation(3)
    grid, first = grid_of(model, record(model), 1), np.array([0, 10, 20])
    nodes, p = np.ones((2, 3)), np.array([0.8, 0.3])
    march = make(model, integrator_named("runge_kutta"), (0, 1))
    whole = march.run(grid, first, nodes, p, True)
    part = march.run(replace(grid, unknown_first=np.array(unknown, np.int32)), first, nodes, p, True)
    known = [k for k in range(3) if k not in unknown]
    assert not np.any(part.jacobian[:10, :, known]) and not np.any(part.end_jacobian[0][:, known])
    kept = [*unknown, 3, 4]
    np.testing.assert_allclose(part.jacobian[:10, :, kept], whole.jacobian[:10, :, kept], rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(part.jacobian[10:], whole.jacobian[10:], rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(part.end_jacobian[1], whole.end_jacobian[1], rtol=1e-13, atol=1e-15)


@needs_compiler
@pytest.mark.parametrize("scheme", ["runge_kutta", "radau"])
def test_a_fit_of_a_hundred_states_finds_what_made_the_data(scheme):
    model, truth = heat_equation(100), {"a": 0.8, "b": 0.3}
    t = np.linspace(0, 30, 31)
    still = dict.fromkeys(model.states, 0.0)
    quiet = di.Experiment(t, inputs={"u": np.sign(np.sin(t / 4))}, initial=still)
    y = di.simulate(heat_equation(100), truth, quiet).outputs["y"] + 1e-4 * np.random.default_rng(0).normal(size=31)
    run = di.Experiment(t, inputs=quiet.inputs, outputs={"y": y}, initial=still)
    problem = di.Problem(model, [run], [di.Parameter("a", start=0.7), di.Parameter("b", start=0.25)])
    found = di.identify(problem, di.single_shooting(integrator=scheme))
    assert found.values["a"] == pytest.approx(0.8, rel=1e-2) and found.values["b"] == pytest.approx(0.3, rel=1e-2)
