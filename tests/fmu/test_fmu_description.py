"""Claims about descriptions that are not valid: what can be used is used with a note, what cannot is refused."""

from __future__ import annotations

import numpy as np
import pytest
from fmu_makers import exported, needs_compiler, tampered

import dynident as di

pytestmark = needs_compiler
T = np.linspace(0.0, 5.0, 51)
STRUCTURE = "<ModelStructure>"


def test_a_complaint_of_the_validation_is_a_note_of_the_estimate():
    y = np.sin(3 * T - 1)
    record = di.Experiment(T, {"u": np.sin(3 * T)}, {"y": y})
    odd = tampered("odd", {}, {STRUCTURE: '<ModelStructure colour="red">'})
    for path, said in ((odd, True), (exported(), False)):
        problem = di.Problem(di.FmuModel(path, outputs=["y"]), [record], [di.Parameter("gain", start=1.0)])
        notes = di.identify(problem, progress=False).notes
        assert any("The description of odd.fmu is not valid" in note and "colour" in note for note in notes) == said


def test_without_a_structure_nothing_is_known_of_states():
    headless = tampered("headless", {}, {STRUCTURE: "<VendorAnnotations>", "</ModelStructure>": "</VendorAnnotations>"})
    with pytest.raises(di.ProblemError, match=r"headless\.fmu cannot be used: its description holds no ModelStructure"):
        di.FmuModel(headless)


def test_a_saved_problem_keeps_the_time_limit(tmp_path):
    record = di.Experiment(T, {"u": np.sin(3 * T)}, {"y": np.sin(3 * T - 1)})
    model = di.FmuModel(exported(), outputs=["y"], time_limit=300.0)
    di.write_problem(di.Problem(model, [record], [di.Parameter("gain")]), None, tmp_path / "problem.toml")
    assert di.read_problem(tmp_path / "problem.toml", allow_code=True).problem.model.options["time_limit"] == 300.0
