"""Restraints: which constraints of a problem a method takes, and what it says about the others."""

from __future__ import annotations

from typing import Any

from dynident.errors import NotSupported
from dynident.integrators.events import require_events
from dynident.integrators.scheme import Integrator
from dynident.linalg.finite_problem import FiniteProblem
from dynident.problem.problem import Problem
from dynident.solvers.gauss_newton import GaussNewton
from dynident.transcription.parameter_constraints import parameter_constraints

INSTEAD = "a method that takes them: single_shooting(), multiple_shooting(), full_discretization() or least_squares()"


def refuse_constraints(problem: Problem, who: str, instead: str = INSTEAD) -> None:
    """For a method that takes bounds alone: a constraint that nobody looks at would be a lie."""
    if problem.constraints:
        raise NotSupported(f"{who} takes bounds on parameters, but no other constraints, and the problem has "
                           f"'{problem.constraints[0].text}'. Leave it out, or use {instead}.")


def refuse_state_bounds(problem: Problem, who: str, instead: str) -> None:
    """For a method that knows states only through a simulation."""
    for constraint in problem.constraints:
        if constraint.of_states(problem.model.states):
            raise NotSupported(f"{who} takes constraints between parameters, but no bounds on states ('{constraint.text}'); "
                               f"use {instead}.")


def refuse_without_states(problem: Problem, who: str) -> None:
    """For a method that follows a motion: outputs that depend on the inputs alone have none."""
    if not problem.model.states:
        raise NotSupported(f"{who} needs a model with states, but this one has none: there is nothing to discretize or to "
                           "filter. Use single_shooting() or least_squares().")


def refuse_solver(problem: Problem, name: str) -> None:
    """For the solvers that a direct method can be given: one of them takes constraints."""
    if problem.constraints and name not in ("auto", "gauss_newton"):
        raise NotSupported(f"{name} takes bounds on parameters, but no other constraints; use solver=\"gauss_newton\".")


def refuse_integrator(problem: Problem, integrator: Integrator) -> None:
    """For a method that simulates: not every scheme can end a step at an event."""
    if getattr(problem.model, "hybrid", False):
        require_events(integrator)


def constrained_solver(problem: Problem, finite: FiniteProblem, iterations: int) -> Any:
    """Gauss-Newton with the problem's constraints between parameters."""
    return GaussNewton(iterations, parameter_constraints(problem, finite.coordinates))
