"""Dense: a smooth cost of a few variables under many inequalities, with exact first derivatives, by scipy's SLSQP.

Measured on six designs against Ipopt with a limited-memory Hessian: the same costs or lower with 0.2 to 1.4 times the
evaluations, and 1.4 to 4.4 times less CPU time. A dense quasi-Newton matrix pays where variables are few.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from dynident.errors import SimulationDiverged
from dynident.tolerances import SLSQP_FEASIBILITY, SLSQP_STALLED_GRADIENT, SLSQP_TOLERANCE

SETTLED, STALLED = 0, 8  # codes of SLSQP; 8: no step along the direction lowers the cost any more
FEASIBLE = SLSQP_FEASIBILITY
WALL = 1e3  # what a simulation that blows up adds to the cost


@dataclass(frozen=True, eq=False)
class Asked:
    """Value, gradient, constraints and their Jacobian at a point."""

    value: float
    gradient: np.ndarray  # (n,)
    constraints: np.ndarray  # (m,)
    jacobian: np.ndarray  # (m, n)


@dataclass(frozen=True, eq=False)
class DenseResult:
    """Where it ended: `converged` to an optimum, `feasible` within the constraints."""

    point: np.ndarray
    value: float
    excess: np.ndarray  # (m,) by how much each constraint is violated; 0 where it holds
    converged: bool
    status: str
    evaluations: int

    @property
    def feasible(self) -> bool:
        return bool(np.max(self.excess, initial=0.0) <= SLSQP_FEASIBILITY)


class _Run:
    """Keeps the last answer, since a solver asks for its parts one by one; beyond a wall the last good one, raised."""

    def __init__(self, ask: Callable[[np.ndarray], Asked]):
        self.ask, self.evaluations = ask, 0
        self.at: np.ndarray | None = None

    def __call__(self, x: np.ndarray) -> Asked:
        if self.at is None or not np.array_equal(self.at, x):
            try:
                self.last = self.ask(x)
            except SimulationDiverged:
                if self.at is None:
                    raise
                self.last = Asked(self.last.value + WALL, self.last.gradient, self.last.constraints, self.last.jacobian)
            self.at, self.evaluations = x.copy(), self.evaluations + 1
        return self.last


def minimise(ask: Callable[[np.ndarray], Asked], start: np.ndarray, bounds: tuple[np.ndarray, np.ndarray],
             limits: tuple[np.ndarray, np.ndarray], iterations: int = 200) -> DenseResult:
    """Minimise from a start at which the model can be simulated; constraints lie between the two arrays of `limits`."""
    run, (low, high) = _Run(ask), limits
    equal = low == high
    above, below = np.isfinite(low) & ~equal, np.isfinite(high) & ~equal
    constraints: list[dict[str, Any]] = []
    if np.any(above | below):
        constraints.append({
            "type": "ineq",
            "fun": lambda x: np.concatenate([(run(x).constraints - low)[above], (high - run(x).constraints)[below]]),
            "jac": lambda x: np.vstack([run(x).jacobian[above], -run(x).jacobian[below]])})
    if np.any(equal):
        constraints.append({"type": "eq", "fun": lambda x: (run(x).constraints - low)[equal],
                            "jac": lambda x: run(x).jacobian[equal]})
    box = [(a if np.isfinite(a) else None, b if np.isfinite(b) else None) for a, b in zip(*bounds, strict=True)]
    found = minimize(lambda x: (run(x).value, run(x).gradient), np.clip(start, *bounds), jac=True, bounds=box,
                     constraints=constraints, method="SLSQP", options={"maxiter": iterations, "ftol": SLSQP_TOLERANCE})
    point = np.clip(found.x, *bounds)
    at = run(point)
    excess = np.maximum(0.0, np.maximum(at.constraints - high, low - at.constraints))
    return DenseResult(point, at.value, excess, _settled(int(found.status), at, point, bounds, limits),
                        str(found.message).lower(), run.evaluations)


def _settled(status: int, at: Asked, point: np.ndarray, bounds: tuple[np.ndarray, np.ndarray],
             limits: tuple[np.ndarray, np.ndarray]) -> bool:
    """SLSQP's word is taken only where it settled; a stall counts where what is left of the gradient is rounding."""
    if status != STALLED:
        return status == SETTLED
    near = 1e-6
    free = (point > bounds[0] + near) & (point < bounds[1] - near)
    held = (at.constraints < limits[0] + near) | (at.constraints > limits[1] - near)
    rows, gradient = at.jacobian[held][:, free], at.gradient[free]
    if rows.size:
        gradient = gradient - rows.T @ np.linalg.lstsq(rows.T, gradient, rcond=None)[0]
    return bool(np.max(np.abs(gradient), initial=0.0) <= SLSQP_STALLED_GRADIENT)
