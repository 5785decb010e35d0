"""Convergence: how long is a step, in standard errors? A measure that has the same meaning in any unit."""

from __future__ import annotations

import numpy as np

from dynident.linalg.finite_problem import FiniteProblem
from dynident.tolerances import COST_ROUNDING, SIMULATION_ROUNDING


def residual_std(cost: float, finite: FiniteProblem) -> float:
    """Of the weighted residuals: 1 where the noise is as large as said."""
    return float(np.sqrt(max(cost, finite.rounding_cost) / max(1, finite.residual_count - len(finite.names))))


def noise_floor(cost: float, finite: FiniteProblem) -> float:
    """Below this length the simulation's own noise hides whether a step helps; 0 where it has none."""
    return step_in_standard_errors(2 * np.sqrt(cost) * finite.simulation_noise + finite.simulation_noise**2, cost, finite)


def step_in_standard_errors(gain: float, cost: float, finite: FiniteProblem) -> float:
    """Length of a step in standard errors, from the fall of the cost that it promises.

    Zero where the fall would drown in rounding, or where the cost itself is rounding.
    """
    residual = SIMULATION_ROUNDING * np.sqrt(finite.rounding_cost / max(1, finite.residual_count))  # rounding in one of them
    if gain <= max(COST_ROUNDING * cost, 2 * np.sqrt(cost) * residual) or cost <= finite.rounding_cost:
        return 0.0
    freedom = max(1, finite.residual_count - len(finite.names))
    return float(np.sqrt(gain * freedom / cost))
