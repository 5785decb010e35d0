"""Claims: an interval is as wide as the residuals say, stays within its bounds, and is open where a bound hides the truth."""

import json

import numpy as np
import pytest

import dynident as di
from dynident.statistics.verdict import Grade

TIME = np.linspace(0, 5, 201)
DECAY = di.EquationModel(states={"x": "-k*x"})


def fitted(values, std=None, method="single_shooting", model=DECAY, **parameters):
    record = di.Experiment(TIME, outputs={"x": values}, noise={} if std is None else {"x": di.Gaussian(std)})
    unknowns = [di.Parameter("k", 1.2, **parameters.get("k", {})), *(p for name, p in parameters.items() if name != "k")]
    return di.identify(di.Problem(model, [record], unknowns), method, progress=False)


def noisy(std: float, seed: int = 0) -> np.ndarray:
    return np.exp(-TIME) + np.random.default_rng(seed).normal(0, std, TIME.size)


@pytest.mark.parametrize("factor", [5, 1000])
def test_noise_given_too_small_gives_the_interval_of_the_residuals_and_says_the_factor(factor):
    """FINDINGS B6: five times too small covered 20 %, a thousand times gave ± 3e-6."""
    wrong, open_noise = fitted(noisy(0.01), 0.01 / factor), fitted(noisy(0.01))
    assert wrong.uncertainty.std("k") == pytest.approx(open_noise.uncertainty.std("k"), rel=0.02)
    assert wrong.uncertainty.noise_factors["x"] == pytest.approx(factor, rel=0.1)
    assert "as large as the residuals show, not as given" in wrong.uncertainty.meaning
    assert wrong.verdict.grade is Grade.OTHER_NOISE


def test_noise_given_too_large_gives_the_interval_of_the_residuals():
    """FINDINGS I3: std 0.1 given, residuals 0.01; correlation narrowed the interval."""
    assert fitted(noisy(0.01), 0.1).uncertainty.std("k") == pytest.approx(fitted(noisy(0.01)).uncertainty.std("k"), rel=0.02)


def test_noise_given_right_keeps_the_given_std():
    estimate = fitted(noisy(0.01), 0.01)
    assert not estimate.uncertainty.noise_factors and np.isinf(estimate.uncertainty.dof)


def test_a_record_without_noise_keeps_the_given_std():
    """FINDINGS I3: perfect data with std 0.01 had ± 7e-13."""
    perfect, noise = fitted(np.exp(-TIME), 0.01), fitted(noisy(0.01), 0.01)
    assert perfect.uncertainty.default_kind == "plain"
    assert perfect.uncertainty.std("k") == pytest.approx(noise.uncertainty.std("k"), rel=0.1)


def test_an_interval_does_not_leave_its_bounds_and_the_table_says_so():
    """FINDINGS B5: [-0.085, 0.077] with lower = 0."""
    model = di.EquationModel(states={"x": "-k*x + c"})
    estimate = fitted(noisy(0.05), 0.05, model=model, c=di.Parameter("c", 0.01, 0, 1))
    low, high = estimate.uncertainty.interval("c")
    assert low == 0 and 0 < high < 0.2
    assert estimate.uncertainty.remark("c") == ("at its lower bound" if estimate.values["c"] == 0 else
                                                "interval ends at its lower bound")


@pytest.mark.parametrize("end", ["lower", "upper"])
def test_a_partner_on_its_bound_opens_the_interval_of_what_it_hides(end):
    """FINDINGS B4: only a*b is determined; with b on its bound a had a finite interval that missed the truth."""
    model = di.EquationModel(states={"x": "-a*b*x"})
    limits = {"lower": (2.0, 5.0), "upper": (0.1, 0.5)}[end]
    record = di.Experiment(TIME, outputs={"x": noisy(0.01)}, noise={"x": di.Gaussian(0.01)})
    unknowns = [di.Parameter("a", 1.0, 0, 100), di.Parameter("b", limits[0 if end == "lower" else 1], *limits)]
    estimate = di.identify(di.Problem(model, [record], unknowns), "single_shooting", progress=False)
    low, high = estimate.uncertainty.interval("a")
    assert low <= 1 / limits[1] if end == "lower" else high >= 1 / limits[0]  # the product is 1, wherever b is


def test_outliers_under_a_robust_loss_do_not_speak_against_the_given_noise():
    """FINDINGS I6: 'the given noise std looks 15.9 times too small', where it is exact."""
    values = noisy(0.01)
    values[::20] += 1.0
    estimate = fitted(values, 0.01, di.single_shooting(loss="huber"))
    assert not [note for note in estimate.notes if "times too small" in note]


def test_intervals_are_withheld_where_the_model_does_not_describe_the_record():
    estimate = fitted(1 / (1 + np.exp(4 * TIME - 8)), 0.01)
    assert estimate.verdict.withholds_intervals
    assert "withheld" in str(estimate) and "±" not in str(estimate)


def test_a_partner_on_its_bound_opens_a_sum_as_far_as_its_other_bound():
    """Only a + b is determined, so that b reaches to where a ends: a straight line, which simulations confirm."""
    model = di.EquationModel(states={"x": "-(a + b)*x"})
    record = di.Experiment(TIME, outputs={"x": noisy(0.01)}, noise={"x": di.Gaussian(0.01)}, initial={"x": 1.0})
    unknowns = [di.Parameter("a", 2.0, 0.5, 4.0), di.Parameter("b", 2.0)]
    estimate = di.identify(di.Problem(model, [record], unknowns), "single_shooting", progress=False)
    assert estimate.uncertainty.active == {"a": "lower"}
    low, high = estimate.uncertainty.interval("b")
    room = high - estimate.values["b"]
    assert 0 < room < 0.05
    assert low == pytest.approx(estimate.values["b"] - 3.5 - room, abs=1e-3)


@pytest.mark.parametrize("factor", [5.0, 0.2])
def test_a_profile_is_as_wide_as_the_residuals_say(factor):
    """Linear in its unknown: profile and linearised interval are one, whatever std was given."""
    model = di.EquationModel(states={"x": "a*cos(t)"})
    values = np.sin(TIME) + np.random.default_rng(0).normal(0, 0.01, TIME.size)
    record = di.Experiment(TIME, outputs={"x": values}, noise={"x": di.Gaussian(0.01 / factor)}, initial={"x": 0.0})
    estimate = di.identify(di.Problem(model, [record], [di.Parameter("a", 0.5)]), "single_shooting", progress=False)
    assert estimate.uncertainty.noise_factors["x"] == pytest.approx(factor, rel=0.1)
    assert di.profile(estimate, "a").interval("a") == pytest.approx(estimate.uncertainty.interval("a"), rel=1e-4)


def test_numbers_of_withheld_intervals_are_not_handed_on(tmp_path):
    estimate = fitted(1 / (1 + np.exp(4 * TIME - 8)), 0.01)
    row = estimate.to_dict()["k"]
    assert np.isnan([row["std"], row["low"], row["high"]]).all() and row["remark"] == "withheld"
    estimate.save(tmp_path / "result")
    saved = json.loads((tmp_path / "result" / "estimate.json").read_text())["intervals"]
    assert "k" in saved["withheld"] and "k" not in saved["of"]
    assert di.load(tmp_path / "result").to_dict()["k"]["remark"] == "withheld"
