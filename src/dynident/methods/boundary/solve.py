"""Solve: y' = f(t, y, p) with conditions at both ends; what does a user say, and what comes back?"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.interpolate import PchipInterpolator

from dynident.errors import ProblemError, did_you_mean
from dynident.methods.boundary.mesh import Course, split, steps_for
from dynident.methods.boundary.result import BoundarySolution
from dynident.methods.boundary.search import BADLY_CONDITIONED, Options, Search, Solver
from dynident.methods.boundary.statement import Statement, statement_of
from dynident.models.equations import EquationModel
from dynident.solvers.davidenko import Davidenko
from dynident.solvers.newton import DampedNewton
from dynident.solvers.square import Watch

FEWEST_SEGMENTS = 16  # to begin with
TIGHTEST = 1e-12  # tolerance; below it rounding speaks louder
METHODS: dict[str, Callable[..., Solver]] = {"newton": DampedNewton, "davidenko": Davidenko}


def solve_boundary_value(rate: Callable[..., Any] | EquationModel, boundary: Callable[..., Any], mesh: Sequence[float],
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
    times, wanted = _times(mesh, output)
    start = dict(parameters or {})
    values, count = _guess(guess, np.asarray(mesh, dtype=float))
    statement = statement_of(rate, boundary, count, states, list(start))
    options = _options(statement, tolerance, method, growth, nodes, scale)
    p = np.array([float(v) for v in start.values()])
    _check_start(statement, times, values(times), p)
    search = Search(steps_for(statement, integrator, degree), statement.ends, times, values, p, options, watch)
    found, reason, code = search.run()
    return _solution(statement, search, found, reason, code, wanted, time.perf_counter() - began)


def _times(mesh: Sequence[float], output: Sequence[float] | None) -> tuple[np.ndarray, np.ndarray]:
    """All nodes to begin with, and those that are asked for."""
    faults = []
    times = np.asarray(mesh, dtype=float).ravel()
    wanted = times if output is None else np.asarray(output, dtype=float).ravel()
    for name, each in (("mesh", times), ("output", wanted)):
        if each.size < 2 or not np.all(np.isfinite(each)) or not np.all(np.diff(each) > 0):
            faults.append(f"{name} must be at least two finite times that increase: from a to b.")
    if not faults and (wanted[0] != times[0] or wanted[-1] != times[-1]):
        faults.append(f"The boundaries are not among the output points (error 121 of the thesis): output runs from "
                      f"{wanted[0]:g} to {wanted[-1]:g}, the problem from {times[0]:g} to {times[-1]:g}. Add both ends.")
    if faults:
        raise ProblemError(faults)
    every = np.union1d(times, wanted)
    pieces = np.maximum(1, np.ceil(np.diff(every) / (every[-1] - every[0]) * FEWEST_SEGMENTS - 1e-9)).astype(int)
    return split(every, pieces), wanted


def _guess(guess: Any, mesh: np.ndarray) -> tuple[Course, int]:
    """The guess as a function of many times, and how many states it has."""
    if isinstance(guess, BoundarySolution):
        return guess, len(guess.names)
    if callable(guess):
        first = np.asarray(guess(float(mesh[0])), dtype=float).ravel()

        def asked(t: np.ndarray) -> np.ndarray:
            return np.array([np.asarray(guess(float(each)), dtype=float).ravel() for each in t]).reshape(len(t), first.size)

        return asked, first.size
    try:
        array = np.asarray(guess, dtype=float)
    except (TypeError, ValueError):
        raise ProblemError("guess must be a function of t, an array of numbers (mesh, states), or one number per state."
                           ) from None
    if array.ndim == 2 and array.shape[0] == mesh.size:
        return PchipInterpolator(mesh, array, axis=0), array.shape[1]  # no overshoot
    if array.ndim <= 1 and array.size:
        constant = array.ravel()
        return (lambda t: np.tile(constant, (len(t), 1))), constant.size
    raise ProblemError(f"guess has shape {array.shape}; give one row per time of the mesh ({mesh.size}, states), one number "
                       "per state, or a function of t.")


def _options(statement: Statement, tolerance: float, method: str | Solver, growth: float, nodes: int,
             scale: Mapping[str, float] | None) -> Options:
    faults = []
    if not TIGHTEST <= tolerance < 1:
        faults.append(f"tolerance = {tolerance!r}; use a number from {TIGHTEST:g} to below 1.")
    if not growth > 1:
        faults.append(f"growth = {growth!r}; use a number above 1.")
    if isinstance(method, str) and method not in ("auto", *METHODS):
        faults.append(f"There is no method '{method}'.{did_you_mean(method, ['auto', *METHODS])}")
    names = (*statement.states, *statement.parameters)
    faults += [f"scale['{name}']: there is no such state or parameter.{did_you_mean(name, names)}"
               for name in scale or {} if name not in names]
    faults += [f"scale['{name}'] = {value!r}; use a positive number." for name, value in (scale or {}).items()
               if not (np.isfinite(value) and value > 0)]
    if faults:
        raise ProblemError(faults)
    solver: Solver | None = None
    if not isinstance(method, str):
        solver = method
    elif method != "auto":
        solver = METHODS[method](tolerance=0.1 * tolerance)
    return Options(tolerance, solver, nodes, growth, np.array([float((scale or {}).get(name, np.nan)) for name in names]))


def _check_start(statement: Statement, times: np.ndarray, values: np.ndarray, p: np.ndarray) -> None:
    """Nothing is solved from a guess at which the problem is not finite."""
    said = ", ".join(f"{name} = {value:g}" for name, value in zip(statement.parameters, p, strict=True))
    if not np.all(np.isfinite(values)) or not np.all(np.isfinite(p)):
        raise ProblemError("The guess is not finite everywhere; give finite numbers.")
    rates = statement.rates(times, values, p)
    bad = np.argwhere(~np.isfinite(rates))
    if bad.size:
        k, j = bad[0]
        at = ", ".join(f"{name} = {value:g}" for name, value in zip(statement.states, values[k], strict=True))
        raise ProblemError(f"The rate of '{statement.states[j]}' is not finite at the guess: t = {times[k]:g}, {at}"
                           f"{', ' + said if said else ''}. Begin with another guess.")
    statement.ends.value(values[0], values[-1], p)


def _solution(statement: Statement, search: Search, found: bool, reason: str, code: int, wanted: np.ndarray,
              seconds: float) -> BoundarySolution:
    condition = search.condition
    sizes = dict(zip((*statement.states, *statement.parameters), search.sizes.tolist(), strict=True))
    fractions, inside = search.steps.fractions, search.inside
    if not found or inside is None:  # no solution: straight lines between nodes
        fractions, inside = np.array([0.0, 1.0]), np.stack([search.nodes[:-1], search.nodes[1:]], axis=1)
    warnings = []
    if not condition <= BADLY_CONDITIONED:
        warnings.append(f"The condition number is {condition:.1e}, above 1e8: half of the digits or more are lost, and the "
                        "conditions at the ends may not determine the solution.")
    return BoundarySolution(
        search.times, search.nodes, statement.states,
        dict(zip(statement.parameters, (float(v) for v in search.p), strict=True)), found,
        _sentence(search, found, reason, code), code, search.error if found else np.nan, search.options.tolerance, sizes,
        condition, tuple(search.pages), tuple(search.rounds), search.evaluations, tuple(warnings), wanted, fractions, inside,
        seconds)


def _sentence(search: Search, found: bool, reason: str, code: int) -> str:
    told = "; ".join(search.story)
    story = f" {told[0].upper()}{told[1:]}." if told else ""
    work = f"{len(search.pages)} iterations on {len(search.rounds)} meshes, the last of {len(search.times)} nodes"
    if found:
        return f"Converged: {work}; estimated error {search.error:.1e}.{story}"
    number = f" (error {code} of the thesis)" if code else ""
    return f"Not converged after {work}: {reason}{number}.{story}"
