"""Claims about FMUs in problem files: the same numbers as from Python, and results that stand by themselves."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from fmu_makers import LAG, exported, needs_compiler

import dynident as di
from dynident.cli import main

pytestmark = needs_compiler
T = np.linspace(0.0, 4.0, 81)
PROBLEM = """
[model]
fmu = "lag.fmu"

[[experiment]]
file = "run.csv"
time = "t"
inputs = ["u"]
outputs.y = { column = "measured", gaussian = 0.01 }

[parameters]
gain = { start = 1.0 }
tau = { lower = 0.01 }
"""


@pytest.fixture
def folder(tmp_path):
    u = np.sign(np.sin(2 * T))
    y = di.simulate(LAG, {"gain": 2.2, "tau": 0.4, "x(0)": 0.0}, di.Experiment(T, {"u": u})).outputs["y"]
    y = y + 0.01 * np.random.default_rng(6).normal(size=T.size)
    np.savetxt(tmp_path / "run.csv", np.column_stack([T, u, y]), delimiter=",", header="t,u,measured", comments="")
    shutil.copyfile(exported(), tmp_path / "lag.fmu")
    (tmp_path / "problem.toml").write_text(PROBLEM)
    return tmp_path


def left_with(*words):
    with pytest.raises(SystemExit) as left:
        main([str(word) for word in words])
    return left.value.code


def test_fit_from_the_shell_writes_intervals_and_a_parameter_set(folder):
    assert left_with("fit", folder / "problem.toml", "--out", folder / "results") == 0
    (folder / "lag.fmu").unlink()  # the result has its own
    estimate = di.load(folder / "results")
    for name, true in (("gain", 2.2), ("tau", 0.4)):
        low, high = estimate.uncertainty.interval(name, 0.9999)
        assert low < true < high
        assert repr(estimate.values[name]) in (folder / "results" / "parameters.ssv").read_text()
    assert {p.name: p.unit for p in estimate.problem.parameters}["tau"] == "s"
    assert left_with("validate", folder / "results", folder / "run.csv") == 0


@pytest.mark.parametrize(("old", "new", "sentence"), [
    ('fmu = "lag.fmu"', 'fmu = "../lag.fmu"', "leaves the folder"),
    ('fmu = "lag.fmu"', 'fmu = "lag.fmu"\ninterface = "telepathy"', "kind = 'telepathy' is not known"),
    ('fmu = "lag.fmu"', 'fmu = "lag.fmu"\ntrusted = true', "trusted: this key has no meaning here"),
    ("outputs.y", "outputs.yy", "outputs: 'yy' is not a variable of lag.fmu. Near: y"),
    ("gain = {", "gian = {", "'gian' is not a parameter of the model. Did you mean 'gain'?"),
    ('inputs = ["u"]\n', "", "the model's input 'u' is not in the record"),
])
def test_every_fault_is_said(folder, capsys, old, new, sentence):
    (folder / "problem.toml").write_text(PROBLEM.replace(old, new))
    assert left_with("check", folder / "problem.toml") == 2
    assert sentence in capsys.readouterr().err


def test_any_variable_can_be_what_was_measured(folder):
    said = di.read_problem(folder / "problem.toml").problem
    assert said.model.outputs == ("y",)
    inside = di.FmuModel(folder / "lag.fmu", outputs=["der(x)"], trusted=True)
    rates = di.simulate(inside, {}, di.Experiment(T, {"u": np.ones(81)})).outputs["der(x)"]
    assert rates == pytest.approx(4 * np.exp(-2 * T), abs=1e-5)


def in_millivolts(folder, name):
    """A copy of the record whose header says mV; the unit of the FMU is V."""
    t, u, y = np.loadtxt(folder / "run.csv", delimiter=",", skiprows=1, unpack=True)
    np.savetxt(folder / name, np.column_stack([t, 1000 * u, y]), delimiter=",", header="t,u [mV],measured", comments="")


def test_a_record_in_other_units_than_the_fmu_gives_the_same_values_with_a_note(folder):
    plain = di.identify(di.read_problem(folder / "problem.toml").problem)
    in_millivolts(folder, "run.csv")
    assert left_with("fit", folder / "problem.toml", "--out", folder / "results") == 0
    estimate = di.load(folder / "results")
    assert estimate.values == pytest.approx(plain.values, rel=1e-6)
    assert "'u' was converted from mV to V, the unit of the model." in estimate.notes
    assert left_with("validate", folder / "results", folder / "run.csv") == 0
    assert di.load(folder / "results").validations[0].fit["y"] > 95


@pytest.mark.parametrize(("units", "unit", "sentence"), [
    ({"u": "mV"}, "s", "'u' is in mV in experiment, but in V in the model"),
    ({"u": "kg"}, "s", "'u' is in kg in experiment, but in V in the model, and there is no factor"),
    ({"time": "h"}, "s", "'time' is in h in experiment, but in s in the model"),
    ({}, "ms", "parameter 'tau' is declared in ms, but the model counts it in s"),
])
def test_units_that_differ_from_those_of_the_fmu_are_refused(units, unit, sentence):
    record = di.Experiment(T, {"u": T}, {"y": T}, units=units)
    with pytest.raises(di.ProblemError, match=sentence):
        di.Problem(di.FmuModel(exported(), outputs=["y"]), [record], [di.Parameter("tau", unit=unit)])
