"""Box: least squares in a few unknowns within bounds, exactly."""

from __future__ import annotations

import numpy as np


def box_least_squares(A: np.ndarray, b: np.ndarray, lower: np.ndarray, upper: np.ndarray
                      ) -> tuple[np.ndarray, np.ndarray]:
    """The step that minimises |A step + b|^2 with lower <= step <= upper (0 must be inside), and which bounds hold it.

    A primal active set method from step = 0: finite, and a bound that is reached is met exactly. `held` is -1 at a lower
    bound, +1 at an upper bound, 0 where free. A must have full column rank (damping rows give it that).
    """
    n = A.shape[1]
    step = np.zeros(n)
    held = np.where(lower >= 0, -1, np.where(upper <= 0, 1, 0))  # start on a bound: let go only if that helps
    gradient = A.T @ b
    held = np.where((held == -1) & (gradient < 0), 0, np.where((held == 1) & (gradient > 0), 0, held))
    for _ in range(10 * n + 10):
        free = held == 0
        target = step.copy()
        if np.any(free):
            target[free] = np.linalg.lstsq(A[:, free], -(b + A[:, ~free] @ step[~free]), rcond=None)[0]
        over = free & ((target < lower) | (target > upper))
        if np.any(over):
            move = target - step
            edge = np.where(move < 0, lower, upper)
            share = np.where(over, (edge - step) / np.where(move == 0, 1, move), np.inf)
            first = int(np.argmin(share))
            step = np.where(free, step + max(0.0, float(share[first])) * move, step)
            step[first], held[first] = edge[first], -1 if move[first] < 0 else 1
            continue
        step = target
        pull = A.T @ (A @ step + b)  # wants to leave the bound where it points inwards
        wrong = np.where(held == -1, -pull, np.where(held == 1, pull, -np.inf))
        worst = int(np.argmax(wrong))
        if wrong[worst] <= 1e-12 * np.linalg.norm(A[:, worst]) * np.linalg.norm(b):
            break
        held[worst] = 0
    return step, held
