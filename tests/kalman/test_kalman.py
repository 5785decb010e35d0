"""Kalman filters against textbook filters, batch least squares, and each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from linear_oracle import batch_states, oscillator, textbook_filter
from scipy import stats

import dynident as di
from dynident.codegen.compiler import compiler
from dynident.estimate.filter_result import nees
from dynident.kalman.backend import backend_for
from dynident.kalman.method import KalmanMethod, MovingHorizon
from dynident.kalman.setup import build_setup

ROUNDING = 1e-9  # of a filter over some hundred steps, relative to the signals
KNOWN = {"process_noise": {"v": 0.3}, "initial_std": {"q": 0.2, "v": 0.1}, "integrator": "heun"}
KINDS = [{"covariance_update": "plain"}, {"covariance_update": "joseph"}, {"covariance_update": "square_root"},
         {"filter": "unscented"}, {"filter": "iterated"}]
IDS = ["plain", "joseph", "square_root", "unscented", "iterated"]
P0 = np.diag([0.04, 0.01])
X0 = np.array([1.0, 0.0])


def with_gaps(problem, seed=3):
    """Some samples missing, so that an interval is longer than the others, and some measurements NaN."""
    rng = np.random.default_rng(seed)
    e = problem.experiments[0]
    y = np.array(e.outputs["position"])
    y[rng.random(y.size) < 0.2] = np.nan
    return problem.replace(experiments=[replace(e, outputs={"position": y}, notes=())])


@pytest.mark.parametrize("options", KINDS, ids=IDS)
def test_with_known_parameters_every_filter_is_the_textbook_filter(options):
    problem, A, B, Q, H, R, u, _, _ = oscillator(300, seed=1)
    problem = with_gaps(problem)
    means, covariances, nis = textbook_filter(A, B, Q, H, R, u, problem.experiments[0].outputs["position"], X0, P0)
    record = di.identify(problem, di.kalman(**KNOWN, **options)).filtered.records[0]
    assert record.values == pytest.approx(means, abs=ROUNDING)
    assert record.std**2 == pytest.approx(np.diagonal(covariances, axis1=1, axis2=2), abs=ROUNDING)
    assert record.nis[np.isfinite(record.nis)] == pytest.approx(nis, rel=1e-6)


@pytest.mark.parametrize("options", KINDS, ids=IDS)
def test_smoother_is_the_batch_least_squares_solution(options):
    problem, A, B, _, H, R, u, _, _ = oscillator(120, seed=2)
    problem = with_gaps(problem)
    noise = {"process_noise": {"q": 0.1, "v": 0.3}}
    Q = np.diag([0.1**2, 0.3**2]) * 0.05
    states, std = batch_states(A, B, Q, H, R, u, problem.experiments[0].outputs["position"], X0, P0)
    estimate = di.identify(problem, di.kalman(**{**KNOWN, **noise}, **options, smoother=True))
    record = estimate.filtered.records[0]
    assert record.smoothed == pytest.approx(states, abs=1e-8)
    assert record.smoothed_std == pytest.approx(std, rel=1e-6)
    assert estimate.values["q(0)"] == pytest.approx(states[0, 0], abs=1e-8)
    assert estimate.uncertainty.std("v(0)") == pytest.approx(std[0, 1], rel=1e-6)


def test_moving_horizon_on_a_linear_model_is_the_kalman_filter():
    problem, *_ = oscillator(200, seed=5)
    problem = with_gaps(problem)
    filtered = di.identify(problem, di.kalman(**KNOWN)).filtered.records[0]
    horizon = di.identify(problem, di.moving_horizon(horizon=7, **KNOWN)).filtered.records[0]
    assert horizon.values == pytest.approx(filtered.values, abs=ROUNDING)
    assert horizon.std == pytest.approx(filtered.std, abs=ROUNDING)


@pytest.mark.parametrize("method", [di.kalman, di.moving_horizon], ids=["kalman", "moving_horizon"])
def test_parameters_agree_with_the_batch_estimate(method):
    """Without process noise and from a wide prior, the filter's answer is that of least squares."""
    if method is di.moving_horizon and compiler() is None:
        pytest.skip("12,000 samples of a moving horizon take minutes without a C compiler")
    problem, *_ = oscillator(4000, seed=7, process=0.0, free=("k", "d"))
    batch = di.identify(problem, di.single_shooting(integrator="runge_kutta", substeps=1))  # its intervals hold its own error
    estimate = di.identify(problem, method(integrator="runge_kutta", process_noise={}, passes=3,
                                           initial_std={"k": 4.0, "d": 2.0, "q": 1.0, "v": 1.0}))
    for name in ("k", "d"):
        std = batch.uncertainty.std(name)
        assert estimate.values[name] == pytest.approx(batch.values[name], abs=0.2 * std)
        assert estimate.uncertainty.std(name) == pytest.approx(std, rel=0.05)


