"""Does Radau IIA with step control follow stiff models to its tolerance, with sensitivities that are exact for its steps?"""

from __future__ import annotations

import casadi as ca
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import dynident as di
from dynident.codegen import compiler
from dynident.errors import SimulationDiverged
from dynident.integrators import integrator_named
from dynident.integrators.grid import grid_of
from dynident.integrators.propagation import CompiledPropagator, propagator_for
from dynident.integrators.radau5_interpreted import InterpretedRadau5

RADAU5 = integrator_named("radau5")
needs_compiler = pytest.mark.skipif(compiler.compiler() is None, reason="this machine has no C compiler")
VAN_DER_POL = di.EquationModel(states={"x": "v", "v": "mu*(1 - x*x)*v - w*x"}, parameters=["mu", "w"])
STIFF = {
    "robertson": (di.EquationModel(states={"a": "-k1*a + k3*b*c", "b": "k1*a - k3*b*c - k2*b**2", "c": "k2*b**2"},
                                   parameters=["k1", "k2", "k3"]),
                  [0.04, 3e7, 1e4], [1, 0, 0], np.concatenate([[0], np.logspace(-3, 4, 60)])),
    "kinetics": (di.EquationModel(states={"A": "-k1*A + k4*C", "B": "k1*A - k2*B*B - k3*B", "C": "k2*B*B + k3*B - k4*C"},
                                  parameters=["k1", "k2", "k3", "k4"]),
                 [1.0, 1e4, 1.0, 1e-2], [1, 0, 0], np.linspace(0, 10, 41)),
    "van der Pol 100": (VAN_DER_POL, [100.0, 1.0], [2, 0], np.linspace(0, 200, 41)),
    "van der Pol 1000": (VAN_DER_POL, [1000.0, 1.0], [2, 0], np.linspace(0, 2000, 41)),
}
DRIVEN = di.EquationModel(states={"x": "-a*(x - sin(y)) + u", "y": "-b*(y - u)*(1 + x*x)"}, inputs=["u"],
                          outputs={"z": "x + y*u"}, parameters=["a", "b"])


def with_sensitivities(model: di.EquationModel, p: list[float], x0: list[float], t: np.ndarray
                       ) -> tuple[np.ndarray, np.ndarray]:
    """States and their derivatives by the parameters, by scipy's own Radau on the variational equation."""
    n, m = len(x0), len(p)
    x, q, S = ca.SX.sym("x", n), ca.SX.sym("q", m), ca.SX.sym("S", n, m)
    rate = model.rate(0, x, ca.SX(0, 1), q)
    whole = ca.vertcat(x, ca.vec(S))
    moves = ca.vertcat(rate, ca.vec(ca.jacobian(rate, x) @ S + ca.jacobian(rate, q)))
    f, J = ca.Function("f", [whole, q], [moves]), ca.Function("J", [whole, q], [ca.densify(ca.jacobian(moves, whole))])
    run = solve_ivp(lambda _, w: np.asarray(f(w, p)).ravel(), (t[0], t[-1]), [*x0, *np.zeros(n * m)], method="Radau", t_eval=t,
                    jac=lambda _, w: np.asarray(J(w, p)), rtol=1e-10, atol=1e-13)
    return run.y[:n].T, run.y[n:].T.reshape(len(t), m, n).transpose(0, 2, 1)


def grid_for(model: di.EquationModel, t: np.ndarray, hold: str = "linear"):
    inputs = {name: np.sign(np.sin(5 * t)) * (hold == "zero") + np.sin(2 * t) for name in model.inputs}
    outputs = {name: np.zeros(t.size) for name in model.outputs}
    return grid_of(model, di.Experiment(t, inputs=inputs, outputs=outputs, hold=hold))


@pytest.mark.parametrize("name", STIFF)
def test_states_and_sensitivities_of_stiff_models_agree_with_independent_code(name):
    model, p, x0, t = STIFF[name]
    states, by_parameters = with_sensitivities(model, p, x0, t)
    out = propagator_for(model, RADAU5, tuple(range(len(p)))).run(
        grid_for(model, t), np.array([0, t.size - 1]), np.array([x0], float), np.array(p), True)
    assert np.max(np.abs(out.states - states) / np.max(np.abs(states), axis=0)) < 1e-7
    found = out.jacobian[:, :, len(x0):]
    tolerance = 1e-5 if "1000" in name else 1e-6  # the period moves by 1600 mu: steep flanks see an error of time
    assert np.max(np.abs(found - by_parameters) / np.max(np.abs(by_parameters), axis=0)) < tolerance


