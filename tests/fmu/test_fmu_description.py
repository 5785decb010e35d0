"""Claims about descriptions that are not valid: what can be used is used with a note, what cannot is refused."""

from __future__ import annotations

import numpy as np
import pytest
from fmu_makers import exported, needs_compiler, tampered
from reference_fmus import NAMED, reference_fmu

import dynident as di
from dynident.fmu.description import grouped_complaints

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


def test_a_saved_problem_keeps_tolerance_and_texts(tmp_path):
    record = di.Experiment(T, {}, {"x": np.exp(-T)})
    model = di.FmuModel(reference_fmu(NAMED, 2), outputs=["x"], tolerance=1e-5,
                        values={"label": 'a "text"', "local_gain": 2.0})
    di.write_problem(di.Problem(model, [record], [di.InitialState("x")]), None, tmp_path / "problem.toml")
    again = di.read_problem(tmp_path / "problem.toml", allow_code=True).problem.model
    assert again.options["tolerance"] == 1e-5 and again.values == model.values


def test_complaints_of_one_kind_are_one_line():
    """As of a tool that never declares its units: sixty lines, of which one says all."""
    said = [f'The unit "K" of variable "T[{i}]" (line {60 + i}) is not defined.' for i in range(60)]
    assert grouped_complaints([*said, "Something else."]) == [f"{said[0]} (59 more of this kind)", "Something else."]


@pytest.mark.parametrize("version", ["1.0", "4.0", ""])
def test_another_version_of_fmi_is_refused_in_one_sentence(version):
    other = tampered("other", {}, {'fmiVersion="2.0"': f'fmiVersion="{version}"'})
    with pytest.raises(di.NotSupported, match=r"is an FMU of FMI .*; dynident runs FMI 2\.0 and 3\.0\. Export it again"):
        di.FmuModel(other)
