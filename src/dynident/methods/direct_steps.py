"""Direct steps: relax, solve, re-weight and refine, as functions from one state of a fit to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from dynident._util.frozen import changed, frozen
from dynident.errors import SimulationDiverged, StartDiverged
from dynident.integrators.scheme import Adaptive, AnyIntegrator
from dynident.linalg.finite_problem import FiniteProblem, Variables
from dynident.methods.noise_estimation import estimate_noise_std, extrapolated_noise_std, initial_noise_std
from dynident.methods.outer_loop import Listener, RunLog, run_solver
from dynident.methods.relaxed_start import relaxed_start
from dynident.methods.start_diagnosis import in_words, singular_states
from dynident.methods.substeps import choose_accurate_substeps, choose_substeps, integration_error
from dynident.problem.noise import Gaussian
from dynident.problem.problem import Problem
from dynident.solvers.safeguards import (
    escapes,
    extrapolated_point,
    find_piecewise_constant,
    perturbed_points,
    reject_piecewise_constant,
    reject_unbounded_minimum,
    sizes_seen,
    stationary_unknowns,
)
from dynident.solvers.solver_result import Solver, SolverResult
from dynident.statistics.active_bounds import ActiveConstraints, count_fixed
from dynident.statistics.residual_tests import follows_data
from dynident.status import SPENT_SAID, Status, StatusCode
from dynident.tolerances import ALIAS_CHANGE, FAR_FROM_START, NOISE_STD_TOLERANCE
from dynident.transcription.transcribed_problem import SimulatedProblem, TranscribedProblem

REFINEMENT_FACTOR = 4  # times the steps, with which a point that fits is asked again
MAX_ROUNDS = 24  # of weights and steps; each is a warm start
AT_START, REACHED = "At the start values", "At the values reached so far"


class Transcription(Protocol):
    """How a direct method turns a problem into a finite one."""

    @property
    def loss(self) -> str: ...

    @property
    def max_iterations(self) -> int: ...

    @property
    def substeps(self) -> int | str:
        """Steps between two samples, or "auto"."""
        ...

    @property
    def chooses_integrator(self) -> bool:
        """Whether the integrator is chosen when the problem is known."""
        ...

    def make_integrator(self) -> AnyIntegrator: ...

    def transcribe(self, problem: Problem, substeps: int, noise_std: Mapping[str, float]) -> TranscribedProblem:
        """The finite problem to solve."""
        ...

    def transcribe_by_shooting(self, problem: Problem, substeps: int, noise_std: Mapping[str, float]
                               ) -> SimulatedProblem:
        """The same by shooting, to measure the integrator's error."""
        ...

    def make_solver(self, finite: Any) -> Solver: ...  # for what `transcribe` gives

    def advice(self, problem: Problem) -> list[str]:
        """Ways out when the start is not finite."""
        ...


@dataclass(frozen=True, eq=False)
class DirectSetup:
    """What stays the same in all rounds of a direct method."""

    problem: Problem
    method: Transcription
    report: Callable[..., object]

    @property
    def listener(self) -> Listener:
        return Listener(self.report, tuple(range(len(self.problem.names))))

    @property
    def adaptive(self) -> bool:
        """The integrator chooses its own steps."""
        return isinstance(self.method.make_integrator(), Adaptive)

    @property
    def automatic(self) -> bool:
        """The number of sub-steps is to be found."""
        return self.method.substeps == "auto" and not self.adaptive

    def shooting_with(self, noise_std: Mapping[str, float]) -> Callable[[int], SimulatedProblem]:
        """The problem by shooting, by its number of sub-steps."""
        return partial(self.method.transcribe_by_shooting, self.problem, noise_std=noise_std)


@frozen
class Solved:
    """A point of a finite problem, with the sub-steps and the weights that the problem was made for."""

    finite: TranscribedProblem
    result: SolverResult
    substeps: int
    noise_std: Mapping[str, float]


