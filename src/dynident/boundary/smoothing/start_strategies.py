"""Start strategies: from which starts, in which coordinates and in how many stages is the smoother tried until it converges?

0. Along the trajectory that the user gives, if one is given.
1. From the user's start, with logarithms of positive parameters.
2. From parameters that match the rates of the measured states, where the record shows all states.
3. The same with weak model weights first, which let the states follow the record, then stronger ones.
4. From other starts, each a few decades away, matched.
5. From the user's start in the user's own coordinates.
6. From the start without its minus signs, where bounds allow: what runs off with a negative mass may not with a positive one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import casadi as ca
import numpy as np
from scipy.stats import qmc

from dynident.boundary.smoothing.setup import SmoothingSetup
from dynident.boundary.smoothing.weak_constraint import WeakConstraintProblem
from dynident.errors import SimulationDiverged
from dynident.linalg.finite_problem import Variables
from dynident.methods.outer_loop import RunLog, run_solver
from dynident.methods.start_trajectory import StartTrajectory
from dynident.models.equations import EquationModel
from dynident.problem.parameter import InitialState, Parameter, transforms_of
from dynident.problem.problem import Problem
from dynident.solvers.gauss_newton import GaussNewton
from dynident.solvers.safeguards import (
    find_piecewise_constant,
    reject_piecewise_constant,
    typical_change,
    verify_bounded_minimum,
)
from dynident.solvers.solver_result import SolverResult
from dynident.transcription.initial_guess import gradient_matching_start, start_values, states_from_measurements

STAGES = (1e-6, 1e-4, 1e-2, 1.0)  # of the model weights, from weak to what was asked for
RESTART_DECADES = 2.0  # decades to either side over which other starts lie
STABLE = 2.5  # step times spectral radius up to which a Runge-Kutta step stays bounded
MAX_STABILITY_STEPS = 16  # between two samples, for stability; beyond it a better start is the way
SPECTRAL_RADIUS_SAMPLES = 20  # places at which the spectral radius is asked for


@dataclass(frozen=True, eq=False)
class StartStrategy:
    """One way to begin; `inner` gives the problem with its start and coordinates, None where this way does not apply."""

    label: str
    inner: Callable[[], Problem | None]
    stages: tuple[float, ...] = ()  # of the model weights; empty: as asked for at once
    course: StartTrajectory | None = None  # along which it begins; None: where the record shows the states


@dataclass(frozen=True, eq=False)
class StartAttempt:
    """Where one attempt ended."""

    label: str
    finite: WeakConstraintProblem
    outcome: SolverResult
    last: bool = False  # no other can do better: what no derivative shows is not found from elsewhere either


class Trial(NamedTuple):
    """What came of a strategy, or why it could not begin; and what has been spent until then."""

    attempt: StartAttempt | None
    divergence: SimulationDiverged | None
    log: RunLog


def start_strategies(setup: SmoothingSetup) -> tuple[StartStrategy, ...]:
    """All of them in turn; what a later one needs is computed when it is asked for."""
    logarithmic = setup.logarithmic()
    matched = functools.cache(functools.partial(_from_gradient_matching, setup, logarithmic))
    found = [StartStrategy("from the start", lambda: logarithmic), StartStrategy("from matched rates", matched),
             StartStrategy("in stages of the model weight", matched, STAGES)]
    if (course := setup.begin_along()) is not None:
        there = {u.quantity: course.values[u.name] for u in setup.inner.unknowns if u.name in course.values
                 and u.quantity not in setup.problem.model.states}
        found.insert(0, StartStrategy("from the given trajectory", lambda: setup.logarithmic(_starting(setup.inner, there)),
                                      course=course))
    moved = [it for it in logarithmic.parameters if it.free and it.log and it.start]
    for number in range(1, (setup.method.max_restarts if moved else 0) + 1):
        start = functools.partial(_from_another_point, setup, logarithmic, number)
        found.append(StartStrategy(f"from restart {number}", start))
    if logarithmic.parameters != setup.inner.parameters:
        found.append(StartStrategy("from the start, without logarithms", lambda: setup.inner))
    parameters = [it for it in setup.inner.parameters if it.free and _name(it) not in setup.problem.model.states]
    turned = {_name(it): -it.start for it in parameters if it.start is not None and it.start < 0 < it.upper}
    if turned:
        start = functools.partial(_from_positive_values, setup, turned)
        found.append(StartStrategy("from the start without its minus signs", start))
    return tuple(found)


def try_strategy(setup: SmoothingSetup, strategy: StartStrategy, log: RunLog) -> Trial:
    """One attempt, in stages where the strategy asks for them."""
    inner = strategy.inner()
    if inner is None:
        return Trial(None, None, log)
    if strategy.stages:
        return _with_weight_continuation(setup, strategy, inner, log)
    finite = _transcribe(setup, inner, setup.weights)
    begin = finite.start() if strategy.course is None else finite.from_values(strategy.course.variables(finite.full))
    outcome, divergence, log = _solve(setup, finite, begin, log)
    if outcome is None:
        return Trial(None, divergence, log)
    if strategy.course is not None:  # what does not move there may be where it belongs
        return Trial(StartAttempt(strategy.label, finite, outcome), None, log)
    return _escape_stationary_start(setup, StartAttempt(strategy.label, finite, outcome), inner, log)


def _transcribe(setup: SmoothingSetup, inner: Problem, weights: Mapping[str, float]) -> WeakConstraintProblem:
    steps = setup.substeps if setup.substeps is not None else stable_steps(inner)
    return WeakConstraintProblem(inner, setup.method.make_integrator(), steps, setup.first_noise_std, weights,
                                 setup.correlation)


def _solve(setup: SmoothingSetup, finite: WeakConstraintProblem, point: Variables, log: RunLog
            ) -> tuple[SolverResult | None, SimulationDiverged | None, RunLog]:
    """By Gauss-Newton in the coordinates of the attempt; None where it cannot begin, with the reason."""
    solver, log = GaussNewton(setup.method.max_iterations), log.with_counts({"attempts": 1})
    seen, outcome, divergence = dict.fromkeys(finite.counts, 0), None, None
    try:
        found, log = run_solver(solver, finite, point, log, setup.listener)
        seen = dict(finite.counts)
        outcome = verify_bounded_minimum(finite, found, setup.begin(finite.coordinates), setup.printed(),
                                         setup.expects(finite, found), lambda p: solver.solve(finite, p))
    except SimulationDiverged as reason:
        divergence = reason
    return outcome, divergence, log.with_counts({key: count - seen[key] for key, count in finite.counts.items()})


def _escape_stationary_start(setup: SmoothingSetup, attempt: StartAttempt, inner: Problem, log: RunLog) -> Trial:
    """As `solvers/safeguards.py`, with states from the record anew: those of a still parameter would hold it back."""
    finite, outcome = attempt.finite, attempt.outcome
    start = finite.start().unknowns
    states = np.array([u.quantity in setup.problem.model.states for u in inner.unknowns], bool)
    still = (outcome.point.unknowns == start) & (outcome.active_bounds == 0) & ~states
    if not outcome.converged or not np.any(still):
        return Trial(attempt, None, log)
    if np.any(jumps := find_piecewise_constant(finite, outcome, still)):
        outcome = reject_piecewise_constant(outcome, setup.printed(), jumps)
        return Trial(replace(attempt, outcome=outcome, last=True), None, log)
    values = finite.coordinates.values(start + typical_change(finite, start))
    aside = _transcribe(setup, _starting(inner, {u.quantity: float(v) for u, v, is_it in zip(
        inner.unknowns, values, still, strict=True) if is_it}), setup.weights)
    other, divergence, log = _solve(setup, aside, aside.start(), log)
    if other is None or not other.converged or other.evaluation.cost >= outcome.evaluation.cost:
        return Trial(attempt, divergence, log)
    return Trial(StartAttempt(f"{attempt.label}, beside it", aside, other), divergence, log)


def _with_weight_continuation(setup: SmoothingSetup, strategy: StartStrategy, inner: Problem, log: RunLog) -> Trial:
    """Weak model weights first; parameters that may drift do so as asked in every stage."""
    states = setup.problem.model.states
    attempt: StartAttempt | None = None
    for share in strategy.stages:
        finite = _transcribe(setup, inner, {name: w * share if name in states else w for name, w in setup.weights.items()})
        outcome, divergence, log = _solve(setup, finite, finite.start() if attempt is None else attempt.outcome.point, log)
        if outcome is None:
            return Trial(None, divergence, log)
        attempt = StartAttempt(strategy.label, finite, outcome)
        if outcome.interrupted:
            break
    return Trial(attempt, None, log)


def _from_gradient_matching(setup: SmoothingSetup, inner: Problem) -> Problem | None:
    """The inner problem starting from parameters that match the rates."""
    starts = {_name(it): it for it in inner.parameters}
    own = setup.problem.replace(parameters=[
        replace(it, start=starts[_name(it)].start, log=starts[_name(it)].log) if isinstance(it, Parameter) else it
        for it in setup.problem.parameters])
    values = start_values(own)
    coordinates = transforms_of(own, values)
    found = gradient_matching_start(own, coordinates, coordinates.coordinates(values))
    if found is None:
        return None
    values = coordinates.values(found)
    better = {u.quantity: float(v) for u, v in zip(own.unknowns, values, strict=True) if not u.initial}
    return _starting(inner, better)


def _from_another_point(setup: SmoothingSetup, inner: Problem, number: int) -> Problem:
    """Around the first start, parameters that are logarithms spread over decades: always the same ones; matched."""
    moved = [it for it in inner.parameters if it.free and it.log and it.start]
    shares = qmc.Halton(len(moved), scramble=False).random(number + 1)[number]
    other = _starting(inner, {_name(it): float(it.start or 1.0) * 10 ** (RESTART_DECADES * (2 * share - 1))
                              for it, share in zip(moved, shares, strict=True)})
    return _from_gradient_matching(setup, other) or other


def _from_positive_values(setup: SmoothingSetup, turned: Mapping[str, float]) -> Problem:
    positive = setup.logarithmic(_starting(setup.inner, turned))
    return _from_gradient_matching(setup, positive) or positive


def _name(it: Parameter | InitialState) -> str:
    return it.name if isinstance(it, Parameter) else it.state


def _starting(problem: Problem, values: Mapping[str, float]) -> Problem:
    """With other starts, kept within the bounds; a value of one experiment stands for all of them."""
    return problem.replace(parameters=[
        replace(it, start=float(np.clip(values[_name(it)], it.lower, it.upper)))
        if it.free and _name(it) in values and not (it.log and values[_name(it)] <= 0) else it for it in problem.parameters])


def stable_steps(problem: Problem) -> int:
    """How many Runge-Kutta steps per sample stay bounded at the start values, as far as that is not too many."""
    model, start, most = problem.model, start_values(problem), 1.0
    assert isinstance(model, EquationModel)
    nx = len(model.states)
    for e, experiment in enumerate(problem.experiments):
        time = np.asarray(experiment.time)
        if time.size < 2 or not nx:
            continue
        rows = np.unique(np.linspace(0, time.size - 1, SPECTRAL_RADIUS_SAMPLES).astype(int))
        p, x0 = problem.parameters_and_initial_state(start, e)
        states = states_from_measurements(model, experiment, time[rows])
        states = np.where(np.isnan(states), x0, states)
        inputs = np.array([experiment.inputs[name][rows] for name in model.inputs]).reshape(len(model.inputs), rows.size)
        A = np.asarray(_slopes(model, rows.size)(time[None, rows], states.T, inputs, p)).T.reshape(-1, nx, nx)
        A = A[np.all(np.isfinite(A), axis=(1, 2))]  # transposed; the eigenvalues are the same
        if A.size:
            radius = float(np.max(np.abs(np.linalg.eigvals(A))))
            most = max(most, float(np.median(np.diff(time))) * radius / STABLE)
    return int(min(np.ceil(most), MAX_STABILITY_STEPS))


@functools.lru_cache(maxsize=16)
def _slopes(model: EquationModel, count: int) -> ca.Function:
    """d rate / d state at many places."""
    t, x, u, p = (ca.SX.sym(n, k) for n, k in (("t", 1), ("x", len(model.states)), ("u", len(model.inputs)),
                                               ("p", len(model.parameters))))
    return ca.Function("slopes", [t, x, u, p], [ca.vec(ca.densify(ca.jacobian(model.rate(t, x, u, p), x)))]).map(count)
