"""Verified linear programming: what do rows a (q - q_c) + offset in [low, high] leave of a box? Proved, whatever a solver says.

`bound_by_rows` goes row by row; `bound_by_lp` solves linear programs in floating point and takes from them only the
multipliers: for any multipliers >= 0, weak duality gives a bound, computed here with its rounding errors.
"""

from __future__ import annotations

import numpy as np

from dynident.set_membership.dual_simplex import ScaledRows, dual_multipliers
from dynident.set_membership.flows.lohner import ROUNDING, CellRows, OutputEnclosure
from dynident.set_membership.intervals.arithmetic import TINY, UNIT, Interval
from dynident.set_membership.setup import BoundedRecord
from dynident.tolerances import KNOWN_RADIUS


def measurement_bounds(rows: OutputEnclosure, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(samples, outputs, boxes) what a (q - q_c) may be, its error included; infinite where not measured."""
    slack = rows.error + ROUNDING * (np.abs(rows.offset) + rows.error)
    with np.errstate(invalid="ignore"):
        lower = low.T[:, :, None] - rows.offset - slack
        upper = high.T[:, :, None] - rows.offset + slack
        lower = lower - ROUNDING * np.abs(lower)
        upper = upper + ROUNDING * np.abs(upper)
    return np.where(np.isfinite(lower), lower, -np.inf), np.where(np.isfinite(upper), upper, np.inf)


def half_widths(record: BoundedRecord) -> np.ndarray:
    """(samples, outputs) radii of the measurements; NaN where nothing was measured."""
    with np.errstate(invalid="ignore"):
        half = 0.5 * (record.high - record.low).T
    return np.where(np.isfinite(half), half, np.nan)


def contract_boxes(rows: OutputEnclosure, record: BoundedRecord, box: Interval, max_outliers: int = 0
                   ) -> tuple[Interval, np.ndarray, np.ndarray]:
    """The boxes without what all rows but `max_outliers` exclude (relaxed intersection).

    Then: which of them are inside for certain; which of the given ones are left.
    """
    inside = certainly_inside(rows, record.low, record.high, max_outliers)
    d_lo, d_hi = bound_by_rows(rows, record.low, record.high, max_outliers)
    left = ~np.isnan(d_lo[0]) | inside
    narrowed = _narrowed(rows, box, d_lo, d_hi)
    ends = np.array([np.where(inside, box[side], narrowed[side]) for side in (0, 1)])
    kept = np.flatnonzero(left & np.all(ends[0] <= ends[1], axis=0))
    return (ends[0][:, kept], ends[1][:, kept]), inside[kept], kept


def _narrowed(rows: OutputEnclosure, box: Interval, d_lo: np.ndarray, d_hi: np.ndarray) -> Interval:
    error = ROUNDING * (np.abs(rows.centre) + rows.radius)
    return np.maximum(box[0], rows.centre + d_lo - error), np.minimum(box[1], rows.centre + d_hi + error)


def certainly_inside(rows: OutputEnclosure, low: np.ndarray, high: np.ndarray, max_outliers: int = 0) -> np.ndarray:
    """(boxes,) true where every point of the box explains every measurement, or all but a few samples."""
    nodes = rows if rows.cells is None else rows.cells.nodes
    reach = np.einsum("koub,ub->kob", np.abs(nodes.a), nodes.radius) + nodes.error
    reach = reach * (1 + 4 * ROUNDING) + ROUNDING * np.abs(nodes.offset) + TINY
    least, most = nodes.offset - reach, nodes.offset + reach
    if rows.cells is None:
        fits = np.all((least >= low.T[:, :, None]) & (most <= high.T[:, :, None]), axis=1)
    else:
        fits = np.array([_passes_through(rows.cells, least, most, low[:, k], high[:, k], k) for k in range(low.shape[1])])
    return np.sum(~fits, axis=0) <= max_outliers


def _passes_through(cells: CellRows, least: np.ndarray, most: np.ndarray, low: np.ndarray, high: np.ndarray, sample: int
                    ) -> np.ndarray:
    """(boxes,) the same of one sample whose time is open: at one instant of its window every point of the box gives what was
    measured; or, of one output, at one instant none is too high and at another none is too low: each passes through."""
    own = slice(int(cells.span[sample, 0]), int(cells.span[sample, 1]) + 1)
    above, below = least[own] >= low[None, :, None], most[own] <= high[None, :, None]
    fits = np.any(np.all(above & below, axis=1), axis=0)
    if cells.continuous and np.isfinite(low).sum() == 1:
        fits |= np.all(np.any(above, axis=0) & np.any(below, axis=0), axis=0)
    return fits


def bound_by_rows(rows: OutputEnclosure, low: np.ndarray, high: np.ndarray, max_outliers: int = 0, sweeps: int = 3
                  ) -> tuple[np.ndarray, np.ndarray]:
    """(unknowns, boxes) what remains of q - q_c, row by row; NaN where nothing. `max_outliers` samples may be wrong."""
    cells = rows.cells
    lower, upper = measurement_bounds(rows, low, high) if cells is None else measurement_bounds(
        rows, low[:, cells.owner], high[:, cells.owner])
    d_lo, d_hi = -rows.radius.copy(), rows.radius.copy()
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        for _ in range(sweeps):
            ends = rows.a * d_lo, rows.a * d_hi  # (samples, outputs, unknowns, boxes)
            least, most = np.minimum(*ends), np.maximum(*ends)
            all_least, all_most = least.sum(axis=2), most.sum(axis=2)
            error = 2 * ROUNDING * np.maximum(np.abs(least), np.abs(most)).sum(axis=2)
            wrong = np.any((all_least - error > upper) | (all_most + error < lower), axis=1)  # (samples, boxes)
            every = wrong if cells is None else np.logical_and.reduceat(wrong, cells.groups, axis=0)
            gone = every.sum(axis=0) > max_outliers
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
                first, last = first.max(axis=1), last.min(axis=1)
                if cells is not None:  # in one of the cells of its window, if not in one that is excluded
                    first = np.minimum.reduceat(np.where(wrong, np.inf, first), cells.groups, axis=0)
                    last = np.maximum.reduceat(np.where(wrong, -np.inf, last), cells.groups, axis=0)
                d_lo[j] = np.maximum(d_lo[j], _relaxed_maximum(first, max_outliers))
                d_hi[j] = np.minimum(d_hi[j], -_relaxed_maximum(-last, max_outliers))
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
        self._scaled: ScaledRows | None = None
        if also is not None:  # further inequalities A d <= b, which no growing radius relaxes
            self.a, self.b = np.concatenate([self.a, also[0]]), np.concatenate([self.b, also[1]])
            self.unit = np.concatenate([self.unit, np.zeros(len(also[1]))])

    def lower_bound(self, direction: np.ndarray) -> float:
        """A proved lower bound of direction . d, infinite (positive) only if nothing is proved to fit."""
        floor = -float(np.abs(direction) @ self.radius) * (1 + ROUNDING)
        if not len(self.b):
            return floor
        if self._scaled is None:  # the same for every direction
            self._scaled = ScaledRows.of(self.a, self.b, self.radius)
        multipliers = _solve_lp(self._scaled, direction, self.a, self.b)
        if multipliers is None:
            return floor
        return max(floor, self._weak_duality_bound(multipliers, direction))

    def inflation_bound(self) -> float:
        """A proved lower bound of the factor - 1 by which all radii must grow before anything fits."""
        if not len(self.b):
            return -np.inf
        size = self.radius.size
        objective = np.append(np.zeros(size), 1.0)
        table = np.concatenate([self.a, -self.unit[:, None]], axis=1)
        counts = self.unit > 0
        most = 2 * float(np.max(-self.b[counts] / self.unit[counts], initial=1.0))  # at the centre less is enough
        multipliers = _solve_lp(ScaledRows.of(table, self.b, np.append(self.radius, most)), objective, table, self.b)
        if multipliers is None:
            return -np.inf
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


def bound_by_lp(rows: OutputEnclosure, record: BoundedRecord, box: Interval, column: int = 0) -> Interval | None:
    """What linear programs leave of one box (unknowns,), whose rows stand in a column; None where nothing is proved to fit."""
    program = VerifiedLinearProgram(rows, record.low, record.high, column)
    size = program.radius.size
    if program.inflation_bound() > 0:
        return None
    low, high = np.array(box[0]), np.array(box[1])
    error = ROUNDING * (np.abs(rows.centre[:, column]) + rows.radius[:, column])
    for j in range(size):
        if high[j] - low[j] <= KNOWN_RADIUS:
            continue
        axis = np.zeros(size)
        axis[j] = 1.0
        low[j] = max(low[j], rows.centre[j, column] + program.lower_bound(axis) - error[j])
        high[j] = min(high[j], rows.centre[j, column] - program.lower_bound(-axis) + error[j])
    return (low, high) if np.all(low <= high) else None


def _solve_lp(rows: ScaledRows, cost: np.ndarray, table: np.ndarray, limits: np.ndarray) -> np.ndarray | None:
    """Multipliers of a linear program in floating point; what they say is proved afterwards. None where there are none."""
    if np.all(np.isfinite(rows.table)) and np.all(np.isfinite(rows.limits)):
        found = dual_multipliers(rows, cost)
        if found is not None:
            return found
    from scipy.optimize import linprog  # here, because it takes a while to load

    solved = linprog(cost, table, limits, bounds=[(-r, r) for r in rows.radius], method="highs")
    return np.maximum(-np.asarray(solved.ineqlin.marginals), 0.0) if solved.status == 0 else None