@frozen
class OuterState:
    """Where a fit stands between two steps."""

    substeps: int
    noise_std: Mapping[str, float]  # estimated so far; empty where all are given
    finite: Any = None  # made of these two
    start: Variables | None = None  # the user's own
    variables: Variables | None = None  # where the next solve begins
    solved: Solved | None = None  # by the last solve
    simulated: tuple[SimulatedProblem, Variables] | None = None  # its result by shooting
    best: Solved | None = None  # to end with whenever it has to
    noise_rounds: tuple[tuple[Mapping[str, float], Mapping[str, float]], ...] = ()  # used, and found with them
    rounds: int = 0
    changed: bool = False  # weights or steps, so that another round follows
    substeps_known: bool = False  # they were found before the first round
    coarsened: bool = False  # fewer steps were found to be enough; once only, or it might never end
    integration_error: float = 0.0  # relative to what is harmless
    integration_shift: float = 0.0  # standard errors by which it may move the estimate, for residuals of size one
    note: str = ""  # on the integrator
    perturbed: str = ""  # unknowns that the solver had to be moved away from their start
    saddle: str = ""  # unknowns along which a first end was left, a saddle
    solver: str = ""
    log: RunLog = field(default_factory=RunLog)

    @property
    def converged(self) -> bool:
        return self.solved is not None and self.solved.result.converged

    def with_result(self, result: SolverResult) -> OuterState:
        """With another result at the same finite problem."""
        solved = (Solved(self.finite, result, self.substeps, self.noise_std) if self.solved is None else
                  changed(self.solved, result=result))
        return changed(self, solved=solved, best=solved)

    def ended(self, reason: Status, interrupted: bool) -> OuterState | None:
        if self.best is None:
            return None
        end = replace(self.best, result=replace(self.best.result, converged=False, reason=reason, interrupted=interrupted))
        return changed(self, solved=end, best=end, substeps=end.substeps, simulated=None, integration_error=0.0,
                       integration_shift=0.0)


def initial_state(setup: DirectSetup, substeps: int | None = None, note: str = "") -> OuterState:
    """`substeps`: where they were found already."""
    given = setup.method.substeps
    return OuterState(substeps or (1 if given == "auto" else int(given)), initial_noise_std(setup.problem), note=note,
                      substeps_known=substeps is not None)


def choose_first_substeps(setup: DirectSetup, state: OuterState) -> OuterState:
    """Good enough at the start; a simulation that is lost there is refused at once."""
    if not setup.automatic or state.substeps_known:
        return state
    try:
        return changed(state, substeps=choose_substeps(setup.shooting_with(state.noise_std))[0])
    except SimulationDiverged as bad:
        finite = setup.method.transcribe(setup.problem, state.substeps, state.noise_std)
        raise refusal(setup, finite, finite.start(), bad) from None


def transcribe(setup: DirectSetup, state: OuterState) -> OuterState:
    """The finite problem of the present weights and steps; what was found so far is carried over to it."""
    if state.finite is not None and not state.changed:
        return state
    finite = setup.method.transcribe(setup.problem, state.substeps, state.noise_std)
    found = state.solved
    return changed(state, finite=finite,
                   variables=None if found is None else finite.transfer(found.result.point, found.finite))


def check_start(setup: DirectSetup, state: OuterState) -> OuterState:
    """Refuse a start at which the model is not finite, with what the user needs to see why."""
    finite = state.finite
    start = finite.start()
    try:
        evaluation = finite.evaluate(start)
    except SimulationDiverged as bad:
        raise refusal(setup, finite, start, bad) from None
    state = changed(state, start=start, variables=start)
    if not finite.jacobian_is_cheap:  # the start alone is not worth the simulations that its intervals take
        return state
    active_bounds = np.zeros(len(finite.names), int)
    there = SolverResult(start, evaluation, False, Status("at the start"), (), active_bounds)
    return changed(state, best=Solved(finite, there, state.substeps, state.noise_std))


def relax(setup: DirectSetup, state: OuterState) -> OuterState:
    """A better start where states have to meet and are measured: segments each for itself first."""
    finite, method = state.finite, setup.method
    if not finite.equality_count:
        return state
    begin, log = relaxed_start(setup.problem, method.make_integrator(), state.substeps, state.noise_std, method.loss,
                               method.max_iterations, state.log, setup.listener)
    state = changed(state, log=log)
    if begin is None:
        return state
    point = finite.from_states(begin.unknowns, begin.times, begin.states)
    if begin.outcome.interrupted:
        active = begin.outcome.active_bounds[:len(finite.names)]
        return state.with_result(replace(begin.outcome, point=point, active_bounds=active))
    return changed(state, variables=point)


def solve(setup: DirectSetup, state: OuterState) -> OuterState:
    """One solve; in the first round also from the user's start, where a relaxed one leads astray or cannot begin."""
    finite, first = state.finite, state.rounds == 0
    where = AT_START if first else REACHED
    state = changed(state, rounds=state.rounds + 1, changed=False, solved=None, simulated=None)
    if not first or state.variables is state.start:
        result, state = _solve_or_refuse(setup, state, state.variables, where)
    else:
        result, state = _solve_from_relaxed(setup, state)
    state = state.with_result(result)
    return changed(state, simulated=finite.to_shooting(result.point)) if result.converged else state


