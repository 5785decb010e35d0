"""Are the states that a record shows read off it well enough to begin with?"""

import numpy as np

from dynident.models.equations import EquationModel
from dynident.problem.experiment import Experiment
from dynident.transcription.initial_guess import states_from_measurements

MODEL = EquationModel(states={"q": "v", "v": "u"}, inputs=["u"], outputs={"position": "q"})
TIME = np.arange(0, 4, 0.01)


def velocity(position, noise, times):
    noisy = position + noise * np.random.default_rng(1).standard_normal(TIME.size)
    record = Experiment(time=TIME, inputs={"u": np.zeros(TIME.size)}, outputs={"position": noisy})
    return states_from_measurements(MODEL, record, times)[:, 1]


def test_a_smooth_signal_is_averaged_over_many_samples():
    times = np.linspace(0.5, 3.5, 61)
    error = velocity(TIME**2 / 2, 1e-3, times) - times
    # the slope of a parabola over 51 samples: sigma/(h sqrt(sum k^2)); over 7 samples it would be 20 times as large
    assert np.sqrt(np.mean(error**2)) < 2 * 1e-3 / (0.01 * np.sqrt(2 * np.sum(np.arange(26.0) ** 2)))


def test_a_signal_that_bends_sharply_is_read_from_few_samples():
    position = np.where(TIME < 2, 0.0, TIME - 2)  # at rest, then with velocity 1 at once
    times = np.array([1.9, 1.95, 2.05, 2.1])
    np.testing.assert_allclose(velocity(position, 1e-5, times), [0, 0, 1, 1], atol=0.01)


def test_an_exact_signal_is_read_closely():
    times = np.linspace(0.5, 3.5, 31)
    wave = np.sin(6 * TIME) / 6
    np.testing.assert_allclose(velocity(wave, 0.0, times), np.cos(6 * times), atol=(6 * 0.03) ** 2 / 4)


def test_many_times_are_read_as_each_alone():
    between = np.linspace(0, 3.99, 4 * TIME.size - 3)  # evenly, and at both ends with fewer neighbours on one side
    noisy = np.sin(6 * TIME) + 1e-2 * np.random.default_rng(2).standard_normal(TIME.size)
    record = Experiment(time=TIME, inputs={"u": np.zeros(TIME.size)}, outputs={"position": noisy})
    alone = np.vstack([states_from_measurements(MODEL, record, between[k:k + 1], 4) for k in range(between.size)])
    # ways to one least squares solution: rounding over a window, as slope 1e-16/(h width)
    np.testing.assert_allclose(states_from_measurements(MODEL, record, between, 4), alone, rtol=0, atol=1e-10)


def test_a_single_value_is_the_guess_for_all_times():
    one = np.where(np.arange(TIME.size) == 7, 3.0, np.nan)
    record = Experiment(time=TIME, inputs={"u": np.zeros(TIME.size)}, outputs={"position": one})
    states = states_from_measurements(MODEL, record, TIME)
    assert np.all(states[:, 0] == 3.0)
    assert np.all(np.isnan(states[:, 1]))  # it has no slope
