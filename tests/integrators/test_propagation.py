"""Is a record marched through as the equations say, by every way of computing it?"""

from __future__ import annotations

import numpy as np
import pytest

import dynident as di
from dynident.codegen import compiler
from dynident.errors import SimulationDiverged
from dynident.integrators import INTEGRATORS, PAPER_VARIANTS, integrator_named
from dynident.integrators.adaptive import AdaptivePropagator
from dynident.integrators.grid import grid_of
from dynident.integrators.propagation import CompiledPropagator, propagator_for
from dynident.integrators.propagation_interpreted import CHUNK, InterpretedPropagator
from dynident.integrators.scheme import Adaptive, Implicit
from problems import MACHINES, independent_states

ALL = [i for i in [*INTEGRATORS, *map(integrator_named, PAPER_VARIANTS)] if not isinstance(i, Adaptive)]
needs_compiler = pytest.mark.skipif(compiler.compiler() is None, reason="this machine has no C compiler")
RICH = di.EquationModel(states={"q": "v", "v": "-a*sin(q) - b*v*abs(v) + c*u + 0.1*cos(t)"},
                        outputs={"y": "q + g*u", "power": "v*q"}, inputs=["u"], parameters=["a", "b", "c", "g"])
FREE = (0, 1, 3)
VALUES = np.array([2.0, 0.3, 1.5, 0.2])


def irregular_run(samples: int = 40, missing: tuple[int, ...] = (3, 4, 20), hold: str = "linear") -> di.Experiment:
    rng = np.random.default_rng(5)
    t = np.cumsum(rng.uniform(0.02, 0.3, samples))
    y = rng.normal(size=samples)
    y[[k for k in missing if k < samples]] = np.nan
    return di.Experiment(t, inputs={"u": np.sin(3 * t)}, outputs={"y": y, "power": y}, hold=hold)


def arrays(out) -> dict[str, np.ndarray]:
    return {name: getattr(out, name) for name in ("states", "outputs", "jacobian", "end_states", "end_jacobian")}


@needs_compiler
@pytest.mark.parametrize("integrator", ALL, ids=lambda i: i.name)
def test_compiled_and_interpreted_march_agree_to_rounding(integrator):
    run = irregular_run()
    grid = grid_of(RICH, run, 2)
    first = np.array([0, 7, 8, 25, 39])  # a segment of one interval among them
    nodes = np.random.default_rng(6).normal(size=(4, 2))
    fast, plain = propagator_for(RICH, integrator, FREE), InterpretedPropagator(RICH, integrator, FREE)
    assert isinstance(fast, CompiledPropagator)
    for sensitivities in (True, False):
        a, b = (arrays(m.run(grid, first, nodes, VALUES, sensitivities)) for m in (fast, plain))
        for name in a:
            if a[name] is not None:
                size = np.nanmax(np.abs(a[name]))
                tolerance = 1e-12 if isinstance(integrator, Implicit) else 1e-14  # Newton's method stops at 1e-13
                np.testing.assert_allclose(a[name], b[name], rtol=0, atol=tolerance * size, err_msg=name)
    assert np.all(np.isnan(a["outputs"][[3, 4, 20]]))  # nothing was measured there


@pytest.mark.parametrize("march", [InterpretedPropagator, propagator_for])
def test_a_single_parameter_that_is_known_leaves_the_initial_state_alone(march):
    decay = di.EquationModel(states={"x": "-k*x"}, outputs={"y": "x"})
    grid = grid_of(decay, di.Experiment(np.array([0.0, 0.1, 0.2]), outputs={"y": np.zeros(3)}), 1)
    out = march(decay, integrator_named("runge_kutta"), ()).run(grid, np.array([0, 2]), np.ones((1, 1)), np.array([2.0]), True)
    assert out.jacobian.shape == (3, 1, 1)
    np.testing.assert_allclose(out.jacobian[:, 0, 0], np.exp(-2 * grid.time), rtol=1e-4)


