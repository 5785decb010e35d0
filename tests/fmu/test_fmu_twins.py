"""Claims about the twins: each loop in C has one in Python, and both give the same bits and the same sentences."""

from __future__ import annotations

import numpy as np
import pytest
import reference_fmus as made
from fmu_makers import bouncing_ball, exported, needs_compiler, tampered
from reference_fmus import reference_fmu

import dynident as di
from dynident.fmu.instance import SimulationFailed
from dynident.fmu.stepping_compiled import stepping_library
from dynident.integrators.grid import grid_of

pytestmark = needs_compiler
T = np.linspace(0.0, 2.0, 41)
BOTH = pytest.mark.parametrize("version", [2, 3])
EQUAL_STEPS = {'canHandleVariableCommunicationStepSize="true"': 'canHandleVariableCommunicationStepSize="false"'}


def experiment(model, hold="linear"):
    moves = {"linear": np.sin(3 * T), "zero": np.sign(np.sin(3 * T))}[hold]
    held = {n: "zero" if n in model.stepwise else hold for n in model.inputs}
    return di.Experiment(T, {n: np.rint(3 * moves) if n in model.stepwise else moves for n in model.inputs}, hold=held)


def by_both(monkeypatch, work):
    """What is done with the compiled loop, and without."""
    assert stepping_library() is not None
    compiled = work()
    monkeypatch.setenv("DYNIDENT_CC", "none")
    assert stepping_library() is None
    return compiled, work()


def signals(path, substeps=2, hold="linear", **options):
    model = di.FmuModel(path, trusted=True, **options)
    grid = grid_of(model, experiment(model, hold), substeps, True)
    return np.hstack(model.simulator(()).run(np.zeros(0), grid, True))


def assert_same_bits(found):
    compiled, python = found
    assert np.all(np.isfinite(compiled)) and compiled.tobytes() == python.tobytes()


@pytest.mark.parametrize("version", ["2.0", "3.0"])
@pytest.mark.parametrize("options", [{}, {"alignment": "feedthrough"}])
def test_co_simulation(version, options, monkeypatch):
    fmu = exported(version=version)
    assert_same_bits(by_both(monkeypatch, lambda: signals(fmu, 3, kind="co_simulation", **options)))


def test_co_simulation_by_equal_steps(monkeypatch):
    even = tampered("even", {}, EQUAL_STEPS)
    assert_same_bits(by_both(monkeypatch, lambda: signals(even, 2, kind="co_simulation")))


@BOTH
@pytest.mark.parametrize(("model", "integrator"), [
    (made.SLOW, "runge_kutta"), (made.VAN_DER_POL, "runge_kutta"), (made.VAN_DER_POL, "radau"), (made.STIFF, "radau")],
    ids=lambda it: getattr(it, "name", it))
def test_model_exchange(version, model, integrator, monkeypatch):
    fmu = reference_fmu(model, version)
    assert_same_bits(by_both(monkeypatch, lambda: signals(fmu, integrator=integrator)))


@BOTH
@pytest.mark.parametrize("model", [made.BALL, made.STAIR, made.WHEEL], ids=["state", "time", "step"])
def test_events(version, model, monkeypatch):
    """State events at the zero crossings of an indicator, time events, and step events."""
    fmu = reference_fmu(model, version)
    assert_same_bits(by_both(monkeypatch, lambda: signals(fmu)))


def test_a_kick_at_a_time_between_bounces(monkeypatch):
    ball = bouncing_ball()
    assert_same_bits(by_both(monkeypatch, lambda: signals(ball)))


@pytest.mark.parametrize("model", [made.STATE_SPACE, made.SINGLE, made.FEEDTHROUGH], ids=lambda m: m.name)
def test_arrays_and_inputs_of_every_type_that_jump_at_samples(model, monkeypatch):
    fmu = reference_fmu(model, 3)
    assert_same_bits(by_both(monkeypatch, lambda: signals(fmu, hold="zero")))


@BOTH
@pytest.mark.parametrize("substeps", [1, 3])
def test_directional_derivatives(version, substeps, monkeypatch):
    """By a parameter and by an initial state."""
    model = di.FmuModel(reference_fmu(made.SLOW, version), trusted=True)
    grid = grid_of(model, experiment(model), substeps, True)
    assert_same_bits(by_both(monkeypatch, lambda: model.simulator(("rate", "fast")).derivatives(
        np.array([2.0, 0.3]), grid, [0, 1])))


def failure(model, time, written, options):
    fmu = di.FmuModel(model, trusted=True, **options)
    with pytest.raises(SimulationFailed) as failed:
        fmu.simulator(tuple(written)).run(np.array([*written.values()], float), grid_of(fmu, di.Experiment(time), 1, True))
    return str(failed.value), failed.value.time


@BOTH
@pytest.mark.parametrize(("model", "time", "written", "options"), [
    (made.DAHLQUIST, T, {"k": -1e6}, {}), (made.DAHLQUIST, T, {"k": np.nan}, {"integrator": "radau"}),
    (made.DAHLQUIST, T, {"k": np.nan}, {"kind": "co_simulation"}),
    (made.STAIR, np.arange(0, 12.0, 0.5), {}, {}), (made.STAIR, np.arange(0, 12.0, 0.5), {}, {"kind": "co_simulation"})])
def test_a_failure_is_said_in_the_same_words(version, model, time, written, options, monkeypatch):
    """A state that leaves the finite numbers, an output that is none, and an FMU that asks for the end."""
    fmu = reference_fmu(model, version)
    compiled, python = by_both(monkeypatch, lambda: failure(fmu, time, written, options))
    assert compiled == python and "failed at t = " in compiled[0]
