"""Losses: how much a large residual counts."""

from __future__ import annotations

import numpy as np

from dynident.errors import ProblemError, did_you_mean

# rho(z) of the squared weighted residual z, and its slope; rho(z) = z is least squares
LOSSES = {
    "squared": (lambda z: z, lambda z: np.ones_like(z)),
    "huber": (lambda z: np.where(z <= 1, z, 2 * np.sqrt(np.maximum(z, 1)) - 1), lambda z: 1 / np.sqrt(np.maximum(z, 1))),
    "soft_l1": (lambda z: 2 * (np.sqrt(1 + z) - 1), lambda z: 1 / np.sqrt(1 + z)),
    "cauchy": (np.log1p, lambda z: 1 / (1 + z)),
}
THRESHOLD = 1.345  # residuals beyond this many standard deviations are weighted down; 95 % efficient under normal noise


def sum_of_squares(numbers: np.ndarray) -> float:
    """Sum of the squares, by pairs: a plain sum of many loses digits, by which steps are judged."""
    return float(np.sum(numbers * numbers))


def loss_and_weights(residual: np.ndarray, loss: str) -> tuple[float, np.ndarray]:
    """Cost of weighted residuals under a loss, and the factor for each row of the least squares problem that replaces it.

    The cost is infinite where it is too large for the computer; a trial point is then rejected.
    """
    with np.errstate(over="ignore"):
        if loss == "squared":
            return sum_of_squares(residual), np.ones_like(residual)
        rho, slope = LOSSES[loss]
        z = (residual / THRESHOLD) ** 2
        return float(THRESHOLD**2 * np.sum(rho(z))), np.sqrt(slope(z))  # type: ignore[operator]


def check_loss(loss: str) -> None:
    if not isinstance(loss, str) or loss not in LOSSES:
        raise ProblemError(f"There is no loss '{loss}'.{did_you_mean(loss, LOSSES)}")
