"""Enclosure: bounds outside of which no value can explain the data, proved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dynident._util.data_classes import short_fields
from dynident.errors import ProblemError
from dynident.statistics.uncertainty import LEVEL, Uncertainty, check_single_kind, index_of


@dataclass(frozen=True, eq=False)
class Refutation:
    """Nothing fits: from which sample on, and what would have to give way."""

    experiment: str
    time: float  # of the first sample that nothing explains together with those before it
    inflation: float | None = None  # by how much, at least, every radius must grow; None: not computed
    max_outliers: int = 0  # samples that were allowed to be wrong

    @property
    def sentence(self) -> str:
        more = ""
        if self.inflation is not None and np.isfinite(self.inflation):
            more = f" Every bound on the errors would have to be at least {self.inflation:.3g} times as wide."
        return (f"From t = {self.time:g} in {self.experiment} on, no value inside of the given bounds explains the data: "
                f"the model or a bound is refuted.{more} inflate=\"auto\" finds the smallest bounds on the errors that leave "
                f"something, max_outliers={self.max_outliers + 1} the values that explain all but so many samples.")


@dataclass(frozen=True, eq=False)
class Band:
    """Bounds over time of parameters and states in one experiment, and what the boxes did there."""

    experiment: str
    time: np.ndarray  # (samples,)
    low: Mapping[str, np.ndarray]  # by name, each (samples,)
    high: Mapping[str, np.ndarray]
    boxes: np.ndarray  # (samples,) how many
    modes: np.ndarray  # (samples,) bit mask of possible modes
    mode_names: tuple[str, ...] = ()
    resets: tuple[float, ...] = ()  # times at which a parameter was set back to its first range
    run: int = 1

    __repr__ = short_fields


@dataclass(frozen=True, eq=False)
class Enclosure(Uncertainty):
    """Guaranteed intervals; `level` of `interval` plays no part, since nothing is left to chance."""

    names: tuple[str, ...]
    low: np.ndarray  # (unknowns,)
    high: np.ndarray
    guarantee: str  # what the bounds rest on, as a sentence
    prior_low: np.ndarray = field(default_factory=lambda: np.zeros(0))
    prior_high: np.ndarray = field(default_factory=lambda: np.zeros(0))
    outer: np.ndarray = field(default_factory=lambda: np.zeros((2, 0, 0)))  # (2, unknowns, boxes) low and high
    inner: np.ndarray = field(default_factory=lambda: np.zeros((2, 0, 0)))  # boxes in which every value fits
    feasible: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))  # (unknowns, points) that are known to fit
    feasible_by: str = ""  # how that is known, in words
    max_outliers: int = 0  # samples that were allowed to be wrong
    inflation: float = 1.0  # by which every bound on the errors was widened
    refuted_as_given: Refutation | None = None  # where they were widened because nothing fitted before
    refutation: Refutation | None = None
    bands: tuple[Band, ...] = ()
    fixed: Mapping[str, float] = field(default_factory=dict)
    last: np.ndarray = field(default_factory=lambda: np.zeros((2, 0, 0)))  # (2, unknowns, boxes) at the end of a record
    plot_pair: tuple[str, ...] = ()  # the two unknowns to draw; the first two unless said
    truth: Mapping[str, float | np.ndarray] = field(default_factory=dict)  # to be drawn: a number, or one per sample

    __repr__ = short_fields

    @property
    def heading(self) -> str:
        return "guaranteed bounds"

    @property
    def empty(self) -> bool:
        return self.refutation is not None

    @property
    def meaning(self) -> str:
        """What the interval means, and under which assumptions."""
        if self.refutation is not None:
            return ("Nothing is left of the first box. If no measurement error exceeds its bound, the model is wrong for "
                    f"every value in it; if the model is right, a bound is not. {self._rests_on}")
        but = f" in all but {self.max_outliers} samples" if self.max_outliers else ""
        bound = "its bound" if self.inflation == 1 else f"{self.inflation:.4g} times its bound"
        return ("Outside of these bounds no value explains the data, if the model is right and no measurement error "
                f"exceeds {bound}{but}. Inside, nothing is said about what is likelier. {self.inflation_sentence}"
                f"{self._rests_on}{self.feasible_sentence}")

    @property
    def inflation_sentence(self) -> str:
        """Why the bounds on the errors were widened, and what was proved of narrower ones; nothing where they were not."""
        given = self.refuted_as_given
        if given is None:
            return ""
        least = f"; with {given.inflation:.4g} times their width nothing fits either, as is proved" if (
            given.inflation or 1) > 1 else ""
        return (f"With the bounds as given nothing fits from t = {given.time:g} in {given.experiment} on{least}: the model or "
                "a bound is wrong, and here the bounds are taken to be. ")

    @property
    def _rests_on(self) -> str:
        return f"{self.guarantee[:1].upper()}{self.guarantee[1:]}."

    @property
    def status_word(self) -> str:
        """A word that stands for the whole answer, where 'converged' would mislead."""
        return "Refuted" if self.empty else ""

    def with_plot_pair(self, pair: Sequence[str], truth: Mapping[str, Any]) -> Enclosure:
        """A copy that is drawn as a paving of two chosen unknowns, and beside what is known to be true."""
        for name in pair:
            index_of(name, self.names)
        if len(pair) not in (0, 2):
            raise ProblemError(f"a paving shows two unknowns, not {len(pair)}: {', '.join(pair)}.")
        for name in truth:
            if all(name not in band.low for band in self.bands):
                index_of(name, self.names)
        known = {name: np.asarray(value, float) if np.ndim(value) else float(value) for name, value in truth.items()}
        return replace(self, plot_pair=tuple(pair), truth=known)

    def interval(self, name: str, level: float = LEVEL, kind: str | None = None) -> tuple[float, float]:
        """(low, high), whatever the level; NaN where nothing fits."""
        check_single_kind(kind)
        if name in self.fixed:
            return self.fixed[name], self.fixed[name]
        i = index_of(name, self.names)
        return float(self.low[i]), float(self.high[i])

    def feasible_interval(self, name: str) -> tuple[float, float]:
        """(low, high) between which points were found that fit: what lies beyond, up to `interval`, is only not excluded.

        NaN where no point was found.
        """
        if name in self.fixed:
            return self.fixed[name], self.fixed[name]
        if not self.feasible.size:
            return np.nan, np.nan
        own = self.feasible[index_of(name, self.names)]
        return float(own.min()), float(own.max())

    @property
    def feasible_sentence(self) -> str:
        """How far points that fit reach within the bounds; nothing where none was looked for."""
        if self.empty or not self.feasible_by:
            return ""
        if not self.feasible.size:
            return " No point that fits was found inside: how much of this is only not excluded remains open."
        spans = [f"{name} from {low:.6g} to {high:.6g}" for name in self.names
                 for low, high in [self.feasible_interval(name)]]
        return (f" {self.feasible.shape[1]} points inside fit, {self.feasible_by}: {', '.join(spans)}. What lies between them "
                "and the bounds is only not excluded.")

    def is_informed(self, name: str) -> bool:
        """Whether the data excluded any of what was possible before."""
        i = index_of(name, self.names)
        return not (self.prior_low.size and self.low[i] <= self.prior_low[i] and self.high[i] >= self.prior_high[i])

    def remark(self, name: str) -> str:
        """A few words for the table, or nothing."""
        if name in self.fixed:
            return "fixed"
        i = index_of(name, self.names)
        if self.empty:
            return "refuted"
        if not self.is_informed(name):
            return "nothing learnt"
        if self.prior_low.size and (self.low[i] <= self.prior_low[i] or self.high[i] >= self.prior_high[i]):
            return "one side learnt"
        return ""

    def excluded_volume(self) -> float:
        """The share of the first box that is proved to be impossible, by volume of the unknowns that had a width."""
        width = self.prior_high - self.prior_low
        free = np.isfinite(width) & (width > 0)
        if self.empty:
            return 1.0
        if self.outer.shape[2] + self.inner.shape[2]:
            left = sum(np.prod((part[1] - part[0])[free] / width[free, None], axis=0).sum()
                       for part in (self.outer, self.inner) if part.shape[2])
        else:
            left = np.prod((self.high - self.low)[free] / width[free])
        return float(1 - min(left, 1.0))
