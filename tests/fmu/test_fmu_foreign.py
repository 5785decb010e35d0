"""Claims about FMUs that we did not write: of pythonfmu (2.0, Co-Simulation), pythonfmu3 (3.0, Co-Simulation) and
CasADi (3.0, Model Exchange)."""

from __future__ import annotations

import os
import subprocess
import zipfile
from itertools import pairwise
from pathlib import Path

import casadi
import numpy as np
import pytest
from fmu_makers import FOLDER, fmpy, needs_compiler

import dynident as di
from dynident.codegen import compiler
from dynident.fmu.archive import platform_folders
from dynident.integrators.grid import grid_of

T = np.linspace(0.0, 4.0, 81)
SLAVE = '''
from math import exp
from pythonfmu import Fmi2Causality, Fmi2Slave, Fmi2Variability, Real

class Lag(Fmi2Slave):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.gain, self.tau, self.u, self.y, self.through = 2.0, 0.5, 0.0, 0.0, 0.0
        self.register_variable(Real("gain", causality=Fmi2Causality.parameter, variability=Fmi2Variability.tunable))
        self.register_variable(Real("tau", causality=Fmi2Causality.parameter, variability=Fmi2Variability.fixed))
        self.register_variable(Real("u", causality=Fmi2Causality.input))
        self.register_variable(Real("y", causality=Fmi2Causality.output))
        self.register_variable(Real("through", causality=Fmi2Causality.output))

    def do_step(self, now, h):
        target = self.gain * self.u
        self.y = target + (self.y - target) * exp(-h / self.tau)
        self.through = self.u
        return True
'''


@pytest.fixture(scope="module")
def python_fmu():
    pytest.importorskip("pythonfmu", reason="needs pythonfmu")
    from pythonfmu.builder import FmuBuilder

    script = FOLDER / "lag.py"
    script.write_text(SLAVE)
    return Path(FmuBuilder.build_FMU(script, dest=FOLDER))


@pytest.fixture(scope="module")
def python_fmu3():
    """Its FMUs take equal steps only."""
    pytest.importorskip("pythonfmu3", reason="needs pythonfmu3")
    from pythonfmu3.builder import FmuBuilder

    text = SLAVE.replace("pythonfmu ", "pythonfmu3 ").replace("Fmi2", "Fmi3").replace("Real", "Float64").replace(
        "variability=Fmi3Variability.fixed", "variability=Fmi3Variability.tunable").replace(
        "class Lag", "class LagThree").replace("self.gain, ", "self.time = 0.0\n        self.gain, ", 1)
    time = ('        self.register_variable(Float64("time", causality=Fmi3Causality.independent, '
            "variability=Fmi3Variability.continuous))\n")
    script = FOLDER / "lag_three.py"
    script.write_text(text.replace('        self.register_variable(Float64("gain"',
                                   f'{time}        self.register_variable(Float64("gain"'))
    return Path(FmuBuilder.build_FMU(script, dest=FOLDER))


def record(gain, tau, hold="zero"):
    u = np.sign(np.sin(2 * T))
    model = di.EquationModel(states={"x": "(gain*u - x)/tau"}, outputs={"y": "x"}, inputs=["u"])
    y = di.simulate(model, {"gain": gain, "tau": tau, "x(0)": 0}, di.Experiment(T, {"u": u}, hold=hold)).outputs["y"]
    y = y + 0.01 * np.random.default_rng(5).normal(size=T.size)
    return di.Experiment(T, {"u": u}, {"y": y}, {"y": di.Gaussian(0.01)}, hold=hold)


def test_pythonfmu_is_aligned_and_of_second_order(python_fmu):
    model = di.FmuModel(python_fmu)
    smooth = di.Experiment(T, {"u": np.sin(3 * T)}, hold="linear")
    run = model.simulator(())
    ends = [run.run(np.zeros(0), grid_of(model, smooth, n, True))[0] for n in (1, 2, 4, 8)]
    assert np.max(np.abs(ends[0][:, 1] - np.sin(3 * T))) == 0
    changes = [np.max(np.abs(a[:, 0] - b[:, 0])) for a, b in pairwise(ends)]
    assert np.all(np.abs(np.log2(np.array(changes[:-1]) / changes[1:]) - 2) < 0.1)


