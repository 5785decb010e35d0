"""Filter result: what a filter knew at every sample, and whether it had reason to be so sure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from dynident._util.data_classes import short_fields
from dynident.models.augmented import ParameterTransform
from dynident.statistics.distributions import chi_square_quantile, normal_quantile
from dynident.statistics.residual_tests import (
    CONFIDENCE,
    FEWEST_TESTED,
    MOST_LAGS,
    ResidualTest,
    autocorrelation,
    whiteness,
)
from dynident.statistics.uncertainty import LEVEL, Uncertainty, check_level, check_single_kind, index_of
from dynident.tolerances import FILTER_DIVERGED, FILTER_INCONSISTENT

ASSUMED = "as assumed, not estimated"


@dataclass(frozen=True, eq=False)
class FilterRecord:
    """One experiment, sample by sample; columns in the order of `names` (states, then parameters), in user's units."""

    experiment: str
    time: np.ndarray  # (samples,)
    names: tuple[str, ...]
    outputs: tuple[str, ...]
    values: np.ndarray  # (samples, names)
    std: np.ndarray  # (samples, names)
    whitened: np.ndarray  # (samples, outputs): innovations over their foreseen spread, NaN where none was used
    left_out: np.ndarray  # (samples, outputs) bool: measured, but beyond the gate
    smoothed: np.ndarray | None = None  # (samples, names) with the whole record known
    smoothed_std: np.ndarray | None = None

    __repr__ = short_fields

    @property
    def nis(self) -> np.ndarray:
        """Normalised innovation squared per sample; NaN where nothing was measured."""
        seen = np.isfinite(self.whitened)
        return np.where(np.any(seen, axis=1), np.nansum(self.whitened**2, axis=1), np.nan)


@dataclass(frozen=True, eq=False)
class FilterResult:
    """All records, the noise that was assumed, and the verdict on consistency."""

    records: tuple[FilterRecord, ...]
    parameters: tuple[str, ...]  # those among the names that are parameters
    process_noise: Mapping[str, float] = field(default_factory=dict)  # standard deviation per second or per sample
    process_noise_unit: str = "second"
    estimated: tuple[str, ...] = ()  # process noise and outputs whose level was found by maximum likelihood
    initial_std: Mapping[str, float] = field(default_factory=dict)
    loglik: float = np.nan
    tests: tuple[ResidualTest, ...] = ()

    __repr__ = short_fields

    @property
    def consistent(self) -> bool:
        return all(test.passed for test in self.tests)

    @property
    def diverged(self) -> bool:
        """The innovations of the later half are beyond all that was foreseen."""
        sizes = [test.value for test in self.tests if test.name == "innovation size"]
        return bool(sizes) and not sizes[-1] < FILTER_DIVERGED


