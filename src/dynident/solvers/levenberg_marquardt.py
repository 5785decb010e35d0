"""Levenberg-Marquardt: least squares within bounds, for problems without equalities.

Each step solves the damped linear problem inside the box exactly (Marquardt's damping in the scale of the Jacobian's
columns, so units do not matter; Nielsen's rule for the damping). It stops when the undamped step that remains is a
hundred-thousandth of a standard error, whatever the scale of the problem.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynident.errors import NotSupported, SimulationDiverged, SimulatorLost
from dynident.linalg.bounded_least_squares import bounded_least_squares
from dynident.linalg.condensing import CondensedProblem
from dynident.linalg.finite_problem import Evaluation, FiniteProblem, Variables
from dynident.solvers.solver_result import (
    IterationLog,
    SolverResult,
    Watch,
    because,
    iterations_in_words,
    noise_floor,
    step_in_standard_errors,
)
from dynident.status import Status, StatusCode
from dynident.tolerances import (
    RANK_DAMPING,
    STALLED_STEP_TOLERANCE,
    STEP_TOLERANCE,
    SUFFICIENT_REDUCTION,
    UNOBSERVABLE_STEP,
)

FIRST_DAMPING = 1e-3
LEAST_DAMPING = 1e-15
MOST_DAMPING = 1e14  # beyond it a step changes nothing
FIRST_GROWTH = 2.0  # of the damping after a failure; the next grows by twice as much
NEAR_DAMPING = 1e-8  # it may fall to this at once when less than a standard error is left
MEMORY = 0.1  # of a column's length, from one iteration to the next; it may shrink by decades on the way


@dataclass(frozen=True)
class LevenbergMarquardt:
    """Options: how many iterations at the most, the damping to begin with, and how many standard errors may remain.

    A start that is known to be close is best taken with next to no damping.
    """

    iterations: int = 200
    name: str = "Levenberg-Marquardt"
    damping: float = FIRST_DAMPING
    settled: float = STEP_TOLERANCE

    def solve(self, finite: FiniteProblem, point: Variables, watch: Watch | None = None) -> SolverResult:
        if finite.equality_count:
            raise NotSupported(f"{self.name} takes no matching conditions, but the problem has "
                               f"{finite.equality_count}. Use segments=1, or the Gauss-Newton solver.")
        run = _Run(finite, point, IterationLog(finite.coordinates.values, watch), self)
        try:
            return run.go()
        except KeyboardInterrupt:
            if not run.diary.pages:
                raise
            return run.outcome(False, Status.of(StatusCode.INTERRUPTED), interrupted=True)
        except SimulatorLost as end:
            if not run.diary.pages:
                raise
            return run.outcome(False, because(end))


class _Run:
    """The state of one solve."""

    def __init__(self, finite: FiniteProblem, point: Variables, diary: IterationLog, options: LevenbergMarquardt):
        self.finite, self.point, self.diary = finite, point, diary
        self.limit, self.settled = options.iterations, options.settled
        self.held = np.zeros(len(finite.names), dtype=int)
        self.damping, self.growth = options.damping, FIRST_GROWTH
        self.scale = np.zeros(len(finite.names))
        self.wall: SimulationDiverged | None = None  # the last simulation that diverged

    def go(self) -> SolverResult:
        reduced = CondensedProblem(self.finite.linearize(self.point))
        self.evaluation: Evaluation = reduced.linear.evaluation
        self.diary.write(self.point, self.evaluation, 0.0)
        for iteration in range(self.limit):
            self.scale = np.maximum(MEMORY * self.scale, reduced.rows.column_norms)
            left = self.standard_errors_left(reduced)
            if left <= self.settled:
                return self.outcome(True, Status.of(StatusCode.CONVERGED, spent=iterations_in_words(iteration)))
            if left < 1 and not self.finite.cheap_slopes:  # as its square: the last step doubles the digits, and saves one
                self.damping = min(self.damping, max(NEAR_DAMPING, FIRST_DAMPING * left**2))
            before, moved = self.evaluation.cost, self.step(reduced)
            if left <= self.hidden():
                return self.blurred(iteration + 1)
            if moved is None:
                return self.stuck(min(left, self.standard_errors_seen(reduced)))
            reduced = moved
            hardly = before - self.evaluation.cost < UNOBSERVABLE_STEP**2 * self.variance()
            if hardly and self.standard_errors_seen(reduced) <= self.settled:
                return self.outcome(True, Status.of(StatusCode.CONVERGED_IDENTIFIABLE,
                                                    spent=iterations_in_words(iteration + 1)))
        return self.outcome(False, Status.of(StatusCode.ITERATION_LIMIT, spent=iterations_in_words(self.limit)))

    def box(self) -> tuple[np.ndarray, np.ndarray]:
        c = self.finite.coordinates
        return c.lower - self.point.unknowns, c.upper - self.point.unknowns

    def damped(self, reduced: CondensedProblem, damping: float) -> np.ndarray:
        """The step for a damping; also notes which bounds hold it."""
        units = np.where(self.scale > 0, self.scale, 1.0)
        step, self.held = bounded_least_squares(reduced.rows.damped(np.sqrt(damping) * units), *self.box())
        return step

    def standard_errors_left(self, reduced: CondensedProblem) -> float:
        """How far the full step would lead if the problem were linear."""
        gain = reduced.rows.fall(self.damped(reduced, RANK_DAMPING))
        return step_in_standard_errors(gain, self.evaluation.cost, self.finite)

    def variance(self) -> float:
        """Of the residuals, and not more than the noise: far from the data, nothing could be told from what is wrong."""
        freedom = max(1, self.finite.residual_count - len(self.finite.names))
        return min(1.0, max(self.evaluation.cost, self.finite.floor) / freedom)

    def standard_errors_seen(self, reduced: CondensedProblem) -> float:
        """The same without the endless way along what the data do not see."""
        typical = np.fmax(self.finite.coordinates.scale, np.abs(self.point.unknowns))  # NaN without a scale
        rows = reduced.rows.resting(np.where(typical > 0, typical, 1.0), UNOBSERVABLE_STEP * np.sqrt(self.variance()))
        step, _ = bounded_least_squares(rows.damped(np.sqrt(RANK_DAMPING) * np.where(self.scale > 0, self.scale, 1.0)), *self.box())
        return step_in_standard_errors(reduced.rows.fall(step), self.evaluation.cost, self.finite)

    def step(self, reduced: CondensedProblem) -> CondensedProblem | None:
        """Move to a point of lower cost, and linearise there; None if no step helps."""
        c = self.finite.coordinates
        while self.damping < MOST_DAMPING:
            step = self.damped(reduced, self.damping)
            expected = max(0.0, reduced.rows.fall(step))
            candidate = Variables(np.clip(self.point.unknowns + step, c.lower, c.upper), self.point.nodes)
            try:
                ahead = self.finite.linearize(candidate) if self.hopeful() else None
                evaluation = ahead.evaluation if ahead else self.finite.evaluate(candidate)
                fall = self.evaluation.cost - evaluation.cost
                moved = CondensedProblem(ahead or self.finite.linearize(candidate)) if fall > SUFFICIENT_REDUCTION * expected else None
            except SimulationDiverged as wall:
                self.wall = wall
                self.damping *= 10  # never an abort: come back from the wall
                continue
            if moved is not None:
                quality = fall / expected if expected > 0 else 1.0
                self.damping = max(self.damping * max(1 / 3, 1 - (2 * quality - 1) ** 3), LEAST_DAMPING)
                self.growth = FIRST_GROWTH
                self.point, self.evaluation = candidate, moved.linear.evaluation
                self.diary.write(candidate, self.evaluation, float(np.linalg.norm(step * self.scale)))
                return moved
            self.damping *= self.growth
            self.growth *= 2
        return None

    def hopeful(self) -> bool:
        """The last trial helped, so the next probably will: its slopes are asked for at once and save an evaluation."""
        return self.finite.cheap_slopes and self.growth == FIRST_GROWTH

    def hidden(self) -> float:
        """Standard errors below which the simulation's own noise hides whether a step helps; 0 where it has none."""
        return noise_floor(self.evaluation.cost, self.finite)

    def blurred(self, iterations: int) -> SolverResult:
        hidden = self.hidden()
        return self.outcome(hidden < 1, Status.of(StatusCode.SIMULATION_NOISE, spent=iterations_in_words(iterations),
                                                  hidden=hidden))

    def stuck(self, left: float) -> SolverResult:
        if left <= max(STALLED_STEP_TOLERANCE, min(self.hidden(), 1)):
            return self.outcome(True, Status.of(StatusCode.CONVERGED_NO_PROGRESS, helps="lowers the cost"))
        beyond = f"; every way on meets a point where {self.wall}" if self.wall else ""
        return self.outcome(False, Status.of(
            StatusCode.NO_PROGRESS, helps="lowers the cost, although the gradient is not zero", beyond=beyond))

    def outcome(self, converged: bool, reason: Status, interrupted: bool = False) -> SolverResult:
        return SolverResult(self.point, self.evaluation, converged, reason, tuple(self.diary.pages),
                       at_bounds(self.finite, self.point, self.held), interrupted)


def at_bounds(finite: FiniteProblem, point: Variables, held: np.ndarray) -> np.ndarray:
    """Which unknowns rest on a bound that holds them."""
    c = finite.coordinates
    below, above = (held < 0) & (point.unknowns <= c.lower), (held > 0) & (point.unknowns >= c.upper)
    return np.where(below, -1, np.where(above, 1, 0))
