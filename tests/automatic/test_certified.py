"""Does the default arrive at the certified answers of NIST's nonlinear regressions, from both starts and without bounds?"""

from __future__ import annotations

import numpy as np
import pytest

import dynident as di
from dynident.automatic.curve_starts import linear_unknowns, projected
from dynident.black_box.setup import BlackBoxTranscription
from dynident.methods.open_loop import linear_in_unknowns
from dynident.solvers.levenberg_marquardt import LevenbergMarquardt
from dynident.tolerances import STATIC_STEP_TOLERANCE
from nist import MODELS, certified

DIGITS = 6  # of the parameters
STD_DIGITS = {"Lanczos1": 3, "Lanczos2": 3}  # of their standard deviations, five of all others: residuals of 1e-14 and 1e-7


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("name", MODELS)
def test_the_certified_answer_is_found(name, start):
    data = certified(name)
    estimate = di.identify(data.problem(start), progress=False)
    values, std = data.digits(estimate)
    assert values >= DIGITS
    assert std >= STD_DIGITS.get(name, 5)
    assert estimate.converged
    assert estimate.counts["iterations"] <= 200


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("name", MODELS)
def test_one_descent_by_differences_of_simulations_finds_as_many_digits(name, start):
    """least_squares alone, from both starts; without acceleration six of these ended on plateaus or in valleys."""
    data = certified(name)
    estimate = di.identify(data.problem(start), di.least_squares(), progress=False)
    values, std = data.digits(estimate)
    assert values >= DIGITS
    assert std >= STD_DIGITS.get(name, 5)
    assert estimate.converged
    assert estimate.counts["iterations"] <= 200


FAR = [("Bennett5", 0), ("Bennett5", 1), ("BoxBOD", 0), ("Eckerle4", 0), ("MGH10", 0), ("MGH17", 0)]


@pytest.mark.parametrize(("name", "start"), FAR)
def test_straight_steps_miss_it_from_there(name, start):
    """What geodesic acceleration is for: the same descent with steps that do not bend."""
    data = certified(name)
    transcription = BlackBoxTranscription.of(di.least_squares(), data.problem(start))
    finite = transcription.at_start()
    straight = LevenbergMarquardt(200, step_tolerance=STATIC_STEP_TOLERANCE).solve(finite, finite.start())
    found = dict(zip(finite.names, finite.coordinates.values(straight.point.unknowns), strict=True))
    assert min(-np.log10(abs(found[p] / v - 1)) for p, v in data.values.items()) < 4


# worse minima that leave noise, too


def test_a_curve_that_misses_a_sine_is_not_believed_by_its_white_residuals():
    """ENSO from a period that is off: one descent ends where residuals are as white as at the best minimum."""
    data = certified("ENSO")
    away = {**data.starts[1], "b4": 60.0, "b7": 40.0}
    problem = data.problem(1).replace(parameters=[di.Parameter(p, v) for p, v in away.items()])
    alone = di.identify(problem, di.automatic(stages=["plain"]), progress=False)
    assert data.digits(alone)[0] < 1 and not alone.believed
    assert "restarts of fewer than 3 rounds" in alone.belief_reason
    estimate = di.identify(problem, progress=False)  # two sines may have changed places: their squares are compared
    squares = float(np.sum(estimate.residuals[0]["y"] ** 2))
    assert squares == pytest.approx(data.residual_std**2 * (data.y.size - len(data.values)), rel=1e-6)


def test_what_is_linear_in_its_unknowns_is_believed_at_once():
    rng, x = np.random.default_rng(0), np.linspace(0, 3, 60)
    line = di.EquationModel(states={}, outputs={"y": "a + b*sin(x) + c*x**2"}, inputs=["x"])
    run = di.Experiment(x, {"x": x}, {"y": 1 + 2 * np.sin(x) - x**2 + 0.01 * rng.standard_normal(60)})
    problem = di.Problem(line, [run], [di.Parameter(p, 1.0) for p in "abc"])
    assert linear_in_unknowns(problem)
    estimate = di.identify(problem, progress=False)
    assert estimate.believed and [stage.stage for stage in estimate.stages] == ["plain"]


def peak_beside_the_record():
    """Eckerle4's peak from a start that lies far beside what was measured: nothing moves there, in no unknown."""
    data = certified("Eckerle4")
    away = {"b1": 5.9, "b2": 20.0, "b3": 3960.0}
    return data, data.problem(0).replace(parameters=[di.Parameter(p, v) for p, v in away.items()])


def test_a_curve_that_does_not_move_at_its_start_is_not_linear():
    _, problem = peak_beside_the_record()
    assert not linear_in_unknowns(problem)
    assert linear_unknowns(problem) == ("b1",)


def test_a_hill_beside_the_record_is_not_taken_for_linear_by_its_offset():
    """The offset moves the outputs, four other unknowns do not: nobody knows yet whether the model is linear in them."""
    rng = np.random.default_rng(5)
    x, z = rng.uniform(0, 4, 200), rng.uniform(0, 4, 200)
    y = 3 * np.exp(-((x - 1.2) ** 2 + (z - 2.8) ** 2) / 0.5) + 0.5 + 0.03 * rng.standard_normal(200)
    hill = di.EquationModel(states={}, outputs={"y": "A*exp(-((x - a)**2 + (z - b)**2)/s) + o"}, inputs=["x", "z"])
    starts = {"A": 1.0, "a": 40.0, "b": 0.1, "s": 0.1, "o": 0.0}
    problem = di.Problem(hill, [di.Experiment(np.arange(200.0), {"x": x, "z": z}, {"y": y})],
                         [di.Parameter(p, v) for p, v in starts.items()])
    assert not linear_in_unknowns(problem)
    assert set(linear_unknowns(problem)) <= {"A", "o"}
    estimate = di.identify(problem, progress=False)
    assert estimate.values["a"] == pytest.approx(1.2, abs=0.05) and estimate.values["b"] == pytest.approx(2.8, abs=0.05)


def test_a_peak_beside_the_record_is_found_and_believed():
    """Its certified remainder is not white: restarts of three rounds take the place of the plain fit, which saw nothing."""
    data, problem = peak_beside_the_record()
    estimate = di.identify(problem, progress=False)
    squares = float(np.sum(estimate.residuals[0]["y"] ** 2))
    assert squares == pytest.approx(data.residual_std**2 * (data.y.size - len(data.values)), rel=1e-6)
    assert estimate.believed and "independent routes" in estimate.belief_reason


def test_amplitudes_are_found_to_be_linear_and_periods_are_not():
    assert linear_unknowns(certified("ENSO").problem(0)) == ("b1", "b2", "b3", "b5", "b6", "b8", "b9")
    assert linear_unknowns(certified("Misra1d").problem(0)) == ("b1",)
    assert linear_unknowns(certified("Eckerle4").problem(0)) == ("b1",)


def test_projected_amplitudes_are_those_of_linear_least_squares():
    data = certified("ENSO")
    problem, linear = data.problem(0), ("b1", "b2", "b3", "b5", "b6", "b8", "b9")
    found = projected(problem, {**data.values, **dict.fromkeys(linear, 0.0)}, linear)
    assert {p: found[p] for p in linear} == pytest.approx({p: data.values[p] for p in linear}, rel=1e-6)
