"""Simulation route: restarts of the method itself, for problems that a smoother does not take.

Models with modes, models without states and FMUs have no trajectory that could be smoothed: their rounds are fits of a few
iterations from each start, of which the best go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynident.automatic.starts import Start
from dynident.errors import DynidentError, SimulatorLost
from dynident.methods.open_loop import Misfit, Residuals, misfit, open_loop_residuals
from dynident.methods.start_trajectory import StartTrajectory
from dynident.problem.parameter import InitialState, Parameter
from dynident.problem.problem import Problem


@dataclass(frozen=True, eq=False)
class Restart:
    """Where a fit from another start ended."""

    course: StartTrajectory
    residuals: Residuals
    misfit: Misfit
    converged: bool
    spent: Mapping[str, int]


def restart(common: tuple[Any, Problem, str], start: Start, iterations: int) -> Restart | None:
    """A fit of so many iterations from a start; None where it cannot begin or ends nowhere."""
    method, problem, loss = common
    begun = with_start(problem, start)
    try:
        estimate = replace(method, max_iterations=iterations).identify(begun, None, lambda page: None)
    except SimulatorLost:  # for good, whatever the start
        raise
    except (DynidentError, np.linalg.LinAlgError):
        return None
    values = {name: float(estimate.values[name]) for name in problem.names}
    residuals = estimate.residuals if estimate.converged else open_loop_residuals(
        problem, values, estimate.method.simulation_integrator, int(estimate.counts.get("substeps", 1)))
    if residuals is None:
        return None
    course = replace(StartTrajectory.of(estimate), values=values)
    return Restart(course, residuals, misfit(problem, residuals, values, loss), estimate.converged, estimate.counts)


def start_of(problem: Problem, values: Mapping[str, float]) -> Start:
    """Values of unknowns as a start; of those that are each experiment's own, that of the first."""
    first: dict[bool, dict[str, float]] = {True: {}, False: {}}
    for unknown in problem.unknowns:
        first[unknown.initial].setdefault(unknown.quantity, float(values[unknown.name]))
    return Start(first[False], first[True])


def with_start(problem: Problem, start: Start, logarithms: bool = True) -> Problem:
    """The problem from other start values, with logarithms of parameters that are positive there and may stay so."""
    declared = {it.state for it in problem.parameters if isinstance(it, InitialState)}

    def moved(it: Parameter | InitialState) -> Parameter | InitialState:
        if isinstance(it, InitialState) and it.free and it.state in start.first_states:
            return replace(it, start=float(np.clip(start.first_states[it.state], it.lower, it.upper)))
        if not isinstance(it, Parameter) or not it.free:
            return it
        value = start.parameters.get(it.name, it.start)
        if value is None or (it.log and value <= 0):
            return it
        value = float(np.clip(value, it.lower, it.upper))
        positive = logarithms and not start.signed and value > 0 and it.upper > 0
        return replace(it, start=value, log=it.log or positive)

    more = [InitialState(s, start=v) for s, v in start.first_states.items() if s not in declared]
    return problem.replace(parameters=[*(moved(it) for it in problem.parameters), *more])