@needs_compiler
@pytest.mark.parametrize("hold", ["linear", "zero"])
def test_compiled_and_interpreted_loop_take_the_same_steps(hold):
    t = np.linspace(0, 3, 25)
    grid, first = grid_for(DRIVEN, t, hold), np.array([0, 7, 8, 24])
    nodes, p = np.random.default_rng(2).normal(size=(3, 2)), np.array([300.0, 2.0])
    fast, plain = propagator_for(DRIVEN, RADAU5, (0, 1)), InterpretedRadau5(DRIVEN, RADAU5, (0, 1))
    assert isinstance(fast, CompiledPropagator)
    for sensitivities in (True, False):
        a, b = (march.run(grid, first, nodes, p, sensitivities) for march in (fast, plain))
        for name in ("states", "outputs", "jacobian", "end_states", "end_jacobian"):
            if getattr(a, name) is not None:
                size = np.nanmax(np.abs(getattr(b, name)))
                np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=0, atol=1e-10 * size, err_msg=name)


@needs_compiler
def test_compiled_and_interpreted_loop_agree_on_a_stiff_model():
    model, p, x0, t = STIFF["robertson"]
    arguments = grid_for(model, t), np.array([0, t.size - 1]), np.array([x0], float), np.array(p), True
    a, b = (make(model, RADAU5, (0, 2)).run(*arguments) for make in (propagator_for, InterpretedRadau5))
    np.testing.assert_allclose(a.states, b.states, rtol=1e-9, atol=1e-15)
    size = np.max(np.abs(b.jacobian), axis=0)
    np.testing.assert_allclose(a.jacobian / size, b.jacobian / size, rtol=0, atol=1e-9)


@pytest.mark.parametrize("hold", ["linear", "zero"])
def test_inputs_move_as_the_record_says(hold):
    t = np.linspace(0, 3, 25)
    first, x0, p = np.array([0, 24]), np.array([[0.3, -0.2]]), np.array([30.0, 2.0])
    grid = grid_for(DRIVEN, t, hold)
    fine = propagator_for(DRIVEN, integrator_named("runge_kutta"), (0, 1)).run(grid.with_substeps(400), first, x0, p, True)
    out = propagator_for(DRIVEN, RADAU5, (0, 1)).run(grid, first, x0, p, True)
    np.testing.assert_allclose(out.outputs, fine.outputs, rtol=0, atol=1e-8)
    np.testing.assert_allclose(out.jacobian, fine.jacobian, rtol=0, atol=1e-7)


