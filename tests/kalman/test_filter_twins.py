"""Every compiled loop of the filters has an interpreted twin, and both give the same numbers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from linear_oracle import oscillator

import dynident as di
from dynident.codegen.compiler import compiler, load_library
from dynident.kalman import method
from dynident.kalman.backend import AdjointState, FilterLayout, backend_for, interpreted_backend
from dynident.kalman.compiled_filter import CompiledFilter, record_kernels, source_text
from dynident.kalman.filter_adjoint import adjoint_measurement
from dynident.kalman.filter_common import FilterModel, project_onto_bounds, semidefinite_cholesky
from dynident.kalman.filter_linear import FORMS, update_with_measurements
from dynident.kalman.method import KalmanMethod, MovingHorizon
from dynident.kalman.setup import FilterSetup, build_setup

pytestmark = pytest.mark.skipif(compiler() is None, reason="a twin is compared with the compiled loop")

KNOWN = {"process_noise": {"v": 0.3}, "initial_std": {"q": 0.2, "v": 0.1}, "integrator": "heun"}
SAMPLES = 80
ROUNDING = 1e-7  # relative, of a filter over some hundred steps of another order of operations
PROBE = """
void probe_common(const double *P, double *x, const dyn_settings *s, double *L, double *lambda, double *projected) {
  cholesky(P, L);
  *projected = project_onto_bounds(x, P, N, s, lambda);
}
"""
LINEAR_PROBE = PROBE + """
void probe_linear(const double *F, const double *q, const double *at, const double *output, const double *H,
                  const double *y, const double *r, double gate, const double *P, double *x, double *P_predicted,
                  double *P_after, dyn_sample *sample, dyn_smoother_data *smoother) {
  double rows[NX * W], u[SIZE(NU)] = {0};
  dyn_memory m;
  int i;
  for (i = 0; i < NX; i++) memcpy(rows + i * W, F + i * N, sizeof(double) * N);
  dyn_initialize(&m, 0, 1, u, x, P);
  predict_covariance(rows, m.P, q);
  full_covariance(m.P, P_predicted);
  update_with_measurements(m.x, m.P, at, output, H, y, r, gate, 1, sample, smoother);
  full_covariance(m.P, P_after);
  memcpy(x, m.x, sizeof m.x);
}
"""
ADJOINT_PROBE = PROBE + """
void probe_adjoint(const dyn_smoother_data *data, double *lambda, double *Lambda) {
  double kept[N * W] = {0};
  int i;
  for (i = 0; i < N; i++) memcpy(kept + i * W, Lambda + i * N, sizeof(double) * N);
  adjoint_measurement(data, lambda, kept);
  for (i = 0; i < N; i++) memcpy(Lambda + i * N, kept + i * W, sizeof(double) * N);
}
"""


def two_outputs() -> di.Problem:
    """An oscillator with two free parameters, one of them at a bound, two outputs, gaps and outliers."""
    problem, *_ = oscillator(SAMPLES, seed=17, free=("k", "d"))
    e, rng = problem.experiments[0], np.random.default_rng(3)
    position = np.array(e.outputs["position"])
    speed = np.gradient(position, e.time) + 0.1 * rng.standard_normal(SAMPLES)
    position[rng.random(SAMPLES) < 0.2] = np.nan
    speed[20] = 9.0
    model = di.EquationModel(states={"q": "v", "v": "(F - k*q - d*v)/(1 + 0.1*q**2)"}, inputs=["F"],
                             outputs={"position": "q", "speed": "v + 0.1*q*v"})
    record = replace(e, outputs={"position": position, "speed": speed}, notes=(),
                     noise={"position": di.Gaussian(0.05), "speed": di.Gaussian(0.3)})
    return di.Problem(model, [record], [di.Parameter("k", start=6.0, lower=5.5), di.Parameter("d", start=0.8, lower=0.0)])


def setup_for(**options: Any) -> FilterSetup:
    made = MovingHorizon if "horizon" in options else KalmanMethod
    return build_setup(made(**{**KNOWN, **options}), two_outputs())


def backend_numbers(setup: FilterSetup, compiled: bool) -> list[np.ndarray]:
    """A record, sample by sample and at once, and the smoother back over it."""
    backend = backend_for(setup) if compiled else interpreted_backend(setup)
    assert isinstance(backend, CompiledFilter) == compiled
    record, n, layout = setup.records[0], setup.augmented.size, backend.layout
    start = np.concatenate([record.initial, setup.theta])
    P = np.diag(np.concatenate([record.initial_std, setup.theta_std]) ** 2)
    memory = backend.initialize(start, P, record.start, record.inputs[0])
    done = backend.filter_record(memory, record)
    packed, out, one_by_one = np.zeros(1 + layout.nu + 2 * layout.ny), np.empty(layout.sample_size), []
    update = backend.updater(memory, record.first_order_hold, packed, out)
    for k, t in enumerate(record.time):
        packed[:] = [t, *record.inputs[k], *record.outputs[k], *record.variance[0]]
        assert update() == 0
        one_by_one.append(out.copy())
    numbers = [done.samples, np.array(one_by_one), *backend.estimate(done.memory), *backend.estimate(memory)]
    if setup.method.filter != "horizon":
        again = backend.filter_record(backend.initialize(start, P, record.start, record.inputs[0]), record, True)
        assert again.smoother_data is not None
        whole = backend.smooth(again.samples, again.smoother_data, AdjointState.zero(n))
        numbers += [again.samples, again.smoother_data, whole.states, whole.variances, whole.P_first, whole.start.matrix]
    return numbers


def probe(setup: FilterSetup, text: str) -> ctypes.CDLL:
    whole = source_text(setup, record_kernels(setup.method.filter)) + text
    library = load_library(f"test {whole}", lambda: whole)
    assert library is not None
    return library


def call(function: Any, *arguments: Any) -> None:
    function(*[ctypes.c_double(a) if isinstance(a, float) else ctypes.c_void_p(a.ctypes.data) for a in arguments])


def a_covariance(n: int, seed: int) -> np.ndarray:
    A = np.random.default_rng(seed).standard_normal((n, n))
    return A @ A.T


def linear_numbers(setup: FilterSetup, compiled: bool) -> list[np.ndarray]:
    """One linear step and two linear measurements, of which the gate leaves one out."""
    layout, form = FilterLayout(setup), FORMS[setup.method.covariance_update]
    n, nx, ny, rng = layout.n, layout.nx, layout.ny, np.random.default_rng(5)
    F, H, q = rng.standard_normal((nx, n)), rng.standard_normal((ny, n)), np.array([0.1, 0.2, 0.0, 0.0])
    H[0, 1:] = 0.0  # what the model's first output does not depend on is not read
    H[1, 2:] = 0.0
    x, at, output, r, P = *rng.standard_normal((2, n)), np.zeros(ny), np.array([0.1, 0.2]), a_covariance(n, 1)
    y = np.array([0.3, 1e3])
    if compiled:
        after, predicted, P_after = x.copy(), np.empty((n, n)), np.empty((n, n))
        sample, data = np.zeros(layout.sample_size), np.zeros(layout.smoother_data["e"].stop)
        call(probe(setup, LINEAR_PROBE).probe_linear, F, q, at, output, H, y, r, 4.0, P, after, predicted, P_after, sample,
             data)
        f, d = layout.sample, layout.smoother_data
        return [predicted, after, P_after, sample[f["used"]], sample[f["whitened"]], sample[f["nis"]], sample[f["loglik"]],
                data[d["h"]].reshape(ny, n), data[d["c"]].reshape(ny, n), data[d["e"]]]
    kept = form.predict(form.keep(P), np.vstack([F, np.eye(n)[nx:]]), q)
    done = update_with_measurements(form, x, kept, at, output, H, y, r, 4.0)
    assert list(done.used) == [1, 2]
    return [form.full(kept), done.x, form.full(done.P), done.used, done.whitened, np.array([done.nis]),
            np.array([done.loglik]), done.h, done.c, done.e]


def common_numbers(setup: FilterSetup, compiled: bool) -> list[np.ndarray]:
    """The factor of a covariance, and parameters back onto their bounds."""
    layout, x, P = FilterLayout(setup), np.array([0.5, -0.5, 3.0, -50.0]), a_covariance(setup.augmented.size, 2)
    P[:, 1] = P[1, :] = 0.0  # known exactly
    if compiled:
        L, multipliers, projected, x = np.zeros_like(P), np.zeros(x.size), np.zeros(1), x.copy()
        settings = layout.pack_settings(setup)
        call(probe(setup, PROBE).probe_common, P, x, settings, L, multipliers, projected)
        return [L, x, projected, multipliers]
    x, projected, multipliers = project_onto_bounds(FilterModel.of(setup), x, P)
    assert projected == 2
    return [semidefinite_cholesky(P), x, np.array([projected]), multipliers]


def adjoint_numbers(setup: FilterSetup, compiled: bool) -> list[np.ndarray]:
    """Back over the measurements of one sample."""
    layout, rng = FilterLayout(setup), np.random.default_rng(7)
    data, vector = rng.standard_normal(layout.smoother_data["e"].stop), rng.standard_normal(layout.n)
    matrix = a_covariance(layout.n, 3)
    if compiled:
        call(probe(setup, ADJOINT_PROBE).probe_adjoint, data, vector, matrix)
        return [vector, matrix]
    before = adjoint_measurement(layout, data, AdjointState(vector, matrix), setup.method.filter == "unscented")
    return [before.vector, before.matrix]


@dataclass(frozen=True)
class Twin:
    """A compiled loop, and the Python file of the same name that does the same."""

    loop: str
    options: dict[str, Any] = field(default_factory=dict)
    numbers: Callable[[FilterSetup, bool], list[np.ndarray]] = backend_numbers

    @property
    def id(self) -> str:
        return " ".join([self.loop, *(str(value) for value in self.options.values())])


HORIZON = {"horizon": 5, "iterations": 2}
UPDATES = [{"covariance_update": "plain"}, {"covariance_update": "joseph"}, {"covariance_update": "square_root"}]
TWINS = [
    *(Twin("filter_extended", options) for options in (
        *UPDATES, {"filter": "iterated"}, {"filter": "iterated", "covariance_update": "square_root"}, {"gate": 3.0},
        {"substeps": 3}, {"process_noise_unit": "sample"}, {"bound_handling": "transform"})),
    *(Twin("filter_unscented", {"filter": "unscented", **options}) for options in ({}, {"gate": 3.0}, {"substeps": 2})),
    *(Twin("filter_horizon", {**HORIZON, **options}) for options in (
        {}, {"covariance_update": "square_root"}, {"gate": 3.0}, {"iterations": 1}, {"process_noise_unit": "sample"})),
    *(Twin("filter_linear", options, linear_numbers) for options in UPDATES),
    *(Twin("filter_common", options, common_numbers) for options in ({}, {"filter": "unscented"})),
    *(Twin("filter_adjoint", options, adjoint_numbers) for options in ({}, {"filter": "unscented"})),
]


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.id)
def test_twin_gives_the_numbers_of_the_compiled_loop(twin: Twin):
    setup = setup_for(**twin.options)
    for ours, compiled in zip(twin.numbers(setup, False), twin.numbers(setup, True), strict=True):
        scale = np.maximum(np.nanmax(np.abs(compiled), axis=0), 1e-9)
        np.testing.assert_allclose(ours / scale, compiled / scale, rtol=0, atol=ROUNDING)


def test_every_twin_is_compared():
    """A file named after a kernel is its twin; filter_record is run by every filter above that is not a square root."""
    files = {path.stem for path in Path(method.__file__).parent.glob("filter_*.py")}
    assert {twin.loop for twin in TWINS} | {"filter_record"} == files
