"""Optimisation of a design: a loop of steps over a frozen state, from random starts to an input that keeps its constraints.

    draw starts, and screen them                     -> state
    until the state is finished:
        optimise from the next start                 (problem, state) -> state
        choose the best optimum not yet verified
        verify it between the samples
        add constraint points or tighten constraints, and optimise again

The cost is local to each start (SLSQP); constraints are asked for at some samples first, and then wherever a simulation at
ten times finer steps finds them violated, until none is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dynident.design.constraints import PathConstraint, Peak, add_constraint_points, find_violations
from dynident.design.design_problem import DesignProblem
from dynident.design.nlp import DesignNlp, first_constraint_points
from dynident.design.sensitivity_simulation import PlannedSimulation, choose_substeps
from dynident.errors import NotConverged, ProblemError, SimulationDiverged
from dynident.solvers.slsqp import NlpEvaluation, SlsqpResult
from dynident.tolerances import SLSQP_FEASIBILITY

MAX_TIGHTENINGS = 15  # of one optimum
DRAWS_PER_START = 6  # of which the best are optimised from
MAX_DRAWS = 20  # tries to find a start at which the machine can be simulated
SHRINKING = (1.0, 0.8, 0.4, 0.2, 0.1, 0.05)  # of a start at which the simulation diverges: smaller ones


@dataclass(frozen=True)
class DesignProgress:
    """One evaluation, for whoever watches; costs are scaled, smaller is better."""

    start: int  # which of the starts is optimised from, from 1 on
    starts: int
    tightening: bool  # constraints are being kept between the samples, too
    evaluations: int  # inputs simulated with their sensitivities so far
    cost: float  # of the input that was just tried
    shape: str = ""  # of the input, where several are tried


Report = Callable[[DesignProgress], object]


def progress_line(progress: DesignProgress, seconds: float) -> str:
    """The line on a terminal or in a log."""
    where = "constraints between the samples" if progress.tightening else f"start {progress.start} of {progress.starts}"
    where = f"{progress.shape}: {where}" if progress.shape else where
    return f"{where}  {progress.evaluations} inputs tried  cost {progress.cost:.4g}  {seconds:.1f} s"


@dataclass(frozen=True, eq=False)
class Candidate:
    """A local optimum on its way to keeping all constraints between the samples."""

    optimum: SlsqpResult  # at which its start ended
    result: SlsqpResult  # with constraints as tight as they are now
    nlp: DesignNlp
    tightenings: int = 0
    violations: tuple[list[Peak], ...] | None = None  # per constraint; None: not verified yet


@dataclass(frozen=True, eq=False)
class DesignState:
    """Where the optimisation is."""

    constraints: tuple[PathConstraint, ...]  # as asked for, each with its scale
    nlp: DesignNlp  # with constraints at some samples
    starts: tuple[np.ndarray, ...]  # variables to optimise from
    optima: tuple[SlsqpResult, ...] = ()  # one per start so far
    ranking: tuple[SlsqpResult, ...] | None = None  # feasible optima still to be verified, lowest cost first
    candidate: Candidate | None = None  # being verified
    best: Candidate | None = None  # keeps all constraints
    refusal: str = ""  # why the last candidate was given up
    evaluations: int = 0
    finished: bool = False
    interrupted: bool = False


def optimize_design(problem: DesignProblem, report: Report = lambda progress: None) -> DesignState:
    """The best of several starts that keeps all constraints also between the samples.

    Raises NotConverged where there is none. After Ctrl-C the best so far, if there is one.
    """
    state = screen_starts(problem)
    try:
        while not state.finished:
            state = next_step(problem, state)(problem, state, report)
    except KeyboardInterrupt:
        if state.best is None:
            raise
        state = replace(state, interrupted=True)
    if state.best is None:
        raise NotConverged(state.refusal or "No input was found.")
    return state


DesignStep = Callable[[DesignProblem, DesignState, Report], DesignState]


def next_step(problem: DesignProblem, state: DesignState) -> DesignStep:
    if len(state.optima) < len(state.starts):
        return optimize_from_start
    if state.candidate is None:
        return choose_candidate
    return verify_between_samples if state.candidate.violations is None else tighten_constraints


# starts


def screen_starts(problem: DesignProblem) -> DesignState:
    """The most promising of many draws: low cost, constraints kept or nearly so."""
    rng = problem.generator()
    first = draw_start(problem, problem.simulation, rng)
    simulation = choose_substeps(problem.simulation, problem.coefficients(first)[0], *problem.prior.nominal(0))
    constraints = scale_constraints(problem, simulation, first)
    nlp = DesignNlp(problem, simulation, tuple(own.with_margin(SLSQP_FEASIBILITY * own.scale) for own in constraints),
                    first_constraint_points(constraints, problem.inputs.samples))
    if not problem.worst_case:  # a cost in the user's units may be of any size
        nlp = replace(nlp, cost_scale=1 / max(abs(nlp.evaluate(first).value), 1.0))
    count, ranked = problem.options.starts, []
    for w in [first, *(draw_start(problem, simulation, rng) for _ in range(DRAWS_PER_START * count - 1))]:
        try:
            at = nlp.evaluate(np.append(w, 0.0) if problem.worst_case else w)
        except SimulationDiverged:
            continue
        cost, over = float(np.max(nlp.scenario_costs(at))) if problem.worst_case else at.value, nlp.violations(at)
        ranked.append((cost + float(np.mean(np.maximum(over, 0.0))) if over.size else cost, w))
    best = sorted(ranked, key=lambda each: each[0])[:count]
    given = () if problem.first_start is None else (problem.first_start,)
    return DesignState(constraints, nlp, (*given, *(w for _, w in best)))


def draw_start(problem: DesignProblem, simulation: PlannedSimulation, rng: np.random.Generator) -> np.ndarray:
    """Variables at which the machine can be simulated."""
    for _ in range(MAX_DRAWS):
        drawn = [_draw_coefficients(problem, rng) for _ in range(problem.records)]
        for fraction in SHRINKING:
            c = [_shrunk(own, fraction, problem.inputs.free_duration) for own in drawn]
            try:
                for r, own in enumerate(c):
                    simulation.run(own, *problem.prior.nominal(r), derivatives=False)
            except SimulationDiverged:
                continue
            return np.concatenate(c) / problem.scale
    raise ProblemError("No input was found at which the machine can be simulated. Give a smaller amplitude, or a "
                       "shorter duration.")


def _draw_coefficients(problem: DesignProblem, rng: np.random.Generator) -> np.ndarray:
    """Of one record."""
    drawn = [signal.draw(*problem.input_ranges[name], rng) for name, signal in problem.inputs.signals.items()]
    if problem.inputs.free_duration:
        drawn.append(np.array([rng.uniform(*problem.durations)]))
    return np.concatenate(drawn)


def _shrunk(c: np.ndarray, fraction: float, free_duration: bool) -> np.ndarray:
    return np.append(c[:-1] * fraction, c[-1]) if free_duration else c * fraction


def scale_constraints(problem: DesignProblem, simulation: PlannedSimulation, w: np.ndarray) -> tuple[PathConstraint, ...]:
    """Ends of zero tell no scale; what the machine does at a start does. At the first sample no input has acted."""
    result = simulation.run(problem.coefficients(w)[0], *problem.prior.nominal(0))
    scaled, faults, k = [], [], 0
    for own in problem.constraints:
        if own.input_rate is not None:
            scaled.append(own)
            continue
        fixed, values = not np.any(result.d_monitored[0, k]), result.monitored[:, k]
        own = replace(own, typical=float(np.max(np.abs(values))) or 1.0, acts_at_start=not fixed)
        if fixed and not own.terminal and own.violation(values[0]) > SLSQP_FEASIBILITY * own.scale:
            faults.append(f"constraint '{own.text}': the initial state breaks it already ({values[0]:.4g}).")
        scaled.append(own)
        k += 1
    if faults:
        raise ProblemError(faults)
    return tuple(scaled)


# steps of the loop


def optimize_from_start(problem: DesignProblem, state: DesignState, report: Report) -> DesignState:
    """From the next start."""
    optimum, state = _solve(state, state.nlp, state.starts[len(state.optima)], report)
    return replace(state, optima=(*state.optima, optimum))


def choose_candidate(problem: DesignProblem, state: DesignState, report: Report) -> DesignState:
    """The optimum of lowest cost that was not verified yet, unless it is no better than one that was."""
    ranking = state.ranking
    if ranking is None:
        feasible = [own for own in state.optima if own.feasible and np.isfinite(own.value)]
        if not feasible:
            least = min(state.optima, key=lambda own: float(np.max(own.violation)))
            raise NotConverged(describe_violations(state.constraints, state.nlp, least))
        ranking = tuple(sorted(feasible, key=lambda own: own.value))
    if not ranking or (state.best is not None and ranking[0].value >= state.best.result.value):
        return replace(state, finished=True)  # tightening never makes a cost smaller
    return replace(state, ranking=ranking[1:], candidate=Candidate(ranking[0], ranking[0], state.nlp))


def verify_between_samples(problem: DesignProblem, state: DesignState, report: Report) -> DesignState:
    """Look for violations in a fine simulation; a candidate without any is the best so far, if its cost is lowest."""
    candidate = _current(state)
    found = find_violations(state.constraints, problem.fine_simulations(problem.coefficients(candidate.result.point)))
    if any(found):
        return replace(state, candidate=replace(candidate, violations=tuple(found)))
    better = state.best is None or candidate.result.value < state.best.result.value
    return replace(state, candidate=None, best=candidate if better else state.best)


def tighten_constraints(problem: DesignProblem, state: DesignState, report: Report) -> DesignState:
    """Ask for the constraints also where they were found violated, and optimise again from there."""
    candidate = _current(state)
    violations = candidate.violations or ()
    points, tighter = add_constraint_points(candidate.nlp.points, candidate.nlp.constraints, violations)
    if candidate.tightenings == MAX_TIGHTENINGS or any(own.lower > own.upper for own in tighter):
        return replace(state, candidate=None, refusal=_describe_peaks(state.constraints, violations))
    nlp = replace(candidate.nlp, constraints=tighter, points=points)
    result, state = _solve(state, nlp, candidate.result.point[:problem.scale.size], report)
    if not result.feasible:
        return replace(state, candidate=None, refusal=describe_violations(state.constraints, nlp, result))
    return replace(state, candidate=Candidate(candidate.optimum, result, nlp, candidate.tightenings + 1))


def _current(state: DesignState) -> Candidate:
    assert state.candidate is not None  # next_step asks for it
    return state.candidate


def _solve(state: DesignState, nlp: DesignNlp, start: np.ndarray, report: Report) -> tuple[SlsqpResult, DesignState]:
    """A local optimum; every evaluation is counted and reported."""
    number, starts, evaluations = min(len(state.optima) + 1, len(state.starts)), len(state.starts), state.evaluations

    def evaluate(w: np.ndarray) -> NlpEvaluation:
        nonlocal evaluations
        at, evaluations = nlp.evaluate(w), evaluations + 1
        report(DesignProgress(number, starts, state.candidate is not None, evaluations, float(at.value)))
        return at

    outcome = nlp.solve(start, nlp.problem.options.max_iterations, evaluate)
    return outcome, replace(state, evaluations=evaluations)


# what stood in the way


def describe_violations(constraints: tuple[PathConstraint, ...], nlp: DesignNlp, result: SlsqpResult) -> str:
    """Which constraints an optimum violates."""
    scale = {own.text: own.scale for own in reversed(constraints)}
    worst: dict[str, float] = {}
    for label, violation in zip(nlp.bounds[2], result.violation, strict=True):
        if label and violation > SLSQP_FEASIBILITY:  # less is rounding
            worst[label] = max(worst.get(label, 0.0), float(violation) * scale.get(label, 1.0))
    if not worst:
        return (f"No input of this shape was found: the search ended where its cost is no number ({result.status}). "
                "Try other starts (seed), a smaller amplitude, or a shorter duration.")
    listed = ", ".join(f"'{label}' (by {size:.3g})" for label, size in sorted(worst.items(), key=lambda item: -item[1]))
    return (f"No input of this shape was found that meets all constraints. The best one violates {listed}. Relax it, "
            "allow more time, or give the signal more coefficients.")


def _describe_peaks(constraints: tuple[PathConstraint, ...], violations: tuple[list[Peak], ...]) -> str:
    left = {own.text: max((size / own.scale for _, size in peaks), default=0.0)
            for own, peaks in zip(constraints, violations, strict=True)}
    worst = max(left, key=lambda text: left[text])
    return (f"'{worst}' cannot be kept between the samples: in a simulation at ten times finer steps it is violated by "
            f"{left[worst]:.2g} of its size. Sample faster, take a smoother signal, or relax it.")