def test_innovations_and_errors_keep_their_bounds_over_repeats():
    """NIS and NEES of matched simulations, summed over repeats, inside their 99.9 % bands."""
    nis, errors, covariances = [], [], []
    for seed in range(60):
        problem, *_, truth = oscillator(150, seed=100 + seed)
        filter = di.kalman(**KNOWN).start(problem)
        e = problem.experiments[0]
        for k, t in enumerate(e.time):
            known = filter.update(t, [e.inputs["F"][k]], [e.outputs["position"][k]])
            nis.append(known.nis)
        errors.append(truth[-1] - list(known.states.values()))  # one per run: later samples are not independent
        covariances.append(filter.covariance)
    low, high = stats.chi2.ppf([0.0005, 0.9995], len(nis))
    assert low < np.sum(nis) < high
    low, high = stats.chi2.ppf([0.0005, 0.9995], 2 * len(errors))
    assert low < np.sum(nees(np.array(errors), np.array(covariances))) < high


def test_wrong_noise_level_is_called_by_its_name():
    problem, *_ = oscillator(600, seed=11)
    sure = di.identify(problem, di.kalman(**{**KNOWN, "process_noise": {"v": 0.02}}))
    cautious = di.identify(problem, di.kalman(**{**KNOWN, "process_noise": {"v": 3.0}}))
    right = di.identify(problem, di.kalman(**KNOWN))
    assert right.filtered.consistent and not sure.filtered.consistent and not cautious.filtered.consistent
    assert any("too sure" in note for note in sure.notes) and any("too cautious" in note for note in cautious.notes)
    assert "do not rely" in sure.uncertainty.meaning and "do not rely" not in right.uncertainty.meaning


def test_noise_levels_are_found_by_maximum_likelihood():
    """Within three standard errors of a variance estimate from this many innovations."""
    problem, *_ = oscillator(3000, seed=13)
    e = problem.experiments[0]
    problem = problem.replace(experiments=[replace(e, noise={"position": di.Gaussian()}, notes=())])
    estimate = di.identify(problem, di.kalman(integrator="heun"))
    assert estimate.filtered.process_noise["v"] == pytest.approx(0.3, rel=0.15)
    assert estimate.noise_std["position"] == pytest.approx(0.05, rel=0.1)
    assert set(estimate.filtered.estimated) == {"v", "position"}
    assert estimate.filtered.consistent


@pytest.mark.parametrize("options", [*KINDS, {"horizon": 5}],
                         ids=[*IDS, "horizon"])
def test_sample_by_sample_is_the_whole_record(options):
    problem, *_ = oscillator(120, seed=19, free=("k",))
    problem = with_gaps(problem)
    method = (MovingHorizon if "horizon" in options else KalmanMethod)(**{**KNOWN, **options})
    record = method.identify(problem, None, lambda _: None).filtered.records[0]
    filter, e = method.start(problem), problem.experiments[0]
    for k, t in enumerate(e.time):
        known = filter.update(t, {"F": e.inputs["F"][k]}, {"position": e.outputs["position"][k]})
        assert list({**known.states, **known.parameters}.values()) == pytest.approx(list(record.values[k]), rel=1e-12)
        assert list(known.std.values()) == pytest.approx(list(record.std[k]), rel=1e-12)


def test_record_in_parts_is_the_whole_record():
    problem, *_ = oscillator(300, seed=21, free=("k",))
    problem = with_gaps(problem)
    method, e = di.kalman(**KNOWN), problem.experiments[0]
    whole = di.identify(problem, method).filtered.records[0]
    filter = method.start(problem)
    parts = [filter.run(e.window(*(e.time[[a, b - 1]]))) for a, b in ((0, 90), (90, 91), (91, 300))]
    assert np.vstack([p.values for p in parts]) == pytest.approx(whole.values, rel=1e-12)
    assert np.vstack([p.std for p in parts]) == pytest.approx(whole.std, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["joseph", "square_root"])
def test_covariance_stays_positive_over_a_million_steps(form):
    """No process noise, accurate measurements: the covariance shrinks towards rounding and must stay a covariance."""
    problem, *_ = oscillator(1_000_000, seed=23, process=0.0, std=1e-6, free=("k", "d"))
    method = KalmanMethod(covariance_update=form, integrator="heun", process_noise={}, initial_std={"k": 4.0, "d": 2.0})
    setup = build_setup(method, problem)
    backend, record = backend_for(setup), setup.records[0]
    memory = backend.initialize(np.concatenate([record.initial, setup.theta]), np.diag(np.concatenate(
        [record.initial_std, setup.theta_std]) ** 2), record.start, record.inputs[0])
    done = backend.filter_record(memory, record)
    samples, P = done.samples, backend.estimate(done.memory)[1]
    std = np.sqrt(np.diag(P))
    assert np.all(samples[:, backend.layout.sample["variance"]] > 0)
    assert np.array_equal(P, P.T) or form == "square_root"
    assert np.min(np.linalg.eigvalsh(P / std / std[:, None])) > -1e-12
