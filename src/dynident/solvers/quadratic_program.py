"""Quadratic program: the subproblem of SQP, sparse and convex.

    minimise g'd + d'Bd/2   with   lower <= w + d <= upper,   low <= c + A d <= high

Without bounds on the nodes the matching conditions determine their steps by that of the unknowns: a sparse factorisation
eliminates them (condensing, the null-space method), and PIQP solves the small dense program that is left. With bounds on the
nodes PIQP gets the sparse program itself. Constraints that contradict each other or the bounds are met as well as they can be
(elastic mode): each gets two slack variables of a price.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import casadi as ca
import numpy as np

from dynident.tolerances import SQP_ACTIVE_SET_VARIABLES, SQP_CONVEXITY, SQP_LIFTS, SQP_SUBPROBLEM
from dynident.transcription.nonlinear_program import SparsityPattern, sparsity_pattern

SOLVERS = ("piqp", "qrqp")  # in this order
QUIET = {"error_on_fail": False, "print_problem": False, "print_time": False}
OPTIONS: dict[str, dict[str, Any]] = {
    "piqp": {**QUIET, "piqp": {"eps_abs": 1e-10, "eps_rel": 1e-11, "max_iter": 300, "verbose": False}},
    "qrqp": {**QUIET, "print_iter": False, "print_header": False, "print_info": False}}
BoundPair = tuple[np.ndarray, np.ndarray]  # lower and upper ends


@dataclass(frozen=True, eq=False)
class QuadraticStep:
    """The step, and the Lagrange multipliers of constraints and bounds: B d + g + A' multipliers + bound_multipliers = 0."""

    step: np.ndarray
    multipliers: np.ndarray
    bound_multipliers: np.ndarray
    solved: bool


class QuadraticProgram:
    """The structure of the subproblems of one solve; `nodes` variables at the end, as many as the first constraints."""

    def __init__(self, elements: list[np.ndarray], jacobian: SparsityPattern, diagonal: np.ndarray, nodes: int,
                 nodes_are_bounded: bool):
        self.jacobian, self.diagonal, self.size = jacobian, diagonal, jacobian.shape[1]
        self.nodes, self.sparse = nodes, nodes_are_bounded
        rows = [np.repeat(c, c.shape[1], axis=1).ravel() for c in elements]
        columns = [np.tile(c, (1, c.shape[1])).ravel() for c in elements]
        every = np.arange(self.size)
        self.hessian = sparsity_pattern((self.size, self.size), np.concatenate([*rows, every]),
                                        np.concatenate([*columns, every]))

    def assembled(self, blocks: list[np.ndarray], damping: float) -> np.ndarray:
        """Nonzeros of the sum of all elements; `damping` is added to the diagonal."""
        return self.hessian.gather(np.concatenate([*(b.ravel() for b in blocks), self.diagonal + damping]))

    def solve(self, hessian: np.ndarray, gradient: np.ndarray, jacobian: np.ndarray, box: BoundPair, limits: BoundPair,
              price: float) -> QuadraticStep:
        """`box`: of the step; `limits`: of A d; `price` of what has to be missed."""
        B, A = _matrix(self.hessian, hessian), _matrix(self.jacobian, jacobian)
        if not self.sparse:
            return self._condensed(B, gradient, A, box, limits, price)
        return solve_convex(ca.DM(B), gradient, ca.DM(A), box, limits, price)

    def _condensed(self, B: Any, g: np.ndarray, A: Any, box: BoundPair, limits: BoundPair, price: float) -> QuadraticStep:
        """d = offset + basis z: z are the steps of the unknowns, and the matching conditions give those of the nodes."""
        from scipy.sparse.linalg import splu  # here, because it takes a while to load, and few fits ask for it

        n, m = self.size - self.nodes, self.nodes
        if not m:
            return solve_convex(ca.DM(convex_matrix(B.toarray())), g, ca.DM(A), box, limits, price)
        by_unknowns, by_nodes = A[:m, :n].toarray(), A[:m, n:].tocsc()
        try:
            factors = splu(by_nodes)
        except RuntimeError:  # exactly singular
            return QuadraticStep(np.zeros(self.size), np.zeros(A.shape[0]), np.zeros(self.size), False)
        basis = np.vstack([np.eye(n), -factors.solve(by_unknowns)])
        offset = np.concatenate([np.zeros(n), factors.solve(limits[0][:m])])
        pull = g + B @ offset
        rows = A[m:, :n].toarray()
        small = solve_convex(ca.DM(convex_matrix(basis.T @ (B @ basis))), basis.T @ pull, ca.DM(rows), (box[0][:n], box[1][:n]),
                             (limits[0][m:], limits[1][m:]), price)
        step = offset + basis @ small.step
        left = g + B @ step
        multipliers = np.concatenate([-factors.solve(left[n:], trans="T"), small.multipliers])
        bound = np.concatenate([small.bound_multipliers, np.zeros(m)])
        return QuadraticStep(step, multipliers, bound, small.solved and bool(np.all(np.isfinite(step))))


