"""Validation on a record that was not fitted: what was fitted to it all the same is said."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import dynident as di
from problems import MACHINES


def fitted():
    machine = MACHINES["mass_spring_damper"]
    return machine, di.identify(machine.problem(), di.single_shooting())


def test_initial_state_that_was_fitted_to_the_record_is_said_and_kept(tmp_path):
    machine, estimate = fitted()
    validation = estimate.validate(machine.record(seed=7, name="other"))
    (note,) = validation.notes
    assert "fitted to this record" in note and "x(0)" in note and "v(0)" in note
    assert note in str(validation)
    dataclasses.replace(estimate, validations=(validation,)).save(tmp_path / "results")
    assert di.load(tmp_path / "results").validations[0].notes == (note,)
    assert note in Path(tmp_path / "results" / "report.html").read_text()


def test_known_initial_state_is_not_fitted_and_nothing_is_said():
    machine, estimate = fitted()
    assert estimate.validate(machine.record(seed=7, initial=dict(machine.initial))).notes == ()


def test_parameter_that_drifts_in_the_fit_stands_still_here_and_it_is_said():
    machine, _ = fitted()
    problem = machine.problem(initial=dict(machine.initial))
    estimate = di.identify(problem, di.boundary_value(process_noise={"v": 0.1, "k": 1.0}), progress=False)
    validation = estimate.validate(machine.record(seed=7, initial=dict(machine.initial)))
    record = estimate.smoothed.records[0]
    course = record.values[:, record.names.index("k")]
    (note,) = validation.notes
    assert "In the fit k drifts" in note and f"at {estimate.values['k']:.4g}" in note
    assert f"between {course.min():.4g} and {course.max():.4g}" in note
    assert note in str(validation)


def test_parameter_that_a_filter_lets_change_stands_still_here_and_it_is_said():
    machine, _ = fitted()
    problem = machine.problem(initial=dict(machine.initial))
    filtered = di.kalman(process_noise={"k": 1e-3}).identify(problem, None, lambda _: None)
    validation = filtered.validate(machine.record(seed=7, initial=dict(machine.initial)))
    (note,) = validation.notes
    assert "k may change from sample to sample" in note and f"at {filtered.values['k']:.4g}" in note


def lag(std: float | None, noise: float = 0.02, seed: int = 3, **changes):
    """A first-order lag under a square wave."""
    model = di.EquationModel(states={"x": "-k*x + b*u"}, inputs=["u"], outputs={"y": "x"})
    time = np.linspace(0, 20, 400)
    u = np.sign(np.sin(3 * time))
    clean = di.simulate(model, {"k": 1.0, "b": 2.0}, di.Experiment(time, {"u": u}, initial={"x": 0.0})).outputs["y"]
    record = di.Experiment(time, {"u": u}, {"y": clean + noise * np.random.default_rng(seed).standard_normal(time.size)},
                           noise={"y": di.Gaussian(std)}, **{"initial": {"x": 0.0}, **changes})
    return model, record


def test_record_of_unknown_noise_is_compared_with_the_fit_and_not_called_full_of_outliers():
    model, quiet = lag(0.005, noise=0.005)
    estimate = di.identify(di.Problem(model, [quiet], [di.Parameter("k", 0.7), di.Parameter("b", 1.5)]))
    validation = estimate.validate(lag(None, noise=0.02, seed=8)[1])
    tests = {test.name: test for test in validation.tests}
    assert tests["outliers"].passed, str(validation)
    level = tests["noise level"]
    assert not level.passed and "noisier than the fit's" in level.sentence
    assert level.value == pytest.approx(16, rel=0.3)  # (0.02 / 0.005)^2; 400 samples know it to 7 %
    alike = estimate.validate(lag(None, noise=0.005, seed=9)[1])
    assert all(test.passed for test in alike.tests), str(alike)


def test_a_fit_that_was_stopped_early_leaves_validation_its_iterations():
    model, record = lag(0.02, initial={})
    problem = di.Problem(model, [record], [di.Parameter("k", 0.7), di.Parameter("b", 1.5)])
    with pytest.raises(di.NotConverged) as stopped:
        di.identify(problem, di.single_shooting(max_iterations=1))
    validation = stopped.value.estimate.validate(lag(0.02, seed=5, initial={})[1])
    assert "x(0)" in validation.notes[0]


def test_missed_effect_of_a_periodic_input_is_found():
    model, record = lag(0.02)
    estimate = di.identify(di.Problem(model, [record], [di.Parameter("k", 0.7), di.Parameter("b", 1.7, free=False)]))
    wrong = estimate.validate(lag(0.02, seed=6)[1])
    (trace,) = (test for test in wrong.tests if test.name == "independence")
    assert not trace.passed and "still follow u" in trace.sentence
    right = di.identify(di.Problem(model, [record], [di.Parameter("k", 0.7), di.Parameter("b", 1.7)]))
    (trace,) = (test for test in right.validate(lag(0.02, seed=6)[1]).tests if test.name == "independence")
    assert trace.passed


def test_a_refuted_model_has_nothing_to_validate():
    model = di.EquationModel(states={"x": "-k*x"}, outputs={"y": "x"})
    time = np.linspace(0, 2, 21)
    run = di.Experiment(time, outputs={"y": np.exp(-time)}, noise={"y": di.Bounded(0.01)}, initial={"x": 1.0})
    refuted = di.identify(di.Problem(model, [run], [di.Parameter("k", 3.0, 2.5, 4.0)]), di.set_membership(), progress=False)
    with pytest.raises(di.ProblemError, match="its model is refuted"):
        refuted.validate(run)


def test_a_record_in_other_units_is_refused():
    model = di.EquationModel(states={"x": "-k*x"}, outputs={"y": "x"})
    time = np.linspace(0, 2, 21)
    runs = [di.Experiment(time, outputs={"y": size * np.exp(-time)}, noise={"y": di.Gaussian(0.01 * size)}, units={"y": unit},
                          initial={"x": 1.0}, name=unit) for size, unit in ((1.0, "m"), (1000.0, "mm"))]
    estimate = di.identify(di.Problem(model, runs[:1], [di.Parameter("k", 1.5)]), progress=False)
    with pytest.raises(di.ProblemError, match=r"in m in .*, but in mm"):
        estimate.validate(runs[1])


def test_start_and_bounds_of_a_first_state_hold_on_the_other_record():
    """Of two first states that a record allows, q(0) and -q(0), the bounded one is found again."""
    model = di.EquationModel(states={"q": "-k*q"}, outputs={"y": "q**2"})
    time = np.linspace(0, 3, 61)
    record = di.Experiment(time, outputs={"y": 4 * np.exp(-2 * time)}, noise={"y": di.Gaussian(0.01)})
    unknowns = [di.Parameter("k", 0.8), di.InitialState("q", start=-1.5, lower=-5, upper=-0.1)]
    estimate = di.identify(di.Problem(model, [record], unknowns), "single_shooting", progress=False)
    other = di.Experiment(time, outputs={"y": 9 * np.exp(-2 * time)}, noise={"y": di.Gaussian(0.01)}, name="other")
    validation = estimate.validate(other)
    assert validation.trajectory.states["q"][0] == pytest.approx(-3.0, abs=0.01)


def test_what_the_noise_allows_stands_beside_what_was_reached():
    """A right model on errors of std 0.1 reaches the fit that the errors leave, and no more."""
    time = np.linspace(0, 3, 2001)
    noise = 0.1 * np.random.default_rng(2).standard_normal(time.size)
    record = di.Experiment(time, outputs={"x": np.exp(-time) + noise}, noise={"x": di.Gaussian(0.1)}, initial={"x": 1.0})
    problem = di.Problem(di.EquationModel(states={"x": "-k*x"}), [record], [di.Parameter("k", 0.8)])
    validation = di.identify(problem, "single_shooting", progress=False).validate(record)
    assert validation.fit["x"] == pytest.approx(validation.attainable["x"], abs=2.0) and validation.attainable["x"] < 75
    assert f"(the noise allows {validation.attainable['x']:.2f} %)" in str(validation)
