"""Reduced: a linearised problem with its inner nodes eliminated, as a small dense least squares problem."""

from __future__ import annotations

import numpy as np

from dynident.discretizations.finite import Evaluation, Linear
from dynident.solvers import sweep


class Reduced:
    """The triangular factor of the rows (unknowns | residual), and the way back to the nodes."""

    def __init__(self, linear: Linear):
        self.linear = linear
        rows = []
        for chain, spread in zip(linear.chains, linear.spreads, strict=True):
            T = sweep.factor(chain)
            rows.append(np.column_stack([T[:, :-1] @ spread, T[:, -1]]))
        n = linear.prior_rows.shape[1]
        triangle = np.linalg.qr(np.vstack([*rows, linear.prior_rows]), mode="r")
        root = np.zeros((n, n))
        root[:triangle.shape[0]] = triangle
        self.R, self.r = root[:-1, :-1], root[:-1, -1]  # minimise |R step + r|^2
        self.column_norms = np.linalg.norm(self.R, axis=0)

    def gradient(self, evaluation: Evaluation) -> np.ndarray:
        """Gradient for the residuals and defects of another point, with this point's derivatives."""
        g = self.linear.prior_rows[:, :-1].T @ evaluation.prior
        for chain, spread, rhs, defect in zip(self.linear.chains, self.linear.spreads, evaluation.rhs,
                                              evaluation.defects, strict=True):
            g = g + spread.T @ sweep.gradient(chain, rhs, defect)
        return g

    def expand(self, step: np.ndarray, evaluation: Evaluation) -> tuple[np.ndarray, ...]:
        """Steps of the inner nodes that belong to a step of the unknowns and close the evaluation's defects."""
        nodes = []
        for chain, spread, defect in zip(self.linear.chains, self.linear.spreads, evaluation.defects, strict=True):
            nx = chain.link.shape[1]
            local = spread @ step
            nodes.append(sweep.expand(chain, local[:nx], local[nx:], defect)[1:])
        return tuple(nodes)
