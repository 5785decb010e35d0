"""Validation on a record that was not fitted: what was fitted to it all the same is said."""

from __future__ import annotations

import dataclasses
from pathlib import Path

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
    estimate = di.identify(problem, di.boundary_value(model_weight={"v": 1e2, "k": 1.0}), progress=False)
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
