"""Quadratic program: the subproblem of SQP, sparse and convex.

    minimise g'd + d'Bd/2   with   lower <= w + d <= upper,   low <= c + A d <= high

Without bounds on the nodes the matching conditions determine their steps by that of the unknowns: a sparse factorisation
eliminates them (condensing, the null-space method), and PIQP solves the small dense program that is left. With bounds on the
nodes PIQP gets the sparse program itself. Constraints that contradict each other or the bounds are met as well as they can be
(elastic mode): each gets two slacks of a price.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from dynident.tolerances import SQP_CONVEXITY
from dynident.transcription.nonlinear_program import SparsityPattern, sparsity_pattern

OPTIONS: dict[str, Any] = {"error_on_fail": False, "print_problem": False, "print_time": False,
           "piqp": {"eps_abs": 1e-10, "eps_rel": 1e-11, "max_iter": 300, "verbose": False}}
Interval = tuple[np.ndarray, np.ndarray]  # lower and upper ends


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

    def solve(self, hessian: np.ndarray, gradient: np.ndarray, jacobian: np.ndarray, box: Interval, limits: Interval,
              price: float) -> QuadraticStep:
        """`box`: of the step; `limits`: of A d; `price` of what has to be missed."""
        B, A = _matrix(self.hessian, hessian), _matrix(self.jacobian, jacobian)
        if not self.sparse:
            return self._condensed(B, gradient, A, box, limits, price)
        return solve_convex(ca.DM(B), gradient, ca.DM(A), box, limits, price)

    def _condensed(self, B: Any, g: np.ndarray, A: Any, box: Interval, limits: Interval, price: float) -> QuadraticStep:
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


def solve_convex(B: ca.DM, g: np.ndarray, A: ca.DM, box: Interval, limits: Interval, price: float) -> QuadraticStep:
    """By PIQP; where that finds no answer, with constraints that may be missed at a price."""
    answer = _solved(B, g, A, box, limits)
    if answer.solved or not A.size1():
        return answer
    m, n = A.size1(), A.size2()
    slack = np.zeros(2 * m)
    wide = ca.horzcat(A, ca.DM.eye(m), -ca.DM.eye(m))
    elastic = _solved(ca.diagcat(B, ca.DM(2 * m, 2 * m)), np.concatenate([g, slack + price]), wide,
                      (np.concatenate([box[0], slack]), np.concatenate([box[1], slack + np.inf])), limits)
    return QuadraticStep(elastic.step[:n], elastic.multipliers, elastic.bound_multipliers[:n], elastic.solved)


def _solved(B: ca.DM, g: np.ndarray, A: ca.DM, box: Interval, limits: Interval) -> QuadraticStep:
    solver = ca.conic("step", "piqp", {"h": B.sparsity(), "a": A.sparsity()}, OPTIONS)
    answer = solver(h=B, g=g, a=A, lba=limits[0], uba=limits[1], lbx=box[0], ubx=box[1])
    step, multipliers, bound = (np.asarray(answer[k]).ravel() for k in ("x", "lam_a", "lam_x"))
    solved = bool(solver.stats()["success"]) and bool(np.all(np.isfinite(step)))
    return QuadraticStep(np.clip(step, *box), multipliers, bound, solved)


def _matrix(pattern: SparsityPattern, nonzeros: np.ndarray) -> Any:
    """Compressed columns; the pattern stands column by column already."""
    from scipy.sparse import csc_matrix

    starts = np.concatenate([[0], np.cumsum(np.bincount(pattern.columns, minlength=pattern.shape[1]))])
    return csc_matrix((nonzeros, pattern.rows, starts), shape=pattern.shape)
