"""SQP: sequential quadratic programming for shooting and full discretization, as the direct-methods paper solves them.

Each iteration solves a quadratic program with a convex model of the Lagrangian (learnt by BFGS, of Gauss-Newton, or exact with
its negative curvature turned around), and goes along its step as far as the l1 merit function, objective plus penalty times
violated constraints, falls enough (Armijo). A full step that only its constraints' curvature spoils gets a second-order
correction (Nocedal and Wright, Algorithm 18.3 and Sec. 15.6).

Single shooting has no matching conditions that would hold a step: where the data hardly determine a direction, BFGS knows next
to no curvature along it and would go as far as the bounds, where motions are unstable and a fall of the cost tells little.
There a step is limited to a share of each unknown's own size, which follows from how well the last steps were foretold (a trust
region), and ends before the cost is far steeper than where it began (the curvature condition of Wolfe, in a weak form).

Quasi-Newton: the Lagrangian of a transcribed problem is a sum of elements, each of few variables: the first state of a segment
and the parameters. Each element has a small matrix of its own (partitioned BFGS, Griewank and Toint 1982), updated with
Powell's damping, so that it stays positive definite; their sum is as sparse as the Hessian itself. One segment is plain BFGS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dynident.errors import ProblemError, SimulationDiverged
from dynident.linalg.finite_problem import FiniteProblem, Variables
from dynident.solvers.nlp import Program, program_of
from dynident.solvers.quadratic_program import QuadraticProgram, QuadraticStep, convex_matrix
from dynident.solvers.solver_result import IterationLog, SolverResult, Watch, iterations_in_words
from dynident.status import Status, StatusCode
from dynident.tolerances import (
    BFGS_DAMPING,
    BFGS_SKIPPED_STEP,
    NLP_ACTIVE_BOUND,
    SQP_ARMIJO,
    SQP_DUAL_TOLERANCE,
    SQP_FALL,
    SQP_FEASIBILITY,
    SQP_ROUNDING,
    SQP_SHORTEST_REACH,
    SQP_SHORTEST_STEP,
    SQP_SLOW_GAIN,
    SQP_STEEPEST,
    SQP_STEP,
)
from dynident.transcription.nonlinear_program import LinearizedProgram, prior_curvature
from dynident.transcription.shooting_program import ShootingProgram

Elements = list[np.ndarray]  # (elements, n, n) per kind
SQP_HESSIANS = ("bfgs", "gauss_newton", "exact")
PENALTY_MARGIN = 1.5  # times the largest multiplier
SLOW_STEPS = 5  # in a row, after which BFGS begins anew: its matrices learnt beside a wall
FIRST_IDENTITY_SHARE = 1e-4  # of the gradient's size: identity beside Gauss-Newton's matrix, which holds the step
LIMITED_IDENTITY_SHARE = 1e-8  # the same where steps are limited: only so that the matrix is positive
FIRST_REACH, LONGEST_REACH = 0.5, 1.0  # of a variable's size: how far a limited step may go
LEAST_SIZE = 0.05  # of a variable's typical size: it counts as this large where it is nearly zero
FORETOLD_WELL, FORETOLD_BADLY = 0.75, 0.25  # of the promised fall: the next step may go farther, or less far
DAMPING_FACTOR, LEAST_DAMPING, MOST_DAMPING = 4.0, 1e-12, 1e6  # of Gauss-Newton's and the exact Hessian's diagonal


@dataclass(frozen=True)
class Sqp:
    """Options; `hessian`: "bfgs", "gauss_newton" or "exact"; `first`: what BFGS begins with, "gauss_newton" or "identity"."""

    max_iterations: int = 500
    hessian: str = "gauss_newton"
    first: str = "gauss_newton"

    def __post_init__(self) -> None:
        if self.hessian not in SQP_HESSIANS:
            raise ProblemError(f"The SQP method takes no Hessian '{self.hessian}'; use one of {', '.join(SQP_HESSIANS)}.")

    @property
    def name(self) -> str:
        words = {"bfgs": "BFGS", "gauss_newton": "Gauss-Newton Hessian", "exact": "exact Hessian"}
        return f"SQP with {words[self.hessian]}"

    def solve(self, finite: FiniteProblem, point: Variables, watch: Watch | None = None) -> SolverResult:
        program = program_of(finite)
        problem = SqpProblem(self, program, IterationLog(finite.coordinates.values, watch))
        try:
            state = problem.begin(point)
            while state.ended is None:
                state = problem.iterate(state)
        except KeyboardInterrupt:
            state = replace(problem.last or problem.begin(point), ended=Status.of(StatusCode.INTERRUPTED))
        return problem.outcome(state)


@dataclass(frozen=True, eq=False)
class SqpState:
    """Where the search stands."""

    w: np.ndarray
    at: LinearizedProgram
    multipliers: np.ndarray
    matrices: Elements
    penalty: float = 1.0
    damping: float = 1e-3
    reach: float = FIRST_REACH  # of each unknown's size, where steps are limited
    fresh: bool = True  # the matrices have learnt nothing yet
    gain: float = np.inf  # of the last step, as a share of the objective
    slow: int = 0  # steps in a row that gained next to nothing
    ended: Status | None = None
    optimal: bool = False


@dataclass(eq=False)
class SqpProblem:
    """One solve: the program, its bounds and the structure of its subproblems."""

    options: Sqp
    program: Program
    log: IterationLog
    last: SqpState | None = None
    quadratic: QuadraticProgram = field(init=False)

    def __post_init__(self) -> None:
        program = self.program
        self.lower, self.upper, low, high = program.bounds()
        self.low, self.high = low * program.row_scale, high * program.row_scale
        self.limited = not program.matching and self.options.hessian == "bfgs" and self.options.first != "identity"

    def begin(self, point: Variables) -> SqpState:
        """Within the bounds; raises SimulationDiverged where the model is not finite."""
        w = np.clip(self.program.variables(point), self.lower, self.upper)
        at = self._linearized(w)
        diagonal = np.zeros(self.program.size)
        np.add.at(diagonal, [i for i, _ in self.program.finite.objective.priors],
                  prior_curvature(self.program, self.program.point(w), 1.0, exact=False))
        n = self.program.unknowns
        bounded = bool(np.any(np.isfinite(self.lower[n:]) | np.isfinite(self.upper[n:])))
        self.quadratic = QuadraticProgram(self.program.element_columns, self.program.jacobian_pattern, diagonal,
                                          self.program.matching, bounded)
        state = SqpState(w, at, np.zeros(at.constraints.size), self._first_matrices(w, at))
        self._note(state, 0.0)
        return state

    def _first_matrices(self, w: np.ndarray, at: LinearizedProgram) -> Elements:
        """What BFGS begins with: multiples of the identity, or Gauss-Newton's matrix and a little of the identity."""
        size = max(float(np.max(np.abs(at.gradient), initial=0.0)), 1e-8)
        columns = self.program.element_columns
        if self.options.first == "identity" or self.options.hessian != "bfgs":
            return first_matrices(columns, size)
        known = self.program.element_hessians(w, np.zeros(at.constraints.size), exact=False)
        share = LIMITED_IDENTITY_SHARE if self.limited else FIRST_IDENTITY_SHARE
        return [own + little for own, little in zip(known, first_matrices(columns, share * size), strict=True)]

    # one iteration

    def iterate(self, state: SqpState) -> SqpState:
        """A quadratic program and a step along its answer; the state with `ended` where there is none any more."""
        self.last = state
        if len(self.log.iterations) > self.options.max_iterations:
            spent = iterations_in_words(self.options.max_iterations)
            return replace(state, ended=Status.of(StatusCode.ITERATION_LIMIT, spent=spent))
        if state.gain < SQP_FALL and self._is_flat(state):
            return self._ended(state)
        if state.slow >= SLOW_STEPS and self.options.first != "identity":
            state = replace(state, matrices=self._first_matrices(state.w, state.at), fresh=True, slow=0)
        blocks, damping = self._model(state)
        answer = self._direction(state, self.quadratic.assembled(blocks, damping), limited=self.limited)
        if not answer.solved:
            return self._stuck(state, "the quadratic program of a step could not be solved")
        if self._has_converged(state, answer):
            return self._ended(replace(state, multipliers=answer.multipliers))
        largest = float(np.max(np.abs(answer.multipliers), initial=0.0))
        if state.penalty < largest or state.penalty > 100 * PENALTY_MARGIN * largest:
            state = replace(state, penalty=max(PENALTY_MARGIN * largest, 1e-8))
        return self._along(state, answer)

    def _model(self, state: SqpState) -> tuple[Elements, float]:
        if self.options.hessian == "bfgs":
            return state.matrices, 0.0
        exact = self.options.hessian == "exact"
        blocks = self.program.element_hessians(state.w, state.multipliers, exact)
        return (convex_elements(blocks) if exact and self.quadratic.sparse else blocks), state.damping

    def _direction(self, state: SqpState, hessian: np.ndarray, shift: np.ndarray | None = None, limited: bool = False
                   ) -> QuadraticStep:
        """The step of the quadratic program; `shift` stands for the constraints where a correction asks for others."""
        at = state.at
        values = at.constraints if shift is None else shift
        below, above, limits = self.lower - state.w, self.upper - state.w, (self.low - values, self.high - values)
        reach = state.reach * self._sizes(state) if limited else np.full(state.w.size, np.inf)
        box = np.maximum(below, -reach), np.minimum(above, reach)
        answer = self.quadratic.solve(hessian, at.gradient, at.jacobian, box, limits, 10 * max(state.penalty, 1.0))
        bounded = np.where(answer.bound_multipliers > 0, above <= reach, -below <= reach)  # by its bounds, not by the limit
        return replace(answer, bound_multipliers=np.where(bounded, answer.bound_multipliers, 0.0))

    def _sizes(self, state: SqpState) -> np.ndarray:
        return np.asarray(np.abs(state.w) + LEAST_SIZE)

    def _along(self, state: SqpState, answer: QuadraticStep) -> SqpState:
        """As far along the step as the merit function falls enough; with a correction where the full step fails."""
        step, at, merit = answer.step, state.at, self._merit(state, state.at.objective, state.at.constraints)
        fall = self._fall(state, step)
        if fall > -SQP_ROUNDING * abs(merit):
            return self._stuck(state, "no step lowers the merit function any more")
        length = 1.0
        while length > SQP_SHORTEST_STEP:
            trial = np.clip(state.w + length * step, self.lower, self.upper)
            found = self._value(trial)
            if found is not None and self._merit(state, *found) <= merit + SQP_ARMIJO * length * fall:
                ahead = self._linearized_where_finite(trial)
                steeper = self._times_steeper(state, answer, ahead, fall)
                if ahead is not None and steeper <= SQP_STEEPEST:
                    return self._moved(state, trial, ahead, answer, length)
                length *= float(np.clip(0.5 / (1 + steeper), 0.1, 0.5))
                continue
            if length == 1.0 and found is not None and self._violation(found[1]) > self._violation(at.constraints):
                corrected = self._corrected(state, step, found[1], merit + SQP_ARMIJO * fall)
                ahead = None if corrected is None else self._linearized_where_finite(corrected)
                if corrected is not None and ahead is not None:
                    return self._moved(state, corrected, ahead, answer, 1.0)
            length *= self._shorter(found, state, merit, length, fall)
        return self._stuck(state, "no step along the direction lowers the merit function")

    def _fall(self, state: SqpState, step: np.ndarray) -> float:
        """What the linearised program changes the merit function by, along a step."""
        at, linear = state.at, state.at.constraints + self._times(state.at.jacobian, step)
        return float(at.gradient @ step) - state.penalty * (self._violation(at.constraints) - self._violation(linear))

    def _shorter(self, found: tuple[float, np.ndarray] | None, state: SqpState, merit: float, length: float, fall: float
                 ) -> float:
        """Where the parabola through what is known has its minimum, between a tenth and a half."""
        if found is None:
            return 0.25
        over = self._merit(state, *found) - merit - length * fall
        return float(np.clip(-length * fall / (2 * over), 0.1, 0.5)) if over > 0 else 0.5

    def _corrected(self, state: SqpState, step: np.ndarray, constraints: np.ndarray, enough: float) -> np.ndarray | None:
        """Second-order correction (against the Maratos effect): makes up for what the full step missed."""
        blocks, damping = self._model(state)
        shift = constraints - self._times(state.at.jacobian, step)
        answer = self._direction(state, self.quadratic.assembled(blocks, damping), shift, self.limited)
        if not answer.solved:
            return None
        trial = np.clip(state.w + answer.step, self.lower, self.upper)
        found = self._value(trial)
        return trial if found is not None and self._merit(state, *found) <= enough else None

    def _times_steeper(self, state: SqpState, answer: QuadraticStep, ahead: LinearizedProgram | None, fall: float) -> float:
        """Slope of the Lagrangian at the end of a limited step, up or down, over that at its begin; 0 if it is not limited."""
        if ahead is None or not self.limited:
            return np.inf if ahead is None else 0.0
        slopes = [abs(float((at.gradient + self._transposed(at.jacobian, answer.multipliers)) @ answer.step))
                  for at in (state.at, ahead)]
        return slopes[1] / max(slopes[0], -fall)

    def _moved(self, state: SqpState, trial: np.ndarray, at: LinearizedProgram, answer: QuadraticStep, length: float
               ) -> SqpState:
        matrices, moved = state.matrices, trial - state.w
        if self.options.hessian == "bfgs":
            matrices = bfgs_update(matrices, self.program.element_columns, moved,
                               state.at.element_gradients(answer.multipliers), at.element_gradients(answer.multipliers),
                               state.fresh and self.options.first == "identity")
        damping = state.damping / DAMPING_FACTOR if length == 1.0 else state.damping * (DAMPING_FACTOR if length < 0.1 else 1.0)
        gain = self._merit(state, state.at.objective, state.at.constraints) - self._merit(state, at.objective, at.constraints)
        damping = float(np.clip(damping, LEAST_DAMPING, MOST_DAMPING))
        reach = self._reach(state, answer.step, length, gain) if self.limited else state.reach
        gain = gain / max(abs(at.objective), 1e-300)
        found = replace(state, w=trial, at=at, multipliers=answer.multipliers, matrices=matrices, fresh=False, damping=damping,
                        reach=reach, gain=gain, slow=state.slow + 1 if gain < SQP_SLOW_GAIN else 0)
        self._note(found, float(np.max(np.abs(moved))))
        return found

    def _reach(self, state: SqpState, step: np.ndarray, length: float, gain: float) -> float:
        """Of the next step: twice as far where the fall was as promised, less far where it was not or the step was shorter."""
        longest = float(np.max(np.abs(step) / self._sizes(state), initial=0.0))
        hessian = self.quadratic.assembled(state.matrices, 0.0)
        promised = -self._fall(state, step) - float(step @ self._times_symmetric(hessian, step)) / 2
        if length < 1.0 or gain < FORETOLD_BADLY * promised:
            return max((length if length < 1.0 else 0.5) * longest, SQP_SHORTEST_REACH)
        return min(max(state.reach, 2 * longest), LONGEST_REACH) if gain > FORETOLD_WELL * promised else state.reach

    # how it ends

    def _has_converged(self, state: SqpState, answer: QuadraticStep) -> bool:
        """The Lagrangian has no gradient and the constraints hold; or the next step is nothing."""
        lagrange = (state.at.gradient + self._transposed(state.at.jacobian, answer.multipliers) + answer.bound_multipliers)
        flat = float(np.max(np.abs(lagrange), initial=0.0)) <= SQP_DUAL_TOLERANCE * max(1.0, abs(state.at.objective))
        longest = float(np.max(np.abs(answer.step), initial=0.0))
        return self._is_feasible(state) and (longest <= SQP_STEP or (flat and longest <= SQP_STEP**0.5))

    def _ended(self, state: SqpState) -> SqpState:
        spent = iterations_in_words(len(self.log.iterations) - 1)
        return replace(state, ended=Status.of(StatusCode.CONVERGED, spent=spent), optimal=True)

    def _stuck(self, state: SqpState, why: str) -> SqpState:
        """Begin anew with matrices that have learnt nothing, or stronger damping; where that was tried: an optimum, or not."""
        if self.options.hessian == "bfgs" and not state.fresh:
            return replace(state, matrices=self._first_matrices(state.w, state.at), fresh=True, reach=FIRST_REACH)
        if self.options.hessian != "bfgs" and state.damping < 1.0:
            return replace(state, damping=max(state.damping * 100, 1e-6))
        if self._is_flat(state):
            return self._ended(state)
        spent = iterations_in_words(len(self.log.iterations) - 1)
        return replace(state, ended=Status.of(StatusCode.SOLVER_FAILED, spent=spent, said=why, beyond=""))

    def _is_flat(self, state: SqpState) -> bool:
        """The constraints hold, and the quadratic program with Gauss-Newton's matrix promises next to nothing."""
        blocks = self.program.element_hessians(state.w, state.multipliers, exact=False)
        hessian = self.quadratic.assembled(blocks, LEAST_DAMPING)
        answer = self._direction(state, hessian)
        bent = self._times_symmetric(hessian, answer.step)
        promised = -float(state.at.gradient @ answer.step + answer.step @ bent / 2)
        return answer.solved and self._is_feasible(state) and promised <= SQP_FALL * abs(state.at.objective)

    def outcome(self, state: SqpState) -> SolverResult:
        """As every solver reports it."""
        assert state.ended is not None
        program, n = self.program, self.program.unknowns
        at_lower, at_upper = state.w - self.lower <= NLP_ACTIVE_BOUND, self.upper - state.w <= NLP_ACTIVE_BOUND
        active = np.where(at_lower[:n], -1, np.where(at_upper[:n], 1, 0))
        point, c = program.point(state.w), program.finite.coordinates
        met = np.where(active < 0, c.lower, np.where(active > 0, c.upper, point.unknowns))
        point = Variables(met, point.nodes)
        evaluation, stopped = program.finite.evaluate(point), state.ended.code is StatusCode.INTERRUPTED
        return SolverResult(point, evaluation, state.optimal, state.ended, tuple(self.log.iterations), active, stopped)

    # small things

    def _linearized(self, w: np.ndarray) -> LinearizedProgram:
        if not isinstance(self.program, ShootingProgram):  # which counts its simulations itself
            self.program.finite.counts["jacobians"] += 1
        return self.program.linear(w)

    def _linearized_where_finite(self, w: np.ndarray) -> LinearizedProgram | None:
        try:
            return self._linearized(w)
        except SimulationDiverged:
            return None

    def _value(self, w: np.ndarray) -> tuple[float, np.ndarray] | None:
        try:
            objective, constraints = self.program.values(w)
        except SimulationDiverged:
            return None
        return (objective, constraints) if np.isfinite(objective) and np.all(np.isfinite(constraints)) else None

    def _is_feasible(self, state: SqpState) -> bool:
        return self._violation(state.at.constraints) <= SQP_FEASIBILITY * (1 + state.at.constraints.size)

    def _times_symmetric(self, hessian: np.ndarray, step: np.ndarray) -> np.ndarray:
        pattern = self.quadratic.hessian
        return np.bincount(pattern.rows, weights=hessian * step[pattern.columns], minlength=pattern.shape[0])

    def _merit(self, state: SqpState, objective: float, constraints: np.ndarray) -> float:
        return objective + state.penalty * self._violation(constraints)

    def _violation(self, constraints: np.ndarray) -> float:
        return float(np.sum(np.maximum(0.0, np.maximum(self.low - constraints, constraints - self.high))))

    def _times(self, jacobian: np.ndarray, step: np.ndarray) -> np.ndarray:
        pattern = self.program.jacobian_pattern
        return np.bincount(pattern.rows, weights=jacobian * step[pattern.columns], minlength=pattern.shape[0])

    def _transposed(self, jacobian: np.ndarray, multipliers: np.ndarray) -> np.ndarray:
        pattern = self.program.jacobian_pattern
        return np.bincount(pattern.columns, weights=jacobian * multipliers[pattern.rows], minlength=pattern.shape[1])

    def _note(self, state: SqpState, step: float) -> None:
        point, matching = self.program.point(state.w), state.at.constraints[:self.program.matching]
        self.log.add(point.unknowns, state.at.objective / self.program.factor, step,
                     float(np.max(np.abs(matching), initial=0.0)))