def consistency(whitened: list[np.ndarray], outputs: tuple[str, ...]) -> tuple[ResidualTest, ...]:
    """Tests of the innovations, per experiment (samples, outputs): size, also in the later half, and memory."""
    tests = []
    whole = np.concatenate([w.ravel() for w in whitened]) if whitened else np.zeros(0)
    later = np.concatenate([w[len(w) // 2:].ravel() for w in whitened]) if whitened else np.zeros(0)
    for values, subject in ((whole, "innovations"), (later, "innovations in the second half")):
        values = values[np.isfinite(values)]
        if values.size >= FEWEST_TESTED:
            tests.append(innovation_size(values, subject))
    for j, name in enumerate(outputs):
        series = [w[:, j] for w in whitened if np.sum(np.isfinite(w[:, j])) >= FEWEST_TESTED]
        if series:
            tests.append(_memory(max(series, key=len), f"innovations of {name}"))
    return tuple(tests)


def _memory(whitened: np.ndarray, subject: str) -> ResidualTest:
    """Whiteness; in a long record correlations show that are too small to matter, and pass."""
    test = whiteness(whitened, subject)
    lags = max(1, min(MOST_LAGS, int(np.sum(np.isfinite(whitened))) // 5))
    largest = float(np.max(np.abs(autocorrelation(whitened, lags)[0][1:])))
    if test.passed or largest > FILTER_INCONSISTENT:
        return test
    return replace(test, passed=True, sentence=f"{subject}: correlations of at most {largest:.2g} between neighbours, "
                                               "visible in a record this long but harmless")


def innovation_size(whitened: np.ndarray, subject: str) -> ResidualTest:
    """Mean normalised innovation squared per measured value: 1 where the filter foresees its own errors."""
    count = whitened.size
    value = float(np.mean(whitened**2))
    low, high = (chi_square_quantile((1 + side * CONFIDENCE) / 2, count) / count for side in (-1, 1))
    low, high = min(low, (1 - FILTER_INCONSISTENT) ** 2), max(high, (1 + FILTER_INCONSISTENT) ** 2)
    passed = low <= value <= high
    said = f"{subject}: squared, over their foreseen variance, {value:.3g} on average where 1 is right"
    if value > high:
        said += (f"; the filter is too sure of itself, its standard deviations are too small by a factor of about "
                 f"{np.sqrt(value):.2g}")
    elif not passed:
        said += "; the filter is too cautious, its assumed noise is too large"
    return ResidualTest("innovation size", subject, value, (low, high), passed, said)


@dataclass(frozen=True, eq=False)
class FilterCovariance(Uncertainty):
    """Means and covariance in the filter's coordinates, per unknown of the problem."""

    names: tuple[str, ...]
    mean: np.ndarray  # (unknowns,) in coordinates
    matrix: np.ndarray  # (unknowns, unknowns) in coordinates
    coordinates: tuple[ParameterTransform, ...]
    remarks: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, float] = field(default_factory=dict)
    consistent: bool = True  # the verdict on the innovations

    __repr__ = short_fields

    @property
    def meaning(self) -> str:
        """What the interval means, and under which assumptions."""
        promise = ("The interval holds the value at the end of the record with the stated probability, if the model, "
                   "its discretization and the assumed noise are right and the model is nearly linear over the "
                   "interval.")
        return promise if self.consistent else (
            f"{promise} The innovations say that they are not: do not rely on these intervals.")

    def std(self, name: str, kind: str | None = None) -> float:
        """Standard deviation in the user's units; zero where fixed."""
        check_single_kind(kind)
        if name in self.fixed:
            return 0.0
        i = index_of(name, self.names)
        return float(abs(self.coordinates[i].derivative(self.mean[i])) * np.sqrt(max(self.matrix[i, i], 0.0)))

    def interval(self, name: str, level: float = LEVEL, kind: str | None = None) -> tuple[float, float]:
        """(low, high) from the normal distribution in the filter's coordinates."""
        check_level(level)
        check_single_kind(kind)
        if name in self.fixed:
            return self.fixed[name], self.fixed[name]
        i = index_of(name, self.names)
        reach = normal_quantile((1 + level) / 2) * float(np.sqrt(max(self.matrix[i, i], 0.0)))
        low, high = (float(self.coordinates[i].value(self.mean[i] + side * reach)) for side in (-1, 1))
        return low, high

    def remark(self, name: str) -> str:
        if name in self.fixed:
            return "fixed"
        index_of(name, self.names)
        return self.remarks.get(name, "")

    def correlation(self, kind: str | None = None) -> np.ndarray:
        """(unknowns, unknowns); NaN in the rows of unknowns without a variance."""
        check_single_kind(kind)
        variance = np.diag(self.matrix)
        std = np.sqrt(np.where(variance > 0, variance, np.nan))
        with np.errstate(invalid="ignore"):  # an infinite variance has no correlation
            return np.asarray(self.matrix / std / std[:, None])

    def covariance(self) -> np.ndarray:
        """In the filter's coordinates."""
        return self.matrix


def nees(errors: np.ndarray, covariances: np.ndarray) -> np.ndarray:
    """Normalised estimation error squared per sample, where the truth is known: e' P^-1 e; as many as there are states
    on average where the filter is right."""
    solved = np.linalg.solve(covariances, errors[..., None])[..., 0]
    return np.sum(errors * solved, axis=-1)
