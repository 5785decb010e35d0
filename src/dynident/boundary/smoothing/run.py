"""Run: find the smallest sum of weighted errors, by the smoother or as a root of the boundary value problem."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dynident.boundary.smoothing.method import BoundaryValueMethod
from dynident.boundary.smoothing.noise_em import NoiseEM
from dynident.boundary.smoothing.optimality_bvp import BoundaryValueProblem
from dynident.boundary.smoothing.result import SmoothingOutcome, assemble
from dynident.boundary.smoothing.setup import SmoothingSetup, first_sizes, setup_of
from dynident.boundary.smoothing.smoother_covariance import SmootherCovariance
from dynident.boundary.smoothing.start_strategies import StartAttempt, StartStrategies, stable_steps
from dynident.boundary.smoothing.weak_constraint import WeakConstraintProblem
from dynident.boundary.solve_bvp.davidenko import Davidenko
from dynident.boundary.solve_bvp.newton import DampedNewton
from dynident.boundary.solve_bvp.root_finding import RootIteration, RootResult
from dynident.codegen import compiler
from dynident.errors import ProblemError, SimulationDiverged
from dynident.estimate.estimate import Estimate
from dynident.estimate.smoother_result import PseudoTimeStep
from dynident.linalg.finite_problem import Variables
from dynident.methods.substeps import choose_substeps
from dynident.problem.problem import Problem
from dynident.solvers.gauss_newton import GaussNewton
from dynident.solvers.solver_result import Iteration, SolverResult, Watch, iterations_in_words
from dynident.solvers.unbounded_minimum import SUSPECT, relative_distance, verify_bounded_minimum
from dynident.statistics.residual_tests import follows_data
from dynident.status import Status, StatusCode
from dynident.tolerances import UNBOUNDED_DISTANCE
from dynident.transcription.initial_guess import start_values
from dynident.transcription.shooting import Shooting, default_segments

UNSETTLED = Status.of(StatusCode.NOISE_NOT_CONVERGED, why=(
    ": the data do not tell errors of the model from those of the measurement. Give a std, or measurement_weight"))
BESIDE = 0.1  # standard errors; so far from a root a minimum is looked for
FAR = 100.0  # times its value; an unknown as unsure as that is not moved
FALL = 3.0  # standard errors; a sum that falls by less may be that of the same minimum
LOWER = 0.01  # of the sum; the same: the grid and the boundary value problem are two discretizations
UNITS_MATTER = (232, 250)  # codes of Table 6.1 that other units may bring about: an inner loop that fails, a singular system
MOST_ROUNDS = 30  # of estimated noise sizes and of steps per sample; each is a warm start
FIRST_TIME_STEP = 0.05  # of Davidenko's artificial time: what the thesis begins with after a new Jacobian


def identify(method: BoundaryValueMethod, problem: Problem, tell: Callable[..., object]) -> Estimate:
    return SmoothingRun(setup_of(method, problem), tell).go()


class SmoothingRun:
    """One run of the method."""

    def __init__(self, setup: SmoothingSetup, tell: Callable[..., object]):
        self.setup, self.tell = setup, tell
        self.sizes = first_sizes(setup)
        asked = setup.method.substeps
        self.steps: int | None = None if asked == "auto" else int(asked)
        self.fewer = False  # steps have been found to be more than the solution needs
        self.history: list[Iteration] = []
        self.counts = {"iterations": 0, "simulations": 0, "jacobians": 0, "attempts": 0}
        self.compiled = compiler.seconds_compiling
        self.began = time.perf_counter()
        self.place = setup.place()

    def go(self) -> Estimate:
        strides: tuple[PseudoTimeStep, ...] = ()
        if self.setup.method.solver == "smoother":
            finite, outcome, by = self.smoothed()
            if self.setup.method.refine and outcome.converged:
                finite, outcome, by, strides = self.refined_by_newton(finite, outcome)
        else:
            finite, outcome, by, strides = self.rooted()
        compiling = compiler.seconds_compiling - self.compiled
        times = {"compile": compiling, "fit": time.perf_counter() - self.began - compiling}
        outcome = replace(outcome, history=tuple(self.history))
        size = {"variables": len(finite.names) + sum(nodes.size for nodes in outcome.point.nodes),
                "equalities": finite.equality_count}
        counts = {**self.counts, "steps_per_sample": finite.steps, **size}
        try:
            return assemble(SmoothingOutcome(self.setup, finite, outcome, self.sizes, by, strides, counts, times))
        except SimulationDiverged as wall:  # nothing was found, and at the start there are no derivatives
            if outcome.converged:
                raise
            raise self.refusal(wall) from None

    # the smoother

    def smoothed(self) -> tuple[WeakConstraintProblem, SolverResult, str]:
        """The first attempt that stays where it converged, else the best."""
        limit = self.setup.method.max_iterations
        attempts = StartStrategies(self.setup, self.sizes, self.steps, limit, self.watch, self.counts,
                            self.expected)
        running, first, ended = attempts.run(), self.sizes, []
        try:
            while (attempt := self.best_attempt(running)) is not None:
                self.sizes = first
                try:
                    finite, outcome = self.settled(attempt)
                except SimulationDiverged as wall:  # in the user's coordinates, or with other noise sizes
                    attempts.wall = attempts.wall or wall
                    continue
                ended.append((finite, outcome, attempt.label, self.sizes))
                if outcome.converged or outcome.interrupted or not attempt.outcome.converged or (
                        outcome.reason.code is StatusCode.NOISE_NOT_CONVERGED):
                    break
        except KeyboardInterrupt:  # between two attempts, while the next one is made ready
            if not ended:
                raise
            ended = [(finite, _stopped(outcome), label, sizes) for finite, outcome, label, sizes in ended]
        if not ended:
            raise self.refusal(attempts.wall)
        finite, outcome, label, self.sizes = min(ended, key=lambda one: _rank(one[1]))
        tried = self.counts["attempts"]
        return finite, outcome, f"square-root smoother {label}" + (f", {tried} attempts" if tried > 1 else "")

    def settled(self, attempt: StartAttempt) -> tuple[WeakConstraintProblem, SolverResult]:
        """What becomes of an attempt in the user's coordinates."""
        finite = self.make(attempt.finite.steps)
        point = self.moved(attempt.finite, attempt.outcome.point, finite)
        self.kept = finite, replace(attempt.outcome, point=point, evaluation=finite.evaluate(point))
        if attempt.outcome.converged:
            try:
                self.settle(finite, point)
            except KeyboardInterrupt:  # between two solves; within one, the solver answers for itself
                self.kept = self.kept[0], _stopped(self.kept[1])
        return self.kept

    def settle(self, finite: WeakConstraintProblem, point: Variables) -> None:
        """Rounds of solving in the user's coordinates until sizes and steps no longer change; `kept` is the last one."""
        levels = NoiseEM(self.setup)
        for rounds in range(1, MOST_ROUNDS + 1):
            outcome = self.solve(finite, point)
            self.kept = finite, outcome
            if not outcome.converged:
                return
            finer = self.finer(levels, finite, outcome.point)
            if finer is None:
                self.kept = finite, self.verify_bounded_minimum(finite, replace(outcome, reason=self.after(rounds)))
                return
            point = self.moved(finite, outcome.point, finer)
            finite = finer
        self.kept = self.kept[0], replace(outcome, converged=False, reason=UNSETTLED)

    def verify_bounded_minimum(self, finite: WeakConstraintProblem, outcome: SolverResult) -> SolverResult:
        """Where the data leave an unknown open, less far away is suspect already."""
        c, here, begin = finite.coordinates, outcome.point.unknowns, self.setup.begin(finite.coordinates)
        if not np.any(relative_distance(c, here, begin) > SUSPECT):
            return outcome
        std = np.sqrt(np.maximum(np.diag(SmootherCovariance(finite, outcome.point).covariance()), 0.0))
        left_open = np.any(std > np.abs(c.values(here) / c.derivative(here)))
        return verify_bounded_minimum(finite, outcome, begin, self.setup.printed(), self.expected(finite, outcome),
                              lambda point: self.solve(finite, point, told=False), SUSPECT if left_open else UNBOUNDED_DISTANCE)

    def finer(self, levels: NoiseEM, finite: WeakConstraintProblem, point: Variables) -> WeakConstraintProblem | None:
        """With better noise sizes, or steps that are short enough at this solution; None where these will do."""
        sizes = levels.better(finite, point, self.sizes)
        steps = self.enough_steps(finite, point)
        if sizes is None and steps == finite.steps:
            return None
        self.sizes = sizes or self.sizes
        return self.make(steps)

    def after(self, rounds: int = 1) -> Status:
        spent = iterations_in_words(self.counts["iterations"]) + (f" in {rounds} rounds" if rounds > 1 else "")
        return Status.of(StatusCode.CONVERGED, spent=spent)

    def best_attempt(self, running: Iterator[StartAttempt]) -> StartAttempt | None:
        """The next that converges to what the weights expect, else the best of those that converge, else the best."""
        found: list[StartAttempt] = []
        try:
            for attempt in running:
                found.append(attempt)
                if attempt.last:
                    return attempt
                if attempt.outcome.interrupted:
                    break
                converged = [a for a in found if a.outcome.converged]
                if attempt.outcome.converged and (self.plausible(attempt) or len(converged) > 1):
                    break
        except KeyboardInterrupt:  # the same
            if not found:
                raise
            found = [replace(attempt, outcome=_stopped(attempt.outcome)) for attempt in found]
        return min(found, key=lambda attempt: _rank(attempt.outcome), default=None)

    def plausible(self, attempt: StartAttempt) -> bool:
        """The sum of squares is not larger than the weights expect; where they are no variances, nothing is expected."""
        return not self.weights_are_variances() or self.expected(attempt.finite, attempt.outcome)

    def weights_are_variances(self) -> bool:
        return not self.sizes and self.setup.method.measurement_weight is None

    def expected(self, finite: WeakConstraintProblem, outcome: SolverResult) -> bool:
        """The weights are variances, and the sum of squares is not larger than these let expect."""
        return self.weights_are_variances() and follows_data(
            outcome.evaluation.cost, finite.residual_count - len(finite.names))

    def make(self, steps: int) -> WeakConstraintProblem:
        setup = self.setup
        return WeakConstraintProblem(setup.inner, setup.method.make_integrator(), steps, self.sizes, setup.weights)

    def moved(self, before: WeakConstraintProblem, point: Variables, after: WeakConstraintProblem) -> Variables:
        """A point of one smoothing problem in the coordinates and on the grid of another."""
        values = before.coordinates.values(point.unknowns)
        unknowns = np.clip(after.coordinates.coordinates(values), after.coordinates.lower, after.coordinates.upper)
        states = [before.states(point, e) for e in range(len(before.records))]
        return after.from_values(after.full.from_states(unknowns, [r.grid.time for r in before.records], states))

    def solve(self, finite: WeakConstraintProblem, point: Variables, told: bool = True) -> SolverResult:
        before = dict(finite.counts)
        outcome = GaussNewton(self.setup.method.max_iterations).solve(finite, point, self.watch(finite) if told else None)
        self.counts["iterations"] += len(outcome.history) - 1
        for key, count in finite.counts.items():
            self.counts[key] += count - before[key]
        return outcome

    def enough_steps(self, finite: WeakConstraintProblem, point: Variables) -> int:
        """Steps per sample that make the integrator's error harmless at the solution: the same from every start."""
        if self.steps is not None:
            return finite.steps
        inner = self.setup.inner
        segments = [default_segments(e.samples) for e in inner.experiments]

        def shooting(steps: int) -> Shooting:
            return Shooting(inner, self.setup.method.make_integrator(), segments, steps, self.sizes)

        times = [r.grid.time for r in finite.records]
        there = shooting(1).from_states(point.unknowns, times, [finite.states(point, e) for e in range(len(times))])
        enough = choose_substeps(shooting, there)[0]
        if enough < finite.steps and self.fewer:
            return finite.steps
        self.fewer = self.fewer or enough < finite.steps  # once only, or it might never end
        return enough

    def watch(self, finite: WeakConstraintProblem) -> Watch:
        place = self.place

        def told(page: Iteration) -> None:
            page = replace(page, number=len(self.history), values=tuple(page.values[i] for i in place))
            self.history.append(page)
            self.tell(page)

        return told

    def refusal(self, wall: SimulationDiverged | None) -> ProblemError:
        values = start_values(self.setup.problem)
        starts = ", ".join(f"{u.name} = {value:.4g}" + ("" if u.start is not None else ", guessed")
                           for u, value in zip(self.setup.problem.unknowns, values, strict=True))
        return ProblemError(f"At the start values {wall}{f' ({starts})' if starts else ''}. Choose other start values, or "
                            'try integrator="radau" if the model is stiff.')

    # roots of the boundary value problem

    def rooted(self) -> tuple[WeakConstraintProblem, SolverResult, str, tuple[PseudoTimeStep, ...]]:
        """Rounds as of the smoother; a root that is no minimum is no answer."""
        name, iterations = self.setup.method.solver, self.setup.method.max_iterations
        solver: Any = {"davidenko": Davidenko(iterations=iterations, first=FIRST_TIME_STEP),
                       "newton": DampedNewton(iterations=iterations),
                       "musn": DampedNewton("kept", iterations=iterations, name="damped Newton, Jacobian kept")}[name]
        finite, levels, point = self.make(self.steps or stable_steps(self.setup.inner)), NoiseEM(self.setup), None
        strides: tuple[PseudoTimeStep, ...] = ()
        for rounds in range(1, MOST_ROUNDS + 1):
            outcome, more, minimal = self.root(solver, finite, point)
            if point is not None and not (outcome.converged or outcome.interrupted):  # the last root was too coarse
                outcome, more, minimal = self.root(solver, finite, None)
            strides = (*strides, *more)
            if not outcome.converged:
                return finite, outcome, solver.name, strides
            finer = self.finer(levels, finite, outcome.point)
            if finer is None:
                outcome = replace(outcome, reason=self.after(rounds))
                outcome = self.verify_bounded_minimum(finite, outcome if minimal else self.unless_lower_beside(finite, outcome))
                return finite, outcome, solver.name, strides
            point = self.moved(finite, outcome.point, finer)
            finite = finer
        return finite, replace(outcome, converged=False, reason=UNSETTLED), solver.name, strides

    def root(self, solver: Any, finite: WeakConstraintProblem, point: Variables | None
             ) -> tuple[SolverResult, tuple[PseudoTimeStep, ...], bool]:
        """From a point of the smoother, or from the start; and whether it looks like a minimum."""
        try:
            for scaled in (True,) if self.setup.method.solver == "newton" else (False, True):  # the thesis does not scale
                problem = BoundaryValueProblem(self.setup, finite, scaled=scaled)
                found = self.followed(solver, problem, problem.guess() if point is None else problem.packed(point))
                if found.converged or found.interrupted or found.code not in UNITS_MATTER:
                    break
            outcome, strides = self.as_outcome(finite, problem, found)
            return outcome, strides, not outcome.converged or problem.minimal(found.point)
        except SimulationDiverged as wall:
            raise self.refusal(wall) from None

    def unless_lower_beside(self, finite: WeakConstraintProblem, outcome: SolverResult) -> SolverResult:
        """A root that looks like a saddle is one if Gauss-Newton, which comes back to minima only, finds less from beside."""
        std = np.sqrt(np.maximum(np.diag(SmootherCovariance(finite, outcome.point).covariance()), 0.0))
        aside = BESIDE * np.where(std < FAR * np.abs(outcome.point.unknowns), std, 0.0)  # not along what the data do not see
        signs = np.random.default_rng(0).choice([-1.0, 1.0], std.size)
        beside = outcome.point.step_along(signs * aside, tuple(np.zeros_like(nodes) for nodes in outcome.point.nodes))
        try:
            there = GaussNewton(self.setup.method.max_iterations).solve(finite, beside)
        except SimulationDiverged:
            return outcome
        here, cost = outcome.evaluation.cost, there.evaluation.cost
        freedom = max(1, finite.residual_count - len(finite.names))
        if here - cost <= max(LOWER, FALL**2 / freedom) * here:
            return outcome
        return replace(outcome, converged=False, reason=Status(
            f"at a root that is no minimum: beside it the sum falls from {here:.4g} to {cost:.4g}. solver=\"smoother\" "
            "looks for the minimum itself", StatusCode.NOT_A_MINIMUM))

    def refined_by_newton(self, finite: WeakConstraintProblem, outcome: SolverResult
                          ) -> tuple[WeakConstraintProblem, SolverResult, str, tuple[PseudoTimeStep, ...]]:
        """Newton on the boundary value problem from the smoother's answer."""
        problem = BoundaryValueProblem(self.setup, finite, scaled=True)
        solver = DampedNewton()
        root = self.followed(solver, problem, problem.packed(outcome.point))
        refined, strides = self.as_outcome(finite, problem, root)
        if refined.converged:
            refined = replace(refined, reason=self.after())
        return finite, refined, f"square-root smoother, refined by {solver.name}", strides

    def followed(self, solver: Any, problem: BoundaryValueProblem, z: np.ndarray) -> RootResult:
        """Let a root finder work, and keep its diary."""
        seen = _LastPoint(problem.system)

        def told(page: RootIteration) -> None:
            values = problem.values(seen.last)
            self.history.append(Iteration(len(self.history), problem.cost(seen.last), page.step, 0.0,
                                          tuple(float(values[i]) for i in self.place)))
            self.tell(self.history[-1])

        root = solver.solve(seen, z, told)
        self.counts["iterations"] += root.iterations
        self.counts["jacobians"] += root.jacobians
        self.counts["simulations"] += root.evaluations - root.jacobians
        self.counts["attempts"] += 1
        return root

    def as_outcome(self, finite: WeakConstraintProblem, problem: BoundaryValueProblem, root: RootResult
                   ) -> tuple[SolverResult, tuple[PseudoTimeStep, ...]]:
        """The root as the smoother sees it; where it cannot be seen, the start stands in its place."""
        strides = tuple(PseudoTimeStep(p.number, p.phase, p.share, p.step, p.residual, p.fresh, p.accepted) for p in root.pages)
        held = np.zeros(len(finite.names), dtype=int)
        code = f" (code {root.code} of Table 6.1)" if root.code else ""
        try:
            point = problem.point(root.point)
            evaluation = finite.evaluate(point)
        except SimulationDiverged as wall:
            point = finite.start()
            where = Status(f"where {wall}{code}", StatusCode.DIVERGED)
            return SolverResult(point, finite.evaluate(point), False, where, (), held, root.interrupted), strides
        c = finite.coordinates
        outside = [name for name, low, high, at in zip(self.setup.printed(), c.lower, c.upper, point.unknowns, strict=True)
                   if not low <= at <= high]
        reason, converged = Status(f"{root.reason}{code}", root.status.code), root.converged
        if outside and converged:
            reason, converged = Status(f"at a root where {', '.join(outside)} lies outside of its bounds, which a root finder "
                                       "does not know of; solver=\"smoother\" does", StatusCode.OUTSIDE_BOUNDS), False
        return SolverResult(point, evaluation, converged, reason, (), held, root.interrupted), strides


def _rank(outcome: SolverResult) -> tuple[bool, bool, float]:
    """What is best comes first; whoever interrupts wants what was being done."""
    return not outcome.interrupted, not outcome.converged, outcome.evaluation.cost


def _stopped(outcome: SolverResult) -> SolverResult:
    return replace(outcome, converged=False, reason=Status.of(StatusCode.INTERRUPTED), interrupted=True)


class _LastPoint:
    """A square system that remembers where it was asked last."""

    def __init__(self, system: Any):
        self.system, self.scale, self.last = system, system.scale, np.zeros(0)

    def value(self, z: np.ndarray) -> np.ndarray:
        self.last = z
        return self.system.value(z)

    def linearize(self, z: np.ndarray) -> Any:
        self.last = z
        return self.system.linearize(z)
