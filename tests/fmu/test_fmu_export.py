"""Claims about export: other tools load what we write, and it says the same as the model."""

from __future__ import annotations

import importlib.util
import zipfile

import numpy as np
import pytest
from fmu_makers import LAG, LAG_VALUES, exported, fmpy, needs_compiler

import dynident as di
from dynident.fmu.export import PLATFORMS, export_fmu
from dynident.papers.delta_robot import delta_robot

pytestmark = needs_compiler
T = np.linspace(0.0, 4.0, 81)


@pytest.mark.parametrize("version", ["2.0", "3.0"])
@pytest.mark.parametrize("model", [LAG, di.library.two_mass(), delta_robot()], ids=lambda m: m.name)
def test_fmpy_finds_nothing_to_complain_about(model, version):
    from fmpy.validation import validate_fmu

    path = exported(model, dict.fromkeys(model.parameters, 1.0), version)
    assert validate_fmu(str(path)) == []
    fmpy.read_model_description(str(path), validate=True, validate_variable_names=True, validate_model_structure=True)


@pytest.mark.parametrize("version", ["2.0", "3.0"])
@pytest.mark.parametrize("kind", ["CoSimulation", "ModelExchange"])
def test_fmpy_simulates_what_we_wrote(kind, version):
    """A step of the input at the begin, which fmpy neither delays nor holds wrongly."""
    rows = np.array([(0.0, 1.0), (4.0, 1.0)], dtype=[("time", float), ("u", float)])
    path = exported(LAG, {"gain": 3.0, "tau": 0.5}, version)
    told = fmpy.simulate_fmu(str(path), fmi_type=kind, stop_time=4.0, output_interval=0.05, input=rows, output=["y"],
                             relative_tolerance=1e-9)
    assert np.max(np.abs(told["y"] - 3 * (1 - np.exp(-told["time"] / 0.5)))) < 1e-6


@pytest.mark.parametrize("version", ["2.0", "3.0"])
def test_what_it_can_do_is_read_back(version):
    said = di.FmuModel(exported(version=version)).description
    assert all(it.directional and it.variable_steps for it in said.interfaces.values())
    assert said.states == ("x",) and not said.indicators and said.feedthrough


def test_parameters_are_tunable_and_carry_units():
    said = {v.name: v for v in fmpy.read_model_description(str(exported())).modelVariables}
    assert (said["tau"].variability, said["tau"].start, said["tau"].unit) == ("tunable", "0.5", "s")


@pytest.mark.parametrize("version", ["2.0", "3.0"])
def test_its_directional_derivatives_are_those_of_the_equations(version):
    import ctypes

    from dynident.fmu.instance import FmuInstance
    model = di.FmuModel(exported(version=version))
    instance = FmuInstance(model.simulation_spec(()))
    instance.instantiate()
    references = [np.array([model.description.variables[n].reference], np.uint32) for n in ("der(x)", "tau")]
    seed, result = np.array([1.0]), np.zeros(1)
    instance.initialize(0.0, None, [])
    for group in instance.references(("u",)):
        instance.set(group, np.array([1.5]))
    p, n = ctypes.c_void_p, ctypes.c_size_t
    arguments = [references[0].ctypes.data, 1, references[1].ctypes.data, 1, seed.ctypes.data]
    if version == "2.0":
        instance.call("GetDirectionalDerivative", *arguments, result.ctypes.data, types=(p, n, p, n, p, p))
    else:
        instance.call("GetDirectionalDerivative", *arguments, 1, result.ctypes.data, 1, types=(p, n, p, n, p, n, p, n))
    instance.free()
    assert result[0] == pytest.approx(-(2.0 * 1.5) / 0.5**2)  # d/dtau of (gain u - x)/tau at x = 0


