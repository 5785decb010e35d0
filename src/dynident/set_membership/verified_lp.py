"""Verified linear programming: what do rows a (q - q_c) + offset in [low, high] leave of a box? Proved, whatever a solver says.

`bound_by_rows` goes row by row; `bound_by_lp` solves linear programs in floating point and takes from them only the
multipliers: for any multipliers >= 0, weak duality gives a bound, computed here with its rounding errors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dynident.set_membership.flows.lohner import ROUNDING, OutputEnclosure
from dynident.set_membership.intervals.arithmetic import TINY, UNIT


def measurement_bounds(rows: OutputEnclosure, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(samples, outputs, boxes) what a (q - q_c) may be, its error included; infinite where not measured."""
    slack = rows.error + ROUNDING * (np.abs(rows.offset) + rows.error)
    with np.errstate(invalid="ignore"):
        lower = low.T[:, :, None] - rows.offset - slack
        upper = high.T[:, :, None] - rows.offset + slack
        lower = lower - ROUNDING * np.abs(lower)
        upper = upper + ROUNDING * np.abs(upper)
    return np.where(np.isfinite(lower), lower, -np.inf), np.where(np.isfinite(upper), upper, np.inf)


def certainly_inside(rows: OutputEnclosure, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """(boxes,) true where every point of the box explains every measurement."""
    reach = np.einsum("koub,ub->kob", np.abs(rows.a), rows.radius) + rows.error
    reach = reach * (1 + 4 * ROUNDING) + ROUNDING * np.abs(rows.offset) + TINY
    return np.all((rows.offset - reach >= low.T[:, :, None]) & (rows.offset + reach <= high.T[:, :, None]), axis=(0, 1))


def bound_by_rows(rows: OutputEnclosure, low: np.ndarray, high: np.ndarray, max_outliers: int = 0, sweeps: int = 3
                  ) -> tuple[np.ndarray, np.ndarray]:
    """(unknowns, boxes) what remains of q - q_c, row by row; NaN where nothing. `max_outliers` samples may be wrong."""
    lower, upper = measurement_bounds(rows, low, high)
    d_lo, d_hi = -rows.radius.copy(), rows.radius.copy()
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        for _ in range(sweeps):
            ends = rows.a * d_lo, rows.a * d_hi  # (samples, outputs, unknowns, boxes)
            least, most = np.minimum(*ends), np.maximum(*ends)
            all_least, all_most = least.sum(axis=2), most.sum(axis=2)
            error = 2 * ROUNDING * np.maximum(np.abs(least), np.abs(most)).sum(axis=2)
            wrong = np.any((all_least - error > upper) | (all_most + error < lower), axis=1)  # (samples, boxes)
            gone = wrong.sum(axis=0) > max_outliers
            for j in range(rows.a.shape[2]):
                others = all_least - least[:, :, j], all_most - most[:, :, j]
                from_, to = lower - others[1] - 2 * error, upper - others[0] + 2 * error
                slope = rows.a[:, :, j]
                one, two = from_ / slope, to / slope
                flat = np.abs(slope) <= TINY  # a smaller coefficient bounds nothing
                first = np.where(flat, -np.inf, np.minimum(one, two))
                last = np.where(flat, np.inf, np.maximum(one, two))
                first = np.nan_to_num(first - ROUNDING * np.abs(first), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
                last = np.nan_to_num(last + ROUNDING * np.abs(last), nan=np.inf, posinf=np.inf, neginf=-np.inf)
                d_lo[j] = np.maximum(d_lo[j], _relaxed_maximum(first.max(axis=1), max_outliers))
                d_hi[j] = np.minimum(d_hi[j], -_relaxed_maximum(-last.min(axis=1), max_outliers))
            gone |= np.any(d_lo > d_hi, axis=0)
            d_lo[:, gone], d_hi[:, gone] = np.nan, np.nan
    return d_lo, d_hi


def _relaxed_maximum(bounds: np.ndarray, max_outliers: int) -> np.ndarray:
    """(boxes,) the largest of (samples, boxes) bounds after leaving out the `max_outliers` largest."""
    if max_outliers >= len(bounds):
        return np.full(bounds.shape[1], -np.inf)
    return bounds.max(axis=0) if not max_outliers else -np.partition(-bounds, max_outliers, axis=0)[max_outliers]


class VerifiedLinearProgram:
    """The rows of one box as inequalities A d <= b with |d| <= radius."""

    def __init__(self, rows: OutputEnclosure, low: np.ndarray, high: np.ndarray, box: int = 0, samples: int | None = None,
                 also: tuple[np.ndarray, np.ndarray] | None = None):
        lower, upper = (side[:samples, :, box] for side in measurement_bounds(rows, low, high))
        a = rows.a[:samples, :, :, box]
        up, down = np.isfinite(upper), np.isfinite(lower)
        self.a = np.concatenate([a[up], -a[down]])
        self.b = np.concatenate([upper[up], -lower[down]])
        with np.errstate(invalid="ignore"):
            half = 0.5 * (high - low).T[:samples]
        self.unit = np.concatenate([half[up], half[down]])
        self.radius = rows.radius[:, box]
        if also is not None:  # further inequalities A d <= b, which no growing radius relaxes
            self.a, self.b = np.concatenate([self.a, also[0]]), np.concatenate([self.b, also[1]])
            self.unit = np.concatenate([self.unit, np.zeros(len(also[1]))])

    def lower_bound(self, direction: np.ndarray) -> float:
        """A proved lower bound of direction . d, infinite (positive) only if nothing is proved to fit."""
        floor = -float(np.abs(direction) @ self.radius) * (1 + ROUNDING)
        if not len(self.b):
            return floor
        solved = _solve_lp(direction, self.a, self.b, [(-r, r) for r in self.radius])
        if solved.status != 0:
            return floor
        multipliers = np.maximum(-np.asarray(solved.ineqlin.marginals), 0.0)
        return max(floor, self._weak_duality_bound(multipliers, direction))

    def inflation_bound(self) -> float:
        """A proved lower bound of the factor - 1 by which all radii must grow before anything fits."""
        if not len(self.b):
            return -np.inf
        size = self.radius.size
        objective = np.append(np.zeros(size), 1.0)
        table = np.concatenate([self.a, -self.unit[:, None]], axis=1)
        solved = _solve_lp(objective, table, self.b, [*((-r, r) for r in self.radius), (None, None)])
        if solved.status != 0:
            return -np.inf
        multipliers = np.maximum(-np.asarray(solved.ineqlin.marginals), 0.0)
        total = float(multipliers @ self.unit)
        if not total > 0:
            return -np.inf
        found = self._weak_duality_bound(multipliers, np.zeros(size))
        return found / (total * (1 + len(self.b) * ROUNDING)) if found > 0 else found / (total * (1 - 1e-12))

    def _weak_duality_bound(self, multipliers: np.ndarray, direction: np.ndarray) -> float:
        """-multipliers . b - |direction + A' multipliers| . radius, rounded down."""
        count = (len(self.b) + 8) * UNIT
        left = direction + self.a.T @ multipliers
        left_error = count * (np.abs(direction) + np.abs(self.a).T @ multipliers)
        value = -(multipliers @ self.b) - (np.abs(left) + left_error) @ self.radius
        return float(value - count * (multipliers @ np.abs(self.b) + np.abs(left) @ self.radius) - TINY)


def bound_by_lp(rows: OutputEnclosure, low: np.ndarray, high: np.ndarray, box: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(unknowns,) what linear programs leave of q - q_c; NaN where nothing is proved to fit."""
    program = VerifiedLinearProgram(rows, low, high, box)
    size = program.radius.size
    d_lo, d_hi = -program.radius, program.radius.copy()
    if program.inflation_bound() > 0:
        return np.full(size, np.nan), np.full(size, np.nan)
    for j in range(size):
        if rows.radius[j, box] <= 2 * TINY:
            continue
        axis = np.zeros(size)
        axis[j] = 1.0
        d_lo[j] = max(d_lo[j], program.lower_bound(axis))
        d_hi[j] = min(d_hi[j], -program.lower_bound(-axis))
    return d_lo, d_hi


def _solve_lp(cost: np.ndarray, table: np.ndarray, limits: np.ndarray, bounds: list) -> Any:
    """A linear program in floating point; what it says is proved afterwards."""
    from scipy.optimize import linprog  # here, because it takes a while to load

    return linprog(cost, table, limits, bounds=bounds, method="highs")
