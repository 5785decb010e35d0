"""Set widths: how wide would the set of parameters be that bounded errors leave, in the linearised problem?"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from dynident.design.prior_information import UNIFORM_RADIUS_PER_STD, PriorInformation

NOISE_DRAWS = 5  # over which the predicted set width is averaged
NOISE_SEED = 1


def predicted_set_widths(prior: PriorInformation, planned: np.ndarray, of_interest: np.ndarray
                         ) -> tuple[dict[str, float], dict[str, float]]:
    """Set width before and after the planned records; infinite where nothing bounds a parameter.

    In the linearised problem the set is a polytope: |errors - rows @ change| <= radius in every sample. Its extent is found
    by linear programming for errors drawn evenly within their bounds, and averaged over a few draws. Rows are divided by the
    std of evenly distributed errors, so that every error lies within +-sqrt(3).
    """
    names, active = prior.names, prior.active
    ties = active.rows * prior.scale if active.texts else np.zeros((0, len(names)))
    before = _widths(prior.rows, prior.scale, of_interest, ties) if len(prior.rows) else np.full(len(of_interest), np.inf)
    after = _widths(np.vstack([prior.rows, planned]), prior.scale, of_interest, ties)
    return ({names[i]: float(w) for i, w in zip(of_interest, before, strict=True)},
            {names[i]: float(w) for i, w in zip(of_interest, after, strict=True)})


def _widths(rows: np.ndarray, scale: np.ndarray, of_interest: np.ndarray, ties: np.ndarray) -> np.ndarray:
    rng = np.random.default_rng(NOISE_SEED)
    J = rows * scale
    J = J[np.any(J != 0, axis=1)]
    widths = []
    for _ in range(NOISE_DRAWS):
        errors = rng.uniform(-UNIFORM_RADIUS_PER_STD, UNIFORM_RADIUS_PER_STD, len(J))
        A, b = np.vstack([J, -J]), np.concatenate([UNIFORM_RADIUS_PER_STD + errors, UNIFORM_RADIUS_PER_STD - errors])
        widths.append([_extent(A, b, ties, i) * scale[i] for i in of_interest])
    return np.mean(widths, axis=0)


def _extent(A: np.ndarray, b: np.ndarray, ties: np.ndarray, i: int) -> float:
    """Of the polytope A x <= b, ties @ x = 0 along coordinate i."""
    ends = []
    for sign in (1.0, -1.0):
        cost = np.zeros(A.shape[1])
        cost[i] = sign
        solved = linprog(cost, A_ub=A, b_ub=b, A_eq=ties, b_eq=np.zeros(len(ties)), bounds=(None, None), method="highs")
        if solved.status != 0:
            return np.inf
        ends.append(sign * solved.fun)
    return ends[1] - ends[0]