def test_segments_are_followed_each_from_its_own_begin():
    model, p, x0, t = STIFF["van der Pol 100"]
    march, grid = propagator_for(model, RADAU5, (0,)), grid_for(model, t)
    whole = march.run(grid, np.array([0, 40]), np.array([x0], float), np.array(p), True)
    cut = march.run(grid, np.array([0, 13, 40]), np.array([x0, whole.states[13]]), np.array(p), True)
    np.testing.assert_allclose(cut.states, whole.states, rtol=0, atol=1e-6 * np.max(np.abs(whole.states)))
    n = len(x0)
    chained = cut.end_jacobian[1][:, :n] @ cut.end_jacobian[0][:, n:] + cut.end_jacobian[1][:, n:]
    np.testing.assert_allclose(chained, whole.end_jacobian[0][:, n:], rtol=1e-4)


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_steps_do_not_depend_on_units(unit):
    model, p, x0, t = STIFF["kinetics"]
    scaled = di.EquationModel(
        states={"A": "-k1*A + k4*C", "B": f"k1*A - k2*B*B/{unit} - k3*B", "C": f"k2*B*B/{unit} + k3*B - k4*C"},
        parameters=["k1", "k2", "k3", "k4"])
    begin, first = np.array([x0], float), np.array([0, 40])
    runs = [propagator_for(m, RADAU5, ()).run(grid_for(m, t), first, size * begin, np.array(p), False)
            for m, size in ((model, 1.0), (scaled, unit))]
    np.testing.assert_allclose(runs[1].states / unit, runs[0].states, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("make", [propagator_for, InterpretedRadau5])
def test_a_machine_at_rest_begins_to_move(make):
    """All states are zero at first, and the position's rate too: nothing says yet how large they will be."""
    axis = di.EquationModel(states={"x": "v", "v": "(u - F*tanh(v/0.01) - b*v)/M"}, inputs=["u"], parameters=["F", "b", "M"])
    t = np.linspace(0, 0.3, 16)
    grid = grid_of(axis, di.Experiment(t, inputs={"u": 60 * np.sin(9 * t)}, outputs={"x": 0 * t}, hold="linear"))
    first, x0, p = np.array([0, 15]), np.zeros((1, 2)), np.array([20.0, 10.0, 95.0])
    fine = propagator_for(axis, integrator_named("runge_kutta"), ()).run(grid.with_substeps(200), first, x0, p, False)
    np.testing.assert_allclose(make(axis, RADAU5, ()).run(grid, first, x0, p, False).states, fine.states, rtol=0, atol=1e-8)


@pytest.mark.parametrize("make", [propagator_for, InterpretedRadau5])
def test_a_pole_is_one_error_that_says_where(make, capfd):
    model = di.EquationModel(states={"quiet": "-quiet", "x": "a*x**2"}, outputs={"y": "x"})
    t = np.linspace(0, 3, 31)
    march = make(model, RADAU5, (0,))
    for sensitivities in (False, True):
        with pytest.raises(SimulationDiverged, match="t = 1"):
            march.run(grid_for(model, t), np.array([0, 30]), np.ones((1, 2)), np.array([1.0]), sensitivities)
    assert "".join(capfd.readouterr()) == ""


def test_a_fit_of_a_stiff_model_finds_the_truth():
    model, p, x0, t = STIFF["robertson"]
    truth = dict(zip(model.parameters, p, strict=True))
    initial = dict(zip(model.states, map(float, x0), strict=True))
    quiet = di.simulate(model, truth, di.Experiment(t, initial=initial), integrator="radau5")
    rng = np.random.default_rng(4)
    run = di.Experiment(t, outputs={"a": quiet.outputs["a"] + 1e-4 * rng.normal(size=t.size),
                                    "b": quiet.outputs["b"] + 1e-8 * rng.normal(size=t.size)}, initial=initial)
    starts = [di.Parameter(name, start=1.5 * value, lower=value / 100) for name, value in truth.items()]
    found = di.identify(di.Problem(model, [run], starts), di.single_shooting(integrator="radau5"))
    for name, value in truth.items():
        assert found.values[name] == pytest.approx(value, rel=1e-2)


@pytest.mark.parametrize("integrator", ["radau", "radau5"])
@pytest.mark.parametrize("stiffness", ["always the same", "of each input"])
def test_factors_are_made_anew_where_steps_or_entries_change(integrator, stiffness):
    """Those of a linear model serve from step to step: not on uneven samples, and not where the matrix follows an input."""
    rng = np.random.default_rng(3)
    time = np.concatenate([np.arange(20) * 0.05, 1 + np.cumsum(rng.choice([0.01, 0.05, 0.2], 30)), [6.0, 6.05, 6.1]])
    u = rng.choice([0.5, 3.0], time.size) if stiffness == "of each input" else np.ones(time.size)
    model = di.EquationModel(states={"q": "v", "v": "-40*u*q - d*v + 1"}, inputs=["u"], outputs={"q": "q", "v": "v"})
    record = di.Experiment(time, inputs={"u": u}, initial={"q": 1.0, "v": 0.0})
    found = di.simulate(model, {"d": 0.7}, record, integrator=integrator, substeps=4 if integrator == "radau" else 1)
    x, expected = np.array([1.0, 0.0, 1.0]), [[1.0, 0.0]]
    for k, h in enumerate(np.diff(time)):
        x = expm(h * np.array([[0, 1, 0], [-40 * u[k], -0.7, 1], [0, 0, 0]])) @ x
        expected.append(x[:2])
    answer = np.column_stack([found.outputs["q"], found.outputs["v"]])
    assert np.max(np.abs(answer - expected)) < 1e-5
