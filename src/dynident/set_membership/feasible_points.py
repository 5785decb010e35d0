"""Feasible points: values that are proved to explain every measurement, found from inside.

A guaranteed set says what is not excluded; these points say what certainly is not to be excluded. Together they show how much
is proved and how much is only not excluded. The search is a successive linear program: around a point the outputs are linear,
first the largest violation is made small, then each unknown as small and as large as measurements allow. What counts is
proved by the enclosure of the flow from that single point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy.optimize import linprog

from dynident.set_membership.setup import SetMembershipSetup
from dynident.set_membership.stretch import SampleStretch
from dynident.set_membership.verified_lp import certainly_inside, measurement_bounds

STARTS = 8  # points that the search for a first one begins with
MAX_LINEARIZATIONS = 14  # of linearisation, for a first point
CHEBYSHEV_ROUNDS = 20  # the same for the smallest largest violation
INFLATION_MARGIN = 1.001  # what is left for rounding and for the end of that search
END_ROUNDS = 8  # the same for the ends
STEP_LENGTHS = (1.0, 0.97, 0.9, 0.75, 0.5, 0.2, 0.05, 0.01)  # of the step that a linear program proposes, tried at once
RADIUS_MARGIN = 0.999  # of a radius that linear programs allow: the rest is for what bends
SMALLEST_GAIN = 1e-3  # of the width between bounds: a round that wins less ends the search
FEASIBLE_POINT_SEED = 1
MAX_POINTS = 400  # that are kept


class PointFits(Protocol):
    """Which points explain records, and what the measurements say around them; points are values of the problem's unknowns."""

    def linearize(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(rows, unknowns, points) slopes; (2, rows, points) bounds of slope . change; (points,) violation; whether it fits.

        Violations are in radii: 1 and less fits, up to rounding.
        """
        ...


@dataclass(frozen=True, eq=False)
class StretchFits:
    """Records, or parts of them, in one mode, which a point has to explain together."""

    setup: SetMembershipSetup
    stretches: Sequence[tuple[int, SampleStretch]]  # with the number of the experiment
    max_outliers: int = 0

    def linearize(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """As `PointFits` asks for, by the flow from each point."""
        slopes, ends, units, fits = [], [], [], np.ones(points.shape[1], bool)
        for e, stretch in self.stretches:
            boxes = np.array([self.setup.box(e, point, point)[0] for point in points.T]).T
            found = stretch.enclose_outputs(boxes, boxes, stretch.samples)
            record = stretch.record
            low, high = record.low, record.high
            fits &= certainly_inside(found, low, high, self.max_outliers)
            if found.cells is not None:
                low, high = low[:, found.cells.owner], high[:, found.cells.owner]
            bounds = np.array(measurement_bounds(found, low, high))
            seen = np.isfinite(low.T)
            rows, source = self.setup.unknown_rows(e)
            slope = np.zeros((int(seen.sum()), points.shape[0], points.shape[1]))
            slope[:, source] = found.a[seen][:, rows]
            slopes.append(slope)
            ends.append(np.array([side[seen] for side in bounds]))
            units.append(0.5 * (high - low).T[seen])
        a, (lower, upper), unit = np.concatenate(slopes), np.concatenate(ends, axis=1), np.concatenate(units)[:, None]
        with np.errstate(invalid="ignore"):
            violation = np.max(np.abs(0.5 * (lower + upper)) / unit, axis=0, initial=0.0)
        return a, np.array([lower, upper]), np.where(np.isfinite(violation), violation, np.inf), fits

    def with_inflated_bounds(self, factor: float) -> StretchFits:
        """The same with every radius `factor` times as large."""
        return replace(self, stretches=[(e, replace(own, record=own.record.with_inflated_bounds(factor)))
                                        for e, own in self.stretches])


@dataclass(frozen=True, eq=False)
class PointSearch:
    """Points that fit, found by linear programs on what the measurements say around others."""

    fits: PointFits
    max_outliers: int = 0

    def find(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """(unknowns, points) between bounds that are proved to fit; none where none was found."""
        start = self._first_point(low, high)
        if start is None:
            return np.zeros((low.size, 0))
        return self._ends(start, low, high)

    def smallest_inflation(self, low: np.ndarray, high: np.ndarray, widened: Callable[[float], PointFits]) -> float | None:
        """A factor on all radii with which a point is proved to fit: the least largest violation found (Chebyshev fit).

        None where the search ends without a number.
        """
        points, violation, _ = self._chebyshev_points(low, high, CHEBYSHEV_ROUNDS, first_is_enough=False)
        for j in np.argsort(violation):
            factor = float(max(violation[j], 1.0)) * INFLATION_MARGIN
            if not np.isfinite(factor):
                return None
            if widened(factor).linearize(points[:, [j]])[3][0]:
                return factor
        return None

    def _first_point(self, low: np.ndarray, high: np.ndarray) -> np.ndarray | None:
        """A point that fits, from several starts at once."""
        rounds = MAX_LINEARIZATIONS if not self.max_outliers else 0  # which samples are wrong no linear program says
        points, violation, fits = self._chebyshev_points(low, high, rounds, first_is_enough=True)
        return points[:, np.where(fits, violation, np.inf).argmin()] if fits.any() else None

    def _chebyshev_points(self, low: np.ndarray, high: np.ndarray, rounds: int, first_is_enough: bool
                          ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(unknowns, points) with small largest violations (points,), and whether each fits; a trust region for each start."""
        draws = np.random.default_rng(FEASIBLE_POINT_SEED).random((low.size, STARTS - 1))
        points = np.concatenate([0.5 * (low + high)[:, None], low[:, None] + (high - low)[:, None] * draws], axis=1)
        region = np.full(points.shape[1], 0.5)  # of the width
        slopes, ends, violation, fits = self.fits.linearize(points)
        for _ in range(rounds):
            if first_is_enough and fits.any():
                break
            tried = np.array([self._least_violation(points[:, j], slopes[:, :, j], ends[:, :, j], region[j], low, high)
                              for j in range(points.shape[1])]).T
            news = self.fits.linearize(tried)
            better = news[2] < violation
            points = np.where(better, tried, points)
            slopes = np.where(better, news[0], slopes)
            ends = np.where(better, news[1], ends)
            violation, fits = np.where(better, news[2], violation), np.where(better, news[3], fits)
            region = np.where(better, np.minimum(2 * region, 1.0), 0.25 * region)
        return points, violation, fits

    def _least_violation(self, point: np.ndarray, slope: np.ndarray, ends: np.ndarray, region: float, low: np.ndarray,
                         high: np.ndarray) -> np.ndarray:
        """The point of the trust region with the smallest largest violation, in the linearised problem."""
        slope, middle, unit = _finite_rows(slope, ends)
        table = np.block([[slope, -unit[:, None]], [-slope, -unit[:, None]]])
        solved = linprog(np.append(np.zeros(point.size), 1.0), table, np.concatenate([middle, -middle]),
                         bounds=[*self._box(point, region, low, high), (0, None)], method="highs")
        return point + solved.x[:-1] if solved.status == 0 else point

    @staticmethod
    def _box(point: np.ndarray, region: float, low: np.ndarray, high: np.ndarray) -> list[tuple[float, float]]:
        reach = region * (high - low)
        return [(max(a - p, -r), min(b - p, r)) for p, r, a, b in zip(point, reach, low, high, strict=True)]

    def _ends(self, start: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Points that fit and reach as far as was found in every unknown."""
        free = np.flatnonzero(high > low)
        signs = np.array([(j, sign) for j in free for sign in (1.0, -1.0)])
        if not len(signs):
            return start[:, None]
        points, found = np.tile(start[:, None], len(signs)), [start[:, None]]
        slopes, ends, _, _ = self.fits.linearize(points)
        rows, each = signs[:, 0].astype(int), np.arange(len(signs))
        for _ in range(END_ROUNDS):
            aims = np.array([self._furthest(points[:, i], slopes[:, :, i], ends[:, :, i], int(j), sign, low, high)
                             for i, (j, sign) in enumerate(signs)]).T
            tried = points[:, None] + np.array(STEP_LENGTHS)[:, None] * (aims - points)[:, None]  # (unknowns, lengths, ends)
            tried = np.clip(tried, low[:, None, None], high[:, None, None]).reshape(low.size, -1)
            news = self.fits.linearize(tried)
            found.append(tried[:, news[3]])
            fits = news[3].reshape(len(STEP_LENGTHS), -1)
            chosen = fits.argmax(axis=0) * len(signs) + each  # the longest step that fits
            gain = signs[:, 1] * (tried[rows, chosen] - points[rows, each]) / (high - low)[rows]
            better = fits.any(axis=0) & (gain > 0)
            if not np.any(better & (gain > SMALLEST_GAIN)):
                break
            points, slopes, ends = (np.where(better, new[..., chosen], old) for new, old in
                                    ((tried, points), (news[0], slopes), (news[1], ends)))
        return np.unique(np.concatenate(found, axis=1), axis=1)[:, :MAX_POINTS]

    def _furthest(self, point: np.ndarray, slope: np.ndarray, ends: np.ndarray, j: int, sign: float,
                  low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """As far along one unknown as the linearised measurements allow."""
        slope, middle, unit = _finite_rows(slope, ends)
        upper, lower = np.maximum(middle + RADIUS_MARGIN * unit, 0), np.minimum(middle - RADIUS_MARGIN * unit, 0)
        cost = np.zeros(point.size)
        cost[j] = -sign
        solved = linprog(cost, np.concatenate([slope, -slope]), np.concatenate([upper, -lower]),
                         bounds=self._box(point, 1.0, low, high), method="highs")
        return point + solved.x if solved.status == 0 else point


def _finite_rows(slope: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Slopes, middles and half widths of the rows that say something."""
    good = np.all(np.isfinite(ends), axis=0) & np.all(np.isfinite(slope), axis=1)
    slope, ends = slope[good], ends[:, good]
    return slope, 0.5 * (ends[0] + ends[1]), 0.5 * (ends[1] - ends[0])
