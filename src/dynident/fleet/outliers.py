"""Outliers: which machines differ from the rest by more than chance and their own uncertainty explain?

Values of machines are taken as middle + difference between machines + error of the estimate. The size of the usual
difference (the spread) is chosen such that half of the machines lie within 0.6745 standard deviations of the middle, each
counted with its own error: a few odd machines do not move it, and a machine that is only poorly known is no outlier.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynident.report.charts import TWO_SIDED_95
from dynident.statistics.distributions import student_quantile
from dynident.statistics.residual_statistics import NORMAL_MEDIAN
from dynident.tolerances import SPREAD_TOLERANCE

FALSE_ALARM = 0.05  # probability that a fleet of machines that differ as usual shows any
EFFICIENCY = 0.37  # of a spread by medians: it is as sure as a standard deviation of so many times the values
OF_MEDIAN = np.pi / 2  # variance of a median over that of a mean
FEWEST_MACHINES = 5  # machines below which none can be called an outlier
MAX_CENTRE_ITERATIONS = 50  # of middle and spread; far fewer are needed
MANY_RECORDS = 30  # of a machine
BISECTIONS = 60
DRAWN, LEAST_DRAWN = 2_000_000, 1_000  # machines, and fleets, that are drawn to see how far the farthest one lies


@dataclass(frozen=True)
class Outlier:
    """A machine, or a record of a machine, and by how much it is away."""

    parameter: str
    machine: str
    record: str  # empty where the whole machine is meant
    value: float
    std: float
    middle: float
    spread: float
    away: float  # in standard deviations of spread and error together, with its sign

    @property
    def half_width(self) -> float:
        """Of its 95 % interval."""
        return TWO_SIDED_95 * self.std

    def sentence(self, unit: str = "") -> str:
        side = "above" if self.away > 0 else "below"
        who = f"{self.machine}, {self.record}" if self.record and self.machine else self.machine or self.record
        of = "the machine's own middle" if self.record else "the fleet's middle"
        in_unit = f" {unit}" if unit else ""
        return (f"{who}: {self.parameter} = {self.value:.4g} ± {self.half_width:.2g}{in_unit} lies {abs(self.away):.1f} "
                f"standard deviations {side} {of} of {self.middle:.4g}{in_unit} (usual spread {self.spread:.2g}).")


@dataclass(frozen=True, eq=False)
class RobustCentre:
    """The middle of values with known errors, and the spread that they have beyond these errors."""

    middle: float
    spread: float

    def away(self, values: Any, std: Any) -> Any:
        size = np.hypot(self.spread, std)
        return (values - self.middle) / np.where(size > 0, size, np.inf)


def robust_centre(values: np.ndarray, std: np.ndarray) -> RobustCentre:
    """Weighted median, and the spread by the median of the distances from it."""
    middle, spread = float(np.median(values)), 0.0
    for _ in range(MAX_CENTRE_ITERATIONS):
        before = middle, spread
        spread = robust_spread(values - middle, std)
        middle = weighted_median(values, 1 / np.maximum(np.hypot(spread, std), np.finfo(float).tiny))
        if np.allclose(before, (middle, spread), rtol=SPREAD_TOLERANCE, atol=0.0):
            break
    return RobustCentre(middle, spread)


def robust_spread(differences: np.ndarray, std: np.ndarray) -> float:
    """What must be added to the errors so that half of the differences lie within a quartile; 0 if the errors do."""
    def median_distance(spread: float) -> float:
        return float(np.median(np.abs(differences) / np.maximum(np.hypot(spread, std), np.finfo(float).tiny)))

    if median_distance(0.0) <= NORMAL_MEDIAN:
        return 0.0
    low, high = 0.0, float(np.max(np.abs(differences))) / NORMAL_MEDIAN
    for _ in range(BISECTIONS):
        half = (low + high) / 2
        low, high = (half, high) if median_distance(half) > NORMAL_MEDIAN else (low, half)
    return high


def weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    order = np.argsort(values, kind="stable")
    running = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(running, running[-1] / 2)])


def find_outliers(parameter: str, machines: Sequence[str], records: Sequence[str], values: np.ndarray, std: np.ndarray,
              log: bool = False) -> tuple[list[Outlier], RobustCentre | None]:
    """Machines away from the fleet, and records away from their machine, the farthest first; and the fleet's centre.

    Values without a finite error take no part. Logarithms are compared where the parameter is estimated as one.
    """
    use = np.isfinite(values) & np.isfinite(std) & (std > 0) & ((values > 0) | (not log))
    if np.count_nonzero(use) < FEWEST_MACHINES:
        return [], None
    x, s = (np.log(values[use]), std[use] / values[use]) if log else (values[use], std[use])
    who = [m or r for m, r, u in zip(machines, records, use, strict=True) if u]
    which = [r for r, u in zip(records, use, strict=True) if u]
    groups = _group_rows(who)
    own = _spread_within(x, s, groups)
    mean, error = _machine_values(x, s, groups, own)
    fleet = robust_centre(mean, error)
    found = []
    limit = _fleet_limit(len(groups))
    for name, z, value, e in zip(groups, fleet.away(mean, error), mean, error, strict=True):
        if abs(z) > limit and len(groups) >= FEWEST_MACHINES:
            found.append(_outlier(parameter, name, "", value, e, fleet, z, log))
    limit = _student_limit(len(x), len(x) - len(groups))
    for name, rows in groups.items():
        if len(rows) < FEWEST_MACHINES:
            continue
        middles, errors = _middle_of_others(x[rows], s[rows], own)
        for k, middle, e in zip(rows, middles, errors, strict=True):
            z = float(RobustCentre(middle, own).away(x[k], np.hypot(s[k], e)))
            if abs(z) > limit:
                found.append(_outlier(parameter, name, which[k], x[k], s[k], RobustCentre(float(middle), own), z, log))
    shown = RobustCentre(float(np.exp(fleet.middle)), float(np.exp(fleet.middle) * fleet.spread)) if log else fleet
    return sorted(found, key=lambda it: (bool(it.record), -abs(it.away))), shown


@functools.cache
def _fleet_limit(machines: int) -> float:
    """How many standard deviations the farthest of so many usual machines exceeds with the probability FALSE_ALARM.

    Distances from a median over a spread by medians, of which no quantile is known in closed form: from fleets drawn at
    random, always the same ones. Their errors are none, which is the case with the longest tail.
    """
    fleets = max(LEAST_DRAWN, DRAWN // machines)
    x = np.sort(np.random.default_rng(0).standard_normal((fleets, machines)), axis=1)
    away = np.abs(x - x[:, [(machines - 1) // 2]])
    return float(np.quantile(np.max(away, axis=1) / (np.median(away, axis=1) / NORMAL_MEDIAN), 1 - FALSE_ALARM))


def _student_limit(asked: int, behind: int) -> float:
    """How many standard deviations nobody reaches by chance, `asked` times, where `behind` values made the spread."""
    return student_quantile(1 - FALSE_ALARM / (2 * asked), max(1.0, EFFICIENCY * (behind - 1)))


def _middle_of_others(x: np.ndarray, s: np.ndarray, own: float) -> tuple[np.ndarray, np.ndarray]:
    """Per record of a machine: the middle of the others, and the error of that middle."""
    weights = 1 / np.maximum(s**2 + own**2, np.finfo(float).tiny)
    total = np.sum(weights)
    if x.size > MANY_RECORDS:  # one record does not move the middle of many
        return np.full(x.size, weighted_median(x, weights)), np.full(x.size, np.sqrt(OF_MEDIAN / total))
    others = ~np.eye(x.size, dtype=bool)
    middles = np.array([weighted_median(x[mask], weights[mask]) for mask in others])
    return middles, np.sqrt(OF_MEDIAN / (total - weights))


def _group_rows(who: Sequence[str]) -> dict[str, np.ndarray]:
    rows: dict[str, list[int]] = {}
    for k, name in enumerate(who):
        rows.setdefault(name, []).append(k)
    return {name: np.array(own) for name, own in rows.items()}


def _spread_within(x: np.ndarray, s: np.ndarray, groups: dict[str, np.ndarray]) -> float:
    """How far records of one machine differ beyond their errors, over all machines with enough of them."""
    several = [rows for rows in groups.values() if len(rows) >= FEWEST_MACHINES]
    if not several:
        return 0.0
    spread = 0.0
    for _ in range(MAX_CENTRE_ITERATIONS):
        before = spread
        parts = [_middle_of_others(x[rows], s[rows], spread) for rows in several]
        away = np.concatenate([x[rows] - middles for rows, (middles, _) in zip(several, parts, strict=True)])
        error = np.concatenate([np.hypot(s[rows], e) for rows, (_, e) in zip(several, parts, strict=True)])
        spread = robust_spread(away, error)
        if np.isclose(before, spread, rtol=SPREAD_TOLERANCE, atol=0.0):
            break
    return spread


def _machine_values(x: np.ndarray, s: np.ndarray, groups: dict[str, np.ndarray], own: float
                    ) -> tuple[np.ndarray, np.ndarray]:
    """Per machine: the weighted median of its records, and its error."""
    mean, error = [], []
    for rows in groups.values():
        variance = s[rows] ** 2 + own**2
        mean.append(weighted_median(x[rows], 1 / variance))
        error.append(np.sqrt(OF_MEDIAN if len(rows) > 2 else 1.0) / np.sqrt(np.sum(1 / variance)))
    return np.array(mean), np.array(error)


def _outlier(parameter: str, machine: str, record: str, value: float, std: float, centre: RobustCentre, away: float, log: bool
          ) -> Outlier:
    if log:
        value, std = float(np.exp(value)), float(np.exp(value) * std)
        centre = RobustCentre(float(np.exp(centre.middle)), float(np.exp(centre.middle) * centre.spread))
    return Outlier(parameter, machine, record, float(value), float(std), centre.middle, centre.spread, float(away))