@needs_compiler
def test_interpreted_march_carries_on_from_chunk_to_chunk():
    run = irregular_run(2 * CHUNK + 7, ())
    grid = grid_of(RICH, run, 1)
    first, nodes = np.array([0, grid.nodes - 1]), np.array([[0.5, 0.0]])
    integrator = integrator_named("runge_kutta")
    a, b = (m.run(grid, first, nodes, VALUES, True).jacobian for m in (
        propagator_for(RICH, integrator, FREE), InterpretedPropagator(RICH, integrator, FREE)))
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * np.max(np.abs(a)))


@pytest.mark.parametrize("unit", [1e-9, 1e9])
@pytest.mark.parametrize("integrator", [i for i in ALL if isinstance(i, Implicit)], ids=lambda i: i.name)
def test_implicit_steps_do_not_depend_on_units(integrator, unit):
    run = irregular_run()
    scaled = di.EquationModel(states={
        "q": "v", "v": f"-a*sin(q/{unit})*{unit} - b*v*abs(v)/{unit} + c*u*{unit} + 0.1*cos(t)*{unit}"},
        outputs={"y": f"q/{unit} + g*u", "power": f"v*q/{unit}/{unit}"}, inputs=["u"], parameters=["a", "b", "c", "g"])
    grid, first = grid_of(RICH, run, 1), np.array([0, 39])
    x0 = np.array([[0.7, -0.2]])
    plain = propagator_for(RICH, integrator, FREE).run(grid, first, x0, VALUES, False).outputs
    for march in (propagator_for(scaled, integrator, FREE), InterpretedPropagator(scaled, integrator, FREE)):
        there = march.run(grid, first, unit * x0, VALUES, False).outputs
        np.testing.assert_allclose(there, plain, rtol=0, atol=1e-10)


@pytest.mark.parametrize("integrator", [i for i in ALL if isinstance(i, Implicit)], ids=lambda i: i.name)
def test_implicit_steps_do_not_depend_on_those_before_them(integrator):
    jumping = di.EquationModel(states={"q": "v", "v": "a*u - b*v - c*tanh(v/0.5) - g*sin(q)"},
                               outputs={"y": "q", "power": "v*q"}, inputs=["u"], parameters=["a", "b", "c", "g"])
    run = irregular_run(hold="zero")
    run = di.Experiment(run.time, inputs={"u": np.sign(run.inputs["u"])}, outputs=run.outputs, hold="zero")
    grid, march = grid_of(jumping, run, 1), propagator_for(jumping, integrator, FREE)
    together = march.run(grid, np.array([0, 39]), np.array([[0.7, -0.2]]), VALUES, True)
    alone = march.run(grid, np.arange(40), together.states[:-1], VALUES, False)  # each step a segment, with none before it
    np.testing.assert_allclose(alone.end_states, together.states[1:], rtol=0, atol=1e-14 * np.max(np.abs(together.states)))


@pytest.mark.parametrize("hold", ["zero", "linear"])
def test_march_follows_the_independent_integration(hold):
    run = irregular_run(hold=hold)

    def rate(t, x, u, p):
        return [x[1], -2.0 * np.sin(x[0]) - 0.3 * x[1] * abs(x[1]) + 1.5 * u[0] + 0.1 * np.cos(t)]

    exact = independent_states(rate, run.time, run.inputs["u"][:, None], np.array([0.7, -0.2]), {}, hold)
    grid = grid_of(RICH, run, 32)
    states = propagator_for(RICH, integrator_named("runge_kutta"), ()).run(
        grid, np.array([0, 39]), np.array([[0.7, -0.2]]), VALUES, False).states
    assert np.max(np.abs(states - exact)) < 1e-8  # (0.15 s / 32)^4


@pytest.mark.parametrize("hold", ["zero", "linear"])
def test_simulate_holds_inputs_as_the_record_says(hold):
    machine = MACHINES["mass_spring_damper"]
    t = machine.time[:40]
    u = np.cos(2 * t)
    exact = independent_states(machine.rate, t, u[:, None], np.array([0.3, -0.2]), machine.truth, hold)
    run = di.Experiment(t, inputs={"F": u}, initial=machine.initial, hold=hold)
    assert np.max(np.abs(di.simulate(machine.model, machine.truth, run).states["x"] - exact[:, 0])) < 1e-6


