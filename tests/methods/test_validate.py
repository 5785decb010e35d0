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
