"""Start strategies: from which starts, in which coordinates and in how many stages is the smoother tried until it converges?

1. From the user's start, with logarithms of positive parameters.
2. From parameters that match the rates of the measured states, where the record shows all states.
3. The same with weak model weights first, which let the states follow the record, then stronger ones.
4. From other starts, each a few decades away, matched.
5. From the user's start in the user's own coordinates.
6. From the start without its minus signs, where bounds allow: what runs off with a negative mass may not with a positive one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import casadi as ca
import numpy as np
from scipy.stats import qmc

from dynident.boundary.smoothing.setup import SmoothingSetup
from dynident.boundary.smoothing.weak_constraint import WeakConstraintProblem
from dynident.errors import SimulationDiverged
from dynident.linalg.finite_problem import Variables
from dynident.models.equations import EquationModel
from dynident.problem.parameter import InitialState, Parameter
from dynident.problem.problem import Problem
from dynident.problem.transforms import transforms_of
from dynident.solvers.gauss_newton import GaussNewton
from dynident.solvers.solver_result import SolverResult, Watch
from dynident.solvers.stationary_start import find_piecewise_constant, reject_piecewise_constant, typical_change
from dynident.solvers.unbounded_minimum import verify_bounded_minimum
from dynident.transcription.gradient_matching import gradient_matching_start
from dynident.transcription.initial_guess import start_values, states_from_measurements

STAGES = (1e-6, 1e-4, 1e-2, 1.0)  # of the model weights, from weak to what was asked for
SPREAD = 2.0  # decades to either side over which other starts lie
STABLE = 2.5  # step times spectral radius up to which a Runge-Kutta step stays bounded
MOST_STEPS = 16  # between two samples, for stability; beyond it a better start is the way
LOOKS = 20  # places at which the spectral radius is asked for


@dataclass(frozen=True, eq=False)
class StartAttempt:
    """Where one attempt ended."""

    label: str
    finite: WeakConstraintProblem
    outcome: SolverResult
    last: bool = False  # no other can do better: what no derivative shows is not found from elsewhere either


class StartStrategies:
    """Tries one after the other; what happens goes to `watch` with the finite problem it happened in."""

    def __init__(self, setup: SmoothingSetup, sizes: Mapping[str, float], steps: int | None, iterations: int,
                 watch: Callable[[WeakConstraintProblem], Watch], counts: dict[str, int],
                 expected: Callable[[WeakConstraintProblem, SolverResult], bool]):
        self.setup, self.sizes, self.steps, self.iterations, self.watch = setup, sizes, steps, iterations, watch
        self.expected = expected  # whether a sum is known to be no larger than the weights let expect
        self.wall: SimulationDiverged | None = None  # why an attempt could not begin
        self.counts = counts  # simulations, jacobians, iterations and attempts, which go on

    def smoothing(self, inner: Problem, weights: Mapping[str, float]) -> WeakConstraintProblem:
        steps = self.steps if self.steps is not None else stable_steps(inner)
        return WeakConstraintProblem(inner, self.setup.method.make_integrator(), steps, self.sizes, weights)

    def run(self) -> Iterator[StartAttempt]:
        """Attempts in turn; the caller stops where one is good enough."""
        setup = self.setup
        logarithmic = setup.logarithmic()
        yield from self.tried("from the start", logarithmic)
        matched = self.matched(logarithmic)
        if matched is not None:
            yield from self.tried("from matched rates", matched)
            yield from self.staged("in stages of the model weight", matched)
        for number, other in enumerate(_other_starts(logarithmic, setup.method.max_restarts), 1):
            label = f"from restart {number}"
            yield from self.tried(label, self.matched(other) or other)
        if logarithmic.parameters != setup.inner.parameters:
            yield from self.tried("from the start, without logarithms", setup.inner)
        parameters = [it for it in setup.inner.parameters if it.free and _name(it) not in setup.problem.model.states]
        turned = {_name(it): -it.start for it in parameters if it.start is not None and it.start < 0 < it.upper}
        if turned:
            positive = setup.logarithmic(_starting(setup.inner, turned))
            yield from self.tried("from the start without its minus signs", self.matched(positive) or positive)

    def tried(self, label: str, inner: Problem) -> Iterator[StartAttempt]:
        finite = self.smoothing(inner, self.setup.weights)
        outcome = self.solved(finite, finite.start())
        if outcome is not None:
            yield self.escape_stationary_start(StartAttempt(label, finite, outcome), inner)

    def escape_stationary_start(self, attempt: StartAttempt, inner: Problem) -> StartAttempt:
        """As `solvers/stationary_start.py`, with states from the record anew: those of a still parameter would hold it back."""
        finite, outcome = attempt.finite, attempt.outcome
        start = finite.start().unknowns
        states = np.array([u.quantity in self.setup.problem.model.states for u in inner.unknowns], bool)
        still = (outcome.point.unknowns == start) & (outcome.held == 0) & ~states
        if not outcome.converged or not np.any(still):
            return attempt
        if np.any(jumps := find_piecewise_constant(finite, outcome, still)):
            return replace(attempt, outcome=reject_piecewise_constant(outcome, self.setup.printed(), jumps), last=True)
        values = finite.coordinates.values(start + typical_change(finite, start))
        aside = self.smoothing(_starting(inner, {u.quantity: float(v) for u, v, is_it in zip(
            inner.unknowns, values, still, strict=True) if is_it}), self.setup.weights)
        other = self.solved(aside, aside.start())
        if other is None or not other.converged or other.evaluation.cost >= outcome.evaluation.cost:
            return attempt
        return StartAttempt(f"{attempt.label}, beside it", aside, other)

    def staged(self, label: str, inner: Problem) -> Iterator[StartAttempt]:
        """Weak model weights first; parameters that may drift do so as asked in every stage."""
        states = self.setup.problem.model.states
        point: Variables | None = None
        for share in STAGES:
            weights = {name: w * share if name in states else w for name, w in self.setup.weights.items()}
            finite = self.smoothing(inner, weights)
            outcome = self.solved(finite, point or finite.start())
            if outcome is None:
                return
            if outcome.interrupted or (share == STAGES[-1]):
                yield StartAttempt(label, finite, outcome)
                return
            point = outcome.point

    def solved(self, finite: WeakConstraintProblem, point: Variables) -> SolverResult | None:
        self.counts["attempts"] += 1
        try:
            solver = GaussNewton(self.iterations)
            outcome = solver.solve(finite, point, self.watch(finite))
            self.counts["iterations"] += len(outcome.history) - 1
            return verify_bounded_minimum(finite, outcome, self.setup.begin(finite.coordinates), self.setup.printed(),
                                  self.expected(finite, outcome), lambda p: solver.solve(finite, p))
        except SimulationDiverged as wall:
            self.wall = self.wall or wall
            return None
        finally:
            for key, count in finite.counts.items():
                self.counts[key] += count

    def matched(self, inner: Problem) -> Problem | None:
        """The inner problem starting from parameters that match the rates."""
        starts = {_name(it): it for it in inner.parameters}
        own = self.setup.problem.replace(parameters=[
            replace(it, start=starts[_name(it)].start, log=starts[_name(it)].log) if isinstance(it, Parameter) else it
            for it in self.setup.problem.parameters])
        values = start_values(own)
        coordinates = transforms_of(own, values)
        found = gradient_matching_start(own, coordinates, coordinates.coordinates(values))
        if found is None:
            return None
        values = coordinates.values(found)
        better = {u.quantity: float(v) for u, v in zip(own.unknowns, values, strict=True) if not u.initial}
        return _starting(inner, better)


def _name(it: Parameter | InitialState) -> str:
    return it.name if isinstance(it, Parameter) else it.state


def _starting(problem: Problem, values: Mapping[str, float]) -> Problem:
    """With other starts, kept within the bounds; a value of one experiment stands for all of them."""
    return problem.replace(parameters=[
        replace(it, start=float(np.clip(values[_name(it)], it.lower, it.upper)))
        if it.free and _name(it) in values and not (it.log and values[_name(it)] <= 0) else it for it in problem.parameters])


def _other_starts(problem: Problem, count: int) -> Iterator[Problem]:
    """Starts around the first, parameters that are logarithms spread over decades: always the same ones."""
    moved = [it for it in problem.parameters if it.free and it.log and it.start]
    if not moved or not count:
        return
    for shares in qmc.Halton(len(moved), scramble=False).random(count + 1)[1:]:
        yield _starting(problem, {_name(it): float(it.start or 1.0) * 10 ** (SPREAD * (2 * share - 1))
                                  for it, share in zip(moved, shares, strict=True)})


def stable_steps(problem: Problem) -> int:
    """How many Runge-Kutta steps per sample stay bounded at the start values, as far as that is not too many."""
    model, start, most = problem.model, start_values(problem), 1.0
    assert isinstance(model, EquationModel)
    nx = len(model.states)
    for e, experiment in enumerate(problem.experiments):
        time = np.asarray(experiment.time)
        if time.size < 2 or not nx:
            continue
        rows = np.unique(np.linspace(0, time.size - 1, LOOKS).astype(int))
        p, x0 = problem.parameters_and_initial_state(start, e)
        states = states_from_measurements(model, experiment, time[rows])
        states = np.where(np.isnan(states), x0, states)
        inputs = np.array([experiment.inputs[name][rows] for name in model.inputs]).reshape(len(model.inputs), rows.size)
        A = np.asarray(_slopes(model, rows.size)(time[None, rows], states.T, inputs, p)).T.reshape(-1, nx, nx)
        A = A[np.all(np.isfinite(A), axis=(1, 2))]  # transposed; the eigenvalues are the same
        if A.size:
            radius = float(np.max(np.abs(np.linalg.eigvals(A))))
            most = max(most, float(np.median(np.diff(time))) * radius / STABLE)
    return int(min(np.ceil(most), MOST_STEPS))


@functools.lru_cache(maxsize=16)
def _slopes(model: EquationModel, count: int) -> ca.Function:
    """d rate / d state at many places."""
    t, x, u, p = (ca.SX.sym(n, k) for n, k in (("t", 1), ("x", len(model.states)), ("u", len(model.inputs)),
                                               ("p", len(model.parameters))))
    return ca.Function("slopes", [t, x, u, p], [ca.vec(ca.densify(ca.jacobian(model.rate(t, x, u, p), x)))]).map(count)
