"""Quasi-Newton: the Lagrangian's Hessian learnt from gradients, element by element (partitioned BFGS).

The Lagrangian of a transcribed problem is a sum of elements, each of few variables: the first state of a segment and the
parameters. Each element has a small matrix of its own (Griewank and Toint 1982), updated by BFGS with Powell's damping, so
that it stays positive definite; their sum is as sparse as the Hessian itself. One segment is plain BFGS.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynident.solvers.quadratic_program import convex_matrix
from dynident.tolerances import BFGS_DAMPING, BFGS_SKIPPED_STEP

Elements = list[np.ndarray]  # (elements, n, n) per kind


def first_matrices(columns: Sequence[np.ndarray], size: float) -> Elements:
    """Multiples of the identity; zero for what no variable stands behind."""
    return [np.where(c >= 0, size, 0.0)[:, :, None] * np.eye(c.shape[1]) for c in columns]


def updated(matrices: Elements, columns: Sequence[np.ndarray], step: np.ndarray, before: Elements, after: Elements,
            sized: bool) -> Elements:
    """After a step of all variables, with the elements' gradients before and after it, at the same multipliers.

    `sized`: the matrices are still multiples of the identity, and get the curvature of the step first (Shanno and Phua).
    """
    return [_updated(B, np.append(step, 0.0)[c], new - old, c >= 0, sized)
            for B, c, old, new in zip(matrices, columns, before, after, strict=True)]


def _updated(B: np.ndarray, s: np.ndarray, y: np.ndarray, there: np.ndarray, sized: bool) -> np.ndarray:
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


def convex(blocks: Elements) -> Elements:
    """Each element with its negative curvature turned around."""
    return [np.array([convex_matrix(each) for each in block]) for block in blocks]