def first_matrices(columns: Sequence[np.ndarray], size: float) -> Elements:
    """Multiples of the identity; zero for what no variable stands behind."""
    return [np.where(c >= 0, size, 0.0)[:, :, None] * np.eye(c.shape[1]) for c in columns]


def bfgs_update(matrices: Elements, columns: Sequence[np.ndarray], step: np.ndarray, before: Elements, after: Elements,
            sized: bool) -> Elements:
    """After a step of all variables, with the elements' gradients before and after it, at the same multipliers.

    `sized`: the matrices are still multiples of the identity, and get the curvature of the step first (Shanno and Phua).
    """
    return [_bfgs_element(B, np.append(step, 0.0)[c], new - old, c >= 0, sized)
            for B, c, old, new in zip(matrices, columns, before, after, strict=True)]


def _bfgs_element(B: np.ndarray, s: np.ndarray, y: np.ndarray, there: np.ndarray, sized: bool) -> np.ndarray:
    """All elements of one kind; those that the step hardly moves keep their matrix. B + yy'/s'y - Bss'B/s'Bs."""
    y = np.where(there, y, 0.0)
    sy, ss = np.einsum("ij,ij->i", s, y), np.einsum("ij,ij->i", s, s)
    moved = ss > BFGS_SKIPPED_STEP**2
    if sized:
        curved = moved & (sy > 0)
        size = np.where(curved, np.einsum("ij,ij->i", y, y) / np.where(curved, sy, 1.0), 0.0)
        B = np.where((size > 0)[:, None, None], size[:, None, None] * there[:, :, None] * np.eye(B.shape[1]), B)
    Bs = np.einsum("ijk,ik->ij", B, s)
    sBs = np.einsum("ij,ij->i", s, Bs)
    moved &= sBs > 0
    safe = np.where(moved, sBs, 1.0)
    short = sy < BFGS_DAMPING * safe  # Powell: a share of B's own curvature instead of too little, or negative one
    gap = np.where(short, safe - sy, 1.0)
    share = np.where(short, (1 - BFGS_DAMPING) * safe / np.where(gap > 0, gap, 1.0), 1.0)
    r = share[:, None] * y + (1 - share)[:, None] * Bs
    sr = np.where(moved, np.einsum("ij,ij->i", s, r), 1.0)
    new = B - Bs[:, :, None] * Bs[:, None, :] / safe[:, None, None] + r[:, :, None] * r[:, None, :] / sr[:, None, None]
    return np.where(moved[:, None, None], new, B)


def convex_elements(blocks: Elements) -> Elements:
    """Each element with its negative curvature turned around."""
    return [np.array([convex_matrix(each) for each in block]) for block in blocks]
