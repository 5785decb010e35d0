"""Shared estimate: the values that the whole fleet shares, how sure they are, and whether the records agree on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from dynident.fleet.shared_parameters import RecordSum, SharedParameterSolver, SharedState
from dynident.linalg.rank import column_lengths, truncated_svd
from dynident.statistics.distributions import student_quantile
from dynident.statistics.identifiability import identifiability
from dynident.statistics.uncertainty import LEVEL
from dynident.tolerances import SINGULAR_VALUE_EXACT

FEWEST_RECORDS = 20  # from which on the scatter between records tells how sure a shared value is
UNIDENTIFIABLE = "unidentifiable"  # the remark of a shared value that no record sees
SIGNIFICANCE = 1e-3  # probability of a disagreement as large as this by chance, below which it is reported


@dataclass(frozen=True, eq=False)
class SharedEstimate:
    """Values with their uncertainty, and a sentence for each thing that one must know."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    values: np.ndarray  # (shared,)
    covariance: np.ndarray  # (shared, shared), in the user's units; 0 for a value on a bound
    low: np.ndarray
    high: np.ndarray
    remarks: tuple[str, ...]
    status: str
    converged: bool
    meaning: str
    agreement: str
    agrees: bool
    records: int

    def std(self, name: str) -> float:
        i = self.names.index(name)
        return float(np.sqrt(self.covariance[i, i]))


def shared_estimate(solver: SharedParameterSolver, state: SharedState) -> SharedEstimate:
    """What the last accepted pass says."""
    at, coordinates = np.array(state.accepted_at), solver.coordinates
    known, values = solver.sum_records(state.accepted, at), coordinates.values(at)
    active = np.where(at <= coordinates.lower, -1, np.where(at >= coordinates.upper, 1, 0))
    free = np.flatnonzero(active == 0)
    names = [name for name, side in zip(solver.fleet.shared, active, strict=True) if not side]
    slope = coordinates.derivative(at)
    determined = identifiability(names, values[free], np.abs(values[free]), known.rows[:, free] / slope[free])
    clustered = len(known.members) >= FEWEST_RECORDS
    covariance = np.zeros((at.size, at.size))
    covariance[np.ix_(free, free)] = _covariance(known, free, clustered)
    covariance *= np.outer(slope, slope)
    quantile = student_quantile((1 + LEVEL) / 2, len(known.members) - 1 if clustered else known.freedom)
    half_width = quantile * np.sqrt(np.diag(covariance))
    remarks = [_remark(name, active[i], determined.unidentifiable) for i, name in enumerate(solver.fleet.shared)]
    half_width = np.where([remark == UNIDENTIFIABLE for remark in remarks], np.inf, half_width)
    low = np.where(coordinates.log, values * np.exp(-half_width / slope), values - half_width)
    high = np.where(coordinates.log, values * np.exp(half_width / slope), values + half_width)
    agrees, sentence = _agreement(known, len(free))
    return SharedEstimate(
        tuple(solver.fleet.shared), tuple(p.unit for p in solver.parameters), values, covariance,
        np.where(active < 0, values, low), np.where(active > 0, values, high), tuple(remarks), state.finished,
        state.converged, _meaning(clustered, len(known.members)), sentence, agrees, len(known.members))


def _covariance(known: RecordSum, free: np.ndarray, clustered: bool) -> np.ndarray:
    """In solver coordinates: the sandwich with records as clusters, or from the noise where records are few."""
    lengths = column_lengths(known.rows[:, free])
    inverse = truncated_svd(known.rows[:, free] / lengths, SINGULAR_VALUE_EXACT).pseudo_inverse() / lengths[:, None]
    bread = inverse @ inverse.T
    if not clustered:
        return bread  # weights are known, or were estimated record by record
    n = len(known.members)
    return bread @ (known.scores[np.ix_(free, free)] * n / (n - 1)) @ bread


def _remark(name: str, side: int, undetermined: tuple[str, ...]) -> str:
    if side:
        return f"at its {'lower' if side < 0 else 'upper'} bound"
    return UNIDENTIFIABLE if name in undetermined else ""


def _meaning(clustered: bool, records: int) -> str:
    if clustered:
        return (f"The intervals of the shared values come from how the {records} records differ among each other: they "
                "hold also where errors are correlated within a record, or machines differ a little.")
    return (f"With {records} records the intervals of the shared values come from the noise within the records: they "
            "suppose that the errors are independent and that all machines have the same value.")


def _agreement(known: RecordSum, shared: int) -> tuple[bool, str]:
    """Whether the records could have one value in common: the fall of the cost if each had its own is then chi-square."""
    freedom = (len(known.members) - 1) * shared
    if freedom < 1:
        return True, ""
    ratio = known.cost_if_separate / freedom / known.variance
    chance = float(special.fdtrc(freedom, max(1, known.freedom - freedom), ratio))
    if chance < SIGNIFICANCE:
        return False, (f"The records do NOT agree on the shared values: with values of their own the cost would fall "
                       f"{ratio:.3g} times as much as chance explains. Look at the values that each record gives by "
                       "itself, and share fewer parameters.")
    return True, (f"The records agree on the shared values: with values of their own the cost would fall {ratio:.3g} "
                  "times as much as by chance, where 1 is expected.")