def convex_matrix(matrix: np.ndarray) -> np.ndarray:
    """Itself where it is convex, to rounding; else with its negative curvature turned around."""
    symmetric = (matrix + matrix.T) / 2
    values, vectors = np.linalg.eigh(symmetric)
    if values.size == 0 or values[0] >= -SQP_CONVEXITY * values[-1]:
        return symmetric
    return (vectors * np.maximum(np.abs(values), SQP_CONVEXITY * values[-1])) @ vectors.T


def solve_convex(B: ca.DM, g: np.ndarray, A: ca.DM, box: BoundPair, limits: BoundPair, price: float) -> QuadraticStep:
    """In variables whose curvatures are one and for a gradient of size one, since the solvers' tolerances are absolute.

    By PIQP; where its iteration ends at no answer, by CasADi's active-set method QRQP if variables are few; and where the
    matrix is nearly singular, so that neither has one, with curvatures lifted.
    """
    own = np.sqrt(np.maximum(np.asarray(ca.diag(B)).ravel(), 0.0))
    unit = 1 / np.where(own > 0, own, 1.0)
    size = max(float(np.max(np.abs(unit * g), initial=0.0)), 1e-300)
    S = ca.diag(ca.DM(unit))
    scaled, pull, rows, limited = S @ B @ S, unit * g / size, A @ S, (box[0] / unit, box[1] / unit)
    for lift, solver in product(SQP_LIFTS, SOLVERS if unit.size <= SQP_ACTIVE_SET_VARIABLES else SOLVERS[:1]):
        convex = (scaled + lift * ca.DM.eye(unit.size)) / size
        answer = _solved_or_elastic(solver, convex, pull, rows, limited, limits, price / size)
        if answer.solved and (solver == SOLVERS[0] or _is_optimal(answer, convex, pull, rows, limited)):
            break
        answer = replace(answer, solved=False)
    return QuadraticStep(np.clip(unit * answer.step, *box), answer.multipliers * size, answer.bound_multipliers * size / unit,
                         answer.solved)


def _is_optimal(answer: QuadraticStep, B: ca.DM, g: np.ndarray, A: ca.DM, box: BoundPair) -> bool:
    """The Lagrangian is flat, and bounds pull only where they are met; QRQP calls some singular programs solved."""
    slope = np.asarray(B @ answer.step).ravel() + g + np.asarray(A.T @ answer.multipliers).ravel() + answer.bound_multipliers
    room = np.where(answer.bound_multipliers > 0, box[1] - answer.step, answer.step - box[0])
    pull = np.where(answer.bound_multipliers == 0, 0.0, np.abs(answer.bound_multipliers) * np.minimum(room, 1.0))
    return bool(max(np.max(np.abs(slope), initial=0.0), np.max(pull, initial=0.0)) <= SQP_SUBPROBLEM)


def _solved_or_elastic(solver: str, B: ca.DM, g: np.ndarray, A: ca.DM, box: BoundPair, limits: BoundPair, price: float
                       ) -> QuadraticStep:
    """Where no point meets the constraints they may be missed, at a price."""
    answer = _solved(solver, B, g, A, box, limits)
    if answer.solved or not A.size1():
        return answer
    m, n = A.size1(), A.size2()
    slack = np.zeros(2 * m)
    wide = ca.horzcat(A, ca.DM.eye(m), -ca.DM.eye(m))
    elastic = _solved(solver, ca.diagcat(B, ca.DM(2 * m, 2 * m)), np.concatenate([g, slack + price]), wide,
                      (np.concatenate([box[0], slack]), np.concatenate([box[1], slack + np.inf])), limits)
    return QuadraticStep(elastic.step[:n], elastic.multipliers, elastic.bound_multipliers[:n], elastic.solved)


def _solved(solver: str, B: ca.DM, g: np.ndarray, A: ca.DM, box: BoundPair, limits: BoundPair) -> QuadraticStep:
    function = ca.conic("step", solver, {"h": B.sparsity(), "a": A.sparsity()}, OPTIONS[solver])
    answer = function(h=B, g=g, a=A, lba=limits[0], uba=limits[1], lbx=box[0], ubx=box[1])
    step, multipliers, bound = (np.asarray(answer[k]).ravel() for k in ("x", "lam_a", "lam_x"))
    solved = bool(function.stats()["success"]) and bool(np.all(np.isfinite(step)))
    return QuadraticStep(np.clip(step, *box), multipliers, bound, solved)


def _matrix(pattern: SparsityPattern, nonzeros: np.ndarray) -> Any:
    """Compressed columns; the pattern stands column by column already."""
    from scipy.sparse import csc_matrix

    starts = np.concatenate([[0], np.cumsum(np.bincount(pattern.columns, minlength=pattern.shape[1]))])
    return csc_matrix((nonzeros, pattern.rows, starts), shape=pattern.shape)
