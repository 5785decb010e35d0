"""Generalised Gauss-Newton: least squares with matching conditions, inner nodes eliminated along time.

Full steps where they can be had. Whether a step is good is judged by the natural monotonicity test (Bock; Deuflhard):
the step that would follow, computed with the derivatives already at hand, must be shorter. It compares like with like,
steps in the unknowns, so that neither the penalty for a mismatch nor the weights of the residuals need tuning.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dynident.errors import SimulationDiverged
from dynident.linalg.bounded_least_squares import bounded_least_squares
from dynident.linalg.condensing import CondensedProblem
from dynident.linalg.finite_problem import Evaluation, FiniteProblem, Variables
from dynident.problem.losses import sum_of_squares
from dynident.solvers.levenberg_marquardt import at_bounds
from dynident.solvers.linearized_constraints import LinearizedConstraints, linearize_constraints
from dynident.solvers.solver_result import (
    IterationLog,
    SolverResult,
    Watch,
    iterations_in_words,
    noise_floor,
    step_in_standard_errors,
)
from dynident.status import Status, StatusCode
from dynident.tolerances import (
    CONSTRAINT_PROGRESS,
    CONTRACTED_STEP,
    CONTRACTING_STEP,
    DEFECT_TOLERANCE,
    NODE_GAIN_TOLERANCE,
    NODE_STEP_TOLERANCE,
    RANK_DAMPING,
    ROUNDING_STEP,
    STALLED_STEP_TOLERANCE,
    STEP_TOLERANCE,
    UNBOUNDED_STEP,
    UNOBSERVABLE_STEP,
)
from dynident.transcription.parameter_constraints import ParameterConstraints

SMALLEST_MOST = 0.1  # of a step, however much it seems to overshoot
SHORTEST_SHARE = 1e-3  # of a step; below it the direction is given up and damped instead
UNLEASHED = 50  # iterations before it is taken for wandering among unknowns that the data do not see
LITTLE = 0.3  # of a step on a leash; the leash was too long
PATIENCE = 10  # iterations in which conditions that are not met have to come closer


@dataclass(frozen=True)
class Hold:
    """How a direction is held back where no share of it helps: from the least to the most, in multiples."""

    least: float
    first: float  # once it is needed at all
    most: float
    factor: float
    leash: bool  # measured in typical sizes of the unknowns, else in columns of the Jacobian


DAMPING = Hold(least=RANK_DAMPING, first=1e-6, most=1e4, factor=100, leash=False)  # relative to the squared columns
LEASH = Hold(least=UNOBSERVABLE_STEP, first=1.0, most=1e4, factor=3, leash=True)  # standard errors that a typical size costs


@dataclass(frozen=True)
class GaussNewton:
    """Options: how many iterations at the most, and conditions between the unknowns."""

    iterations: int = 200
    between: ParameterConstraints | None = None
    name: str = "generalised Gauss-Newton"

    def solve(self, finite: FiniteProblem, point: Variables, watch: Watch | None = None) -> SolverResult:
        """Without a leash first; where that does not settle, unknowns that the data hardly see are kept from wandering."""
        diary = IterationLog(finite.coordinates.values, watch)
        first = self._run(finite, point, diary, min(self.iterations, UNLEASHED), DAMPING)
        free = first.outcome_of_run()
        if free.converged or free.interrupted or first.contradicted():
            return free
        used = len(diary.pages) - 1
        if used >= self.iterations:
            return free
        begin = free.point if used >= UNLEASHED else point  # a run that got stuck begins anew
        held = self._run(finite, begin, diary, self.iterations - used, LEASH).outcome_of_run()
        better = held.converged or held.interrupted or used < UNLEASHED or held.evaluation.cost < free.evaluation.cost
        return replace(held if better else free, history=tuple(diary.pages))

    def _run(self, finite: FiniteProblem, point: Variables, diary: IterationLog, limit: int, hold: Hold) -> _Run:
        run = _Run(finite, point, diary, limit, hold)
        run.between = self.between if self.between is not None and self.between.count else None
        return run


def settled(finite: FiniteProblem, point: Variables) -> bool:
    """Whether a point that another solver found passes for an optimum here."""
    return _Run(finite, point, IterationLog(finite.coordinates.values), 1).at_rest()


class _Run:
    """The state of one solve."""

    def __init__(self, finite: FiniteProblem, point: Variables, diary: IterationLog, limit: int, hold: Hold = DAMPING):
        self.finite, self.point, self.diary, self.limit = finite, point, diary, limit
        self.held = np.zeros(len(finite.names), dtype=int)
        self.hold, self.share = hold, 1.0
        self.held_back = hold.first if hold.leash else hold.least
        self.most = 1.0  # share of a step that does not overshoot
        self.last: tuple[np.ndarray, float] | None = None  # the last step in its full length, and the share of it
        self.wall: SimulationDiverged | None = None
        self.between: ParameterConstraints | None = None
        self.tie: LinearizedConstraints | None = None  # the conditions at this point, where there are any
        self.lacks: list[float] = []  # by how much they were not met, from point to point

    def outcome_of_run(self) -> SolverResult:
        try:
            return self.go()
        except KeyboardInterrupt:
            if not hasattr(self, "evaluation"):
                raise
            return self.outcome(False, Status.of(StatusCode.INTERRUPTED), interrupted=True)

    def go(self) -> SolverResult:
        reduced = CondensedProblem(self.finite.linearize(self.point))
        self.evaluation: Evaluation = reduced.linear.evaluation
        self.diary.write(self.point, self.evaluation, 0.0)
        for iteration in range(self.limit):
            self.units = self.unit_lengths(reduced)
            step, nodes = self.direction(reduced, self.hold.least)
            left = self.standard_errors_left(reduced, step, nodes)
            if self.tie:
                self.lacks.append(float(np.max(self.tie.excess / self.tie.sizes)))
            if left <= STEP_TOLERANCE:
                return self.outcome(True, Status.of(StatusCode.CONVERGED, spent=iterations_in_words(iteration)))
            if self.contradicted():
                return self.outcome(False, Status.of(StatusCode.INFEASIBLE_CONSTRAINTS, why=""))
            if not self.hold.leash and self.length(step, nodes) > UNBOUNDED_STEP:
                return self.outcome(False, Status.of(StatusCode.WANDERING))
            self.most = self.without_overshoot(step)
            moved = self.next(reduced, (step, nodes))
            self.last = step, self.share
            if moved is None:
                return self.stuck(left)
            reduced = moved
        return self.outcome(False, Status.of(StatusCode.ITERATION_LIMIT, spent=iterations_in_words(self.limit)))

    def at_rest(self) -> bool:
        try:
            reduced = CondensedProblem(self.finite.linearize(self.point))
        except SimulationDiverged:
            return False
        self.evaluation = reduced.linear.evaluation
        self.units = self.unit_lengths(reduced)
        return self.standard_errors_left(reduced, *self.direction(reduced, self.hold.least)) <= STALLED_STEP_TOLERANCE

    def contradicted(self) -> bool:
        """Whether conditions have come no closer to being met for a while."""
        return len(self.lacks) > PATIENCE and self.lacks[-1] > CONSTRAINT_PROGRESS * self.lacks[-1 - PATIENCE]

    def next(self, reduced: CondensedProblem, least: tuple[np.ndarray, tuple[np.ndarray, ...]]) -> CondensedProblem | None:
        """The problem at a better point, with the direction held back as much as it takes; None if nothing helps.

        `least` is the direction that is held back least, just computed.
        """
        while self.held_back <= self.hold.most:
            direction = least if self.held_back == self.hold.least else self.direction(reduced, self.held_back)
            moved = self.advance(reduced, *direction)
            if moved is not None:
                return moved
            self.held_back = max(self.held_back * self.hold.factor, self.hold.first)
        return None

    def without_overshoot(self, step: np.ndarray) -> float:
        """The share of a step that leads to where the next one would vanish, seen from how it follows the last one.

        With large residuals a Gauss-Newton step overshoots: the next step, d, points back along the last one, d', of
        which the share a was gone. If d = (1 - a c) d' with the same c in the next step (Aitken), the share is 1 / c.
        """
        if self.last is None:
            return 1.0
        before, share = self.last[0] / self.units, self.last[1]
        squared = float(before @ before)
        follows = float(before @ (step / self.units)) / squared if squared > 0 else 0.0
        return float(np.clip(share / (1 - follows), SMALLEST_MOST, 1.0)) if follows < 0 else 1.0

    def unit_lengths(self, reduced: CondensedProblem) -> np.ndarray:
        """Length of a typical change of each unknown; where nothing is known, that which the data can tell."""
        told = np.sqrt(max(self.evaluation.cost, self.finite.floor)) / np.where(
            reduced.rows.column_norms > 0, reduced.rows.column_norms, np.inf)
        scale = np.where(np.isnan(self.finite.coordinates.scale), told, self.finite.coordinates.scale)
        units = np.where(scale > 0, scale, 1.0)
        return np.maximum(units, np.abs(self.point.unknowns)) if self.hold.leash else units  # what has grown goes far

    def direction(self, reduced: CondensedProblem, held_back: float) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        c = self.finite.coordinates
        spans = np.where(reduced.rows.column_norms > 0, reduced.rows.column_norms, 1.0)
        damping, leash = (RANK_DAMPING, held_back) if self.hold.leash else (held_back, 0.0)
        self.weights = np.sqrt(damping) * spans + leash * self.residual_std() / self.units
        rows = reduced.rows
        if self.hold.leash:  # the way along what the data do not see is endless, and bends: what is there stays there
            rows = rows.resting(self.units, self.hold.least * min(1.0, self.residual_std()))  # far from the data all counts
        rows = rows.damped(self.weights)
        lower, upper = c.lower - self.point.unknowns, c.upper - self.point.unknowns
        if self.between:
            seen = float(np.max(rows.column_norms * self.units))
            self.tie = linearize_constraints(self.between, self.point.unknowns, self.units, seen)
            rows, (lower, upper) = self.tie.tied(rows), self.tie.bounds(lower, upper)
        step, held = bounded_least_squares(rows, lower, upper)
        self.free_rows = rows.holding(held != 0, step)
        n = len(c.lower)
        self.held, self.tight, step = held[:n], held[n:], step[:n]
        return step, reduced.expand(step, self.evaluation)

    def residual_std(self) -> float:
        freedom = max(1, self.finite.residual_count - len(self.finite.names))
        return float(np.sqrt(max(self.evaluation.cost, self.finite.floor) / freedom))

    def length(self, step: np.ndarray, nodes: tuple[np.ndarray, ...]) -> float:
        return float(np.sqrt(sum_of_squares(step / self.units) + self.finite.node_norm(nodes)))

    def standard_errors_left(self, reduced: CondensedProblem, step: np.ndarray, nodes: tuple[np.ndarray, ...]) -> float:
        """How far the undamped step would lead in standard errors; infinite while segments do not meet, or conditions."""
        if self.tie and np.any(self.tie.excess):
            return np.inf
        if self.length(step, nodes) <= ROUNDING_STEP:
            return 0.0
        links = max(1, sum(len(d) for d in self.evaluation.defects))  # what each lacks adds up along the record
        closed = self.evaluation.mismatch * np.sqrt(links) <= DEFECT_TOLERANCE and (
            np.sqrt(self.finite.node_norm(nodes)) <= NODE_STEP_TOLERANCE)
        leash = self.hold.least if self.hold.leash else 0.0
        paid = float(np.sum((leash * self.residual_std() / self.units * step) ** 2))
        gain = reduced.rows.fall(step) - 2 * paid  # none along what the data see less of than the leash holds
        by_nodes = step_in_standard_errors(reduced.by_nodes, self.evaluation.cost, self.finite)  # of all of them together
        if not closed or by_nodes > NODE_GAIN_TOLERANCE:
            return np.inf
        return step_in_standard_errors(gain, self.evaluation.cost, self.finite)

    def advance(self, reduced: CondensedProblem, step: np.ndarray, nodes: tuple[np.ndarray, ...]) -> CondensedProblem | None:
        """Go along the direction as far as the natural monotonicity test allows; None if that is nowhere."""
        length = self.length(step, nodes)
        share = min(self.most, 4 * self.share)
        while share >= SHORTEST_SHARE:
            full = share == self.most
            candidate = self.clipped(self.point.moved(step, nodes, share))
            try:
                follows = self.following(reduced, candidate, share * step)
                if follows <= (1 - share / 4) * length or (full and follows <= CONTRACTED_STEP and length <= CONTRACTING_STEP):
                    return self.move(candidate, share, length)
            except SimulationDiverged as wall:
                self.wall = wall
                share /= 4
                continue
            excess = abs(follows - (1 - share) * length)
            share = min(share / 2, max(share / 10, share * length / max(2 * excess, 1e-300)))
        self.share = 1.0
        return None

    def move(self, candidate: Variables, share: float, length: float) -> CondensedProblem:
        try:
            moved = CondensedProblem(self.finite.linearize(candidate))
        except SimulationDiverged:
            CondensedProblem(self.finite.linearize(self.point))  # puts derivatives and factors of this point back in their place
            raise
        self.point, self.evaluation, self.share = candidate, moved.linear.evaluation, share
        if share == self.most:
            self.held_back = max(self.held_back / self.hold.factor, self.hold.least)
        elif self.hold.leash and share < LITTLE:
            self.held_back, self.share = min(self.held_back * self.hold.factor, self.hold.most), 1.0
        self.diary.write(candidate, self.evaluation, share * length)
        return moved

    def following(self, reduced: CondensedProblem, there: Variables, gone: np.ndarray) -> float:
        """Length of the simplified step: residuals and defects of another point, derivatives of the present one.

        What holds the step back pulls on the other point too: in a linear problem nothing follows a full step, held or not.
        """
        evaluation = self.finite.evaluate(there)
        gradient = reduced.gradient(evaluation) + self.weights**2 * gone
        if self.tie:
            gradient += self.tie.pull(self.tight, self.tie.between.at(there.unknowns)[0])
        step = self.free_rows.newton_step(np.append(gradient, np.zeros(self.tight.size)))[:gone.size]
        return self.length(step, reduced.expand(step, evaluation))

    def clipped(self, point: Variables) -> Variables:
        """Rounding must not carry an unknown out of its bounds."""
        c = self.finite.coordinates
        return Variables(np.clip(point.unknowns, c.lower, c.upper), point.nodes)

    def stuck(self, left: float) -> SolverResult:
        if left <= max(STALLED_STEP_TOLERANCE, min(noise_floor(self.evaluation.cost, self.finite), 1)):
            return self.outcome(True, Status.of(StatusCode.CONVERGED_NO_PROGRESS, helps="passes the monotonicity test"))
        beyond = f"; every way on meets a point where {self.wall}" if self.wall else ""
        return self.outcome(False, Status.of(StatusCode.NO_PROGRESS, helps="passes the monotonicity test any more",
                                             beyond=beyond))

    def outcome(self, converged: bool, reason: Status, interrupted: bool = False) -> SolverResult:
        if not (converged or interrupted) and self.tie and np.any(self.tie.excess):
            reason = Status.of(StatusCode.INFEASIBLE_CONSTRAINTS, why=f": {self.tie.complaint}")
        return SolverResult(self.point, self.evaluation, converged, reason, tuple(self.diary.pages),
                       at_bounds(self.finite, self.point, self.held), interrupted)
