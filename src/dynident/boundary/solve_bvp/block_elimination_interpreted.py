"""Block elimination in NumPy: the twin of `block_elimination.c`, for machines without a compiler and as its check."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from dynident.tolerances import BLOCK_PIVOT


class InterpretedElimination:
    """States at inner nodes leave a chain of segments by a QR factorisation per node."""

    def __init__(self, link: np.ndarray):
        self.segments, n = link.shape[:2]
        self.n = n
        self.singular = 0
        self.blocks: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # Q, R, what the node owes to the others
        carry = np.hstack([link[0, :, :n], -np.eye(n), link[0, :, n:]])
        for i in range(1, self.segments):
            Q, R = np.linalg.qr(np.vstack([carry[:, n:2 * n], link[i, :, :n]]), mode="complete")
            diagonal = np.abs(np.diag(R))
            if not np.all(np.isfinite(R)) or not np.all(diagonal > BLOCK_PIVOT * np.max(diagonal)):
                self.singular = i
                break
            others = Q.T @ np.vstack([
                np.hstack([carry[:, :n], np.zeros((n, n)), carry[:, 2 * n:]]),
                np.hstack([np.zeros((n, n)), -np.eye(n), link[i, :, n:]])])
            self.blocks.append((Q, R[:n], others[:n]))
            carry = others[n:]
        self.last = carry

    def forward(self, defects: np.ndarray) -> np.ndarray:
        rhs = np.array(defects, dtype=float)
        n = self.n
        for i, (Q, _, _) in enumerate(self.blocks):
            both = Q.T @ rhs[i:i + 2].ravel()
            rhs[i], rhs[i + 1] = both[:n], both[n:]
        return rhs

    def back(self, kept: np.ndarray, s: np.ndarray, p: np.ndarray) -> None:
        for i in range(self.segments - 1, 0, -1):
            _, R, others = self.blocks[i - 1]
            s[i] = solve_triangular(R, kept[i - 1] - others @ np.concatenate([s[0], s[i + 1], p]))


def measure_links_interpreted(link: np.ndarray, stage: np.ndarray, z: np.ndarray, sizes: np.ndarray, rounding: float
                              ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `measure_links`."""
    (segments, n, width), inner = link.shape, stage.shape[1]
    count = (segments + 1) * n
    nodes = np.maximum(np.abs(z[:count].reshape(-1, n)), sizes[:n])
    p = np.maximum(np.abs(z[count:count + width - n]), sizes[n:])
    before = np.hstack([nodes[:-1], np.tile(p, (segments, 1))])
    met = np.einsum("kij,kj->ki", np.abs(link), before) + nodes[1:]
    stages = np.abs(z[count + width - n:]).reshape(segments, inner) + np.einsum("kij,kj->ki", np.abs(stage), before)
    scaled = link * sizes / sizes[:n, None]
    growth = np.max(np.sum(np.abs(scaled[:, :, :n]), axis=2), axis=1)
    return scaled, growth, rounding * np.concatenate([met.ravel(), np.zeros(width), stages.ravel()])