def _solve_from_relaxed(setup: DirectSetup, state: OuterState) -> tuple[SolverResult, OuterState]:
    try:
        result, state = solve_from(setup, state, state.variables)
    except SimulationDiverged:
        return _solve_or_refuse(setup, state, state.start, AT_START)
    if not _went_astray(setup, state, result):
        return result, state
    try:
        other, state = solve_from(setup, state, state.start)
    except SimulationDiverged:
        return result, state
    return min(result, other, key=lambda one: (not one.converged, one.evaluation.cost)), state


def _solve_or_refuse(setup: DirectSetup, state: OuterState, point: Variables | None, where: str
                     ) -> tuple[SolverResult, OuterState]:
    try:
        return solve_from(setup, state, point)
    except SimulationDiverged as bad:
        raise refusal(setup, state.finite, point, bad, where) from None


def solve_from(setup: DirectSetup, state: OuterState, point: Variables | None, logged: bool = True
                ) -> tuple[SolverResult, OuterState]:
    """Raises SimulationDiverged where the solver cannot even begin: derivatives that are not finite."""
    assert point is not None
    solver = setup.method.make_solver(state.finite)
    result, log = run_solver(solver, state.finite, point, state.log, setup.listener if logged else None)
    return result, changed(state, log=log, solver=solver.name)


def _went_astray(setup: DirectSetup, state: OuterState, result: SolverResult) -> bool:
    """Lost, neither by the user nor for want of iterations, or far away: another start may do better."""
    assert state.start is not None
    if result.interrupted or result.converged:
        gone = np.abs(result.point.unknowns - state.start.unknowns) / sizes_seen(state.finite, result)
        return not result.interrupted and bool(np.any(gone > FAR_FROM_START))  # NaN without a size
    return len(result.history) <= setup.method.max_iterations


def escape_stationary_start(setup: DirectSetup, state: OuterState) -> OuterState:
    """In the first round, solve again from beside where nothing measured changes with an unknown at its start."""
    if state.rounds != 1 or not state.converged:
        return state
    assert state.solved is not None and state.start is not None
    finite, result = state.finite, state.solved.result
    stuck = stationary_unknowns(finite, result, state.start.unknowns)
    initial = np.array([u.initial for u in setup.problem.unknowns], bool)  # moved alone they open the first link, no more
    if np.any(jumps := find_piecewise_constant(finite, result, stuck & ~initial)):
        return state.with_result(reject_piecewise_constant(result, finite.names, jumps))
    for point in perturbed_points(finite, result.point, stuck):
        try:
            there, state = solve_from(setup, state, point)
        except SimulationDiverged:
            continue
        if there.interrupted or escapes(finite, result, there):
            names = ", ".join(name for name, is_it in zip(finite.names, stuck, strict=True) if is_it)
            simulated = finite.to_shooting(there.point) if there.converged else None
            return changed(state.with_result(there), perturbed=names, simulated=simulated)
    return state


def reweight(setup: DirectSetup, state: OuterState) -> OuterState:
    """Take the noise's standard deviations from the residuals; another round where the fit depends on them."""
    if not state.converged or not state.noise_std:
        return state
    assert state.solved is not None and state.simulated is not None
    problem, finite, result = setup.problem, state.finite, state.solved.result
    shooting, there = state.simulated
    fixed = count_fixed(result.active_bounds, ActiveConstraints.at(problem, finite.coordinates, result.point.unknowns))
    robust = setup.method.loss != "squared"
    noise_std = estimate_noise_std(problem, shooting.linearization(there), dict(state.noise_std), robust, fixed)
    tried = (*state.noise_rounds, (state.noise_std, noise_std))
    change = max(abs(np.log(noise_std[name] / state.noise_std[name])) for name in noise_std)
    measured = {name for e in problem.experiments for name in e.outputs}
    alone = len(measured) == 1 and not finite.objective.priors and not robust and (
        all(isinstance(n, Gaussian) and n.std is None for n in problem.noise_of(next(iter(measured)))))
    again = not alone and change > NOISE_STD_TOLERANCE
    if again:
        noise_std = extrapolated_noise_std(tried)
    return changed(state, noise_std=noise_std, noise_rounds=tried, changed=state.changed or again)


