"""Setup: from what a user gives to the boundary value problem on its first mesh; all faults are told at once."""

from __future__ import annotations

import functools
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.interpolate import PchipInterpolator

from dynident.boundary.solve_bvp.davidenko import Davidenko
from dynident.boundary.solve_bvp.mesh import CollocationMesh, Course, ShootingMesh, scheme_for, split, steps_for
from dynident.boundary.solve_bvp.mesh_state import AdaptiveOptions, BvpSolver, MeshProblem
from dynident.boundary.solve_bvp.newton import DampedNewton
from dynident.boundary.solve_bvp.problem import Statement, trace_problem
from dynident.boundary.solve_bvp.result import BoundarySolution
from dynident.boundary.solve_bvp.root_finding import RootWatch
from dynident.errors import ProblemError, did_you_mean
from dynident.integrators import HIGHEST_DEGREE
from dynident.models.equations import EquationModel

FEWEST_SEGMENTS = 16  # to begin with
TIGHTEST = 1e-12  # tolerance; below it rounding speaks louder
METHODS: dict[str, Callable[..., BvpSolver]] = {"newton": DampedNewton, "davidenko": Davidenko}
STATES_TRIED = 64  # other states at a time at which the rate is not finite for those of the guess


@dataclass(frozen=True, eq=False)
class BoundaryArguments:
    """The arguments of `solve_bvp` as a user gave them, of whatever type."""

    mesh: Any
    guess: Any
    parameters: Any
    states: Any
    output: Any
    tolerance: Any
    method: Any
    integrator: Any
    degree: Any
    scale: Any
    growth: Any
    nodes: Any
    watch: Any


def mesh_problem(rate: Callable[..., Any] | EquationModel, boundary: Callable[..., Any], given: BoundaryArguments,
                 told: RootWatch | None) -> tuple[Statement, MeshProblem, np.ndarray]:
    """What was asked, traced; the problem on its first mesh; the times at which the solution is wanted."""
    faults: list[str] = []
    mesh, wanted = times_of(given.mesh, given.output, faults)
    times = first_nodes(mesh, wanted, given.nodes, faults)
    start = numbers_of("parameters", given.parameters, False, faults)
    sizes = numbers_of("scale", given.scale, True, faults)
    check_names(given.states, start, faults)
    check_numbers(given.tolerance, given.growth, given.watch, faults)
    check_scheme(given.integrator, given.degree, faults)
    solver = solver_of(given.method, given.tolerance, faults)
    course, values = guess_of(given.guess, mesh, times, faults)
    if faults:
        raise ProblemError(faults)
    statement = trace_problem(rate, boundary, values.shape[1], given.states, list(start))
    options = AdaptiveOptions(float(given.tolerance), solver, int(given.nodes), float(given.growth), _sizes(statement, sizes),
                              statement.same_slopes, bool(statement.free))
    steps, p = steps_for(statement, given.integrator, given.degree), np.array(list(start.values()))
    check = functools.partial(_check_start, statement, steps, times, course, p)
    if steps.follows or statement.free:
        check()
    return statement, MeshProblem(steps, statement.ends, times, course, p, options, told, check), wanted


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
    others = values + size * np.random.default_rng(0).standard_normal((STATES_TRIED, values.size))
    name = statement.states[j]
    if np.any(np.isfinite(statement.rates(np.full(STATES_TRIED, t), others, p)[:, j])):
        return (f"The rate of '{name}' is not finite at the guess: t = {t:g}, {_said(statement.states, values)}"
                f"{_said(statement.parameters, p, ', ')}. Begin with another guess.")
    return (f"The rate of '{name}' is not finite at t = {t:g}, neither for the guess nor for {STATES_TRIED} other states, "
            "so that "
            "another guess does not help. If that time alone is to blame, let the mesh begin or end a little beside it, or use "
            'integrator="gauss_legendre", which never asks for the rate at a node.')


def _said(names: Sequence[str], values: np.ndarray, before: str = "") -> str:
    return before * bool(names) + ", ".join(f"{name} = {value:g}" for name, value in zip(names, values, strict=True))


# arguments: each function adds its faults to a list, so that all are told at once, and returns something empty in place of
# what is wrong


