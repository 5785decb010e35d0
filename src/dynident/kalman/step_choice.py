"""Step choice: is a model too stiff for the explicit step of a filter, so that it takes a linearly implicit one?

Stiff is here what makes an explicit step unstable: a part that decays in the model and grows from step to step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np

from dynident.estimate.estimate import Estimate
from dynident.integrators import integrator_named
from dynident.integrators.explicit import RUNGE_KUTTA
from dynident.integrators.rosenbrock import ROSENBROCK
from dynident.integrators.scheme import Explicit, StepFunction
from dynident.integrators.step_functions import symbols
from dynident.methods.integrator_choice import JACOBIAN_SAMPLES
from dynident.methods.substeps import MAX_SUBSTEPS
from dynident.models.equations import EquationModel
from dynident.problem.problem import Problem
from dynident.tolerances import STEP_ERROR
from dynident.transcription.initial_guess import start_values, states_from_measurements


def filter_step(name: str) -> Explicit:
    """The scheme of that name where it is a formula, else the one that stands for an implicit one."""
    scheme = integrator_named(name)
    return scheme if isinstance(scheme, Explicit) else ROSENBROCK


def first_step(method: Any) -> str:
    """The scheme of a filter's steps before anything is known of the model."""
    return RUNGE_KUTTA.name if method.chooses_integrator else method.integrator


def step_at_start(problem: Problem, substeps: int) -> tuple[str, str]:
    """The name of the scheme, and why it is not the explicit one; empty where it is. A model without equations says itself how
    it is integrated."""
    if not isinstance(problem.model, EquationModel):
        return RUNGE_KUTTA.name, ""
    growth = explicit_growth(problem, substeps)
    if not growth > 1:
        return RUNGE_KUTTA.name, ""
    return ROSENBROCK.name, (f"The model is stiff at the start (what decays in it would grow {growth:.2g}-fold in a step of "
                             f"{RUNGE_KUTTA.name}): filtered by steps of {ROSENBROCK.name}, which are linearly implicit.")


def explicit_growth(problem: Problem, substeps: int) -> float:
    """Median over the records of how much an explicit step makes of what decays, at the states that were measured."""
    model, values = problem.model, start_values(problem)
    s = symbols(model)
    place = [s["t"], s["x"], s["u0"], s["p"]]
    jacobian = ca.Function("jacobian", place, [ca.densify(ca.jacobian(model.rate(*place), s["x"]))])
    seen = []
    for e, experiment in enumerate(problem.experiments):
        time = np.asarray(experiment.time)
        if time.size < 2:
            continue
        p, initial = problem.parameters_and_initial_state(values, e)
        rows = np.unique(np.linspace(0, time.size - 2, JACOBIAN_SAMPLES).astype(int))
        states = states_from_measurements(model, experiment, time[rows])
        h = float(np.median(np.diff(time))) / substeps
        for row, state in zip(rows, np.where(np.isnan(states), initial, states), strict=True):
            u = [experiment.inputs[name][row] for name in model.inputs]
            J = np.asarray(jacobian(time[row], state, u, p))
            seen.append(decaying_growth(h * np.linalg.eigvals(J)) if np.all(np.isfinite(J)) else 0.0)
    return float(np.median(seen)) if seen else 0.0


def decaying_growth(z: np.ndarray) -> float:
    """Of the fastest that decays, by the stability function of Runge-Kutta's scheme of order 4."""
    z = z[z.real < 0]
    return float(np.max(np.abs(1 + z + z**2 / 2 + z**3 / 6 + z**4 / 24), initial=0.0))


def prediction_steps(method: Any, problem: Problem, first: Estimate) -> tuple[Any, int, list[str]]:
    """Prediction error with the scheme of its steps, their number between two samples, and a line where they are implicit."""
    scheme = filter_step(first.method.simulation_integrator if method.chooses_integrator else method.integrator)
    remarks = [f"The model is stiff: steps of the filter by {scheme.name}, which are linearly implicit."] * (
        method.chooses_integrator and scheme.linearly_implicit)
    method = replace(method, integrator=scheme.name)
    if not isinstance(method.substeps, str):
        return method, int(method.substeps), remarks
    if scheme.linearly_implicit:
        return method, accurate_substeps(problem, first, scheme), remarks
    return method, int(first.counts.get("substeps", 1)), remarks


def accurate_substeps(problem: Problem, found: Estimate, scheme: Explicit) -> int:
    """The fewest steps between samples (1, 2, 4, ...) that follow the trajectory of an estimate as far as noise shows."""
    model = problem.model
    s = symbols(model)
    place = [s["t"], s["h"], s["x"], s["u0"], s["u1"], s["p"]]
    positions, velocities = model.position_velocity() if scheme.position_velocity else ((), ())
    ahead = ca.Function("ahead", place, [scheme.next_state(StepFunction(
        model.rate, s["t"], s["h"], s["x"], s["u0"], s["u1"], s["p"], positions, velocities))])
    look = ca.Function("look", [s["t"], s["x"], s["u0"], s["p"]], [model.output(s["t"], s["x"], s["u0"], s["p"])])
    count = 1
    while count < MAX_SUBSTEPS and not _follows(problem, found, ahead, look, count):
        count *= 2
    return count


def _follows(problem: Problem, found: Estimate, ahead: ca.Function, look: ca.Function, count: int) -> bool:
    model = problem.model
    values = np.array([found.values[unknown.name] for unknown in problem.unknowns])
    for e, (experiment, trajectory) in enumerate(zip(problem.experiments, found.trajectories, strict=True)):
        p, time = problem.parameters_and_initial_state(values, e)[0], np.asarray(experiment.time)
        states = np.column_stack([trajectory.states[name] for name in model.states])
        scale = [np.sqrt(np.nanmean(np.square(found.residuals[e].get(name, [np.inf])))) for name in model.outputs]
        u = np.column_stack([experiment.inputs[name] for name in model.inputs] or [np.zeros((time.size, 0))])
        linear = np.array([float(experiment.hold[name] == "linear") for name in model.inputs])
        for k in np.unique(np.linspace(0, time.size - 2, JACOBIAN_SAMPLES).astype(int)):
            x, h, move = states[k], (time[k + 1] - time[k]) / count, linear * (u[k + 1] - u[k]) / count
            for n in range(count):
                x = np.asarray(ahead(time[k] + n * h, h, x, u[k] + n * move, u[k] + (n + 1) * move, p)).ravel()
            there = [np.asarray(look(time[k + 1], at, u[k + 1], p)).ravel() for at in (x, states[k + 1])]
            if not np.all(np.abs(there[0] - there[1]) <= STEP_ERROR * np.array(scale)):
                return False
    return True
