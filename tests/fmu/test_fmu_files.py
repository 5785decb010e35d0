"""Claims about FMUs in problem files: the same numbers as from Python, and results that stand by themselves."""

from __future__ import annotations

import csv
import dataclasses
import shutil
from xml.etree import ElementTree as xml

import numpy as np
import pytest
from fmu_makers import LAG, exported, needs_compiler, tampered
from reference_fmus import FEEDTHROUGH, reference_fmu

import dynident as di
from dynident.cli import main
from dynident.errors import ProblemError
from dynident.fmu.export import export_fmu
from dynident.io.results.export import parameter_set

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
        main([*(str(word) for word in words), "--allow-code"])
    return left.value.code


def test_fit_from_the_shell_writes_intervals_and_a_parameter_set(folder):
    assert left_with("fit", folder / "problem.toml", "--out", folder / "results") == 0
    (folder / "lag.fmu").unlink()  # the result has its own
    estimate = di.load(folder / "results", allow_code=True)
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
    said = di.read_problem(folder / "problem.toml", allow_code=True).problem
    assert said.model.outputs == ("y",)
    inside = di.FmuModel(folder / "lag.fmu", outputs=["der(x)"], trusted=True)
    rates = di.simulate(inside, {}, di.Experiment(T, {"u": np.ones(81)})).outputs["der(x)"]
    assert rates == pytest.approx(4 * np.exp(-2 * T), abs=1e-5)


def in_millivolts(folder, name):
    """A copy of the record whose header says mV; the unit of the FMU is V."""
    t, u, y = np.loadtxt(folder / "run.csv", delimiter=",", skiprows=1, unpack=True)
    np.savetxt(folder / name, np.column_stack([t, 1000 * u, y]), delimiter=",", header="t,u [mV],measured", comments="")


def test_a_record_in_other_units_than_the_fmu_gives_the_same_values_with_a_note(folder):
    plain = di.identify(di.read_problem(folder / "problem.toml", allow_code=True).problem)
    in_millivolts(folder, "run.csv")
    assert left_with("fit", folder / "problem.toml", "--out", folder / "results") == 0
    estimate = di.load(folder / "results", allow_code=True)
    assert estimate.values == pytest.approx(plain.values, rel=1e-6)
    assert "'u' was converted from mV to V, the unit of the model." in estimate.notes
    assert left_with("validate", folder / "results", folder / "run.csv") == 0
    assert di.load(folder / "results", allow_code=True).validations[0].fit["y"] > 95


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


def test_a_file_of_that_name_is_not_overwritten_by_the_fmu_of_a_problem(folder):
    problem = di.read_problem(folder / "problem.toml", allow_code=True).problem
    other = export_fmu(di.EquationModel(name="lag", states={"x": "(9*gain*u - x)/tau"}, outputs={"y": "x"}, inputs=["u"],
                                        parameters=["gain", "tau"]), folder / "other" / "lag.fmu", {"gain": 1.0, "tau": 1.0})
    others = problem.replace(model=di.FmuModel(other, outputs=["y"]))
    target = folder / "written"
    target.mkdir()
    (target / "lag.fmu").write_text("something of the user's own")
    for name, said in (("one", problem), ("two", others), ("one again", problem)):
        di.write_problem(said, None, target / f"{name}.toml")
    assert (target / "lag.fmu").read_text() == "something of the user's own"
    assert len(list(target.glob("*.fmu"))) == 3  # what is there already is not written twice
    for name, said in (("one", problem), ("two", others), ("one again", problem)):
        assert di.read_problem(target / f"{name}.toml", allow_code=True).problem.model.digest == said.model.digest


@pytest.fixture(scope="module")
def of_two(tmp_path_factory):
    """A result of two experiments: one value for both, one for each, a held one, and an initial state."""
    u = np.sign(np.sin(2 * T))
    runs = []
    for name, tau in (("a", 0.4), ("b", 0.6)):
        y = di.simulate(LAG, {"gain": 2.2, "tau": tau, "x(0)": 0.3}, di.Experiment(T, {"u": u})).outputs["y"]
        runs.append(di.Experiment(T, {"u": u}, {"y": y + 0.01 * np.random.default_rng(6).normal(size=T.size)}, name=name))
    estimate = di.identify(di.Problem(di.FmuModel(exported(), outputs=["y"]), runs, [
        di.Parameter("gain", 2.2, free=False), di.Parameter("tau", 1.0, lower=0.01, shared=False),
        di.InitialState("x", 0.1, shared=True)]))
    return estimate, estimate.save(tmp_path_factory.mktemp("saved") / "results")


def in_set(text):
    root = xml.fromstring(text)
    return {one.get("name"): float(one[0].get("value")) for one in root.iter() if one.tag.endswith("}Parameter")}, root


def test_a_parameter_set_holds_all_that_has_one_value_and_names_the_rest(of_two, tmp_path, capsys):
    estimate, results = of_two
    both, root = in_set((results / "parameters.ssv").read_text())
    assert both == {"gain": 2.2, "x": estimate.values["x(0)"]}
    assert root.get("description") == "Left out: tau (its value differs between the experiments)."
    assert left_with("export", "parameters", results, "--out", tmp_path / "both.ssv") == 0
    assert "Left out: tau (its value differs" in capsys.readouterr().out
    assert left_with("export", "parameters", results, "--experiment", "b", "--out", tmp_path / "b.ssv") == 0
    assert "Left out" not in capsys.readouterr().out
    assert in_set((tmp_path / "b.ssv").read_text())[0] == {**both, "tau": estimate.values["tau[b]"]}
    assert left_with("export", "parameters", results, "--experiment", "c", "--out", tmp_path / "c.ssv") == 2
    assert "there is no experiment 'c' in this result" in capsys.readouterr().err
    assert left_with("export", "parameters", results, "--experiment", "b") == 2


