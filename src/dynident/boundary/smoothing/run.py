"""Run: find the smallest sum of weighted errors, by the smoother or as a root of the boundary value problem.

Loops over one frozen state. `ATTEMPTS` tries starts until one leads to an answer that stays one. `SMOOTHER`, and `ROOTS` in
its place where a root finder is asked for, go in rounds: solve, refine the steps, re-weight the noise, transcribe anew; then
they look whether what was found is a minimum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dynident.boundary.smoothing.finders import finder
from dynident.boundary.smoothing.method import BoundaryValueMethod
from dynident.boundary.smoothing.optimality_bvp import BoundaryValueProblem
from dynident.boundary.smoothing.result import SmoothingOutcome, build_smoothing_estimate
from dynident.boundary.smoothing.setup import SmoothingSetup, setup_of
from dynident.boundary.smoothing.smoothing_steps import (
    SmoothedPoint,
    SmoothingState,
    has_ended,
    rank,
    refine,
    reweight,
    safeguard,
    solve,
    spent_status,
    standard_errors,
    transcribe,
    transfer,
    where_converged,
)
from dynident.boundary.smoothing.start_strategies import StartAttempt, stable_steps, start_strategies, try_strategy
from dynident.boundary.smoothing.weak_constraint import WeakConstraintProblem
from dynident.boundary.solve_bvp.newton import DampedNewton
from dynident.boundary.solve_bvp.root_finding import RootIteration, RootResult
from dynident.errors import SimulationDiverged, StartDiverged
from dynident.estimate.estimate import Estimate
from dynident.estimate.smoother_result import PseudoTimeStep
from dynident.methods.outer_loop import OuterLoop, RunLog
from dynident.problem.problem import Problem
from dynident.solvers.gauss_newton import GaussNewton
from dynident.solvers.solver_result import Iteration, SolverResult
from dynident.status import Status, StatusCode
from dynident.tolerances import SADDLE_COST, SADDLE_DROP
from dynident.transcription.initial_guess import start_values

ROOT_PERTURBATION = 0.1  # standard errors; so far from a root a minimum is looked for
UNCERTAIN_UNKNOWN = 100.0  # times its value; an unknown as unsure as that, which the data do not see, is not moved
UNITS_MATTER = (232, 250)  # codes of Table 6.1 that other units may bring about: an inner loop that fails, a singular system


def identify(method: BoundaryValueMethod, problem: Problem, report: Callable[..., object]) -> Estimate:
    """The estimate; where nothing was found and nothing can be said of the start, a refusal of it."""
    setup = replace(setup_of(method, problem), report=report)
    state = SmoothingState(setup.first_noise_std)
    if method.solver == "smoother":
        state = ATTEMPTS.run(setup, replace(state, strategies=start_strategies(setup)))
        state = state if state.solved is not None else choose_answer(setup, state)
    else:
        state = ROOTS.run(setup, state)
    if state.divergence is not None and state.lost:
        raise state.divergence
    assert state.solved is not None
    finite, result = state.solved.finite, replace(state.solved.result, history=state.log.history)
    counts = {**state.log.counts, "steps_per_sample": finite.steps, "equalities": finite.equality_count,
              "variables": len(finite.names) + sum(nodes.size for nodes in result.point.nodes)}
    try:
        return build_smoothing_estimate(SmoothingOutcome(
            setup, finite, result, state.solved.noise_std, state.solved.by, state.strides, counts, state.log.times()))
    except SimulationDiverged as divergence:  # nothing was found, and at the start there are no derivatives
        if result.converged:
            raise
        raise refusal(setup, divergence) from None


def refusal(setup: SmoothingSetup, divergence: SimulationDiverged | None) -> StartDiverged:
    values = start_values(setup.problem)
    starts = ", ".join(f"{u.name} = {value:.4g}" + ("" if u.start is not None else ", guessed")
                       for u, value in zip(setup.problem.unknowns, values, strict=True))
    return StartDiverged(f"At the start values {divergence}{f' ({starts})' if starts else ''}. Choose other start values, or "
                         'try integrator="radau" if the model is stiff.', divergence is not None and divergence.lost)


# steps over attempts


def try_start(setup: SmoothingSetup, state: SmoothingState) -> SmoothingState:
    """The next strategy."""
    if not state.strategies:
        return state
    attempt, divergence, log = try_strategy(setup, state.strategies[0], state.log)
    return replace(state, strategies=state.strategies[1:], divergence=state.divergence or divergence, log=log,
                   attempts=state.attempts if attempt is None else (*state.attempts, attempt))


def chosen_attempt(setup: SmoothingSetup, state: SmoothingState) -> StartAttempt | None:
    """The first that converges to what the weights expect, else the best of two that converge, else the best of all.

    None where another one is to be tried. Where the weights are no variances, nothing is expected.
    """
    if not state.attempts:
        return None
    last, converged = state.attempts[-1], [a for a in state.attempts if a.outcome.converged]
    if last.last:
        return last
    plausible = not setup.weights_are_variances or setup.expects(last.finite, last.outcome)
    enough = last.outcome.interrupted or (last.outcome.converged and (plausible or len(converged) > 1))
    return min(state.attempts, key=lambda a: rank(a.outcome)) if enough or not state.strategies else None


def smooth_attempt(setup: SmoothingSetup, state: SmoothingState) -> SmoothingState:
    """What becomes of a chosen attempt in the user's coordinates; where it does not stay converged, others are tried."""
    attempt = chosen_attempt(setup, state)
    if attempt is None:
        return replace(state, finished=not state.strategies)
    try:
        state = in_users_coordinates(setup, state, attempt)
    except SimulationDiverged as divergence:
        return replace(state, attempts=(), divergence=state.divergence or divergence)
    if attempt.outcome.converged:
        state = SMOOTHER.run(setup, state)
    if state.lost:
        return replace(state, solved=None, lost=False)
    assert state.solved is not None
    result = state.solved.result
    finished = (result.converged or result.interrupted or not attempt.outcome.converged
                or result.reason.code is StatusCode.NOISE_NOT_CONVERGED)
    return replace(state, answers=(*state.answers, state.solved), solved=None, finished=finished)