def test_zero_and_linear_hold_differ_by_half_a_sample():
    machine = MACHINES["mass_spring_damper"]
    t = np.linspace(0, 5, 51)
    x = {hold: di.simulate(machine.model, machine.truth, di.Experiment(
        t, inputs={"F": np.sin(3 * t)}, initial=machine.initial, hold=hold)).states["x"] for hold in ("zero", "linear")}
    assert np.max(np.abs(x["zero"] - x["linear"])) > 0.01


def test_outputs_see_the_input_of_their_own_sample():
    model = di.EquationModel(states={"x": "-x + u"}, outputs={"y": "x + 10*u"}, inputs=["u"])
    u = np.array([0.0, 0.0, 1.0, 1.0])
    run = di.Experiment(np.arange(4.0), inputs={"u": u}, initial={"x": 0})
    y = di.simulate(model, {}, run).outputs["y"]
    np.testing.assert_allclose(y, [0, 0, 10, 10 + 1 - np.exp(-1)], atol=1e-6)


@pytest.mark.parametrize("integrator", [*INTEGRATORS, *map(integrator_named, PAPER_VARIANTS)], ids=lambda i: i.name)
@pytest.mark.parametrize("samples", [1, 2])
def test_few_samples_no_inputs_and_no_parameters_run_through_the_same_code(integrator, samples):
    model = di.EquationModel(states={"q": "v", "v": "-q"})
    t = np.linspace(0, 0.01, samples) if samples > 1 else np.zeros(1)
    run = di.Experiment(t, outputs={"q": np.ones(samples)}, initial={"q": 1, "v": 0})
    grid = grid_of(model, run)
    first, x0 = np.array([0, samples - 1]), np.array([[1.0, 0.0]])
    out = propagator_for(model, integrator, ()).run(grid, first, x0, np.zeros(0), True)
    assert out.jacobian.shape == (samples, 2, 2)
    np.testing.assert_allclose(out.outputs[:, 0], np.cos(t), atol=1e-3)
    np.testing.assert_allclose(out.jacobian[:, 0], np.column_stack([np.cos(t), np.sin(t)]), atol=1e-3)


def test_start_before_the_first_sample():
    model = di.EquationModel(states={"x": "-a*x"})
    run = di.Experiment([2.0, 3.0], outputs={"x": [1.0, 1.0]}, initial={"x": 5.0}, start=0.5)
    grid = grid_of(model, run, 4)
    assert grid.nodes == 3 and grid.offset == 1 and list(grid.output_mask) == [0, 1, 1]
    x = di.simulate(model, {"a": 0.7}, run).states["x"]
    np.testing.assert_allclose(x, 5 * np.exp(-0.7 * np.array([1.5, 2.5])), rtol=1e-6)


def test_long_gaps_get_as_many_steps_as_their_length_needs():
    run = di.Experiment([0.0, 1.0, 2.0, 3.0, 13.0, 14.0], outputs={"x": np.zeros(6)})
    assert list(grid_of(di.EquationModel(states={"x": "-x"}), run, 3).substeps) == [3, 3, 3, 30, 3]
    jittered = di.Experiment(np.arange(6) * (1 + 1e-9 * np.arange(6)), outputs={"x": np.zeros(6)})
    assert set(grid_of(di.EquationModel(states={"x": "-x"}), jittered, 1).substeps) == {1}


# CVODES


def test_cvodes_agrees_with_fine_steps_in_states_and_sensitivities():
    run = irregular_run(20)
    first, nodes = np.array([0, 9, 19]), np.array([[0.7, -0.2], [0.1, 0.4]])
    steps = propagator_for(RICH, integrator_named("runge_kutta"), FREE)
    fine = steps.run(grid_of(RICH, run, 128), first, nodes, VALUES, True)
    march = propagator_for(RICH, integrator_named("cvodes"), FREE)
    assert isinstance(march, AdaptivePropagator)
    adaptive = march.run(grid_of(RICH, run, 1), first, nodes, VALUES, True)
    for name, values in arrays(fine).items():
        np.testing.assert_allclose(arrays(adaptive)[name], values, rtol=0, atol=1e-6 * np.nanmax(np.abs(values)),
                                   err_msg=name)


