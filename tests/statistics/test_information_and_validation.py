"""Information criteria, fit in percent, and the judgement of a fresh record."""

from __future__ import annotations

import json

import numpy as np
import pytest
from regression import Names, regression_problem
from scipy import stats

from dynident._util.codec import decode, to_json
from dynident.estimate.estimate import Trajectory, Validation, fit_percent, validation_metrics
from dynident.methods.build_estimate import information_criteria, information_criteria_of
from dynident.problem.experiment import Experiment
from dynident.problem.noise import Gaussian
from dynident.problem.parameter import Parameter
from dynident.problem.problem import Problem


def test_likelihood_is_that_of_the_normal_density():
    rng = np.random.default_rng(1)
    a, b = 0.3 * rng.normal(size=80), 2.0 * rng.normal(size=50)
    a[3] = np.nan
    found = information_criteria({"a": a, "b": b}, {"a": 0.3, "b": None}, unknowns=4)
    there = a[np.isfinite(a)]
    expected = stats.norm.logpdf(there, 0, 0.3).sum() + stats.norm.logpdf(b, 0, np.sqrt(np.mean(b**2))).sum()
    k, n = 5, 129  # one std was estimated
    assert found["log_likelihood"] == pytest.approx(expected)
    assert found["aic"] == pytest.approx(2 * k - 2 * expected)
    assert found["aicc"] == pytest.approx(2 * k - 2 * expected + 2 * k * (k + 1) / (n - k - 1))
    assert found["bic"] == pytest.approx(k * np.log(n) - 2 * expected)
    assert found["dof"] == 125


def test_reduced_chi_square_speaks_only_of_given_noise():
    r = np.random.default_rng(2).normal(size=400)
    assert information_criteria({"y": r}, {"y": None}, 3)["reduced_chi2"] == pytest.approx(1.0)
    assert information_criteria({"y": r}, {"y": 0.5}, 3)["reduced_chi2"] == pytest.approx(4 * float(r @ r) / 397)


def test_criteria_prefer_the_true_order():
    rng = np.random.default_rng(3)
    t = np.linspace(-1, 1, 200)
    y = 1 + 2 * t - 3 * t**2 + 0.1 * rng.normal(size=t.size)
    bic = [information_criteria({"y": y - np.polyval(np.polyfit(t, y, d), t)}, {"y": None}, d + 1)["bic"] for d in range(6)]
    assert int(np.argmin(bic)) == 2


def test_problem_and_bare_residuals_agree():
    rng = np.random.default_rng(4)
    records = [rng.normal(size=30), rng.normal(size=40)]
    problem = regression_problem([Parameter("a", 1.0)], records, std=0.7)
    assert information_criteria_of(problem, [{"y": r} for r in records]) == pytest.approx(
        information_criteria({"y": np.concatenate(records)}, {"y": 0.7}, 1))


def test_output_with_a_given_and_an_estimated_level_counts_one_estimated_std():
    runs = [Experiment(np.arange(20.0), outputs={"y": np.ones(20)}, noise={"y": Gaussian(std)}, name=name)
            for std, name in ((1.0, "given"), (None, "open"))]
    problem = Problem(Names(("a",)), runs, [Parameter("a", 1.0)])
    r = np.random.default_rng(5).normal(size=20)
    found = information_criteria_of(problem, [{"y": r}, {"y": r}])
    assert found["aic"] == pytest.approx(2 * 2 - 2 * found["log_likelihood"])


def test_fit_in_percent():
    y = np.array([0.0, 1.0, np.nan, 3.0, 4.0])
    assert fit_percent(y, y) == 100
    assert fit_percent(y, np.full(5, 2.0)) == pytest.approx(0)
    assert fit_percent(y, np.array([0.0, 1.0, 99.0, 3.0, 5.0])) == pytest.approx(100 * (1 - 1 / np.sqrt(10)))
    assert np.isnan(fit_percent(np.ones(5), np.ones(5)))


def validation(error: np.ndarray) -> Validation:
    t = np.linspace(0, 10, error.size)
    u = np.sign(np.sin(3 * t))
    model = {"y": np.sin(t), "z": np.cos(t)}
    z = model["z"] + 0.01 * np.random.default_rng(8).normal(size=t.size)
    z[:7] = np.nan
    run = Experiment(t, inputs={"u": u}, outputs={"y": model["y"] + error, "z": z},
                     noise={"y": Gaussian(0.1), "z": Gaussian()}, name="fresh")
    return validation_metrics(run, Trajectory("fresh", t, {}, model), {"y": 0.1, "z": 0.01})


def test_a_good_model_passes_on_a_fresh_record():
    found = validation(0.1 * np.random.default_rng(6).normal(size=400))
    assert all(test.passed for test in found.tests), str(found)
    assert found.rmse["y"] == pytest.approx(0.1, rel=0.1) and found.fit["z"] > 98
    assert "fresh" in str(found) and np.isnan(found.residuals["z"][0])


def test_a_drifting_error_fails_where_it_should():
    found = validation(np.linspace(-0.5, 0.5, 400) + 0.1 * np.random.default_rng(7).normal(size=400))
    failed = {test.name for test in found.tests if not test.passed and test.subject == "y"}
    assert {"whiteness", "runs", "noise level"} <= failed


def test_a_file_gives_back_the_same_judgement():
    before = validation(0.1 * np.random.default_rng(6).normal(size=50))
    after = decode(Validation, json.loads(to_json(before)), "a file")
    assert after.tests == before.tests and after.fit == before.fit
    np.testing.assert_array_equal(after.residuals["z"], before.residuals["z"])
    np.testing.assert_array_equal(after.trajectory.outputs["y"], before.trajectory.outputs["y"])
