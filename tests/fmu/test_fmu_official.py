"""Claims about the official Reference FMUs: what FMPy simulates, dynident simulates alike, and fits by both interfaces."""

from __future__ import annotations

import numpy as np
import pytest
from fmu_makers import fmpy, needs_compiler
from official_fmus import official, without_binaries

import dynident as di

pytestmark = needs_compiler
BOTH = pytest.mark.parametrize("version", [2, 3])
KINDS = {"model_exchange": "ModelExchange", "co_simulation": "CoSimulation"}
KIND = pytest.mark.parametrize("kind", KINDS)
END = {"BouncingBall": 3.0, "Dahlquist": 5.0, "VanDerPol": 10.0, "Stair": 8.0, "Resource": 1.0}
FIT = {"BouncingBall": ("e", 0.7, ["h"]), "Dahlquist": ("k", 1.0, ["x"]), "VanDerPol": ("mu", 1.0, ["x0", "x1"])}


def by_fmpy(path, kind, t, **options):
    """At these times: FMPy records events too, and the last value of a time is the one behind its event."""
    found = fmpy.simulate_fmu(str(path), fmi_type=KINDS[kind], stop_time=t[-1], output_interval=t[1], relative_tolerance=1e-9,
                              validate=False, **options)
    last = np.searchsorted(found["time"], t + 1e-9, side="right") - 1
    return {name: found[name][last] for name in found.dtype.names[1:]}


@KIND
@BOTH
@pytest.mark.parametrize("name", END)
def test_simulations_are_those_of_fmpy(name, version, kind):
    """By Co-Simulation in every bit; by Model Exchange to what CVODE leaves at 1e-9."""
    path, t = official(name, version), np.linspace(0.0, END[name], 101)
    ours, theirs = di.simulate(di.FmuModel(path, kind=kind), {}, di.Experiment(t)).outputs, by_fmpy(path, kind, t)
    for output, values in ours.items():
        assert np.max(np.abs(values - theirs[output])) <= (0 if kind == "co_simulation" else 1e-5) * np.max(np.abs(values))


@KIND
@BOTH
def test_inputs_of_every_type_go_through(version, kind):
    """Continuous and discrete numbers, whole numbers and switches, each set as its interface allows."""
    t = np.linspace(0.0, 2.0, 41)
    model = di.FmuModel(official("Feedthrough", version), kind=kind)
    steps = {name: np.round(2 + 2 * np.sin(3 * t + k)) for k, name in enumerate(model.inputs)}
    steps |= {name: steps[name] > 2 for name in model.inputs if model.description.variables[name].type == "Boolean"}
    steps |= {name: np.where(steps[name] > 2, 2, 1) for name in model.inputs
              if model.description.variables[name].type == "Enumeration"}
    found = di.simulate(model, {}, di.Experiment(t, {n: np.asarray(u, float) for n, u in steps.items()})).outputs
    compared = {name: name.replace("_input", "_output") for name in steps if name.replace("_input", "_output") in found}
    kinds = {model.description.variables[name].type for name in compared}
    assert {"Boolean", "Integer" if version == 2 else "Int32"} <= kinds
    for name, output in compared.items():
        assert np.array_equal(found[output], np.asarray(steps[name], float)), name


@KIND
@BOTH
@pytest.mark.parametrize("name", FIT)
def test_a_record_of_an_interface_gives_back_what_it_was_made_with(name, version, kind):
    """Each by itself: the solvers inside are Euler's with fixed steps, so that the two interfaces are two models where a
    tolerance of the user's keeps them."""
    parameter, true, outputs = FIT[name]
    model, t, noise = di.FmuModel(official(name, version), kind=kind, tolerance=1e-6), np.linspace(0.0, 3.0, 101), 0.02
    clean, draw = di.simulate(model, {}, di.Experiment(t)).outputs, np.random.default_rng(4)
    record = di.Experiment(t, {}, {n: clean[n] + noise * draw.normal(size=t.size) for n in outputs},
                           dict.fromkeys(outputs, di.Gaussian(noise)))
    found = di.identify(di.Problem(model, [record], [di.Parameter(parameter, start=1.1 * true)]), progress=False)
    assert found.converged, found.status
    assert abs(found.values[parameter] - true) < 4 * found.uncertainty.std(parameter)


@BOTH
@pytest.mark.parametrize("name", FIT)
def test_answers_by_both_interfaces_agree(name, version):
    """Within a tenth of a standard error, fitted to one record of the model itself: Euler's steps inside do not move them."""
    parameter, true, outputs = FIT[name]
    both = [di.FmuModel(official(name, version), kind=kind) for kind in KINDS]
    t, draw, noise = np.linspace(0.0, 3.0, 101), np.random.default_rng(4), 0.005
    clean = di.simulate(both[0], {}, di.Experiment(t)).outputs
    record = di.Experiment(t, {}, {n: clean[n] + noise * draw.normal(size=t.size) for n in outputs},
                           dict.fromkeys(outputs, di.Gaussian(noise)))
    one, other = (di.identify(di.Problem(model, [record], [di.Parameter(parameter, start=1.02 * true)]), di.least_squares(),
                              progress=False) for model in both)
    assert one.converged and other.converged
    assert abs(one.values[parameter] - other.values[parameter]) < 0.1 * one.uncertainty.std(parameter)


@BOTH
def test_source_code_alone_is_built_and_gives_the_same_bits(version, tmp_path):
    whole = official("VanDerPol", version)
    t, bare = np.linspace(0, 5, 51), without_binaries(whole, tmp_path)
    found = [di.simulate(di.FmuModel(path), {"mu": 2.0}, di.Experiment(t)).outputs["x0"] for path in (whole, bare)]
    assert np.allclose(*found, rtol=0, atol=1e-9)  # another compiler's options may round otherwise


def test_a_file_that_was_packed_twice_passes():
    """Robertson's reactions from (1, 0, 0): at 0.01 s, by radau5 of equations, 0.99960068; the three sum up to one."""
    model = di.FmuModel(official("Roberts", 3), integrator="radau")
    found = di.simulate(model, {}, di.Experiment(np.linspace(0, 0.01, 11))).outputs
    assert found["y1"][-1] == pytest.approx(0.99960068, abs=1e-8) and np.allclose(sum(found.values()), 1, atol=1e-9)


def test_clocks_are_refused_with_a_reason():
    with pytest.raises(di.NotSupported, match="only Scheduled Execution, by clocks"):
        di.FmuModel(official("Clocks", 3))


def test_arrays_of_the_state_space_are_inputs_outputs_and_parameters():
    model = di.FmuModel(official("StateSpace", 3))
    t = np.linspace(0, 1, 21)
    inputs = {name: np.full(t.size, 1.0 + k) for k, name in enumerate(model.inputs)}
    found = di.simulate(model, {}, di.Experiment(t, inputs)).outputs
    assert len(model.inputs) == len(found) and all(np.all(np.isfinite(y)) for y in found.values())
    with pytest.raises(di.ProblemError, match="gives arrays their size and cannot be set"):
        di.FmuModel(official("StateSpace", 3), values={"m": 2.0})
