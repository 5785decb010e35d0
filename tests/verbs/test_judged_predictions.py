"""A filter makes up for what its model misses; the verdict sees it all the same, and leaves right models in peace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dynident as di
import dynident.demo
from dynident.statistics.model_error_model import innovation_test
from dynident.statistics.verdict import Cause, Grade, Verdict
from dynident.verbs.judge import with_origin

AXIS = di.EquationModel(states={"q": "v", "v": "g*u - d*v"}, inputs=["u"], outputs={"q": "q"})
STICKING = di.EquationModel(states={"q": "v", "v": "g*u - d*v - c*tanh(v/0.02)"}, inputs=["u"], outputs={"q": "q"})
DAMPED = di.EquationModel(states={"q": "v", "v": "u - d*v - k*q"}, inputs=["u"], outputs={"q": "q"})
UNDAMPED = di.EquationModel(states={"q": "v", "v": "u - k*q"}, inputs=["u"], outputs={"q": "q"})
TIME = np.linspace(0, 20, 401)


def oscillation(damping: float, noise: float, driven: bool) -> di.Problem:
    u = (np.sign(np.sin(0.7 * TIME)) + 0.5 * np.sin(2.1 * TIME)) * driven
    run = di.simulate(DAMPED, {"d": damping, "k": 4.0, "q(0)": 1.0, "v(0)": 0.0}, di.Experiment(TIME, {"u": u}))
    y = np.asarray(run.outputs["q"]) + np.random.default_rng(0).normal(0, noise, TIME.size)
    record = di.Experiment(TIME, {"u": u}, {"q": y}, {"q": di.Gaussian(noise)})
    return di.Problem(UNDAMPED, [record], [di.Parameter("k", 3.0), di.InitialState("q", 1.0), di.InitialState("v", 0.0)])


@pytest.mark.parametrize(("damping", "noise", "driven"), [(0.1, 0.05, True), (0.3, 0.05, True), (0.3, 0.01, False)])
def test_an_oscillator_without_the_damping_that_a_record_has_is_not_believed(damping, noise, driven):
    verdict = di.identify(oscillation(damping, noise, driven), progress=False).verdict
    assert verdict.grade in "CD" and verdict.cause is Cause.STRUCTURE
    assert verdict.exit_code() > 0


def moved(model: di.EquationModel, values: dict[str, float], behind: float, seed: int) -> di.Problem:
    """An axis with noise behind its input, fitted by prediction error."""
    rng = np.random.default_rng(seed)
    u = np.sum([a * np.sin(w * TIME + p) for a, w, p in zip(rng.uniform(0.2, 0.8, 4), rng.uniform(0.3, 6, 4),
                                                          rng.uniform(0, 6, 4), strict=True)], axis=0)
    acts = u + rng.normal(0, behind, TIME.size)
    run = di.simulate(model, {**values, "q(0)": 0.0, "v(0)": 0.0}, di.Experiment(TIME, {"u": acts}), substeps=8)
    y = np.asarray(run.outputs["q"]) + rng.normal(0, 0.002, TIME.size)
    return di.Problem(AXIS, [di.Experiment(TIME, {"u": u}, {"q": y})], [di.Parameter("g", 2.5), di.Parameter("d", 0.8)],
                      process_noise={"u": di.Gaussian()})


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_friction_for_which_a_filter_makes_up_is_seen(seed):
    verdict = di.identify(moved(STICKING, {"g": 3.0, "d": 1.0, "c": 0.5}, 0.0, seed), progress=False).verdict
    assert verdict.cause is Cause.STRUCTURE and verdict.grade in "BCD"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_right_axis_with_noise_behind_its_input_is_to_the_noise(seed):
    assert di.identify(moved(AXIS, {"g": 3.0, "d": 1.0}, 0.2, seed), progress=False).verdict.grade == "A"


@pytest.fixture(scope="module")
def servo() -> di.Problem:
    """The demo: a servo axis in a closed loop, whose voltage answers to the noise of the tachometer at the same sample."""
    return di.read_problem(Path(dynident.demo.__file__).parent / "servo.toml").problem


def test_a_closed_loop_is_no_missing_effect(servo):
    """The voltage of a sample holds its noise: a right model was "missing an effect" (p = 1e-3, by a filter 1e-300)."""
    stated = servo.replace(process_noise={"v": di.Gaussian(1e-3)})
    assert di.identify(stated, "prediction_error", progress=False).verdict.grade is Grade.NOISE


def test_a_filter_that_finds_its_own_noise_earns_no_green(servo):
    verdict = di.identify(servo, di.kalman(), progress=False).verdict
    assert (verdict.grade, verdict.cause, verdict.colour) == (Grade.SLOW_REMAINDER, Cause.NOISE_GUESSED, "amber")
    assert "misses an effect" not in verdict.sentence and "nobody stated" in verdict.sentence


def test_a_filter_whose_noise_was_stated_may_be_green(servo):
    assert di.identify(servo, di.kalman(process_noise={"v": 3e-3}), progress=False).verdict.colour == "green"


@pytest.mark.parametrize(("found", "said"), [
    ({}, "it is the structure of the model."),
    ({"unasked_rows": 1e6}, "it is the structure of the model, or noise in its inputs, which nobody asked for.")])
def test_noise_that_nobody_asked_for_is_not_ruled_out(found, said):
    """A right model follows a record with noisy inputs to the noise where it may err, and two routes meet."""
    problem = moved(AXIS, {"g": 3.0, "d": 1.0}, 0.0, 1).replace(process_noise={})
    estimate = di.identify(problem, "single_shooting", progress=False)
    seen = replace(estimate, statistics={**estimate.statistics, "routes": 2.0, "smoothed_chi_square": 1.0, **found})
    verdict = Verdict(Grade.SMALL_REMAINDER, "But for 1 %.", Cause.STRUCTURE_OR_MINIMUM, {}, "q")
    assert with_origin(seen, verdict).sentence.endswith(said)


def test_innovations_that_know_nothing_pass_and_those_that_follow_the_state_do_not():
    rng = np.random.default_rng(5)
    below = 0
    for _ in range(200):
        e, x = rng.standard_normal(300), np.cumsum(rng.standard_normal((300, 2)), axis=0)
        below += innovation_test(e, (x, [np.sign(np.sin(TIME[:300]))])).log10_p < -2
    assert below <= 8  # 2 are expected; 9 would be one in 4,000
    follows = e + 0.5 * np.concatenate([[0.0], x[:-1, 0] / np.std(x[:, 0])])
    assert innovation_test(follows, (x, [])).log10_p < -4
