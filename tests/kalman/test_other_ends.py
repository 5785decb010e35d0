"""Does the search of prediction_error() end where a noise vanishes, and does it know of a second maximum?"""

from __future__ import annotations

import numpy as np
from noisy_plants import simulate

import dynident as di
from dynident.kalman.prediction_error import other_ends


def mean_reversion(seed):
    """An Ornstein-Uhlenbeck process and one that follows it, 50 samples; the first sensor errs far less than the process."""
    rng = np.random.default_rng(seed)
    u = np.cumsum(0.5 * rng.normal(size=50))
    x = simulate(rng, lambda x, u: np.array([5 * (3 + u - x[0]), 2 * (x[0] - x[1])]), np.array([3.0, 3.0]), u, 0.1,
                 np.array([1.0, 0.5]))
    record = di.Experiment(0.1 * np.arange(50), {"u": u}, {"a": x[:, 0] + 0.02 * rng.normal(size=50),
                                                           "b": x[:, 1] + 0.1 * rng.normal(size=50)})
    model = di.EquationModel(states={"x": "rate*(mean + u - x)", "y": "lag*(x - y)"}, outputs={"a": "x", "b": "y"},
                             inputs=["u"])
    return di.Problem(model, [record], [di.Parameter("rate", 5.0, lower=0.1, log=True), di.Parameter("mean", 3.0),
                                        di.Parameter("lag", 2.0, lower=0.1, log=True),
                                        *(di.InitialState(name, 3.0, prior=di.Prior(3.0, 0.3)) for name in "xy")],
                      process_noise={"x": di.Gaussian(), "y": di.Gaussian()})


def two_tanks(seed):
    """The lower level alone is measured: with disturbances, outlets half as large again explain it nearly as well."""
    rng = np.random.default_rng(seed)
    u = 0.8 + 0.5 * np.repeat(rng.uniform(-1, 1, 13), 24)[:301]
    x = simulate(rng, lambda x, u: np.array([0.5 * u - 0.25 * np.sqrt(x[0]), 0.25 * np.sqrt(x[0]) - 0.2 * np.sqrt(x[1])]),
                 np.array([2.0, 1.5]), u, 1.0, np.array([0.013, 0.013]))
    record = di.Experiment(np.arange(301.0), {"u": u}, {"lower": x[:, 1] + 0.013 * rng.normal(size=301)})
    model = di.EquationModel(states={"h": "a*u - k1*sqrt(h)", "g": "k1*sqrt(h) - k2*sqrt(g)"}, outputs={"lower": "g"},
                             inputs=["u"])
    return di.Problem(model, [record], [di.Parameter("a", 0.65), di.Parameter("k1", 0.325), di.Parameter("k2", 0.26),
                                        di.InitialState("h", 2.0), di.InitialState("g", 1.5)],
                      process_noise={"h": di.Gaussian(), "g": di.Gaussian()})


def test_a_noise_that_vanishes_lets_the_search_end():
    """A free initial state meets the first sample the closer, the less that errs: both move together, or the search creeps."""
    estimate = di.identify(mean_reversion(5), di.prediction_error(), progress=False)
    assert estimate.converged
    assert all(low < truth < high for name, truth in (("rate", 5.0), ("mean", 3.0), ("lag", 2.0))
               for low, high in [estimate.uncertainty.interval(name)])


def test_a_second_maximum_is_found_named_and_reached_by_the_intervals():
    for seed in (2, 4):
        estimate = di.identify(two_tanks(seed), di.prediction_error(), progress=False)
        (note,) = [note for note in estimate.notes if note.startswith("Another set of values")]
        other = dict(pair.split(" = ") for pair in note.partition("(")[2].partition(";")[0].split(", "))
        assert abs(float(other["a"]) / estimate.values["a"] - 1) > 0.3
        for name, value in other.items():
            low, high = estimate.uncertainty.interval(name)
            assert low <= float(value) <= high
        low, high = estimate.uncertainty.interval("a")
        assert low < 0.5 < high


def test_where_the_likelihood_has_one_maximum_nothing_is_said_of_another():
    for seed in (0, 1):
        notes = di.identify(two_tanks(seed), di.prediction_error(), progress=False).notes
        assert not any(note.startswith("Another set of values") for note in notes)


def test_a_right_model_with_noise_in_it_that_forgets_soon_is_not_called_wrong():
    """Predictions hardly beat simulations there, and a black box with free coefficients beats both on its own record."""
    for seed in (1, 3, 4):
        verdict = di.identify(mean_reversion(seed), di.prediction_error(), progress=False).verdict
        assert verdict.grade not in "CD" and "Noise in the model is not the reason" not in verdict.sentence


def test_a_record_that_is_too_long_to_look_for_a_second_maximum_says_so(monkeypatch):
    for row, said in ((40, True), (400, False)):
        monkeypatch.setattr(other_ends, "LONG_RECORD", row)
        notes = di.identify(mean_reversion(1), di.prediction_error(), progress=False).notes
        assert any("second maximum was not looked for" in note for note in notes) == said
