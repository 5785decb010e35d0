"""Is every Jacobian that of an independent integrator, to the accuracy of its finite differences?

Reference: central differences of scipy's DOP853 at 1e-12. With steps of 1e-4 of a value the truncation is about 1e-8 of
a column and the rounding 1e-12 / 1e-4; asked for is 1e-6 of each column's largest entry.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dynident as di
from dynident.integrators import integrator_named
from dynident.transcription.shooting import Shooting
from problems import MACHINES, Machine, thinned

STEP = 1e-4
ACCURACY = 1e-6


def small(name: str) -> Machine:
    """A short piece of the record, so that a hundred independent simulations take seconds."""
    every = {"servo_axis": 4, "two_mass": 3, "pendulum": 2, "mass_spring_damper": 3}[name]
    machine = thinned(MACHINES[name], every)
    return replace(machine, time=machine.time[:40], inputs={n: u[:40] for n, u in machine.inputs.items()})


def differences(machine: Machine, values: dict[str, float], initial: dict[str, float]) -> dict[str, np.ndarray]:
    """d outputs / d each parameter and initial state, (samples, outputs), by name."""
    columns = {}
    for name in [*values, *initial]:
        here = values if name in values else initial
        h = STEP * (abs(here[name]) or 1.0)
        up, down = ({n: v + sign * h * (n == name) for n, v in values.items()} for sign in (1, -1))
        x_up, x_down = ({n: v + sign * h * (n == name) for n, v in initial.items()} for sign in (1, -1))
        high, low = machine.outputs(up, x_up), machine.outputs(down, x_down)
        columns[name] = np.column_stack([(high[o] - low[o]) / (2 * h) for o in machine.model.outputs])
    return columns


def linearized(problem: di.Problem, segments: int):
    """Total derivative at the start values; the nodes lie on the simulated trajectory, so that segments meet."""
    integrator = integrator_named("runge_kutta")
    whole = Shooting(problem, integrator, [1] * len(problem.experiments), 32, {})
    point = whole.start()
    states = [out.states for out in whole.run(point, False)]
    cut = Shooting(problem, integrator, [segments] * len(problem.experiments), 32, {})
    nodes = tuple(x[record.segment_starts[1:-1]] for x, record in zip(states, cut.records, strict=True))
    return cut.linearization(replace(point, nodes=nodes))


def same(found: np.ndarray, expected: np.ndarray, what: str) -> None:
    assert np.max(np.abs(found - expected)) <= ACCURACY * np.max(np.abs(expected)), what


@pytest.mark.parametrize("name", list(MACHINES))
def test_jacobian_of_every_machine_with_initial_states_and_segments(name):
    machine = small(name)
    initial = {s: x + 0.05 for s, x in machine.initial.items()}
    reference = differences(machine, dict(machine.truth), initial)
    start = [di.InitialState(s, x) for s, x in initial.items()]
    parameters = [di.Parameter(n, v) for n, v in machine.truth.items()]
    problem = di.Problem(machine.model, [machine.record()], [*parameters, *start])
    for segments in (1, 2, 7):
        at = linearized(problem, segments)
        for i, unknown in enumerate(problem.unknowns):
            for j, output in enumerate(machine.model.outputs):
                rows = at.rows.output == j
                column = at.jacobian[rows, i] * machine.std[output]
                same(column, reference[unknown.quantity][:, j], f"{unknown.name}, {segments} segments")


def test_residuals_stand_in_the_rows_that_are_said():
    machine = small("two_mass")
    problem = di.Problem(machine.model, [machine.record()], [
        *[di.Parameter(n, v) for n, v in machine.truth.items()],
        *[di.InitialState(s, x) for s, x in machine.initial.items()]])
    at = linearized(problem, 3)
    clean = machine.outputs()
    for k in range(at.rows.count):
        output = machine.model.outputs[at.rows.output[k]]
        measured = problem.experiments[0].outputs[output][at.rows.sample[k]]
        expected = (clean[output][at.rows.sample[k]] - measured) / machine.std[output]
        assert at.residuals[k] == pytest.approx(expected, abs=1e-5)


def test_derivative_by_a_logarithm_is_handed_over_in_the_users_units():
    machine = small("pendulum")
    initial = [di.InitialState(s, x) for s, x in machine.initial.items()]
    plain, log = (linearized(di.Problem(machine.model, [machine.record()], [
        *[di.Parameter(n, v, log=log) for n, v in machine.truth.items()], *initial]), 3) for log in (False, True))
    np.testing.assert_allclose(log.jacobian, plain.jacobian, rtol=1e-12)
    np.testing.assert_allclose(log.values, plain.values, rtol=1e-12)


def test_derivative_by_a_logarithm_as_the_solver_sees_it():
    machine = small("pendulum")
    problem = di.Problem(machine.model, [machine.record()], machine.parameters(p={"log": True}, d={"log": True}))
    finite = Shooting(problem, integrator_named("runge_kutta"), [1], 4, {})
    point = finite.start()
    for i in range(2):
        h = 1e-5 * np.eye(4)[i]
        high, low = (finite.evaluate(replace(point, unknowns=point.unknowns + s * h)).weighted_residuals[0] for s in (1, -1))
        linear = finite.linearize(point)
        chain, spread = linear.chains[0], linear.unknown_maps[0]
        column = (chain.weight[..., None] * chain.jacobian) @ spread.scatter(h / 1e-5)
        same(column, (high - low) / 2e-5, problem.names[i])


def test_own_and_shared_parameters_of_two_records():
    machine = small("mass_spring_damper")
    second = replace(machine, initial={"x": -0.1, "v": 0.3}, inputs={"F": -machine.inputs["F"]})
    runs = [machine.record(1, name="a", initial=dict(machine.initial)),
            second.record(2, name="b", initial=dict(second.initial))]
    problem = di.Problem(machine.model, runs, [di.Parameter("m", 1.0), di.Parameter("d", 1.0, shared=False),
                                               di.Parameter("k", 1.2, shared=False)])
    assert problem.names == ("m", "d[a]", "d[b]", "k[a]", "k[b]")
    at = linearized(problem, 4)
    for e, (each, own) in enumerate([(machine, ("m", "d[a]", "k[a]")), (second, ("m", "d[b]", "k[b]"))]):
        reference = differences(each, {"m": 1.0, "d": 1.0, "k": 1.2}, {})
        rows = at.rows.experiment == e
        for name in problem.names:
            column = at.jacobian[rows, problem.names.index(name)] * machine.std["position"]
            if name in own:
                same(column, reference[name[0]][:, 0], name)
            else:
                assert np.all(column == 0), name


def test_shared_initial_state_collects_from_both_records():
    machine = small("pendulum")
    runs = [machine.record(1, name="a"), machine.record(2, name="b")]
    problem = di.Problem(machine.model, runs, [
        *[di.Parameter(n, v) for n, v in machine.truth.items()], di.InitialState("angle", 1.2, shared=True),
        di.InitialState("rate", 0.0, free=False)])
    assert problem.names == ("p", "d", "angle(0)")
    at = linearized(problem, 2)
    reference = differences(machine, {}, dict(machine.initial))["angle"][:, 0]
    for e in (0, 1):
        same(at.jacobian[at.rows.experiment == e, 2] * 0.01, reference, f"record {e}")


def test_prior_is_a_row_of_its_own():
    machine = small("pendulum")
    problem = di.Problem(machine.model, [machine.record()], machine.parameters(p={"prior": di.Prior(9.5, 0.25)}))
    at = linearized(problem, 2)
    assert (at.rows.experiment[-1], at.rows.output[-1], at.rows.sample[-1]) == (-1, -1, 0)
    np.testing.assert_allclose(at.jacobian[-1], [1 / 0.25, 0, 0, 0])
    assert at.residuals[-1] == pytest.approx((9.0 - 9.5) / 0.25)


def test_missing_samples_have_no_row():
    machine = small("pendulum")
    run = machine.record()
    y = run.outputs["angle"].copy()
    y[[0, 5, 6, 39]] = np.nan
    holes = di.Experiment(run.time, outputs={"angle": y}, noise=run.noise)
    full, at = (linearized(di.Problem(machine.model, [r], [
        *machine.parameters(), di.InitialState("angle", 1.2), di.InitialState("rate", 0.1)]), 5) for r in (run, holes))
    keep = np.isin(full.rows.sample, at.rows.sample)
    assert at.rows.count == 36
    np.testing.assert_allclose(at.jacobian, full.jacobian[keep], rtol=1e-10)


def test_given_std_per_sample_weights_each_row():
    machine = small("pendulum")
    std = np.linspace(0.01, 0.05, 40)
    run = machine.record()
    weighted = di.Experiment(run.time, outputs=run.outputs, noise={"angle": di.Gaussian(std)})
    plain, at = (linearized(di.Problem(machine.model, [r], machine.parameters()), 1) for r in (run, weighted))
    np.testing.assert_allclose(at.jacobian, plain.jacobian * (0.01 / std)[:, None], rtol=1e-10)


@pytest.mark.parametrize("name", ["radau", "trapezoid", "leapfrog", "cvodes"])
def test_other_integrators_differentiate_what_they_compute(name):
    """Against differences of the same scheme: the derivative of the scheme itself, whatever its error."""
    machine = small("pendulum")
    problem = di.Problem(machine.model, [machine.record()], [*machine.parameters(), di.InitialState("angle", 1.2),
                                                             di.InitialState("rate", 0.1)])
    finite = Shooting(problem, integrator_named(name), [1], 1, {})
    at = finite.linearization(finite.start())
    for i in range(4):
        h = 1e-4 * np.eye(4)[i]
        beside = [replace(finite.start(), unknowns=finite.start().unknowns + s * h) for s in (1, -1)]
        high, low = (finite.evaluate(point).weighted_residuals[0][:, 0] for point in beside)
        assert np.max(np.abs(at.jacobian[:, i] - (high - low) / 2e-4)) <= 1e-5 * np.max(np.abs(at.jacobian[:, i]))
