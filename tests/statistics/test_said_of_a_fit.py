"""What is said of a fit holds where others would not look: next to no noise, no optimum, too many unknowns, no states."""

from __future__ import annotations

import numpy as np
import pytest

import dynident as di
from dynident.statistics.verdict import Cause
from nist import certified

DECAY = di.EquationModel(states={"z": "-k*z"}, outputs={"z": "z"})
TIME = np.linspace(0, 5, 51)


def static(formula: str, x: np.ndarray, y: np.ndarray, starts: dict[str, float], std: float | None = None) -> di.Problem:
    model = di.EquationModel(states={}, inputs=["x"], outputs={"y": formula})
    record = di.Experiment(np.arange(x.size, dtype=float), {"x": x}, {"y": y}, {"y": di.Gaussian(std)})
    return di.Problem(model, [record], [di.Parameter(name, start) for name, start in starts.items()])


def fitted(problem: di.Problem, method=None) -> di.Estimate:
    try:
        return di.identify(problem, *([] if method is None else [method]), progress=False)
    except di.NotConverged as stopped:
        return stopped.estimate


def decaying(noise: float, given: bool) -> di.Problem:
    y = np.exp(-TIME) + noise * np.random.default_rng(0).standard_normal(TIME.size)
    record = di.Experiment(TIME, outputs={"z": y}, noise={"z": di.Gaussian(noise if given else None)})
    return di.Problem(DECAY, [record], [di.Parameter("k", 0.8), di.InitialState("z", 1.0, free=False)])


# the error of the integrator where noise does not hide it


@pytest.mark.parametrize(("noise", "substeps"), [(1e-9, 8), (1e-10, 8), (1e-10, "auto"), (1e-11, 16)])
def test_an_integrator_s_error_that_moves_the_estimate_is_noted_and_in_the_interval(noise, substeps):
    estimate = fitted(decaying(noise, given=True), di.single_shooting(substeps=substeps))
    assert any("integrator" in note and "standard errors" in note for note in estimate.notes)
    low, high = estimate.uncertainty.interval("k")
    assert low <= 1.0 <= high
    exact = fitted(decaying(noise, given=True), di.single_shooting(substeps=64))
    assert not any("integrator's error" in note for note in exact.notes)


@pytest.mark.parametrize("substeps", [4, 16, "auto"])
def test_perfect_data_are_described_exactly_within_the_integrator_s_error(substeps):
    estimate = fitted(decaying(0.0, given=False), di.single_shooting(substeps=substeps))
    low, high = estimate.uncertainty.interval("k")
    assert low <= 1.0 <= high
    assert high - low < 200 * abs(estimate.values["k"] - 1.0)  # and no wider than that error asks for
    assert (estimate.verdict.grade, estimate.verdict.cause) == ("A", Cause.EXACT)
    assert not any("autocorrelated" in note for note in estimate.notes)


def test_data_without_noise_beside_a_given_std_are_described_exactly():
    record = di.Experiment(TIME, outputs={"z": np.exp(-TIME)}, noise={"z": di.Gaussian(0.01)})
    estimate = fitted(di.Problem(DECAY, [record], [di.Parameter("k", 0.8)]))
    assert (estimate.verdict.grade, estimate.verdict.cause) == ("A", Cause.EXACT)
    effect = np.column_stack([-TIME * np.exp(-TIME), np.exp(-TIME)])  # of k and of z(0)
    what_such_noise_would_do = 0.01 * np.sqrt(np.linalg.inv(effect.T @ effect)[0, 0])
    assert estimate.uncertainty.std("k") == pytest.approx(what_such_noise_would_do, rel=1e-4)


def test_small_white_noise_is_noise():
    estimate = fitted(decaying(1e-9, given=True), di.single_shooting(substeps=64))
    assert (estimate.verdict.grade, estimate.verdict.cause) == ("A", Cause.NONE)


# the noise that is said


def test_the_least_weight_of_a_fit_is_not_printed_as_an_estimated_noise():
    lanczos = certified("Lanczos1")
    estimate = fitted(lanczos.problem(0), di.single_shooting())
    assert "noise  y below 6.66e-13 (rms of the residuals 7.72e-14, rounding)" in str(estimate)
    assert "std, estimated" not in str(estimate)
    assert lanczos.digits(estimate)[1] > 2.5


def test_exact_answers_have_an_interval_of_rounding():
    x = np.linspace(1, 5, 8)
    estimate = fitted(static("a*log(x - b)", x, 3 * np.log(x - 0.5), {"a": 2.0, "b": 0.3}), di.single_shooting())
    assert 0 < estimate.uncertainty.std("a") < 1e-13
    assert "± 0\n" not in str(estimate)


def test_the_noise_of_a_fit_without_optimum_is_that_of_its_residuals():
    eckerle = certified("Eckerle4")
    estimate = fitted(eckerle.problem(0), di.least_squares(max_iterations=3))
    assert not estimate.converged
    left = next(iter(estimate.residuals))["y"]
    assert estimate.noise_std["y"] == pytest.approx(np.sqrt(left @ left / (left.size - 3)), rel=1e-6)
    assert not any("beyond 4 standard deviations" in note for note in estimate.notes)
    assert "reduced chi-square" not in str(estimate)  # 1 by construction


@pytest.mark.parametrize("method", [di.least_squares(), di.single_shooting(), None])
def test_unknowns_that_only_their_sum_shows_cost_one_degree_of_freedom(method):
    x = np.linspace(1, 5, 8)
    y = 3 * x + np.random.default_rng(1).normal(0, 0.1, 8)
    left = y - x * (x @ y) / (x @ x)
    estimate = fitted(static("(a + b + c + d + e)*x", x, y, dict.fromkeys("abcde", 1.0)), method)
    assert estimate.statistics["dof"] == 7
    assert estimate.noise_std["y"] == pytest.approx(np.sqrt(left @ left / 7), rel=1e-6)
    assert "8 samples for 1 unknown do not tell" in estimate.verdict.sentence


# what measured values depend on


@pytest.mark.parametrize("method", [di.least_squares(), di.single_shooting()])
def test_nothing_is_said_to_have_no_effect_that_has_one(method):
    """At b1 = 9e-31, which started at 2; b2 + 1 % doubles the output."""
    estimate = fitted(certified("MGH10").problem(0), method)
    assert not any("nothing measured depends on" in note.lower() for note in estimate.notes)


@pytest.mark.parametrize("method", [di.least_squares(), di.single_shooting(), None])
def test_of_a_constant_no_exponential_is_read(method):
    x, starts = np.linspace(0, 5, 21), dict.fromkeys("abc", 1.0)
    estimate = fitted(static("a + b*exp(-c*x)", x, np.full(21, 5.0), starts), method)
    said = " ".join(estimate.notes).lower()
    assert "depends on b" not in said and "depends on a" not in said
    assert set(estimate.uncertainty.unidentifiable) in ({"c"}, {"a", "b", "c"}, {"a", "b"})


# models without states


@pytest.mark.parametrize("method", [di.least_squares(), di.single_shooting(), di.multiple_shooting(segments=1)])
def test_a_model_without_states_is_not_told_about_integrators_and_segments(method):
    x = np.linspace(1, 5, 8)
    with pytest.raises(di.ProblemError) as refused:
        di.identify(static("a*log(x - b)", x, 3 * np.log(x - 0.5), {"a": 1.0, "b": 2.0}), method, progress=False)
    assert "Choose other start values" in str(refused.value)
    for word in ("multiple_shooting", "stiff", "rate"):
        assert word not in str(refused.value)