def test_cvodes_takes_a_stiff_model():
    """Robertson's reaction: rates from 0.04 to 3e7; reference values of Hairer and Wanner at t = 40."""
    model = di.EquationModel(states={"a": "-0.04*a + 1e4*b*c", "b": "0.04*a - 1e4*b*c - 3e7*b**2", "c": "3e7*b**2"})
    run = di.Experiment([0.0, 40.0], initial={"a": 1, "b": 0, "c": 0})
    end = di.simulate(model, {}, run, integrator="cvodes").states
    assert [end[s][-1] for s in "abc"] == pytest.approx([0.7158270688, 9.185534765e-6, 0.2841637457], rel=1e-6)


# simulations that leave the finite numbers

BLOWING_UP = di.EquationModel(states={"quiet": "-quiet", "x": "a*x**2"}, outputs={"y": "x"})  # x = 1/(1 - t) for a = 1


@pytest.mark.parametrize("interpreted", [False, True])
@pytest.mark.parametrize("name", ["runge_kutta", "euler"])
def test_blow_up_names_state_and_time_in_one_line(name, interpreted, capfd):
    t = np.linspace(0, 3, 61)
    grid = grid_of(BLOWING_UP, di.Experiment(t, outputs={"y": t}), 2)
    integrator = integrator_named(name)
    march = InterpretedPropagator(BLOWING_UP, integrator, (0,)) if interpreted else propagator_for(BLOWING_UP, integrator, (0,))
    with pytest.raises(SimulationDiverged, match=r"state 'x' is no longer finite at t = 1\.\d") as bad:
        march.run(grid, np.array([0, 60]), np.array([[1.0, 1.0]]), np.array([1.0]), True)
    assert t[bad.value.node] == bad.value.time
    out, err = capfd.readouterr()
    assert out == err == ""


@pytest.mark.parametrize("interpreted", [False, True])
@pytest.mark.parametrize("name", ["trapezoid", "radau"])
def test_implicit_step_without_a_root_is_a_divergence(name, interpreted, capfd):
    """Beyond the pole at t = 1 the equations of a step have no real solution near."""
    t = np.linspace(0, 3, 31)
    grid = grid_of(BLOWING_UP, di.Experiment(t, outputs={"y": t}), 1)
    integrator = integrator_named(name)
    march = InterpretedPropagator(BLOWING_UP, integrator, ()) if interpreted else propagator_for(BLOWING_UP, integrator, ())
    with pytest.raises(SimulationDiverged):
        march.run(grid, np.array([0, 30]), np.array([[1.0, 1.0]]), np.array([1.0]), False)
    out, err = capfd.readouterr()
    assert out == err == ""


def test_blow_up_in_cvodes_is_one_error_and_no_flood(capfd):
    t = np.linspace(0, 3, 31)
    grid = grid_of(BLOWING_UP, di.Experiment(t, outputs={"y": t}))
    march = propagator_for(BLOWING_UP, integrator_named("cvodes"), (0,))
    for sensitivities in (False, True):
        with pytest.raises(SimulationDiverged, match="t = 1"):
            march.run(grid, np.array([0, 30]), np.array([[1.0, 1.0]]), np.array([1.0]), sensitivities)
    out, err = capfd.readouterr()
    assert out + err == ""


@pytest.mark.parametrize("name, make", [("runge_kutta", propagator_for), ("runge_kutta", InterpretedPropagator),
                                        ("cvodes", propagator_for)], ids=["compiled", "interpreted", "cvodes"])
def test_output_that_is_not_finite_is_named(name, make):
    model = di.EquationModel(states={"x": "-1 + 0*a"}, outputs={"fine": "x", "root": "sqrt(x + a)"}, parameters=["a"])
    t = np.linspace(0, 2, 21)
    grid = grid_of(model, di.Experiment(t, outputs={"root": t}))
    march = make(model, integrator_named(name), ())
    with pytest.raises(SimulationDiverged, match=r"output 'root' is no longer finite at t = 1\.1"):
        march.run(grid, np.array([0, 20]), np.array([[1.0]]), np.array([0.0]), False)
