"""Levenberg-Marquardt: least squares within bounds, for problems without equalities.

Each step solves the damped linear problem inside the box exactly (Marquardt's damping in the scale of the Jacobian's
columns, so units do not matter; Nielsen's rule for the damping). It stops when the undamped step that remains is a
hundred-thousandth of a standard error, whatever the scale of the problem.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynident.discretizations.finite import Evaluation, FiniteProblem, Point
from dynident.errors import NotSupported
from dynident.integrators.march import Diverged
from dynident.solvers.box import box_least_squares
from dynident.solvers.outcome import SETTLED, TINY_DAMPING, Diary, Outcome, Watch, residual_variance
from dynident.solvers.reduced import Reduced

FIRST_DAMPING = 1e-3
MOST_DAMPING = 1e14  # beyond it a step changes nothing
ROUNDING = 1e-13  # relative differences of the cost below this are noise of the arithmetic


@dataclass(frozen=True)
class LevenbergMarquardt:
    """Options: how many iterations at the most."""

    iterations: int = 200
    name: str = "Levenberg-Marquardt"

    def solve(self, finite: FiniteProblem, point: Point, watch: Watch | None = None) -> Outcome:
        if finite.equality_count:
            raise NotSupported(f"{self.name} takes no matching conditions, but the problem has "
                               f"{finite.equality_count}. Use segments=1, or the Gauss-Newton solver.")
        diary = Diary(finite.coordinates.values, watch)
        try:
            return _Run(finite, point, diary, self.iterations).go()
        except _Interrupted as stop:
            return stop.outcome


class _Interrupted(Exception):
    def __init__(self, outcome: Outcome):
        self.outcome = outcome


class _Run:
    """The state of one solve."""

    def __init__(self, finite: FiniteProblem, point: Point, diary: Diary, limit: int):
        self.finite, self.point, self.diary, self.limit = finite, point, diary, limit
        self.held = np.zeros(len(finite.names), dtype=int)
        self.damping, self.growth = FIRST_DAMPING, 2.0
        self.wall: Diverged | None = None  # the last simulation that diverged

    def go(self) -> Outcome:
        reduced = Reduced(self.finite.linearize(self.point))
        self.evaluation: Evaluation = reduced.linear.evaluation
        self.scale = np.zeros(len(self.finite.names))
        self.diary.write(self.point, self.evaluation, 0.0)
        try:
            for iteration in range(self.limit):
                self.scale = np.maximum(self.scale, reduced.rows.column_norms)
                gain = self.remaining_gain(reduced)
                variance = residual_variance(self.evaluation.cost, self.finite.residual_count, len(self.finite.names),
                                             self.finite.floor)
                if gain <= SETTLED**2 * variance:
                    return self.outcome(True, f"after {iteration} iterations")
                moved = self.step(reduced)
                if moved is None:
                    return self.stuck(gain, variance)
                if moved:  # rounding hides whether the last step helped; it cannot be improved on
                    return self.blurred_end(iteration + 1, variance)
                reduced = Reduced(self.finite.linearize(self.point))
        except KeyboardInterrupt:
            raise _Interrupted(self.outcome(False, "by the user", interrupted=True)) from None
        return self.outcome(False, f"at the limit of {self.limit} iterations")

    def box(self) -> tuple[np.ndarray, np.ndarray]:
        c = self.finite.coordinates
        return c.lower - self.point.unknowns, c.upper - self.point.unknowns

    def damped(self, reduced: Reduced, damping: float) -> np.ndarray:
        """The step for a damping; also notes which bounds hold it."""
        units = np.where(self.scale > 0, self.scale, 1.0)
        step, self.held = box_least_squares(reduced.rows.damped(np.sqrt(damping) * units), *self.box())
        return step

    def remaining_gain(self, reduced: Reduced) -> float:
        """How much the cost would fall by the full step if the problem were linear."""
        return max(0.0, reduced.rows.fall(self.damped(reduced, TINY_DAMPING)))

    def step(self, reduced: Reduced) -> bool | None:
        """Move on: False if it helped, True if rounding hides whether it did, None if no step helps."""
        while self.damping < MOST_DAMPING:
            step = self.damped(reduced, self.damping)
            expected = max(0.0, reduced.rows.fall(step))
            candidate = Point(np.clip(self.point.unknowns + step, self.finite.coordinates.lower,
                                      self.finite.coordinates.upper), self.point.nodes)
            try:
                evaluation = self.finite.evaluate(candidate)
            except Diverged as wall:
                self.wall = wall
                self.damping *= 10  # never an abort: come back from the wall
                continue
            fall = self.evaluation.cost - evaluation.cost
            blur = self.blur()
            blurred = expected <= blur and abs(fall) <= 10 * blur
            if fall > 1e-4 * expected or blurred:
                quality = fall / expected if expected > 0 else 1.0
                self.damping = max(self.damping * max(1 / 3, 1 - (2 * quality - 1) ** 3), 1e-15)
                self.growth = 2.0
                self.point, self.evaluation = candidate, evaluation
                self.diary.write(candidate, evaluation, float(np.linalg.norm(step * self.scale)))
                return blurred
            self.damping *= self.growth
            self.growth *= 2
        return None

    def blur(self) -> float:
        """Differences of the cost below this are noise, of the arithmetic or of the simulation."""
        cost, noise = self.evaluation.cost, self.finite.noise
        return max(ROUNDING * cost, 2 * np.sqrt(cost) * noise + noise**2)

    def blurred_end(self, iterations: int, variance: float) -> Outcome:
        hidden = np.sqrt(self.blur() / variance)  # standard errors
        if self.blur() <= ROUNDING * self.evaluation.cost or hidden <= SETTLED:
            return self.outcome(True, f"after {iterations} iterations, at the limit of the arithmetic")
        return self.outcome(bool(hidden < 1), f"after {iterations} iterations at the limit of the simulation's own noise, "
                                              f"which hides steps of {hidden:.1g} standard errors")

    def stuck(self, gain: float, variance: float) -> Outcome:
        if gain <= max((100 * SETTLED) ** 2 * variance, min(self.blur(), variance)):
            return self.outcome(True, "where no step lowers the cost any more")
        beyond = f"; every way on meets a point where {self.wall}" if self.wall else ""
        return self.outcome(False, f"where no step lowers the cost, though its slope is not zero{beyond}")

    def outcome(self, converged: bool, reason: str, interrupted: bool = False) -> Outcome:
        return Outcome(self.point, self.evaluation, converged, reason, tuple(self.diary.pages),
                       at_bounds(self.finite, self.point, self.held), interrupted)


def at_bounds(finite: FiniteProblem, point: Point, held: np.ndarray) -> np.ndarray:
    """Which unknowns rest on a bound that holds them."""
    c = finite.coordinates
    below, above = (held < 0) & (point.unknowns <= c.lower), (held > 0) & (point.unknowns >= c.upper)
    return np.where(below, -1, np.where(above, 1, 0))
