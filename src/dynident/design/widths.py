"""Widths: how wide would the set of parameters be that bounded errors allow?

In the linearised problem the set is a polytope: |errors - rows @ change| <= radius in every sample. Its extent is
found by linear programming for errors drawn evenly within their bounds, and averaged over a few draws.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from dynident.design.knowledge import UNIFORM, Knowledge

DRAWS = 5
SEED = 1


def predicted_widths(knowledge: Knowledge, planned: np.ndarray, wanted: np.ndarray
                     ) -> tuple[dict[str, float], dict[str, float]]:
    """Widths before and after the planned records; infinite where nothing bounds a parameter.

    Rows are divided by the std of evenly distributed errors, so every error lies within +-sqrt(3).
    """
    names = knowledge.names
    ties = knowledge.tight.rows * knowledge.scale if knowledge.tight.texts else np.zeros((0, len(names)))
    before = _widths(knowledge.rows, knowledge.scale, wanted, ties) if len(knowledge.rows) else np.full(len(wanted), np.inf)
    after = _widths(np.vstack([knowledge.rows, planned]), knowledge.scale, wanted, ties)
    return ({names[i]: float(w) for i, w in zip(wanted, before, strict=True)},
            {names[i]: float(w) for i, w in zip(wanted, after, strict=True)})


def _widths(rows: np.ndarray, scale: np.ndarray, wanted: np.ndarray, ties: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng(SEED)
    J = rows * scale
    J = J[np.any(J != 0, axis=1)]
    found = []
    for _ in range(DRAWS):
        errors = rng.uniform(-UNIFORM, UNIFORM, len(J))
        A, b = np.vstack([J, -J]), np.concatenate([UNIFORM + errors, UNIFORM - errors])
        found.append([_extent(A, b, ties, i) * scale[i] for i in wanted])
    return np.mean(found, axis=0)


def _extent(A: np.ndarray, b: np.ndarray, ties: np.ndarray, i: int) -> float:
    ends = []
    for sign in (1.0, -1.0):
        cost = np.zeros(A.shape[1])
        cost[i] = sign
        solved = linprog(cost, A_ub=A, b_ub=b, A_eq=ties, b_eq=np.zeros(len(ties)), bounds=(None, None), method="highs")
        if solved.status != 0:
            return np.inf
        ends.append(sign * solved.fun)
    return ends[1] - ends[0]