def test_a_parameter_set_holds_the_values_of_the_model_and_known_initial_states(folder):
    model = di.FmuModel(folder / "lag.fmu", outputs=["y"], values={"gain": 2.2})
    said = di.read_problem(folder / "problem.toml", allow_code=True).problem.experiments[0]
    known = dataclasses.replace(said, initial={"x": 0.25})
    estimate = di.identify(di.Problem(model, [known], [di.Parameter("tau", lower=0.01)]))
    assert in_set(parameter_set(estimate))[0] == {"gain": 2.2, "tau": estimate.values["tau"], "x": 0.25}


def test_whole_numbers_and_booleans_are_written_as_such_and_an_enumeration_is_named_as_left_out():
    model = di.FmuModel(reference_fmu(FEEDTHROUGH, 3), inputs=["real_in"], outputs=["real_out"],
                        values={"int_param": 5, "bool_param": 0, "enum_in": 2})
    run = di.Experiment(T, {"real_in": T}, {"real_out": T + 0.3 + 0.01 * np.sin(9 * T)})
    root = xml.fromstring(parameter_set(di.identify(di.Problem(model, [run], [di.Parameter("real_fixed_param", 0.1)]))))
    written = {one.get("name"): (one[0].tag.partition("}")[2], one[0].get("value")) for one in root[0]}
    assert (written["int_param"], written["bool_param"]) == (("Integer", "5"), ("Boolean", "false"))
    assert "enum_in (a set names the items" in root.get("description")
    assert written["real_fixed_param"][0] == "Real"


def test_simulate_from_the_shell_is_simulate_from_python(folder, capsys):
    assert left_with("simulate", folder / "problem.toml", "--out", folder / "sim.csv", "--set", "tau=0.3",
                     "--set", "x(0)=0.5") == 0
    assert "experiment: gain = 1, tau = 0.3, x(0) = 0.5" in capsys.readouterr().out
    record = di.read_problem(folder / "problem.toml", allow_code=True).problem.experiments[0]
    wanted = di.simulate(di.FmuModel(folder / "lag.fmu", outputs=["y"]), {"gain": 1.0, "tau": 0.3, "x(0)": 0.5}, record)
    with (folder / "sim.csv").open() as table:
        written = [float(row["output.y"]) for row in csv.DictReader(table)]
    np.testing.assert_array_equal(written, wanted.outputs["y"])


def test_an_initial_value_for_no_state_is_refused():
    with pytest.raises(di.ProblemError, match="'zz' in `initial` is not a state of the model"):
        di.simulate(di.FmuModel(exported()), {}, di.Experiment(T, {"u": T}, initial={"zz": 3.0}))


@pytest.mark.filterwarnings("error")
def test_the_largest_number_as_a_bound_is_no_bound(folder):
    endless = tampered("endless", {}, {'start="2.0"': 'start="2.0" min="-1.7976931348623157E308" '
                                                      'max="1.7976931348623157E+308"'})
    said = di.read_problem(folder / "problem.toml", allow_code=True).problem
    problem = said.replace(model=di.FmuModel(endless, outputs=["y"]), parameters=[di.Parameter("gain")])
    assert (problem.unknowns[0].lower, problem.unknowns[0].upper) == (-np.inf, np.inf)
    assert di.identify(problem).converged


def test_the_first_record_of_a_fleet_is_held_to_its_time_limit(tmp_path):
    hangs = tampered("hangs", {"model_rate(M, M->v[AT_T], M->v, dx);": "for (;;);"})
    fleet = di.Fleet(di.FmuModel(hangs, outputs=["y"], time_limit=30.0), [di.Experiment(T, {"u": T}, {"y": T}, name="first")],
                     [di.Parameter("gain", 1.0)], timeout=1, retries=0)
    with di.process_pool(workers=1) as pool:
        result = di.fleet(fleet, tmp_path / "out", executor=pool, progress=False)
    assert not result.good
    assert "It ran over its time limit of 1 s." in (result.folder / "fleet.csv").read_text()


@pytest.mark.parametrize("words", [["fit", "--out", "new"], ["check"], ["simulate", "--out", "sim.csv"],
                                   ["compare", "--methods", "least_squares,multistart"]])
def test_fmu_of_a_problem_file_is_not_run_unasked(folder, words, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr("dynident.fmu.model.FmuModel.__init__", lambda *_, **__: pytest.fail("the FMU was opened"))
    with pytest.raises(SystemExit) as left:
        main([words[0], "problem.toml", *words[1:]])
    said = capsys.readouterr().err
    assert left.value.code == 2
    assert "problem.toml, line 3: model.fmu: this would run native code of the FMU lag.fmu" in said
    assert str(folder.resolve() / "lag.fmu") in said and "--allow-code" in said


def test_fmu_of_a_saved_result_is_not_run_unasked(folder):
    estimate = di.identify(di.read_problem(folder / "problem.toml", allow_code=True).problem)
    saved = estimate.save(folder / "results")
    with pytest.raises(ProblemError, match=r"model\.fmu: this would run native code of the FMU lag\.fmu.*allow_code=True"):
        di.load(saved)
    assert di.load(saved, allow_code=True).values == estimate.values
