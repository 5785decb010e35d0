"""Smoothing route: from a start through a model that may err to the model that may not.

States at every sample are unknowns that follow the record, so that a start hardly matters; the smaller the weight of the
model, the less. What the smoother finds is made strong: the same trajectory with segments that must meet, or, where that
does not close, with one simulation per record. Each step is a function of plain data, so that it can run in any process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dynident.automatic.starts import Start
from dynident.boundary.smoothing.method import BoundaryValueMethod
from dynident.boundary.smoothing.setup import SmoothingSetup, setup_of
from dynident.boundary.smoothing.start_strategies import stable_steps
from dynident.boundary.smoothing.weak_constraint import WeakConstraintProblem
from dynident.errors import NotSupported, ProblemError, SimulationDiverged
from dynident.methods.noise_estimation import outputs_with_unknown_noise, signal_std
from dynident.methods.open_loop import Residuals
from dynident.methods.start_trajectory import StartTrajectory
from dynident.problem.parameter import InitialState, Parameter
from dynident.problem.problem import Problem
from dynident.solvers.gauss_newton import GaussNewton
from dynident.solvers.levenberg_marquardt import LevenbergMarquardt
from dynident.solvers.solver_result import SolverResult
from dynident.statistics.residual_statistics import NORMAL_MEDIAN
from dynident.tolerances import LINKED_DEFECT
from dynident.transcription.parameter_constraints import parameter_constraints
from dynident.transcription.shooting import Shooting, default_segments

SMOOTHING_ITERATIONS = 50
STRONG_ITERATIONS = 30
LONGEST_SMOOTHED_PART = 5000  # samples; of longer records the smoother sees a part, and the last fit all
NOISE_ORDER = 3  # of the differences from which noise is read off a record
NOISE_GAIN = 20.0  # variance of a third difference of white noise of variance one
LEAST_NOISE = 1e-4  # of a signal's spread: records without noise still have a size


@dataclass(frozen=True, eq=False)
class Smoothed:
    """What a smoother found from a start, at a share of the model weight."""

    start: Start
    course: StartTrajectory
    cost: float
    converged: bool
    share: float  # of the model weight
    spent: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Strong:
    """What became of it under a model that may not err: residuals of one simulation per record."""

    course: StartTrajectory
    residuals: Residuals
    converged: bool
    spent: Mapping[str, int]


@dataclass(frozen=True, eq=False)
class SmoothingRoute:
    """A problem as a smoother takes it: without bounds on states, of long records a part."""

    problem: Problem
    setup: SmoothingSetup
    noise_std: Mapping[str, float]  # of outputs without a std

    def __reduce__(self) -> tuple:  # to other processes goes what it is made of
        return smoothing_route, (self.problem,)

    @property
    def shortened(self) -> bool:
        """Whether it sees a part of the records only."""
        return any(a.samples != b.samples for a, b in zip(self.problem.experiments, self.setup.problem.experiments,
                                                          strict=True))

    @property
    def constraints(self) -> tuple[Any, ...]:
        """Those between parameters, which every fit of the route keeps."""
        states = self.problem.model.states
        return tuple(c for c in self.problem.constraints if not c.of_states(states))

    def inner(self, start: Start) -> Problem:
        """The smoother's problem from a start, with logarithms of what is positive there."""
        declared = {it.state for it in self.setup.inner.parameters if isinstance(it, InitialState)}
        moved = [_moved(it, {**start.parameters, **start.first_states}) for it in self.setup.inner.parameters]
        moved += [InitialState(s, start=v) for s, v in start.first_states.items() if s not in declared]
        begun = self.setup.inner.replace(parameters=moved, constraints=self.constraints)
        return begun if start.signed else self.setup.logarithmic(begun)


def smoothing_route(problem: Problem) -> SmoothingRoute | None:
    """None where a smoother cannot take the problem: modes, black boxes, no states, long records that went through a filter."""
    try:
        part = problem.replace(constraints=(), experiments=first_parts(problem, LONGEST_SMOOTHED_PART))
        setup = setup_of(BoundaryValueMethod(), part)
    except (NotSupported, ProblemError):
        return None
    return SmoothingRoute(problem, setup, noise_from_differences(part)) if setup.weights else None


def first_parts(problem: Problem, most: int) -> list[Any]:
    """The begin of each record, as many samples in all."""
    total = sum(e.samples for e in problem.experiments)
    if total <= most:
        return list(problem.experiments)
    keep = [max(2, round(e.samples * most / total)) for e in problem.experiments]
    return [e.window(float(e.time[0]), float(e.time[k - 1])) for e, k in zip(problem.experiments, keep, strict=True)]


