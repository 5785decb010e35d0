"""Smoothing steps: solve, refine, re-weight, transcribe and safeguard, as functions from one state of a run to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from dynident.boundary.smoothing.noise_em import update_noise_std
from dynident.boundary.smoothing.setup import SmoothingSetup
from dynident.boundary.smoothing.smoother_covariance import SmootherCovariance
from dynident.boundary.smoothing.start_strategies import StartAttempt, StartStrategy
from dynident.boundary.smoothing.weak_constraint import WeakConstraintProblem
from dynident.errors import SimulationDiverged
from dynident.estimate.smoother_result import PseudoTimeStep
from dynident.linalg.finite_problem import Variables
from dynident.methods.outer_loop import RunLog, run_solver
from dynident.methods.substeps import choose_substeps
from dynident.solvers.gauss_newton import GaussNewton
from dynident.solvers.safeguards import extrapolated_point, reject_unbounded_minimum, relative_distance
from dynident.solvers.solver_result import SolverResult
from dynident.status import Status, StatusCode
from dynident.tolerances import SUSPECT_DISTANCE, UNBOUNDED_DISTANCE
from dynident.transcription.shooting import Shooting, default_segments

UNSETTLED = Status.of(StatusCode.NOISE_NOT_CONVERGED, why=(
    ": the data do not tell errors of the model from those of the measurement. Give a std, or measurement_noise"))
MAX_SMOOTHING_ROUNDS = 30  # of estimated noise sizes and of steps per sample; each is a warm start


@dataclass(frozen=True, eq=False)
class SmoothedPoint:
    """A point of the smoother in the user's coordinates, with the noise that its problem was made for and how it was found."""

    finite: WeakConstraintProblem
    result: SolverResult
    noise_std: Mapping[str, float]
    by: str

    def stopped(self, reason: Status, interrupted: bool) -> SmoothedPoint:
        return replace(self, result=_with_reason(self.result, reason, interrupted))


@dataclass(frozen=True, eq=False)
class SmoothingState:
    """Where a run stands between two steps."""

    noise_std: Mapping[str, float]  # estimated so far; empty where all are given
    strategies: tuple[StartStrategy, ...] = ()  # that have not been tried
    attempts: tuple[StartAttempt, ...] = ()  # of which none was chosen yet
    answers: tuple[SmoothedPoint, ...] = ()  # what became of those that were
    finite: WeakConstraintProblem | None = None  # of this round
    point: Variables | None = None  # where its solve begins; None: at the start
    substeps: int = 1  # of this round, or found to be needed for the next
    solved: SmoothedPoint | None = None  # the last; to end with whenever it has to
    minimal: bool = True  # a root passes for a minimum
    noise_step: np.ndarray | None = None  # the last one of the estimated noise
    changed: bool = False  # weights or steps, so that another round follows
    coarsened: bool = False  # fewer steps were found to be enough; once only, or it might never end
    rounds: int = 0
    strides: tuple[PseudoTimeStep, ...] = ()
    divergence: SimulationDiverged | None = None  # why an attempt or a round could not go on, the first time
    lost: bool = False  # this round could not
    finished: bool = False  # no other attempt is needed
    log: RunLog = field(default_factory=lambda: RunLog().with_counts({"attempts": 0}))

    @property
    def converged(self) -> bool:
        return not self.lost and self.solved is not None and self.solved.result.converged

    def with_result(self, result: SolverResult) -> SmoothingState:
        assert self.solved is not None
        return replace(self, solved=replace(self.solved, result=result))

    def lost_to(self, divergence: SimulationDiverged) -> SmoothingState:
        return replace(self, divergence=self.divergence or divergence, lost=True)

    def ended(self, reason: Status, interrupted: bool) -> SmoothingState | None:
        """With the last solution; else with the best of the attempts that none was chosen of, else with earlier answers."""
        if self.solved is not None:
            return replace(self, solved=self.solved.stopped(reason, interrupted))
        if self.attempts:
            best = min(self.attempts, key=lambda attempt: rank(attempt.outcome))
            return replace(self, attempts=(replace(best, outcome=_with_reason(best.outcome, reason, interrupted)),))
        if self.answers:
            return replace(self, answers=tuple(answer.stopped(reason, interrupted) for answer in self.answers))
        return None


def rank(outcome: SolverResult) -> tuple[bool, bool, float]:
    """What is best comes first; whoever interrupts wants what was being done."""
    return not outcome.interrupted, not outcome.converged, outcome.evaluation.cost


def _with_reason(outcome: SolverResult, reason: Status, interrupted: bool) -> SolverResult:
    return replace(outcome, converged=False, reason=reason, interrupted=interrupted)


# steps of a round


SmoothingStep = Callable[[SmoothingSetup, SmoothingState], SmoothingState]


def where_converged(step: SmoothingStep) -> SmoothingStep:
    """A step behind a solve that converged; where a simulation diverges in it, the round is lost."""

    def guarded(setup: SmoothingSetup, state: SmoothingState) -> SmoothingState:
        if not state.converged:
            return state
        try:
            return step(setup, state)
        except SimulationDiverged as divergence:
            return state.lost_to(divergence)

    return guarded