def _shown(value: Any) -> str:
    """What was given, in short."""
    if isinstance(value, np.ndarray):
        return reprlib.repr(value.tolist()) if value.ndim == 1 else f"an array of shape {value.shape}"
    return reprlib.repr(value)


def _number(value: Any) -> float:
    """nan where it is none."""
    value = value.item() if isinstance(value, np.ndarray) and value.size == 1 else value
    return float(value) if isinstance(value, Real) and not isinstance(value, bool) else np.nan


def _whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def times_of(mesh: Any, output: Any, faults: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """The mesh as it was given, and the times at which the solution is wanted."""
    given = _increasing("mesh", mesh, faults)
    wanted = given if output is None else _increasing("output", output, faults)
    if given.size and wanted.size and (wanted[0] != given[0] or wanted[-1] != given[-1]):
        faults.append(f"The boundaries are not among the output points (error 121 of the thesis): output runs from "
                      f"{wanted[0]:g} to {wanted[-1]:g}, the problem from {given[0]:g} to {given[-1]:g}. Add both ends.")
    return given, wanted


def _increasing(name: str, given: Any, faults: list[str]) -> np.ndarray:
    try:
        times = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        times = np.zeros(0)
    if times.ndim == 1 and times.size >= 2 and np.all(np.isfinite(times)) and np.all(np.diff(times) > 0):
        return times
    faults.append(f"{name} = {_shown(given if times.ndim == 1 else times)}; give a list of at least two finite times that "
                  "increase, from a to b.")
    return np.zeros(0)


def first_nodes(given: np.ndarray, wanted: np.ndarray, most: Any, faults: list[str]) -> np.ndarray:
    """The nodes to begin with: all of the mesh and of the output, and enough in between."""
    every = np.union1d(given, wanted)
    pieces = np.maximum(1, np.ceil(np.diff(every) / np.ptp(every) * FEWEST_SEGMENTS - 1e-9)).astype(int) if every.size else []
    times = split(every, np.asarray(pieces)) if every.size else every
    if not _whole(most) or most < max(times.size, 2):
        faults.append(f"nodes = {_shown(most)}; give a whole number from {max(times.size, FEWEST_SEGMENTS + 1)} on: the search "
                      f"begins with every time of mesh and output, and with {FEWEST_SEGMENTS} segments at the least.")
    return times


def numbers_of(name: str, given: Any, positive: bool, faults: list[str]) -> dict[str, float]:
    """Numbers by name; none where nothing was given."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        faults.append(f"{name} = {_shown(given)}; give a dict from name to number, such as {name}={{'a': 1.0}}.")
        return {}
    numbers = {key: _number(value) for key, value in given.items()}
    faults += [f"{name}['{key}'] = {_shown(given[key])}; use a {'positive' if positive else 'finite'} number."
               for key, value in numbers.items() if not np.isfinite(value) or (positive and value <= 0)]
    return numbers


def check_names(states: Any, parameters: Iterable[str], faults: list[str]) -> None:
    if states is None:
        return
    if isinstance(states, str) or not isinstance(states, Iterable) or not all(isinstance(name, str) for name in states):
        faults.append(f"states = {_shown(states)}; give a list of names, one per state.")
        return
    names = [*states, *parameters]
    faults += [f"'{name}' names two things; every state and parameter needs a name of its own."
               for name in dict.fromkeys(names) if names.count(name) > 1]


def check_numbers(tolerance: Any, growth: Any, watch: Any, faults: list[str]) -> None:
    if not TIGHTEST <= _number(tolerance) < 1:
        faults.append(f"tolerance = {_shown(tolerance)}; use a number from {TIGHTEST:g} to below 1.")
    if not _number(growth) > 1:
        faults.append(f"growth = {_shown(growth)}; use a number above 1.")
    if watch is not None and not callable(watch):
        faults.append(f"watch = {_shown(watch)}; give a function that takes an iteration, or leave it out.")


def check_scheme(integrator: Any, degree: Any, faults: list[str]) -> None:
    if not isinstance(integrator, str):
        faults.append(f"integrator = {_shown(integrator)}; give its name, such as \"gauss_legendre\".")
    elif degree is not None and not _whole(degree):
        faults.append(f"degree = {_shown(degree)}; give a whole number from 1 to {HIGHEST_DEGREE}, or leave it out.")
    else:
        try:
            scheme_for(integrator, degree)
        except ProblemError as error:
            faults += error.faults


def solver_of(method: Any, tolerance: Any, faults: list[str]) -> BvpSolver | None:
    """None: what Newton and its rescues do on their own."""
    known = ("auto", *METHODS)
    if isinstance(method, BvpSolver):
        return method
    if not isinstance(method, str):
        faults.append(f"method = {_shown(method)}; use one of {', '.join(known)}, or a solver such as "
                      "DampedNewton(max_iterations=50).")
    elif method not in known:
        faults.append(f"There is no method '{method}'.{did_you_mean(method, known)}")
    return METHODS[method](tolerance=0.1 * _number(tolerance)) if method in METHODS else None


class GuessFunction:
    """A guess as the user's function of one time, asked at many: every answer is as long as the first."""

    def __init__(self, function: Callable[[float], Any], begin: float):
        self.function, self.begin = function, begin
        self.states = self.at(begin).size
        self.values = functools.lru_cache(maxsize=1)(self._values)  # the first mesh is asked for several times

    def at(self, t: float) -> np.ndarray:
        try:
            answer = self.function(t)
        except Exception as error:
            raise ProblemError(f"The guess function raised {type(error).__name__} at t = {t:g}: {str(error).rstrip('.')}. It "
                               "is asked for one time, anywhere from a to b, and returns one number per state.") from error
        try:
            return np.asarray(answer, dtype=float).ravel()
        except (TypeError, ValueError):
            raise ProblemError(f"The guess function returned {_shown(answer)} at t = {t:g}; return one number per state."
                               ) from None

    def __call__(self, t: np.ndarray) -> np.ndarray:
        return self.values(np.asarray(t, dtype=float).tobytes())

    def _values(self, times: bytes) -> np.ndarray:
        t = np.frombuffer(times)
        answers = [self.at(float(each)) for each in t]
        for each, answer in zip(t, answers, strict=True):
            if answer.size != self.states:
                raise ProblemError(f"The guess function returned {answer.size} numbers at t = {each:g}, but {self.states} at "
                                   f"t = {self.begin:g}; return one number per state.")
        values = np.array(answers).reshape(len(t), self.states)
        values.flags.writeable = False  # they are kept
        return values


def guess_of(guess: Any, mesh: np.ndarray, times: np.ndarray, faults: list[str]) -> tuple[Course, np.ndarray]:
    """The guess as a function of many times, and its values at the first nodes; without times nothing can be said of it."""
    try:
        if mesh.size:
            return _guess(guess, mesh, times)
    except ProblemError as error:
        faults += error.faults
    return lambda t: np.zeros((len(t), 0)), np.zeros((0, 0))


def _guess(guess: Any, mesh: np.ndarray, times: np.ndarray) -> tuple[Course, np.ndarray]:
    course: Course
    if isinstance(guess, BoundarySolution):
        course = guess
    elif callable(guess):
        course = GuessFunction(guess, float(mesh[0]))
    else:
        course = _tabulated(guess, mesh)
    values = np.asarray(course(times))
    bad = np.argwhere(~np.isfinite(values))
    if bad.size:
        k, j = bad[0]
        raise ProblemError(f"The guess is not finite everywhere: state {j + 1} is {values[k, j]:g} at t = {times[k]:g}. Give "
                           "finite numbers.")
    return course, values


def _tabulated(guess: Any, mesh: np.ndarray) -> Course:
    try:
        array = np.asarray(guess, dtype=float)
    except (TypeError, ValueError):
        raise ProblemError(f"guess = {_shown(guess)}; give a function of t, an array of numbers (mesh, states), or one number "
                           "per state.") from None
    if array.ndim == 2 and array.shape[0] == mesh.size:
        if not np.all(np.isfinite(array)):
            raise ProblemError("The guess is not finite everywhere. Give finite numbers.")
        return PchipInterpolator(mesh, array, axis=0)  # no overshoot
    if array.ndim <= 1 and array.size:
        return lambda t: np.tile(array.ravel(), (len(t), 1))
    raise ProblemError(f"guess has shape {array.shape}; give one row per time of the mesh ({mesh.size}, states), one number "
                       "per state, or a function of t.")
