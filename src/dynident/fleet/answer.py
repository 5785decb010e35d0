"""Shared answer: the values that the whole fleet shares, how sure they are, and whether the records agree on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from dynident.fleet.shared import Gathered, SharedSearch, State
from dynident.statistics.distributions import student_quantile
from dynident.statistics.identifiability import identifiability

FEWEST_RECORDS = 20  # from which on the scatter between records tells how sure a shared value is
LEVEL = 0.95
DOUBTFUL = 1e-3  # probability of a disagreement as large as this by chance, below which it is reported


@dataclass(frozen=True, eq=False)
class SharedAnswer:
    """Values with their uncertainty, and a sentence for each thing that one must know."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    values: np.ndarray
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


def answer_of(search: SharedSearch, state: State) -> SharedAnswer:
    """What the last accepted pass says."""
    known = search.gathered(state.accepted)
    at = np.array(state.accepted_at)
    values = search.values(at)
    active = np.where(at <= search.lower, -1, np.where(at >= search.upper, 1, 0))
    free = np.flatnonzero(active == 0)
    names = [name for name, side in zip(search.fleet.shared, active, strict=True) if not side]
    slope = np.where(search.log, values, 1.0)
    told = identifiability(names, values[free], np.abs(values[free]), known.rows[:, free] / slope[free])
    between = len(known.members) >= FEWEST_RECORDS
    covariance = np.zeros((at.size, at.size))
    covariance[np.ix_(free, free)] = _covariance(known, free, between)
    covariance *= np.outer(slope, slope)
    quantile = student_quantile((1 + LEVEL) / 2, len(known.members) - 1 if between else known.freedom)
    reach = quantile * np.sqrt(np.diag(covariance))
    remarks = [_remark(name, active[i], told.undetermined) for i, name in enumerate(search.fleet.shared)]
    reach = np.where([r == "not determined" for r in remarks], np.inf, reach)
    low = np.where(search.log, values * np.exp(-reach / np.where(search.log, values, 1)), values - reach)
    high = np.where(search.log, values * np.exp(reach / np.where(search.log, values, 1)), values + reach)
    agrees, sentence = _agreement(known, len(free))
    return SharedAnswer(
        tuple(search.fleet.shared), tuple(p.unit for p in search.parameters), values, covariance,
        np.where(active < 0, values, low), np.where(active > 0, values, high), tuple(remarks), state.finished,
        state.converged, _meaning(between, len(known.members)), sentence, agrees, len(known.members))


def _covariance(known: Gathered, free: np.ndarray, between: bool) -> np.ndarray:
    """In solver coordinates: from the scatter of the records' gradients, or from the noise where records are few."""
    inverse = np.linalg.pinv(known.rows[:, free])
    bread = inverse @ inverse.T
    if not between:
        return bread  # weights are known, or were estimated record by record
    n = len(known.members)
    return bread @ (known.scores[np.ix_(free, free)] * n / (n - 1)) @ bread


def _remark(name: str, side: int, undetermined: tuple[str, ...]) -> str:
    if side:
        return f"at its {'lower' if side < 0 else 'upper'} bound"
    return "not determined" if name in undetermined else ""


def _meaning(between: bool, records: int) -> str:
    if between:
        return (f"The intervals of the shared values come from how the {records} records differ among each other: they "
                "hold also where errors are correlated within a record, or machines differ a little.")
    return (f"With {records} records the intervals of the shared values come from the noise within the records: they "
            "suppose that the errors are independent and that all machines have the same value.")


def _agreement(known: Gathered, shared: int) -> tuple[bool, str]:
    """Whether the records could have one value in common: the fall of the cost if each had its own is then chi-square."""
    freedom = (len(known.members) - 1) * shared
    if freedom < 1:
        return True, ""
    ratio = known.apart / freedom / known.variance
    chance = float(special.fdtrc(freedom, max(1, known.freedom - freedom), ratio))
    if chance < DOUBTFUL:
        return False, (f"The records do NOT agree on the shared values: with values of their own the cost would fall "
                       f"{ratio:.3g} times as much as chance explains. Look at the values that each record gives by "
                       "itself, and share fewer parameters.")
    return True, (f"The records agree on the shared values: with values of their own the cost would fall {ratio:.3g} "
                  "times as much as by chance, where 1 is expected.")
