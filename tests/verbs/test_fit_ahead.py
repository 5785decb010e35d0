"""Does validate() tell a disturbed record that is predicted well from one that is not?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dynident as di
from dynident.estimate.estimate import fit_percent
from dynident.kalman.prediction_error.k_step import fit_ahead
from dynident.kalman.prediction_error.noisy_simulation import simulate_disturbed


def problem_of(process, seed, samples=400, k=4.0):
    rng = np.random.default_rng(seed)
    model = di.EquationModel(states={"x": "v", "v": "-k*x - d*v + u"}, inputs=["u"], outputs=["x"])
    time, u = 0.1 * np.arange(samples), np.repeat(rng.choice([-1.0, 1.0], samples // 10 + 1), 10)[:samples]
    plain = di.Problem(model, [di.Experiment(time, {"u": u}, {"x": np.zeros(samples)}, initial={"x": 0.0, "v": 0.0})],
                       [di.Parameter("k", k), di.Parameter("d", 0.5)])
    (course,) = simulate_disturbed(plain, np.array([k, 0.5]), {"v": process} if process else {}, "runge_kutta", 1, rng)
    record = di.Experiment(time, {"u": u}, {"x": course[:, 0] + 0.005 * rng.normal(size=samples)}, initial={"x": 0.0, "v": 0.0},
                           noise={"u": di.Gaussian(0.01)} if seed == 9 else {})
    return plain.replace(experiments=[record])


def test_predictions_from_true_states_are_the_simulation():
    problem = problem_of(0.0, 0)
    held = problem.replace(parameters=[di.Parameter("k", 4.0, free=False), di.Parameter("d", 0.5, free=False)])
    run = di.simulate(problem.model, {"k": 4.0, "d": 0.5, "x(0)": 0.0, "v(0)": 0.0}, problem.experiments[0])
    fits = fit_ahead(held, np.column_stack([run.states["x"], run.states["v"]]), "runge_kutta", 4)
    measured = problem.experiments[0].outputs["x"]
    assert list(fits) == [1, 10, 100]
    for k, fit in fits.items():
        assert fit["x"] == pytest.approx(fit_percent(measured[k:], run.outputs["x"][k:]), abs=0.01)


def test_a_disturbed_record_is_predicted_better_the_nearer_and_wrong_parameters_worse():
    right = di.identify(problem_of(0.5, 1), "prediction_error", progress=False)
    other = problem_of(0.5, 2).experiments[0]
    found = right.validate(other)
    assert found.ahead[1]["x"] > found.ahead[10]["x"] > found.ahead[100]["x"] - 1
    assert found.ahead[1]["x"] > 90 > found.fit["x"]
    wrong = di.identify(problem_of(0.5, 1, k=6.0), "prediction_error", progress=False).validate(other)
    assert wrong.ahead[10]["x"] < found.ahead[10]["x"] - 3
    assert "over 10" in str(found)


def test_an_undisturbed_record_is_predicted_as_it_is_simulated(tmp_path):
    estimate = di.identify(problem_of(0.0, 3), "multiple_shooting", progress=False)
    found = estimate.validate(problem_of(0.0, 4).experiments[0])
    for fit in found.ahead.values():
        assert fit["x"] == pytest.approx(found.fit["x"], abs=1.0)  # the first samples are left out
    saved = di.load(replace(estimate, validations=(found,)).save(tmp_path / "result"))
    assert saved.validations[0].ahead == found.ahead


def test_noise_of_an_input_does_not_hinder_validation():
    estimate = di.identify(problem_of(0.0, 3), "multiple_shooting", progress=False)
    noisy = problem_of(0.0, 9).experiments[0]
    assert estimate.validate(replace(noisy, initial={})).fit["x"] > 95
