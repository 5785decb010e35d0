"""Does belief tell noise from what a model misses?"""

from __future__ import annotations

import numpy as np
import pytest

import dynident as di
from dynident.automatic.belief import BeliefLevel, believe

TIME = np.linspace(0.0, 10.0, 401)
MODEL = di.EquationModel(states={"x": "-k*x"})
SIGNAL = np.sin(3 * TIME)


def problem(std=None, samples=401):
    run = di.Experiment(TIME[:samples], {}, {"x": SIGNAL[:samples]}, noise={"x": di.Gaussian(std)})
    return di.Problem(MODEL, [run], [di.Parameter("k", 1.0)])


def noise(size=0.01, coefficient=0.0, seed=0):
    e = np.random.default_rng(seed).standard_normal(TIME.size)
    r = np.zeros(TIME.size)
    for k in range(TIME.size):
        r[k] = (coefficient * r[k - 1] if k else 0.0) + np.sqrt(1 - coefficient**2) * e[k]
    return size * r


def level(residuals, std=None, samples=401, loss="squared"):
    return believe(problem(std, samples), [{"x": residuals[:samples]}], loss).level


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("std", [None, 0.01, 0.004])
def test_white_residuals_are_noise_whatever_was_said_about_their_size(seed, std):
    assert level(noise(seed=seed), std) is BeliefLevel.NOISE


def test_a_short_record_that_contradicts_its_std_is_not_believed_for_looking_white():
    """Coarse samples of what a wrong minimum leaves look white: 26 times the given noise were believed, at 20 samples."""
    short = noise(seed=1)[:30]
    found = believe(problem(0.001, 30), [{"x": short}])
    assert found.level is BeliefLevel.UNJUDGED and found.contradicted and "30 samples do not tell" in found.reason
    assert level(short, 0.01, 30) is level(short, None, 30) is BeliefLevel.NOISE


def test_slow_noise_of_the_given_size_is_noise():
    assert level(noise(coefficient=0.9), 0.01) is BeliefLevel.NOISE


def test_slow_residuals_of_unknown_size_are_small_or_large_by_the_signal():
    assert level(noise(0.02, 0.97)) is BeliefLevel.SMALL
    assert level(noise(0.3, 0.97)) is BeliefLevel.NONE


def test_a_given_std_that_is_too_large_hides_no_slow_remainder():
    assert level(noise(0.01, 0.97), 0.1) is not BeliefLevel.NOISE


def test_a_model_that_explains_no_more_than_a_line_is_not_believed():
    assert level(noise(0.7)) is BeliefLevel.NONE


def test_a_few_samples_are_not_judged():
    assert level(noise(), samples=7) is BeliefLevel.UNJUDGED


def test_an_outlier_does_not_count_for_a_robust_loss():
    spoiled = noise()
    spoiled[::40] += 5.0
    assert level(spoiled, 0.01, loss="huber") is BeliefLevel.NOISE


def test_a_record_without_noise_is_believed_where_it_is_followed():
    assert level(1e-6 * SIGNAL) is BeliefLevel.NOISE


def test_the_worst_of_two_outputs_decides():
    model = di.EquationModel(states={"x": "-k*x", "y": "-k*y"})
    run = di.Experiment(TIME, {}, {"x": SIGNAL, "y": SIGNAL})
    both = di.Problem(model, [run], [di.Parameter("k", 1.0)])
    found = believe(both, [{"x": noise(), "y": noise(0.3, 0.97)}])
    assert found.level is BeliefLevel.NONE
    assert found.reason.startswith("y:")


def driven(residuals, u, std=None):
    model = di.EquationModel(states={"x": "-k*x + u"}, inputs=["u"], parameters=["k"])
    run = di.Experiment(TIME, {"u": u}, {"x": SIGNAL}, noise={"x": di.Gaussian(std)})
    return believe(di.Problem(model, [run], [di.Parameter("k", 1.0)]), [{"x": residuals}])


@pytest.mark.parametrize("delay", [0, 1])
@pytest.mark.parametrize("std", [None, 0.0115])
def test_a_bent_function_of_an_input_is_no_noise_however_white_it_is(delay, std):
    """Of an input that is white itself; in the order of time nothing shows, in the order of the input all of it."""
    u = np.random.default_rng(5).uniform(-1, 1, TIME.size)
    bend = 0.02 * (np.roll(u, delay) ** 2 - 1 / 3)
    found = driven(noise() + bend, u, std)
    assert found.level is BeliefLevel.SMALL
    assert "is white in the order of time" in found.reason
    assert "a bent function of u" in found.reason
    assert driven(noise() + 0.5 * bend / 0.02, u).level is BeliefLevel.NONE  # as large as a tenth of the signal


@pytest.mark.parametrize("seed", range(10))
def test_noise_that_a_controller_feeds_back_is_noise(seed):
    """The input of a sample then holds the noise of that sample, and limits bend it."""
    measured = noise(seed=seed)
    steps = np.repeat(np.random.default_rng(seed).uniform(-1, 1, 41), 10)[:TIME.size]
    for u in (-3 * measured, np.clip(-3 * measured, -0.04, 0.04), steps - 3 * measured, steps, np.sign(steps)):
        assert driven(measured, u).level is BeliefLevel.NOISE


@pytest.mark.parametrize(("chi_square", "correlation", "expected"), [
    (1.15, 0.0, BeliefLevel.NOISE), (1.0, 0.15, BeliefLevel.NOISE), (1.19, 0.15, BeliefLevel.SMALL)])
def test_what_is_large_and_alike_at_once_is_not_taken_for_noise(chi_square, correlation, expected):
    """Either happens by chance; an enzyme's wrong minimum had both, and lay 32 in chi-square above the right one."""
    r = noise(seed=1)
    neighbours = np.roll(r, 1) / np.std(r)
    r = r / np.std(r)
    r = r - (r @ neighbours) / r.size * neighbours  # white to lag one
    r = r + (correlation * neighbours if correlation else 0.0)
    r *= 0.01 * np.sqrt(chi_square / np.mean(r**2))
    assert level(r, 0.01) is expected