def refine(setup: DirectSetup, state: OuterState) -> OuterState:
    """Check the integrator's error where it counts, at the solution; another round where it takes other steps.

    The number follows from the solution alone, so that all methods that find it take the same.
    """
    if not state.converged or setup.adaptive:
        return state
    assert state.solved is not None and state.simulated is not None
    shooting, there = state.simulated
    make = setup.shooting_with(state.noise_std) if state.noise_std else shooting.with_substeps  # the weights may have changed
    level = 1.0 if state.noise_std else residual_level(state.finite, state.solved.result.evaluation.squares)
    if not setup.automatic:
        coarse = make(state.substeps) if state.noise_std else shooting
        error = integration_error(coarse, make(2 * state.substeps), there, level, linked=True)
        return changed(state, integration_error=error.relative, integration_shift=error.shift)
    try:
        substeps, error = choose_accurate_substeps(make, there, level, linked=True)
    except SimulationDiverged:  # lost with fewer steps than those of the solution
        return changed(state, integration_error=np.inf)
    fewer = substeps < state.substeps
    state = changed(state, integration_error=error.relative, integration_shift=error.shift)
    if substeps == state.substeps or (fewer and state.coarsened):
        return state
    return changed(state, substeps=substeps, coarsened=state.coarsened or fewer, changed=True)


def residual_level(finite: FiniteProblem, cost: float) -> float:
    """Size of the weighted residuals where they are smaller than the noise that was given, else 1."""
    freedom = max(1, finite.residual_count - len(finite.names))
    return min(1.0, float(np.sqrt(max(cost, finite.rounding_cost) / freedom)))


def finished(setup: DirectSetup, state: OuterState) -> bool:
    """Nothing changes any more, the solver has failed, or there were enough rounds."""
    return state.solved is not None and (not state.converged or not state.changed or state.rounds >= MAX_ROUNDS)


def count_rounds(setup: DirectSetup, state: OuterState) -> OuterState:
    """Say what all rounds together have taken, or that they led to no end."""
    if not state.converged:
        return state
    assert state.solved is not None
    result = state.solved.result
    if state.changed:
        why = Status.of(StatusCode.NOISE_NOT_CONVERGED, why="")
        return state.with_result(replace(result, converged=False, reason=why))
    identifiable = result.reason.code is StatusCode.CONVERGED_IDENTIFIABLE  # of the others the data say nothing
    code = StatusCode.CONVERGED_IDENTIFIABLE if identifiable else StatusCode.CONVERGED
    reason = Status.of(code, spent=state.log.spent(state.rounds))
    if state.perturbed:
        reason = Status.of(StatusCode.CONVERGED_PERTURBED_START, reason=reason, names=state.perturbed)
    if state.saddle:
        reason = Status.of(StatusCode.CONVERGED_BESIDE_SADDLE, reason=reason, names=state.saddle)
    if result.reason.code not in SPENT_SAID:
        reason = Status(f"{reason}, {result.reason}", result.reason.code)
    return state.with_result(replace(result, reason=reason))


def safeguard(setup: DirectSetup, state: OuterState) -> OuterState:
    """No minimum, or a limit case, where ten times as far from the start fits as well."""
    if not state.converged:
        return state
    assert state.solved is not None and state.start is not None
    finite, result, begin = state.solved.finite, state.solved.result, state.start.unknowns
    further = extrapolated_point(finite, result, begin)
    if further is None:
        return state
    try:
        there, state = solve_from(setup, state, further, logged=False)
    except SimulationDiverged:  # no word on what is beyond
        return state
    if _is_alias(setup, state, there):
        return state
    follows = not state.noise_std and follows_data(result.evaluation.squares, finite.residual_count - len(finite.names))
    return state.with_result(reject_unbounded_minimum(finite, result, begin, finite.names, follows, there))


def _is_alias(setup: DirectSetup, state: OuterState, there: SolverResult) -> bool:
    """Whether a point fits only because of the integrator's steps: with finer ones it does not."""
    if setup.adaptive or there.interrupted:
        return False
    shooting, point = state.finite.to_shooting(there.point)
    try:
        coarse = shooting.evaluate(point)
        fine = setup.shooting_with(state.noise_std)(REFINEMENT_FACTOR * state.substeps).evaluate(point)
    except SimulationDiverged:
        return True
    return fine.cost > coarse.cost + ALIAS_CHANGE * coarse.squares or fine.max_defect > coarse.max_defect + ALIAS_CHANGE


def refusal(setup: DirectSetup, finite: FiniteProblem, point: Variables | None, bad: SimulationDiverged, where: str = AT_START
            ) -> StartDiverged:
    """Why a fit cannot begin, with the values and the ways out."""
    assert point is not None
    values = finite.coordinates.values(point.unknowns)
    listed = ", ".join(f"{n} = {v:.4g}" for n, v in zip(finite.names, values, strict=True))
    ways = ", or ".join(["Choose other start values", *setup.method.advice(setup.problem)])
    said = str(bad).rstrip(".")
    cause = in_words(singular_states(setup.problem, values))
    return StartDiverged(f"{where} {said}{f' ({listed})' if listed else ''}.{cause or f' {ways}.'}", bad.lost)
