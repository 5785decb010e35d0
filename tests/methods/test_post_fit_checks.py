"""What was said beforehand and is contradicted by the data is noted; what agrees with them is left in peace."""

import numpy as np
import pytest

import dynident as di
from dynident.report.result_table import noise_levels

MODEL = di.EquationModel(states={"x": "-k*x"}, outputs={"y": "x"})
TIME = np.linspace(0, 3, 60)


def record(seed: int, noise: float, std: float | None, name: str = "run") -> di.Experiment:
    y = np.exp(-TIME) + noise * np.random.default_rng(seed).standard_normal(TIME.size)
    return di.Experiment(TIME, {}, {"y": y}, noise={"y": di.Gaussian(std)}, initial={"x": 1.0}, name=name)


def fitted(records, prior=None, **options) -> di.Estimate:
    return di.identify(di.Problem(MODEL, list(records), [di.Parameter("k", 1.2, prior=prior)]), di.single_shooting(**options))


def test_prior_that_the_data_contradict_is_noted():
    estimate = fitted([record(1, 0.02, 0.02)], di.Prior(1.3, 0.03))
    away = (1.3 - estimate.values["k"]) / 0.03
    (note,) = (note for note in estimate.notes if "prior" in note)
    assert "contradict the prior of k" in note and f"{away:.2g} of the prior's" in note


def test_priors_that_are_right_are_left_in_peace():
    """Means drawn as the priors say: one note in a hundred fits."""
    rng = np.random.default_rng(5)
    said = 0
    for seed in range(60):
        estimate = fitted([record(100 + seed, 0.02, 0.02)], di.Prior(1.0 + 0.01 * rng.standard_normal(), 0.01))
        said += any("prior" in note for note in estimate.notes)
    assert said <= 4  # 99.9 % of a binomial with 1 %


def test_records_of_different_noise_are_noted_with_their_spreads():
    estimate = fitted([record(1, 0.01, None, "quiet"), record(2, 0.2, None, "loud")])
    (note,) = (note for note in estimate.notes if "one size" in note)
    assert "in quiet" in note and "in loud" in note and "its own std" in note
    own = fitted([record(1, 0.01, 0.01, "quiet"), record(2, 0.2, 0.2, "loud")])
    assert not any("one size" in note for note in own.notes)


def test_of_several_outputs_one_note_speaks():
    model = di.EquationModel(states={"x": "-k*x"}, outputs={f"y{i}": "x" for i in range(6)})
    rng = np.random.default_rng(3)
    runs = [di.Experiment(TIME, {}, {f"y{i}": np.exp(-TIME) + noise * (i + 1) ** times * rng.standard_normal(TIME.size)
                                     for i in range(6)}, initial={"x": 1.0}, name=name)
            for noise, times, name in ((0.01, 0, "quiet"), (0.02, 1, "loud"))]
    estimate = di.identify(di.Problem(model, runs, [di.Parameter("k", 1.2)]), di.single_shooting())
    (note,) = (note for note in estimate.notes if "one size" in note)
    assert "y0, y1, y2, y3, y4, y5" in note and "(y5: " in note and "; and 2 more" in note  # the worst, and how many


@pytest.mark.parametrize("seed", range(5))
def test_records_of_the_same_noise_are_left_in_peace(seed):
    estimate = fitted([record(10 * seed + i, 0.02, None, f"run {i}") for i in range(4)])
    assert not any("one size" in note for note in estimate.notes)


def test_given_noise_is_printed_as_it_was_given():
    both = fitted([record(1, 0.05, 0.05, "a"), record(2, 0.5, 0.5, "b")])
    assert str(noise_levels(both)["y"]) == "0.05 to 0.5 (std, given)" and "0.275" not in str(both)
    one = fitted([record(1, 0.05, 0.05, "a"), record(2, 0.05, 0.05, "b")])
    assert str(noise_levels(one)["y"]) == "0.05 (std, given)"
    mixed = fitted([record(1, 0.05, 0.05, "a"), record(2, 0.5, None, "b")])
    assert str(noise_levels(mixed)["y"]).endswith("(std, estimated; 0.05 where given)")