def test_fixed_and_tunable_parameters_of_pythonfmu_are_found(python_fmu):
    problem = di.Problem(di.FmuModel(python_fmu), [record(2.2, 0.4)],
                         [di.Parameter("gain", start=1.0), di.Parameter("tau", start=1.0, lower=0.01)])
    estimate = di.identify(problem, progress=False)
    for name, true in (("gain", 2.2), ("tau", 0.4)):
        low, high = estimate.uncertainty.interval(name, 0.9999)
        assert low < true < high
    assert any("Co-Simulation" in note for note in estimate.notes)


def test_parameters_of_pythonfmu3_are_found(python_fmu3):
    model = di.FmuModel(python_fmu3)
    assert model.description.version == 3 and not model.description.interfaces["co_simulation"].variable_steps
    smooth = di.Experiment(T, {"u": np.sin(3 * T)}, hold="linear")
    assert np.max(np.abs(di.simulate(model, {}, smooth, substeps=1).outputs["through"] - np.sin(3 * T))) == 0
    problem = di.Problem(model, [record(2.2, 0.4)],
                         [di.Parameter("gain", start=1.0), di.Parameter("tau", start=1.0, lower=0.01)])
    estimate = di.identify(problem, progress=False)
    for name, true in (("gain", 2.2), ("tau", 0.4)):
        # the last of 64 sub-steps has the input of the sample at its end, which is said to move up to 1.5 standard errors
        assert abs(estimate.values[name] - true) < 5.5 * estimate.uncertainty.std(name)


@pytest.fixture(scope="module")
def casadi_fmu():
    """CasADi writes the sources; the headers that these need are those of FMPy."""
    folder = FOLDER / "casadi"
    folder.mkdir()
    builder = casadi.DaeBuilder("cas")
    x, u = builder.add("x", {"start": 0.0}), builder.add("u", "input")
    gain = builder.add("gain", "parameter", "tunable", {"start": 2.0})
    tau = builder.add("tau", "parameter", "tunable", {"start": 0.5})
    builder.eq(builder.der(x), (gain * u - x) / tau)
    y = builder.add("y", "output")
    builder.eq(y, x)
    here = os.getcwd()
    os.chdir(folder)
    try:
        files = builder.export_fmu()
    except RuntimeError as error:
        pytest.skip(f"this CasADi cannot export FMUs: {error}")
    finally:
        os.chdir(here)
    _, machine, suffix = platform_folders()
    headers = Path(fmpy.__file__).parent / "c-code"
    made = subprocess.run([compiler.compiler(), "-O2", "-fPIC", "-shared", "-w", f"-I{headers}",
                           f"-I{casadi.GlobalOptions.getCasadiIncludePath()}", "cas.c", "cas_wrap.c", "-o", "cas.so",
                           "-lm"], cwd=folder, capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"CasADi's sources do not compile here: {made.stderr.splitlines()[0]}")
    with zipfile.ZipFile(folder / "cas.fmu", "w") as archive:
        for name, entry in files.items():
            archive.write(folder / name, entry.removeprefix("./"))
        archive.write(folder / "cas.so", f"binaries/{machine}/cas{suffix}")
    return folder / "cas.fmu"


@needs_compiler
def test_parameters_of_casadi_s_fmu_are_found(casadi_fmu):
    model = di.FmuModel(casadi_fmu)
    assert model.description.version == 3 and model.kind == "model_exchange"
    problem = di.Problem(model, [record(2.2, 0.4)],
                         [di.Parameter("gain", start=1.0), di.Parameter("tau", start=1.0, lower=0.01)])
    estimate = di.identify(problem, progress=False)
    for name, true in (("gain", 2.2), ("tau", 0.4)):
        low, high = estimate.uncertainty.interval(name, 0.9999)
        assert low < true < high


@needs_compiler
def test_info_lists_what_can_be_estimated(casadi_fmu, capsys):
    from dynident.cli import main

    with pytest.raises(SystemExit):
        main(["fmu", "info", str(casadi_fmu)])
    said = capsys.readouterr().out
    assert "FMI 3.0" in said and "made by CasADi" in said
    assert any(line.startswith("gain") and line.endswith("estimated") for line in said.splitlines())
