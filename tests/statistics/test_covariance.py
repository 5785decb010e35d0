"""Intervals: units, bounds, what is undetermined, logarithms, and the way to a file and back."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from regression import autoregressive, fitted, linearized, regression_problem
from scipy import stats
from scipy.linalg import toeplitz

import dynident as di
from dynident._util.codec import decode, to_json
from dynident.errors import ProblemError
from dynident.linalg.block_rows import BlockRows
from dynident.linalg.finite_problem import ResidualIndex, ResidualJacobian
from dynident.problem.parameter import Parameter, Prior
from dynident.statistics.autocorrelation import ColouredNoise, coloured_noise, effective_dof, from_reflections
from dynident.statistics.covariance import Covariance, covariance_from
from dynident.statistics.distributions import student_quantile
from dynident.statistics.error_propagation import JacobianQR, estimator_gain
from dynident.statistics.hessian_covariance import covariance_from_hessian_factor
from dynident.statistics.uncertainty import Uncertainty

SAMPLES = 120


def columns() -> np.ndarray:
    t = np.linspace(0, 6, SAMPLES)
    return np.stack([np.ones(SAMPLES), np.exp(-t), np.sin(2 * t)], axis=1)


def record(x: np.ndarray, seed: int = 3, phi: float = 0.0) -> np.ndarray:
    return x @ np.ones(x.shape[1]) + autoregressive(np.random.default_rng(seed), x.shape[0], phi, 0.1)


def covariance_of(x: np.ndarray, parameters: list[Parameter], active: dict | None = None, phi: float = 0.0,
                  std: float | None = None, values: np.ndarray | None = None) -> Covariance:
    y = record(columns(), phi=phi)  # one record, whatever is fitted to it
    problem = regression_problem(parameters, [y], std=std)
    values = fitted([x], [y]) if values is None else values
    return covariance_from(problem, linearized(problem, [x], values, std or 1.0), active or {}, std is None)


def three(**options) -> list[Parameter]:
    return [Parameter(name, 1.0, **options) for name in "abc"]


def test_it_keeps_the_contract_of_uncertainty():
    assert isinstance(covariance_of(columns(), three()), Uncertainty)


def test_plain_matrix_is_the_textbook_one():
    x = columns()
    y = record(x)
    c = covariance_of(x, three())
    residuals = y - x @ fitted([x], [y])
    assert c.dof == pytest.approx(SAMPLES - 3)
    np.testing.assert_allclose(c.matrix, np.linalg.inv(x.T @ x) * (residuals @ residuals) / (SAMPLES - 3), rtol=1e-9)
    low, high = c.interval("b", kind="plain")
    assert high - low == pytest.approx(2 * stats.t.ppf(0.975, SAMPLES - 3) * np.sqrt(c.matrix[1, 1]))


def test_given_std_is_used_as_it_is():
    x = columns()
    c = covariance_of(x, three(), std=0.1)
    assert np.isinf(c.dof)
    np.testing.assert_allclose(c.matrix, np.linalg.inv(x.T @ x) * 0.01, rtol=1e-9)


@pytest.mark.parametrize("factor", [1e9, 1e-9])
@pytest.mark.parametrize("phi", [0.0, 0.9])
def test_intervals_do_not_depend_on_units(factor, phi):
    x = columns()
    scaled = x / np.array([1.0, factor, 1.0])
    parameters = three()
    before = covariance_of(x, parameters, phi=phi)
    parameters[1] = Parameter("b", factor)
    after = covariance_of(scaled, parameters, phi=phi)
    assert before.default_kind == after.default_kind
    for kind in ("plain", "corrected"):
        np.testing.assert_allclose(np.array(after.interval("b", kind=kind)) / factor, before.interval("b", kind=kind),
                                   rtol=1e-6)
        np.testing.assert_allclose(after.interval("a", kind=kind), before.interval("a", kind=kind), rtol=1e-6)


def test_parameter_on_its_lower_bound_has_a_one_sided_interval_and_is_fixed_for_the_others():
    x = columns()
    y = record(x) - 1.3 * x[:, 1]  # b would be -0.3
    rest = fitted([x[:, [0, 2]]], [y])
    problem = regression_problem([Parameter("a", 1.0), Parameter("b", 1.0, lower=0.0), Parameter("c", 1.0)], [y])
    c = covariance_from(problem, linearized(problem, [x], np.array([rest[0], 0.0, rest[1]])), {"b": "lower"}, True)
    low, high = c.interval("b")
    assert low == 0.0 and 0.0 < high < np.inf
    assert c.remark("b") == "at its lower bound"
    held = np.linalg.inv(x[:, [0, 2]].T @ x[:, [0, 2]])
    assert c.matrix[0, 0] / c.matrix[2, 2] == pytest.approx(held[0, 0] / held[1, 1])
    assert np.all(c.matrix[1] == 0)
    slope = -np.linalg.lstsq(x[:, [0, 2]], x[:, 1], rcond=None)[0]  # how a and c follow b
    quantile, high = student_quantile(0.975, SAMPLES - 2), c.interval("b", kind="plain")[1]
    for name, way, i in (("a", slope[0], 0), ("c", slope[1], 2)):
        half = quantile * np.sqrt(c.matrix[i, i])
        ends = c.values[i] - half + min(0, way * high), c.values[i] + half + max(0, way * high)
        np.testing.assert_allclose(c.interval(name, kind="plain"), ends, rtol=1e-9)


def test_upper_bound_is_the_mirror_image():
    c = covariance_of(columns(), three(), active={"b": "upper"})
    low, high = c.interval("b")
    assert high == c.values[1] and low < high and c.remark("b") == "at its upper bound"


def test_undetermined_sum_is_named_and_the_rest_keeps_its_interval():
    x = columns()
    tied = np.stack([x[:, 0], x[:, 1], x[:, 1]], axis=1)
    parameters = [Parameter("offset", 1.0), Parameter("m1", 1.0), Parameter("m2", 3.0)]
    c = covariance_of(tied, parameters, values=np.array([1.0, 0.25, 0.75]))
    alone = covariance_of(x[:, :2], parameters[:2], values=np.array([1.0, 1.0]))
    assert c.unidentifiable == ("m1", "m2")
    assert c.combinations[0].startswith("only m1 + m2 is determined")
    assert c.interval("m1") == (-np.inf, np.inf) and c.remark("m2") == "unidentifiable"
    assert c.std("offset", "plain") == pytest.approx(alone.std("offset", "plain"), rel=1e-6)
    correlation = c.correlation()
    assert np.isnan(correlation[1, 0]) and np.isnan(correlation[2]).all() and correlation[0, 0] == pytest.approx(1)


def test_a_prior_determines_what_the_data_do_not():
    x = columns()
    y = record(x[:, :2])
    parameters = [Parameter("a", 1.0), Parameter("m1", 1.0), Parameter("m2", 1.0, prior=Prior(1.0, 0.2))]
    problem = regression_problem(parameters, [y], std=0.1)
    tied = np.stack([x[:, 0], x[:, 1], x[:, 1]], axis=1)
    data = linearized(problem, [tied], np.array([1.0, 0.0, 1.0]), 0.1)
    rows = ResidualIndex(*(np.append(a, b) for a, b in zip((data.rows.experiment, data.rows.output, data.rows.sample),
                                                  (-1, -1, 2), strict=True)))
    with_prior = ResidualJacobian.dense(data.values, np.append(data.residuals, 0.0),
                                     np.vstack([data.jacobian, [0, 0, 1 / 0.2]]), rows)
    c = covariance_from(problem, with_prior, {}, False)
    assert c.unidentifiable == ()
    assert c.std("m2", "plain") == pytest.approx(0.2, rel=1e-6)
    assert c.std("m2", "corrected") == pytest.approx(0.2, rel=0.05)


def test_a_parameter_beyond_the_reach_of_the_linearisation_gets_an_open_interval():
    x = columns()
    x[:, 2] = x[:, 1] * (1 + 1e-5 * np.arange(SAMPLES))  # determined on paper only
    c = covariance_of(x, three())
    assert set(c.practically_unidentifiable) == {"b", "c"}
    assert c.interval("c") == (-np.inf, np.inf) and c.remark("c") == "practically unidentifiable"
    assert np.isfinite(c.interval("a")).all()


def test_logarithmic_parameter_stays_positive():
    x = columns() * 0.05
    problem = regression_problem(three(log=True, lower=1e-9), [record(x)], std=0.1)
    c = covariance_from(problem, linearized(problem, [x], np.ones(3), 0.1), {}, False)
    low, high = c.interval("b", kind="plain")
    std = np.sqrt(c.matrix[1, 1])
    assert 0 < low < 1 < high and low * high == pytest.approx(1.0)
    assert 1.96 * std > 1  # on the plain scale it would cross zero
    assert np.log(high) == pytest.approx(stats.norm.ppf(0.975) * std)


def test_as_many_data_as_unknowns_leave_the_interval_open():
    x = np.eye(3)
    problem = regression_problem(three(), [np.ones(3)])
    c = covariance_from(problem, linearized(problem, [x], np.ones(3)), {}, True)
    assert c.interval("a") == (-np.inf, np.inf)


def test_held_value_is_given_twice_and_unknown_names_are_refused():
    parameters = [*three()[:2], Parameter("c", 1.0, free=False)]
    c = covariance_of(columns()[:, :2], parameters)
    assert c.interval("c") == (1.0, 1.0) and c.remark("c") == "fixed" and c.std("c") == 0
    with pytest.raises(ProblemError, match="not an unknown"):
        c.interval("d")
    with pytest.raises(ProblemError, match="probability"):
        c.interval("a", level=95)


@pytest.mark.parametrize("phi", [0.0, 0.9])
def test_a_file_gives_back_the_same_intervals(phi):
    x = columns()
    tied = np.stack([x[:, 0], x[:, 1], x[:, 1]], axis=1)
    for active in ({}, {"a": "lower"}):
        before = covariance_of(tied, three(), active=active, phi=phi, values=np.array([1.0, 0.5, 0.5]))
        after = decode(Covariance, json.loads(to_json(before)), "a file")
        for name in "abc":
            for kind in ("plain", "corrected"):
                assert after.interval(name, kind=kind) == before.interval(name, kind=kind)
        assert (after.default_kind, after.reason) == (before.default_kind, before.reason)
        assert after.combinations == before.combinations


def test_corrected_matrix_is_the_dense_sandwich():
    x = columns()
    y = record(x, phi=0.8)
    c = covariance_of(x, three(), phi=0.8)
    residuals = x @ fitted([x], [y]) - y
    basis = np.linalg.qr(x)[0]
    rows = ResidualIndex(np.zeros(SAMPLES, int), np.zeros(SAMPLES, int), np.arange(SAMPLES))
    model = coloured_noise(residuals, rows, BlockRows.of(basis)).models[0]
    pinv = np.linalg.pinv(x)
    dense = pinv @ toeplitz(model.autocovariance(SAMPLES)) @ pinv.T
    np.testing.assert_allclose(c.corrected, dense, rtol=1e-9)


def test_residuals_of_the_noise_model_are_expected_to_look_as_seen():
    """The bias is gone: M Sigma M, built densely, has the lag sums that the residuals have."""
    x = columns()
    y = record(x, phi=0.8)
    residuals = y - x @ fitted([x], [y])
    rows = ResidualIndex(np.zeros(SAMPLES, int), np.zeros(SAMPLES, int), np.arange(SAMPLES))
    basis = np.linalg.qr(x)[0]
    model = coloured_noise(residuals, rows, BlockRows.of(basis)).models[0]
    left = np.eye(SAMPLES) - basis @ basis.T
    seen = left @ toeplitz(model.autocovariance(SAMPLES)) @ left
    for k in range(model.order + 1):
        assert np.trace(seen, offset=k) == pytest.approx(residuals[: SAMPLES - k] @ residuals[k:], rel=0.03)


def test_effective_degrees_of_freedom_follow_the_closed_form_of_ar1():
    """For a mean: d log V / d phi = 2 / (1 - phi) and var(phi) = (1 - phi^2) / n, so dof -> n (1 - phi)/(1 + phi)/2."""
    n, phi = 20_000, 0.8
    rng = np.random.default_rng(5)
    noise = autoregressive(rng, n, phi)
    x = np.ones((n, 1))
    sensitivity = JacobianQR.of(BlockRows.of(x), np.ones(1), np.zeros(n, int))
    fit = estimator_gain(sensitivity, [0])
    rows = ResidualIndex(np.zeros(n, int), np.zeros(n, int), np.arange(n))
    found = coloured_noise(noise - noise.mean(), rows, sensitivity.basis)
    dof = effective_dof(found, sensitivity.basis, fit.columns, np.ones(n))
    assert found.models[0].order >= 1
    single = from_reflections(1.0, np.array([phi]))
    exact = 2 / (4 * (1 + phi) / ((1 - phi) * n) + 2 / n)
    alone = effective_dof(ColouredNoise(found.series, (single,)), sensitivity.basis, fit.columns, np.ones(n))
    assert alone[0] == pytest.approx(exact, rel=0.01)
    assert dof[0] <= alone[0] * 1.1


@pytest.mark.parametrize("side", ["lower", "upper"])
def test_weighted_sums_know_the_leeway_of_a_bound_as_least_squares_do(side):
    x = columns()
    parameters = [Parameter("a", 1.0), Parameter("b", 1.0, lower=0.0, upper=3.0), Parameter("c", 1.0)]
    values = np.array([1.0, 0.5, 0.5])
    problem = regression_problem(parameters, [record(x)])
    plain = covariance_from(problem, linearized(problem, [x], values), {"b": side}, False)
    weighted = covariance_from_hessian_factor(problem, values, x, {"b": side}, "so it is")
    for name in "abc":
        np.testing.assert_allclose(weighted.interval(name), plain.interval(name, kind="plain"), rtol=1e-9)


def test_many_experiments_keep_no_number_for_every_pair_of_unknowns_until_it_is_asked_for():
    experiments, time, rng = 40, 0.05 * np.arange(30), np.random.default_rng(3)
    runs = [di.Experiment(time, outputs={"x": np.exp(-time) * (1 + 0.1 * k) + 0.01 * rng.normal(size=time.size)},
                          noise={"x": di.Gaussian(0.01)}, name=f"run {k}") for k in range(experiments)]
    problem = di.Problem(di.EquationModel(states={"x": "-k*x"}), runs, [di.Parameter("k", 1.2, 0.1, 10)])
    covariance = di.identify(problem, di.single_shooting(), progress=False).uncertainty
    spread = [covariance.std(name) for name in covariance.names]
    blocks = vars(covariance)["matrix"]
    assert not isinstance(blocks, np.ndarray)
    assert sum(each.size for each in (blocks.gain, blocks.left, *(own for _, own in blocks.own))) < 4 * len(covariance.names)
    np.testing.assert_allclose(spread, np.sqrt(np.diag(covariance.matrix)), rtol=1e-12)
    sent = pickle.loads(pickle.dumps(covariance))
    np.testing.assert_array_equal(sent.matrix, covariance.matrix)
    np.testing.assert_array_equal(replace(covariance, reason="").covariance(), covariance.matrix)
