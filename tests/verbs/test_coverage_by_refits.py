"""Does coverage() say of intervals that hold that they hold, and of others that they do not?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dynident as di
from dynident.kalman.prediction_error.noisy_simulation import simulate_disturbed
from dynident.statistics.quantisation import quantisation_step
from dynident.verbs.coverage import draw_experiments, noise_source


def oscillator(process=0.0, samples=300, seed=0):
    """A mass on a spring, pushed by a force that switches."""
    rng = np.random.default_rng(seed)
    model = di.EquationModel(states={"x": "v", "v": "-k*x - d*v + u"}, inputs=["u"], outputs=["x"])
    time, u = 0.1 * np.arange(samples), np.repeat(rng.choice([-1.0, 1.0], samples // 10 + 1), 10)[:samples]
    plain = di.Problem(model, [di.Experiment(time, {"u": u}, {"x": np.zeros(samples)}, initial={"x": 0.0, "v": 0.0})],
                       [di.Parameter("k", 4.0), di.Parameter("d", 0.5)])
    (course,) = simulate_disturbed(plain, np.array([4.0, 0.5]), {"v": process} if process else {}, "runge_kutta", 1, rng)
    record = di.Experiment(time, {"u": u}, {"x": course[:, 0] + 0.01 * rng.normal(size=samples)}, initial={"x": 0.0, "v": 0.0})
    return plain.replace(experiments=[record])


def test_noise_of_a_state_grows_with_the_root_of_time():
    model = di.EquationModel(states={"x": "0*x + u"}, inputs=["u"], outputs=["x"])
    time = np.linspace(0, 4, 41)
    record = di.Experiment(time, {"u": np.zeros(41)}, {"x": np.zeros(41)}, initial={"x": 0.0})
    problem = di.Problem(model, [record], [])
    rng = np.random.default_rng(0)
    state, behind = (np.array([simulate_disturbed(problem, np.zeros(0), {name: 0.3}, "runge_kutta", 1, rng)[0][:, 0]
                               for _ in range(400)]) for name in ("x", "u"))
    spread = np.sqrt(2 / 400)  # relative, of a variance from 400 draws
    assert np.var(state[:, -1]) == pytest.approx(0.3**2 * 4, rel=4 * spread)
    assert np.var(behind[:, -1]) == pytest.approx(0.3**2 * 0.1**2 * 40, rel=4 * spread)  # held over 40 samples of 0.1 s


def test_intervals_that_hold_are_believed():
    estimate = di.identify(oscillator(), "multiple_shooting", progress=False)
    found = di.coverage(estimate, repeats=60, progress=False)
    assert all(found.share_interval(name)[0] < 0.95 for name in ("k", "d")) and found.share("k") > 0.85
    assert abs(found.bias("k")) < 4 / np.sqrt(60)
    assert "x 0.0" in found.drawn and "disturbance" not in found.drawn


def test_output_error_of_a_disturbed_record_is_asked_with_the_noises_of_prediction_error():
    estimate = di.identify(oscillator(process=0.3), "multiple_shooting", progress=False)
    source = noise_source(estimate)
    assert source.estimate.process_noise["v"] == pytest.approx(0.3, rel=0.2)
    assert "not white" in source.drawn
    drawn = draw_experiments(source.estimate, np.random.default_rng(1))
    again = di.identify(estimate.problem.replace(experiments=drawn), "prediction_error", progress=False)
    assert again.process_noise["v"] == pytest.approx(0.3, rel=0.3)


def test_quantised_sensors_are_drawn_quantised_and_missing_samples_stay_missing():
    problem = oscillator()
    (record,) = problem.experiments
    counts = 0.02 * np.round(record.outputs["x"] / 0.02)
    counts[10:20] = np.nan
    problem = problem.replace(experiments=[replace(record, outputs={"x": counts})])
    estimate = di.identify(problem, "multiple_shooting", progress=False)
    (drawn,) = draw_experiments(estimate, np.random.default_rng(0))
    assert np.all(np.isnan(drawn.outputs["x"][10:20])) and np.sum(np.isnan(drawn.outputs["x"])) == 10
    assert quantisation_step(drawn.outputs["x"][20:]) == pytest.approx(0.02)


def test_refits_are_kept_and_only_missing_ones_are_computed(tmp_path):
    estimate = di.identify(oscillator(samples=100), "multiple_shooting", progress=False)
    first = di.coverage(estimate, repeats=20, progress=False, resume=tmp_path / "refits.jsonl")
    seen = []
    more = di.coverage(estimate, repeats=24, progress=seen.append, resume=tmp_path / "refits.jsonl")
    assert len(seen) == 4
    np.testing.assert_array_equal(more.errors[:20], first.errors)
    np.testing.assert_array_equal(more.errors, di.coverage(estimate, repeats=24, progress=False).errors)
    with pytest.raises(di.ProblemError, match="another estimate or seed"):
        di.coverage(estimate, repeats=24, seed=1, progress=False, resume=tmp_path / "refits.jsonl")


def test_too_few_repeats_are_refused():
    with pytest.raises(di.ProblemError, match="at least 20"):
        di.coverage(di.identify(oscillator(samples=50), "multiple_shooting", progress=False), repeats=5)