def in_users_coordinates(setup: SmoothingSetup, state: SmoothingState, attempt: StartAttempt) -> SmoothingState:
    """An attempt as the beginning of rounds."""
    finite = setup.transcribe(attempt.finite.steps, setup.first_noise_std)
    point = transfer(attempt.finite, attempt.outcome.point, finite)
    result = replace(attempt.outcome, point=point, evaluation=finite.evaluate(point))
    return replace(state, attempts=(), noise_std=setup.first_noise_std, finite=finite, point=point, substeps=finite.steps,
                   solved=SmoothedPoint(finite, result, setup.first_noise_std, attempt.label), noise_step=None, changed=False,
                   rounds=0)


def choose_answer(setup: SmoothingSetup, state: SmoothingState) -> SmoothingState:
    """The best of all; an attempt that was left when somebody interrupted is one of them."""
    answers = state.answers
    if state.attempts:
        try:
            left = in_users_coordinates(setup, state, state.attempts[0]).solved
            answers = (*answers, left) if left is not None else answers
        except SimulationDiverged as divergence:
            state = replace(state, divergence=state.divergence or divergence)
    if not answers:
        raise refusal(setup, state.divergence)
    best, tried = min(answers, key=lambda answer: rank(answer.result)), state.log.counts["attempts"]
    by = f"square-root smoother {best.by}" + (f", {tried} attempts" if tried > 1 else "")
    return replace(state, solved=replace(best, by=by), finite=best.finite)


def refine_by_newton(setup: SmoothingSetup, state: SmoothingState) -> SmoothingState:
    """Newton on the boundary value problem from the smoother's answer, where the user asks for it."""
    if not setup.method.refine or not state.converged:
        return state
    assert state.solved is not None
    solved, solver = state.solved, DampedNewton()
    problem = BoundaryValueProblem(setup, solved.finite, scaled=True)
    root, log = follow(setup, solver, problem, problem.pack(solved.result.point), state.log)
    result, strides = as_result(setup, solved.finite, problem, root)
    state = replace(state, log=log, strides=strides)
    result = replace(result, reason=spent_status(state)) if result.converged else result
    return replace(state, solved=replace(solved, result=result, by=f"square-root smoother, refined by {solver.name}"))


# roots of the boundary value problem


def first_grid(setup: SmoothingSetup, state: SmoothingState) -> SmoothingState:
    """With the user's trajectory as the first point, where one is given."""
    substeps = setup.substeps or stable_steps(setup.inner)
    finite, course = setup.transcribe(substeps, state.noise_std), setup.begin_along()
    point = None if course is None else finite.from_values(course.variables(finite.full))
    return replace(state, substeps=substeps, finite=finite, point=point)


