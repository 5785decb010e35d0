"""Filters of all sizes and widths: rows that a processor works on at once give the numbers of plain formulas."""

from __future__ import annotations

import ctypes

import casadi as ca
import numpy as np
import pytest

import dynident as di
from dynident.codegen.compiler import compiler, load_library
from dynident.kalman.backend import AdjointState, backend_for, interpreted_backend
from dynident.kalman.compiled_filter import CompiledFilter, declare_arguments, record_kernels, source_text, update_kernels
from dynident.kalman.method import KalmanMethod
from dynident.kalman.model_functions import next_states, symbols
from dynident.kalman.setup import build_setup

ROUNDING = 1e-9  # of a filter over some hundred steps, relative
SCHEMES = ["euler", "heun", "simpson", "runge_kutta", "symplectic_euler", "leapfrog", "leapfrog_printed"]
PROBE = """
void probe(const double *t, const double *h, const double *a, const double *u0, const double *u1, const double *p,
           double *next, double *F) {
  const double *arg[6] = {t, h, a, u0, u1, p};
  double rows[NX * W];
  int i, j;
  dyn_next_jacobian(arg, next, rows);
  for (i = 0; i < NX; i++) for (j = 0; j < N; j++) F[i * N + j] = rows[i * W + j];
}
"""
needs_compiler = pytest.mark.skipif(compiler() is None, reason="the width of rows is a matter of compiled C")


def chain(states: int, free: int, samples: int = 60):
    """First-order lags one behind the other; the last is seen, and the sum of all where there are several."""
    names = [f"x{i}" for i in range(states)]
    rates = {x: f"c{min(i, 3)}*({'u' if i == 0 else names[i - 1]} - {x}) - 0.1*tanh({x})*{names[-1]}"
             for i, x in enumerate(names)}
    outputs = {"last": names[-1]} | ({"sum": " + ".join(names)} if states > 1 else {})
    model = di.EquationModel(states=rates, inputs=["u"], outputs=outputs)
    truth = {f"c{i}": 2.0 + i for i in range(min(states, 4))}
    time = 0.02 * np.arange(samples)
    u = np.sign(np.sin(5 * time))
    start = {x: 0.1 * (i + 1) for i, x in enumerate(names)}
    run = di.simulate(model, truth, di.Experiment(time, {"u": u}, initial=start))
    rng = np.random.default_rng(states)
    seen = {n: y + 0.01 * rng.standard_normal(samples) for n, y in run.outputs.items()}
    record = di.Experiment(time, {"u": u}, seen, dict.fromkeys(outputs, di.Gaussian(0.01)))
    parameters = [di.Parameter(n, start=1.1 * v, free=i < free, log=i == 1) for i, (n, v) in enumerate(truth.items())]
    return di.Problem(model, [record], parameters)


def made(problem, **options):
    noise = dict.fromkeys(problem.model.states, 0.05)
    return build_setup(KalmanMethod(**{"process_noise": noise, **options}), problem)


def numbers(backend, its):
    """Everything that a filter and its smoother say about the record."""
    record, n = its.records[0], its.augmented.size
    std = np.concatenate([np.full(len(record.initial), 0.3), its.theta_std])
    memory = backend.initialize(np.concatenate([record.initial, its.theta]), np.diag(std**2), record.start,
                                record.inputs[0])
    done = backend.filter_record(memory, record, for_smoother=True)
    smooth = backend.smooth(done.samples, done.smoother_data, AdjointState.zero(n))
    return done.samples, smooth.states, smooth.variances, smooth.P_first, smooth.start.matrix


def agree(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        size = np.maximum(np.nanmax(np.abs(other), axis=0), 1e-12)
        np.testing.assert_allclose(one / size, other / size, rtol=0, atol=ROUNDING)


@needs_compiler
@pytest.mark.parametrize("scheme", SCHEMES)
def test_rows_are_the_derivative_of_a_step(scheme):
    model = di.EquationModel(states={"q": "v", "w": "s", "v": "-k*q**3 - d*v + c*(w - q) + u*cos(t)",
                                     "s": "c*(q - w) - d*s*q"}, inputs=["u"], outputs={"place": "q"})
    time = np.linspace(0, 1, 9)
    record = di.Experiment(time, {"u": time}, {"place": time}, {"place": di.Gaussian(1.0)}, hold="linear")
    its = made(di.Problem(model, [record], [di.Parameter("k", 2.0), di.Parameter("c", 3.0, log=True),
                                            di.Parameter("d", 0.5, free=False)]), integrator=scheme)
    s = symbols(its.augmented)
    after = next_states(its.augmented, its.integrator, s)
    inputs = [s[k] for k in ("t", "h", "a", "u0", "u1", "p")]
    exact = ca.Function("exact", inputs, [after, ca.jacobian(after, s["a"])])
    text = source_text(its, update_kernels("extended")) + PROBE
    library = load_library(f"test {text}", lambda: text)
    rng = np.random.default_rng(1)
    for _ in range(5):
        point = [rng.uniform(0.2, 1, max(1, v.numel())) for v in inputs]
        found = [np.empty(4), np.empty((4, 6))]
        library.probe(*[ctypes.c_void_p(v.ctypes.data) for v in [*point, *found]])
        for one, other in zip(found, exact(*point), strict=True):
            np.testing.assert_allclose(one, np.asarray(other).reshape(one.shape), rtol=1e-13, atol=1e-14)


@needs_compiler
@pytest.mark.parametrize("filter", ["extended", "unscented"])
@pytest.mark.parametrize(("states", "free"), [(1, 0), (1, 1), (2, 1), (3, 2), (7, 2)])
def test_every_size_gives_the_numbers_of_plain_formulas(states, free, filter):
    its = made(chain(states, free), filter=filter)
    agree(numbers(backend_for(its), its), numbers(interpreted_backend(its), its))


@needs_compiler
@pytest.mark.parametrize("options", [{"covariance_update": "joseph"}, {"covariance_update": "plain"},
                                     {"filter": "unscented"}], ids=str)
@pytest.mark.parametrize("lane", [1, 2, 4])
def test_every_width_gives_the_same_numbers(lane, options):
    its = made(chain(3, 2), **options)
    names = record_kernels(its.method.filter)
    text = source_text(its, names, lane=lane)
    library = load_library(f"test {text}", lambda: text)
    agree(numbers(CompiledFilter(its, declare_arguments(library)), its), numbers(interpreted_backend(its), its))


@needs_compiler
def test_forces_that_do_not_depend_on_the_speed_are_asked_for_twice_only():
    from dynident.kalman.model_functions import step_jacobian_by_rows

    model = di.EquationModel(states={"q": "v", "v": "-k*q**3"}, outputs=["q"])
    record = di.Experiment([0.0, 1.0, 2.0], outputs={"q": [0.0, 1.0, 0.0]}, noise={"q": di.Gaussian(1.0)})
    its = made(di.Problem(model, [record], [di.Parameter("k", 2.0)]), integrator="leapfrog")
    functions, _ = step_jacobian_by_rows(its.augmented, its.integrator)
    asked = [f for f in functions if f.name().startswith("dyn_rate") and any(
        f.instruction_id(k) in (ca.OP_SQ, ca.OP_MUL) for k in range(f.n_instructions()))]
    assert len(asked) == 2
