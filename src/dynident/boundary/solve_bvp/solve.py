"""Solve: y' = f(t, y, p) with conditions at both ends; what does a user say, and what comes back?"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dynident.boundary.solve_bvp import arguments
from dynident.boundary.solve_bvp.adaptive import BADLY_CONDITIONED, solve_adaptively
from dynident.boundary.solve_bvp.mesh import CollocationMesh, Course, ShootingMesh, steps_for
from dynident.boundary.solve_bvp.mesh_state import AdaptiveOptions, MeshProblem, MeshState, MeshVerdict, Solver
from dynident.boundary.solve_bvp.problem import Statement, trace_problem
from dynident.boundary.solve_bvp.result import BoundarySolution
from dynident.boundary.solve_bvp.root_finding import ILL_POSED, Watch
from dynident.errors import ProblemError, did_you_mean
from dynident.models.equations import EquationModel
from dynident.solvers.solver_result import iterations_in_words

TRIED = 64  # other states at a time at which the rate is not finite for those of the guess


def solve_bvp(rate: Callable[..., Any] | EquationModel, boundary: Callable[..., Any], mesh: Sequence[float],
                         guess: Any, *, parameters: Mapping[str, float] | None = None,
                         states: Sequence[str] | None = None, output: Sequence[float] | None = None,
                         tolerance: float = 1e-6, method: str | Solver = "auto", integrator: str = "gauss_legendre",
                         degree: int | None = None, scale: Mapping[str, float] | None = None, growth: float = 100.0,
                         nodes: int = 20_000, watch: Watch | None = None) -> BoundarySolution:
    """Solve y' = rate(t, y, p), boundary(y(a), y(b), p) = 0 for y(t) and, where there are any, the unknown parameters p.

    `rate` returns a rate per state, `boundary` as many numbers that shall be zero as there are states and parameters; both
    are traced once with symbols (use `dynident.maths`), and leave p out where there is none. `mesh`: times from a to b, at
    least these two; more nodes are added where they are needed. `guess`: a function of t, an array (mesh, states), one value
    per state, or an earlier solution. `parameters`: names and start values of the unknown ones. `output`: times at which the
    solution is wanted; a and b among them. `tolerance`: largest error, relative to each state's largest value (or to `scale`).
    `method`: "auto" (Newton, and what it takes if that fails), "newton", "davidenko" or a solver with options of its own.
    `integrator`: implicit schemes are collocation, explicit ones multiple shooting; `degree`: stages where they can be chosen.
    `growth`: most that a change may grow over a segment. `nodes`: most nodes.

    Never raises for a solution that is not found: `converged` is False and `status` says why.
    """
    began = time.perf_counter()
    faults: list[str] = []
    given, wanted = arguments.times_of(mesh, output, faults)
    times = arguments.first_nodes(given, wanted, nodes, faults)
    start = arguments.numbers_of("parameters", parameters, False, faults)
    sizes = arguments.numbers_of("scale", scale, True, faults)
    arguments.check_names(states, start, faults)
    arguments.check_numbers(tolerance, growth, watch, faults)
    arguments.check_scheme(integrator, degree, faults)
    solver = arguments.solver_of(method, tolerance, faults)
    course, values = arguments.guess_of(guess, given, times, faults)
    if faults:
        raise ProblemError(faults)
    statement = trace_problem(rate, boundary, values.shape[1], states, list(start))
    options = AdaptiveOptions(float(tolerance), solver, int(nodes), float(growth), _sizes(statement, sizes),
                      statement.same_slopes, bool(statement.free))
    steps, p = steps_for(statement, integrator, degree), np.array(list(start.values()))
    _check_start(statement, steps, times, course, p)
    problem = MeshProblem(steps, statement.ends, times, course, p, options, watch)
    return _solution(statement, problem, solve_adaptively(problem), wanted, time.perf_counter() - began)


def _sizes(statement: Statement, scale: Mapping[str, float]) -> np.ndarray:
    """(states + parameters,) typical sizes, nan where none was given."""
    names = (*statement.states, *statement.parameters)
    faults = [f"scale['{name}']: there is no such state or parameter.{did_you_mean(name, names)}"
              for name in scale if name not in names]
    if faults:
        raise ProblemError(faults)
    return np.array([scale.get(name, np.nan) for name in names])


def _check_start(statement: Statement, steps: ShootingMesh | CollocationMesh, times: np.ndarray, course: Course,
                 p: np.ndarray) -> None:
    """Nothing is solved from a guess at which the problem is not finite; the rate is asked where the scheme will ask it."""
    at = np.unique(times[:-1, None] + steps.asked * np.diff(times)[:, None])
    values = course(at)
    faults = []
    bad = np.argwhere(~np.isfinite(statement.rates(at, values, p)))
    if bad.size:
        k, j = bad[0]
        faults.append(_rate_fault(statement, j, at[k], values[k], p))
    begin, end = course(times[[0, -1]])
    for k in np.flatnonzero(~np.isfinite(statement.values(begin, end, p))):
        where = f"{_said(statement.states, begin)} at the begin, {_said(statement.states, end)} at the end"
        faults.append(f"Condition {k + 1} at the ends is not finite at the guess: {where}"
                      f"{_said(statement.parameters, p, ', ')}. Begin with another guess.")
    if faults:
        raise ProblemError(faults)


def _rate_fault(statement: Statement, j: int, t: float, values: np.ndarray, p: np.ndarray) -> str:
    """Whether the guess is to blame, or the time."""
    size = np.where(values == 0, 1.0, np.abs(values))
    others = values + size * np.random.default_rng(0).standard_normal((TRIED, values.size))
    name = statement.states[j]
    if np.any(np.isfinite(statement.rates(np.full(TRIED, t), others, p)[:, j])):
        return (f"The rate of '{name}' is not finite at the guess: t = {t:g}, {_said(statement.states, values)}"
                f"{_said(statement.parameters, p, ', ')}. Begin with another guess.")
    return (f"The rate of '{name}' is not finite at t = {t:g}, neither for the guess nor for {TRIED} other states, so that "
            "another guess does not help. If that time alone is to blame, let the mesh begin or end a little beside it, or use "
            'integrator="gauss_legendre", which never asks for the rate at a node.')


def _said(names: Sequence[str], values: np.ndarray, before: str = "") -> str:
    return before * bool(names) + ", ".join(f"{name} = {value:g}" for name, value in zip(names, values, strict=True))


def _solution(statement: Statement, problem: MeshProblem, state: MeshState, wanted: np.ndarray, seconds: float
              ) -> BoundarySolution:
    shown, verdict, condition = state.shown, state.verdict, state.condition
    assert verdict is not None and shown.sizes is not None
    fractions, inside = problem.steps.fractions, shown.inside
    if inside is None:  # no mesh was solved: straight lines between nodes
        fractions, inside = np.array([0.0, 1.0]), np.stack([shown.nodes[:-1], shown.nodes[1:]], axis=1)
    no_guess_helps = statement.same_slopes or bool(statement.free)
    status = _success if verdict.found else _failure
    return BoundarySolution(
        shown.times, shown.nodes, statement.states,
        dict(zip(statement.parameters, (float(v) for v in shown.p), strict=True)), verdict.found,
        status(state, verdict, no_guess_helps), verdict.code, verdict.error, problem.options.tolerance,
        dict(zip((*statement.states, *statement.parameters), shown.sizes.tolist(), strict=True)), condition, state.pages,
        state.rounds, state.evaluations, _warnings(verdict, condition, statement.same_slopes), wanted, fractions, inside,
        seconds)


def _warnings(verdict: MeshVerdict, condition: float, same_slopes: bool) -> tuple[str, ...]:
    if verdict.loose:
        double = "" if same_slopes else ", or one where two meet"
        return (f"Linearised at the solution, the equations cannot be told from singular ones on this mesh (condition "
                f"number {condition:.1e}): it is one of many{double}, unless a finer mesh shows that they are only "
                "close to singular. Change a condition at the ends so that one solution is singled out.",)
    if not condition <= BADLY_CONDITIONED:
        return (f"The condition number is {condition:.1e}, above 1e8: half of the digits or more are lost, and the "
                "conditions at the ends may not determine the solution.",)
    return ()


def _success(state: MeshState, verdict: MeshVerdict, same_slopes: bool) -> str:
    if not verdict.loose:
        return f"Converged: {_work(state)}; estimated error {verdict.error:.1e}.{_story(state)}"
    what = "one of many solutions, as far as this mesh can tell" if same_slopes else "what may be one of many solutions"
    return (f"Converged to {what} (see the warning): {_work(state)}; estimated distance to the nearest {verdict.error:.1e}."
            f"{_story(state)}")


def _failure(state: MeshState, verdict: MeshVerdict, no_guess_helps: bool) -> str:
    number = f" (error {verdict.code} of the thesis)" if verdict.code else ""
    way = ""
    if verdict.code == ILL_POSED and no_guess_helps:
        way = (" The derivatives of these equations are the same for every state and parameter, so that every guess ends like "
               "this one: change the conditions at the ends.")
    elif verdict.code == ILL_POSED:
        where = "at the point that was reached" if state.pages else "at the guess"
        way = (f" This is known {where} only: begin with another guess; if all end like this one, the solution may be one of "
               "many: change the conditions at the ends.")
    return f"Not converged: stopped {verdict.reason}{number}, after {_work(state)}.{way}{_story(state)}"


def _work(state: MeshState) -> str:
    meshes = f"{len(state.rounds)} mesh{'es' * (len(state.rounds) != 1)}"
    return f"{iterations_in_words(len(state.pages))} on {meshes}, the last of {len(state.shown.times)} nodes"


def _story(state: MeshState) -> str:
    told = "; ".join(state.story)
    return f" {told[0].upper()}{told[1:]}." if told else ""