def solve(setup: SmoothingSetup, state: SmoothingState) -> SmoothingState:
    """By Gauss-Newton, in the user's coordinates."""
    assert state.finite is not None and state.point is not None and state.solved is not None
    solver = GaussNewton(setup.method.max_iterations)
    try:
        result, log = run_solver(solver, state.finite, state.point, state.log, setup.listener)
    except SimulationDiverged as divergence:
        return state.lost_to(divergence)
    solved = SmoothedPoint(state.finite, result, state.noise_std, state.solved.by)
    return replace(state, solved=solved, rounds=state.rounds + 1, changed=False, log=log)


@where_converged
def refine(setup: SmoothingSetup, state: SmoothingState) -> SmoothingState:
    """Steps per sample that make the integrator's error harmless at the solution: the same from every start."""
    if setup.substeps is not None:
        return state
    assert state.solved is not None
    finite, point, inner = state.solved.finite, state.solved.result.point, setup.inner
    segments = [default_segments(e.samples) for e in inner.experiments]

    def shooting(steps: int) -> Shooting:
        return Shooting(inner, setup.method.make_integrator(), segments, steps, state.noise_std)

    times = [r.grid.time for r in finite.records]
    there = shooting(1).from_states(point.unknowns, times, [finite.states(point, e) for e in range(len(times))])
    enough = choose_substeps(shooting, there)[0]
    fewer = enough < finite.steps
    if enough == finite.steps or (fewer and state.coarsened):
        return state
    return replace(state, substeps=enough, coarsened=state.coarsened or fewer, changed=True)


@where_converged
def reweight(setup: SmoothingSetup, state: SmoothingState) -> SmoothingState:
    """Noise that nobody sized, by expectation maximisation; another round until it has settled."""
    assert state.solved is not None
    noise_std, step = update_noise_std(setup, state.solved.finite, state.solved.result.point, state.noise_std, state.noise_step)
    if noise_std is None:
        return replace(state, noise_step=step)
    return replace(state, noise_std=noise_std, noise_step=step, changed=True)


@where_converged
def transcribe(setup: SmoothingSetup, state: SmoothingState) -> SmoothingState:
    """The smoothing problem of the new weights and steps; what was found so far is carried over to it."""
    if not state.changed:
        return state
    assert state.solved is not None
    finite = setup.transcribe(state.substeps, state.noise_std)
    return replace(state, finite=finite, point=transfer(state.solved.finite, state.solved.result.point, finite))


def transfer(before: WeakConstraintProblem, point: Variables, after: WeakConstraintProblem) -> Variables:
    """A point of one smoothing problem in the coordinates and on the grid of another."""
    values = before.coordinates.values(point.unknowns)
    unknowns = np.clip(after.coordinates.coordinates(values), after.coordinates.lower, after.coordinates.upper)
    states = [before.states(point, e) for e in range(len(before.records))]
    return after.from_values(after.full.from_states(unknowns, [r.grid.time for r in before.records], states))


def has_ended(_setup: SmoothingSetup, state: SmoothingState) -> bool:
    """Nothing changes any more, the solver has failed, or there were enough rounds."""
    last = not state.converged or not state.changed or state.rounds >= MAX_SMOOTHING_ROUNDS
    return state.lost or (state.rounds > 0 and last)


@where_converged
def safeguard(setup: SmoothingSetup, state: SmoothingState) -> SmoothingState:
    """Not converged where noise or steps have not settled, or where the minimum lies at infinity.

    Where the data leave an unknown open, less far away is suspect already.
    """
    assert state.solved is not None
    if state.changed:
        result = replace(state.solved.result, converged=False, reason=UNSETTLED)
        return replace(state, solved=replace(state.solved, noise_std=state.noise_std, result=result))
    finite, result = state.solved.finite, replace(state.solved.result, reason=spent_status(state, state.rounds))
    state = state.with_result(result)
    c, here, begin = finite.coordinates, result.point.unknowns, setup.begin(finite.coordinates)
    if not np.any(relative_distance(c, here, begin) > SUSPECT_DISTANCE):
        return state
    left_open = np.any(standard_errors(finite, result.point) > np.abs(c.values(here) / c.derivative(here)))
    far = SUSPECT_DISTANCE if left_open else UNBOUNDED_DISTANCE
    further = extrapolated_point(finite, result, begin, far)
    if further is None:
        return state
    try:
        there, log = run_solver(GaussNewton(setup.method.max_iterations), finite, further, state.log, None)
    except SimulationDiverged:  # no word on what is beyond
        return state
    follows = setup.expects(finite, result)
    return replace(state, log=log).with_result(
        reject_unbounded_minimum(finite, result, begin, setup.printed(), follows, there, far))


def spent_status(state: SmoothingState, rounds: int = 1) -> Status:
    """Converged, after all iterations of all rounds."""
    return Status.of(StatusCode.CONVERGED, spent=state.log.spent(rounds))


def standard_errors(finite: WeakConstraintProblem, point: Variables) -> np.ndarray:
    return np.sqrt(np.maximum(np.diag(SmootherCovariance(finite, point).covariance()), 0.0))