def test_the_same_estimate_from_equations_and_from_their_fmu():
    rng = np.random.default_rng(3)
    u = np.sign(np.sin(2 * T))
    y = di.simulate(LAG, {"gain": 2.2, "tau": 0.4, "x(0)": 0}, di.Experiment(T, {"u": u})).outputs["y"]
    record = di.Experiment(T, {"u": u}, {"y": y + 0.01 * rng.normal(size=T.size)}, {"y": di.Gaussian(0.01)}, {"x": 0})
    unknowns = [di.Parameter("gain", start=1.0), di.Parameter("tau", start=1.0, lower=0.01)]
    ours = di.identify(di.Problem(LAG, [record], unknowns), di.single_shooting(), progress=False)
    for version in ("2.0", "3.0"):
        problem = di.Problem(di.FmuModel(exported(version=version), trusted=True), [record], unknowns)
        theirs = di.identify(problem, di.least_squares(), progress=False)
        for name in ours.problem.names:
            std = ours.uncertainty.std(name)
            assert abs(theirs.values[name] - ours.values[name]) < 1e-4 * std  # ten times the solver's own tolerance
            assert theirs.uncertainty.std(name) == pytest.approx(std, rel=1e-3)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="needs ziglang: pip install dynident[export]")
def test_one_file_for_many_platforms(tmp_path):
    path = export_fmu(LAG, tmp_path / "lag.fmu", LAG_VALUES, platforms=list(PLATFORMS))
    with zipfile.ZipFile(path) as archive:
        entries = [name for name in archive.namelist() if name.startswith("binaries/")]
        made = {name.split("/")[1]: archive.read(name)[:4] for name in entries}
    assert made["linux64"] == b"\x7fELF" and made["win64"][:2] == b"MZ" and made["darwin64"] == b"\xcf\xfa\xed\xfe"
    assert len(made) == 5
    step = di.Experiment(T, {"u": np.ones(T.size)})
    assert di.simulate(di.FmuModel(path), {}, step).outputs["y"][-1] == pytest.approx(2 * (1 - np.exp(-8)), abs=1e-6)


def test_what_is_missing_is_said_at_once(tmp_path):
    with pytest.raises(di.ProblemError) as told:
        export_fmu(LAG, tmp_path / "x.fmu", {"gain": 1.0}, version="1.0", platforms=["vax"])
    assert len(told.value.faults) == 3


def test_results_become_an_fmu_and_a_parameter_set(tmp_path):
    from dynident.cli import main

    record = di.Experiment(T, {"u": np.sign(np.sin(2 * T))}, {"y": 0 * T}, {}, {"x": 0.0})
    y = di.simulate(LAG, {"gain": 2.2, "tau": 0.4}, record).outputs["y"]
    y = y + 0.01 * np.random.default_rng(4).normal(size=T.size)
    record = di.Experiment(T, record.inputs, {"y": y}, {}, {"x": 0.0})
    estimate = di.identify(di.Problem(LAG, [record], [di.Parameter("gain", 1.0), di.Parameter("tau", 1.0, lower=0.01)]),
                           progress=False)
    estimate.save(tmp_path / "results")
    for words in (["fmu", str(tmp_path / "results"), "--out", str(tmp_path / "lag.fmu")],
                  ["parameters", str(tmp_path / "results"), "--out", str(tmp_path / "lag.ssv")]):
        with pytest.raises(SystemExit) as left:
            main(["export", *words])
        assert left.value.code == 0
    said = {v.name: v for v in fmpy.read_model_description(str(tmp_path / "lag.fmu")).modelVariables}
    assert float(said["tau"].start) == estimate.values["tau"]
    assert repr(estimate.values["tau"]) in (tmp_path / "lag.ssv").read_text()


@pytest.mark.parametrize(("values", "options", "sentence"), [
    ({"gain": np.nan}, {}, "the value of 'gain' is nan; an FMU holds finite numbers"),
    ({"tau": np.inf}, {}, "the value of 'tau' is inf"), ({"x(0)": -np.inf}, {}, "is -inf; an FMU holds finite numbers"),
    ({}, {"step": np.inf}, "step = inf; give a positive number of seconds"),
])
def test_numbers_that_an_fmu_cannot_hold_are_refused(tmp_path, values, options, sentence):
    with pytest.raises(di.ProblemError, match=sentence.replace("(", r"\(").replace(")", r"\)")):
        export_fmu(LAG, tmp_path / "lag.fmu", LAG_VALUES | values, **options)


def test_a_place_that_cannot_be_written_to_is_said(tmp_path):
    with pytest.raises(di.ProblemError, match="is a folder; name a file in it"):
        export_fmu(LAG, tmp_path, LAG_VALUES)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(di.ProblemError, match=r"lag\.fmu cannot be written: .*\. Choose another place"):
        export_fmu(LAG, tmp_path / "file" / "lag.fmu", LAG_VALUES)