def find_root(setup: SmoothingSetup, state: SmoothingState) -> SmoothingState:
    """By the user's root finder; from the start where the last root, on a coarser grid, does not lead to one."""
    method, finite = setup.method, state.finite
    assert finite is not None
    solver = finder(method.solver, method.max_iterations, method.solver_options)
    log = state.log
    try:
        for point in (None,) if state.point is None else (state.point, None):
            for scaled in (True,) if method.solver == "newton" else (False, True):  # the thesis does not scale
                problem = BoundaryValueProblem(setup, finite, scaled=scaled)
                root, log = follow(setup, solver, problem, problem.guess() if point is None else problem.pack(point), log)
                if root.converged or root.interrupted or root.code not in UNITS_MATTER:
                    break
            result, strides = as_result(setup, finite, problem, root)
            if result.converged or result.interrupted:
                break
        minimal = not result.converged or problem.minimal(root.point)
    except SimulationDiverged as divergence:
        raise refusal(setup, divergence) from None
    return replace(state, solved=SmoothedPoint(finite, result, state.noise_std, solver.name), minimal=minimal, changed=False,
                   rounds=state.rounds + 1, strides=(*state.strides, *strides), log=log)


def follow(setup: SmoothingSetup, solver: Any, problem: BoundaryValueProblem, z: np.ndarray, log: RunLog
           ) -> tuple[RootResult, RunLog]:
    """Let a root finder work, and keep its diary."""
    pages: list[Iteration] = []

    def report_page(page: RootIteration, asked: np.ndarray) -> None:
        here = Iteration(0, problem.cost(asked), page.step, 0.0, tuple(float(v) for v in problem.values(asked)))
        pages.append(setup.listener.renumbered(here, len(log.history) + len(pages)))
        setup.report(pages[-1])

    root = solver.solve(problem.system, z, report_page)
    return root, log.with_iterations(tuple(pages)).with_counts({
        "iterations": root.iterations, "jacobians": root.jacobians, "simulations": root.evaluations - root.jacobians,
        "attempts": 1})


def as_result(setup: SmoothingSetup, finite: WeakConstraintProblem, problem: BoundaryValueProblem, root: RootResult
              ) -> tuple[SolverResult, tuple[PseudoTimeStep, ...]]:
    """The root as the smoother sees it; where it cannot be seen, the start stands in its place."""
    strides = tuple(PseudoTimeStep(p.number, p.phase, p.share, p.step, p.residual, p.fresh, p.accepted) for p in root.pages)
    held = np.zeros(len(finite.names), dtype=int)
    code = f" (code {root.code} of Table 6.1)" if root.code else ""
    try:
        point = problem.point(root.point)
        evaluation = finite.evaluate(point)
    except SimulationDiverged as divergence:
        point = finite.start()
        where = Status(f"where {divergence}{code}", StatusCode.DIVERGED)
        return SolverResult(point, finite.evaluate(point), False, where, (), held, root.interrupted), strides
    c = finite.coordinates
    outside = [name for name, low, high, at in zip(setup.printed(), c.lower, c.upper, point.unknowns, strict=True)
               if not low <= at <= high]
    reason, converged = Status(f"{root.reason}{code}", root.status.code), root.converged
    if outside and converged:
        reason, converged = Status(f"at a root where {', '.join(outside)} lies outside of its bounds, which a root finder "
                                   "does not know of; solver=\"smoother\" does", StatusCode.OUTSIDE_BOUNDS), False
    return SolverResult(point, evaluation, converged, reason, (), held, root.interrupted), strides


@where_converged
def reject_saddle(setup: SmoothingSetup, state: SmoothingState) -> SmoothingState:
    """A root that looks like a saddle is one if Gauss-Newton, which comes back to minima only, finds less from beside."""
    if state.minimal or state.changed:
        return state
    assert state.solved is not None
    finite, result = state.solved.finite, state.solved.result
    std, point = standard_errors(finite, result.point), result.point
    aside = ROOT_PERTURBATION * np.where(std < UNCERTAIN_UNKNOWN * np.abs(point.unknowns), std, 0.0)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], std.size)
    beside = point.step_along(signs * aside, tuple(np.zeros_like(nodes) for nodes in point.nodes))
    try:
        there = GaussNewton(setup.method.max_iterations).solve(finite, beside)
    except SimulationDiverged:
        return state
    here, cost = result.evaluation.cost, there.evaluation.cost
    freedom = max(1, finite.residual_count - len(finite.names))
    if here - cost <= max(SADDLE_COST, SADDLE_DROP**2 / freedom) * here:
        return state
    return state.with_result(replace(result, converged=False, reason=Status(
        f"at a root that is no minimum: beside it the sum falls from {here:.4g} to {cost:.4g}. solver=\"smoother\" "
        "looks for the minimum itself", StatusCode.NOT_A_MINIMUM)))


ROUND = (refine, reweight, transcribe)
SMOOTHER = OuterLoop((), (solve, *ROUND), (safeguard,), has_ended)
ROOTS = OuterLoop((first_grid,), (find_root, *ROUND), (reject_saddle, safeguard), has_ended)
ATTEMPTS = OuterLoop((), (try_start, smooth_attempt), (choose_answer, refine_by_newton), lambda _, state: state.finished)