def _moved(it: Parameter | InitialState, values: Mapping[str, float]) -> Parameter | InitialState:
    name = it.name if isinstance(it, Parameter) else it.state
    if not it.free or name not in values or (it.log and values[name] <= 0):
        return it
    return replace(it, start=float(np.clip(values[name], it.lower, it.upper)))


def noise_from_differences(problem: Problem) -> dict[str, float]:
    """Noise of outputs without a std, from third differences of the record: what no smooth signal has."""
    found = {}
    for name in outputs_with_unknown_noise(problem):
        sizes = []
        for experiment in problem.experiments:
            y = np.asarray(experiment.outputs.get(name, ()), float)
            rough = np.abs(np.diff(y[np.isfinite(y)], NOISE_ORDER))
            if rough.size:
                sizes.append(float(np.median(rough)) / NORMAL_MEDIAN / np.sqrt(NOISE_GAIN))
        found[name] = max(float(np.median(sizes)) if sizes else 0.0, LEAST_NOISE * signal_std(problem, name))
    return found


def smooth(route: SmoothingRoute, start: Start, share: float = 1.0, course: StartTrajectory | None = None,
           iterations: int = SMOOTHING_ITERATIONS) -> Smoothed | None:
    """The smoother at a share of the model weight, from a start or along a course; None where it diverges."""
    inner, setup = route.inner(start), route.setup
    weights = {name: w * share for name, w in setup.weights.items()}
    try:
        finite = WeakConstraintProblem(inner, setup.method.make_integrator(), stable_steps(inner), route.noise_std, weights)
        begin = finite.start() if course is None else finite.from_values(course.variables(finite.full))
        outcome = _keeping(inner, finite, iterations).solve(finite, begin)
    except (SimulationDiverged, np.linalg.LinAlgError):
        return None
    found = StartTrajectory(_values(finite, outcome), [r.grid.time for r in finite.records],
                            [finite.states(outcome.point, e) for e in range(len(finite.records))])
    return Smoothed(start, found, outcome.evaluation.cost, outcome.converged, share, dict(finite.counts))


def strengthen(route: SmoothingRoute, smoothed: Smoothed, iterations: int = STRONG_ITERATIONS) -> Strong | None:
    """The course with segments that must meet; where these do not, one simulation per record; None where it diverges."""
    inner = route.inner(smoothed.start)
    segments = [default_segments(e.samples) for e in inner.experiments]
    linked = _solve(route, inner, segments, smoothed.course, partial(_keeping, iterations=iterations))
    if linked is not None and linked[0].converged and linked[0].evaluation.max_defect <= LINKED_DEFECT:
        return _strong(linked, {})
    before = {} if linked is None else dict(linked[1].counts)
    course = smoothed.course if linked is None else replace(smoothed.course, values=_values(linked[1], linked[0]))
    solver = partial(_keeping, iterations=iterations) if inner.constraints else lambda *_: LevenbergMarquardt(iterations)
    single = _solve(route, inner, [1] * len(segments), replace(course, times=(), states=()), solver)
    return None if single is None else _strong(single, before)


def _solve(route: SmoothingRoute, inner: Problem, segments: list[int], course: StartTrajectory,
           solver_of: Callable[[Problem, Any], Any]) -> tuple[SolverResult, Shooting] | None:
    try:
        shooting = Shooting(inner, route.setup.method.make_integrator(), segments, stable_steps(inner), route.noise_std)
        return solver_of(inner, shooting).solve(shooting, course.variables(shooting)), shooting
    except (SimulationDiverged, np.linalg.LinAlgError):
        return None


def _keeping(inner: Problem, finite: Any, iterations: int) -> GaussNewton:
    """Gauss-Newton that keeps the constraints between parameters, where there are any."""
    return GaussNewton(iterations, parameter_constraints(inner, finite.coordinates) if inner.constraints else None)


def _strong(found: tuple[SolverResult, Shooting], before: Mapping[str, int]) -> Strong | None:
    outcome, shooting = found
    try:
        runs = shooting.run(outcome.point, False)
    except SimulationDiverged:
        return None
    names, experiments = shooting.problem.model.outputs, shooting.problem.experiments
    residuals = [{name: np.asarray(e.outputs[name], float) - run.outputs[r.grid.offset:, names.index(name)]
                  for name in e.outputs} for e, r, run in zip(experiments, shooting.records, runs, strict=True)]
    course = StartTrajectory(_values(shooting, outcome), [r.grid.time for r in shooting.records],
                             [run.states.copy() for run in runs])
    spent = {key: count + before.get(key, 0) for key, count in shooting.counts.items()}
    return Strong(course, residuals, outcome.converged, spent)


def _values(finite: Any, outcome: SolverResult) -> dict[str, float]:
    values = finite.coordinates.values(outcome.point.unknowns)
    return dict(zip(finite.names, (float(v) for v in values), strict=True))
