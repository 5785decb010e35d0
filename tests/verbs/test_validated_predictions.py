"""Is a right model called right on a new record that noise moves, and a wrong one wrong? Simulated by a scheme of its own."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import dynident as di
from dynident.cli import main
from dynident.statistics.verdict import Cause, Grade

STEP, FINE = 0.05, 8
AXIS = di.EquationModel(states={"q": "v", "v": "g*i - d*v"}, inputs=["i"], outputs=["q"])
PLACES = ("process", "behind", "sensor")


def course(rng, rate, x, inputs, step=STEP, push=0.0):
    """(samples, states) by Runge and Kutta's scheme; `push` per root of a second on the last state."""
    h, states = step / FINE, []
    for u in inputs:
        states.append(x)
        for _ in range(FINE):
            k1 = rate(x, u)
            k2 = rate(x + h / 2 * k1, u)
            k3 = rate(x + h / 2 * k2, u)
            x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + rate(x + h * k3, u))
            x = x + push * np.sqrt(h) * rng.normal() * (np.arange(x.size) == x.size - 1)
    return np.array(states)


def axis(seed, place, gain=3.0, friction=0.0, samples=400):
    """An integrating axis: what disturbs it moves it away from any simulation."""
    rng, t = np.random.default_rng([seed, PLACES.index(place)]), STEP * np.arange(samples)
    u = np.sum([a * np.sin(w * t + p) for a, w, p in zip(rng.uniform(0.3, 0.9, 5), rng.uniform(0.3, 6, 5), rng.uniform(0, 6, 5),
                                                         strict=True)], axis=0)
    acts = u + 0.3 * rng.normal(size=samples) * (place == "behind")
    states = course(rng, lambda x, i: np.array([x[1], gain * i - x[1] - friction * np.tanh(x[1] / 0.02)]), np.zeros(2), acts,
                    push=0.3 * (place == "process"))
    seen = u + 0.3 * rng.normal(size=samples) * (place == "sensor")
    noise = {"q": di.Gaussian()} | ({"i": di.Gaussian(0.3)} if place == "sensor" else {})
    return di.Experiment(t, {"i": seen}, {"q": states[:, 0] + 0.002 * rng.normal(size=samples)}, noise, name="new")


def problem_of(record, place):
    disturbed = {"process": {"v": di.Gaussian()}, "behind": {"i": di.Gaussian()}, "sensor": {}}[place]
    return di.Problem(AXIS, [record], [di.Parameter("g", 4.0), di.Parameter("d", 1.4)], process_noise=disturbed)


@cache
def fitted(place, samples=400):
    return di.identify(problem_of(axis(0, place, samples=samples), place), progress=False)


@pytest.mark.parametrize("place", PLACES)
def test_a_right_model_predicts_a_new_record_to_the_noise_whatever_its_simulation_does(place):
    found = [fitted(place).validate(axis(seed, place)) for seed in (101, 102, 103, 104)]
    assert [v.verdict.grade for v in found] == [Grade.NOISE] * 4
    assert min(v.fit["q"] for v in found) < 85 < min(v.ahead[1]["q"] for v in found)
    assert all(v.predicted for v in found)
    assert sum(not test.passed for v in found for test in v.tests) <= 3  # of 12
    assert np.std(found[0].residuals["q"]) < 0.02 < found[0].rmse["q"]  # innovations, and the error of the simulation


@pytest.mark.parametrize("place", PLACES)
def test_the_record_of_another_axis_is_not_predicted_to_the_noise(place):
    found = [fitted(place).validate(axis(seed, place, gain=gain)).verdict for seed, gain in ((101, 4.5), (102, 2.0))]
    assert all(v.severity >= 5 and v.cause is Cause.NOT_CARRIED_OVER for v in found)
    assert all("The model or its values do not hold here" in v.sentence for v in found)


@pytest.mark.parametrize("place", PLACES)
def test_friction_that_only_the_new_record_has_is_seen(place):
    assert fitted(place).validate(axis(101, place, friction=1.5)).verdict.severity >= 5


def test_larger_noise_of_the_new_record_is_called_that():
    record = axis(101, "process")
    worse = record.outputs["q"] + 0.004 * np.random.default_rng(5).normal(size=record.samples)
    verdict = fitted("process").validate(replace(record, outputs={"q": worse})).verdict
    assert (verdict.grade, verdict.cause) == (Grade.OTHER_NOISE, Cause.NOISE_TOO_SMALL)
    assert "1.8 times as large as the noises of the fit foresee" in verdict.sentence


def test_what_the_fit_does_not_know_of_its_values_is_no_error_of_the_model():
    """Sixty samples know the values to some percent: over 4,000 others that shows, and is foreseen."""
    verdicts = [di.identify(problem_of(axis(seed, "process", samples=60), "process"), progress=False).validate(
        axis(seed + 100, "process", samples=4000)).verdict for seed in range(4)]
    assert sum(v.severity <= 4 for v in verdicts) >= 3
    assert min(v.numbers["innovation_log10_p"] for v in verdicts) < -4  # without what is foreseen they would be called wrong


def test_first_states_that_the_record_gives_are_kept():
    record = replace(axis(101, "process"), initial={"q": 0.0, "v": 0.0})
    found = fitted("process").validate(record)
    assert found.verdict.grade is Grade.NOISE and found.notes == ()


def test_an_unstable_plant_that_a_controller_holds_is_not_wrong_because_no_simulation_stands():
    def record(seed):
        rng, x, rows = np.random.default_rng(seed), 0.0, []
        for k in range(600):
            seen = x + 0.01 * rng.normal()
            u = -3.0 * seen + np.sign(np.sin(0.3 * k))
            rows.append((u, seen))
            for _ in range(10):
                x += 0.005 * (1.5 * x + 2.0 * u) + 0.1 * np.sqrt(0.005) * rng.normal()
        u, seen = np.array(rows).T
        return di.Experiment(0.05 * np.arange(600), {"u": u}, {"x": seen}, {"x": di.Gaussian()})

    model = di.EquationModel(states={"x": "a*x + b*u"}, inputs=["u"])
    unknowns = [di.Parameter("a", 1.0), di.Parameter("b", 1.5)]
    problem = di.Problem(model, [record(0)], unknowns, process_noise={"x": di.Gaussian()})
    validation = di.identify(problem, "prediction_error", progress=False).validate(record(1))
    assert validation.verdict.grade is Grade.NOISE and validation.fit["x"] < 0


def test_a_saved_validation_says_the_same_and_the_command_leaves_by_it(tmp_path):
    estimate = fitted("process")
    validation = estimate.validate(axis(101, "process"))
    folder = replace(estimate, validations=(validation,)).save(tmp_path / "result")
    loaded = di.load(folder)
    (kept,) = loaded.validations
    assert kept.predicted and kept.verdict.sentence == validation.verdict.sentence
    assert np.allclose(kept.residuals["q"], validation.residuals["q"])
    for name, record, code in (("right", axis(102, "process"), 0), ("other", axis(102, "process", gain=9.0), 3)):
        rows = np.column_stack([record.time, record.inputs["i"], record.outputs["q"]])
        file = tmp_path / f"{name}.csv"
        np.savetxt(file, rows, delimiter=",", header="time,i,q", comments="")
        assert loaded.validate(record).verdict.exit_code() >= code
        with pytest.raises(SystemExit) as left:
            main(["validate", str(folder), str(file)])
        assert left.value.code == loaded.validate(record).verdict.exit_code()
