"""Profile likelihood: how far can a parameter be moved, all others refitted, before the fit becomes significantly worse?

By the likelihood ratio: what the cost rises by is compared with a quantile of chi-square, so that the region need be no
ellipsoid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dynident._util import hooks
from dynident._util.data_classes import short_text
from dynident.errors import ProblemError, did_you_mean
from dynident.statistics.covariance import Covariance
from dynident.statistics.distributions import student_quantile
from dynident.statistics.uncertainty import LEVEL, Uncertainty, check_single_kind
from dynident.tolerances import FLAT_PROFILE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTNER_FRACTION = 0.25  # of the largest effect among those that follow; smaller ones are not named
FOLLOWS = 0.1  # of the parameter's own effect; what follows with less does not make up for it

IDENTIFIABLE = "identifiable"
ONE_SIDE = "practically unidentifiable: no {side} limit"
BOTH_SIDES = "practically unidentifiable: no limit on either side"
RECORD_HIDES = "unidentifiable from these records, though the model would show it"
STRUCTURAL = "structurally unidentifiable"


@dataclass(frozen=True, eq=False)
class ProfileCurve:
    """The profile of one unknown: refits with it held, from its lowest value to its highest."""

    values: np.ndarray  # (points,) of the unknown, ascending; the estimate is one of them
    rise: np.ndarray  # (points,) sum of squares above that of the estimate
    path: np.ndarray  # (points, unknowns) where all unknowns went
    ends: tuple[str, str]  # why it ends below and above: "reached", "bound", "partner", "far", "wall"
    model_shows_it: bool | None = None  # asked only where the profile is flat
    simulations: int = 0

    @property
    def best(self) -> int:
        """Place of the lowest point: the estimate, unless that was no optimum."""
        return int(np.argmin(self.rise))

    @property
    def root(self) -> np.ndarray:
        """The signed square root of the rise: a straight line for a linear model."""
        sign = np.where(np.arange(self.values.size) < self.best, -1.0, 1.0)
        return sign * np.sqrt(np.maximum(self.rise, 0.0))

    @property
    def flat(self) -> bool:
        return bool(np.max(self.rise) < FLAT_PROFILE)

    def crossing(self, threshold_root: float) -> tuple[float, float]:
        """Where the root passes -reach and +reach; infinite where it never does."""
        root = np.maximum.accumulate(self.root)
        keep = np.concatenate([[True], np.diff(root) > 0])
        if np.count_nonzero(keep) < 2:
            return -np.inf, np.inf
        from scipy.interpolate import PchipInterpolator  # here, because it takes a while to load, and few fits ask for it

        inverse = PchipInterpolator(root[keep], self.values[keep])
        low = float(inverse(-threshold_root)) if root[0] <= -threshold_root else -np.inf
        return low, float(inverse(threshold_root)) if root[-1] >= threshold_root else np.inf


@dataclass(frozen=True, eq=False)
class Profile(Uncertainty):
    """Intervals from profile likelihoods; an unknown that was not profiled keeps its linearised interval.

    See the manual, methods/profile.

    Attributes
    ----------
    names : tuple of str
        All unknowns.
    estimated : array, (unknowns,)
        The estimate.
    effects : array, (unknowns,)
        Length of what a unit of each unknown does to the weighted residuals.
    curves : mapping of str to ProfileCurve
        Per profiled unknown: its values, the rise of the cost, and the path of the others.
    base : Covariance
        The linearised intervals.
    traced : float
        Confidence level up to which the curves reach.
    logarithmic : tuple of str
        Unknowns that were moved in the logarithm.
    notes : tuple of str
        What the reader must know beside the numbers, as sentences.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]},
    ...                        noise={"x": di.Gaussian(0.01)})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=1, lower=0)])
    >>> estimate = di.identify(problem)
    >>> print(di.profile(estimate, "k").identifiability("k"))
    identifiable
    """

    names: tuple[str, ...]
    estimated: np.ndarray  # (unknowns,) the estimate
    effects: np.ndarray  # (unknowns,) length of what a unit of each does to the weighted residuals
    curves: Mapping[str, ProfileCurve]
    base: Covariance
    traced: float = 0.99  # level up to which the curves reach
    logarithmic: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def meaning(self) -> str:
        """What the intervals mean, and under which assumptions."""
        errors = "independent normal measurement errors"
        if self.base.default_kind == "corrected":
            errors = ("measurement errors that are correlated in time as the residuals are (the threshold is widened "
                      "as for the linearised interval)")
        return ("The interval holds all values at which a refit of the other unknowns describes the data almost as "
                "well (likelihood profile); with the stated probability it holds the true one if the model is right "
                f"and disturbed by {errors}. It need not be symmetric, and is open where the data set no limit.")

    def interval(self, name: str, level: float = LEVEL, kind: str | None = None) -> tuple[float, float]:
        """(low, high); infinite where the data set no limit; one-sided for an estimate that rests on a bound."""
        check_single_kind(kind)
        if name not in self.curves:
            return self.base.interval(name, level)
        if not 0 < level <= self.traced:
            raise ProblemError(f"level = {level}: the profiles were traced up to {self.traced:g}. Ask for less, or "
                               f"profile again with level={level}.")
        low, high = self.curves[name].crossing(self.threshold_root(name, level))
        rests, value = self.base.active.get(name), float(self.estimated[self.names.index(name)])
        return (value if rests == "lower" else low), (value if rests == "upper" else high)

    def std(self, name: str, kind: str | None = None) -> float:
        """The linearised one: a profile has no standard deviation."""
        return self.base.std(name, kind)

    def threshold_root(self, name: str, level: float) -> float:
        """The root of the rise that counts as too much at a level, of a t distribution where noise was estimated."""
        return threshold_root(self.base, name, level)

    def remark(self, name: str) -> str:
        if name not in self.curves:
            return self.base.remark(name)
        verdict = self.identifiability(name)
        at_bound = self.base.remark(name) if name in self.base.active else ""
        return at_bound if verdict == IDENTIFIABLE else verdict.split(":")[0]

    def identifiability(self, name: str, level: float = LEVEL) -> str:
        """One of five sentences without their full stop."""
        curve = self._curve(name)
        if curve.flat:
            return RECORD_HIDES if curve.model_shows_it else STRUCTURAL
        low, high = self.interval(name, level)
        if np.isfinite(low) and np.isfinite(high):
            return IDENTIFIABLE
        if np.isinf(low) and np.isinf(high):
            return BOTH_SIDES
        return ONE_SIDE.format(side="lower" if np.isinf(low) else "upper")

    def partners(self, name: str) -> tuple[str, ...]:
        """Unknowns that follow when this one is moved and so compensate it, the strongest first."""
        curve, index = self._curve(name), self.names.index(name)
        around = slice(max(curve.best - 1, 0), curve.best + 2)  # the effects are those at the estimate
        moved = np.ptp(curve.path[around], axis=0) * self.effects
        others = [i for i in range(len(self.names)) if i != index]
        largest = max((moved[i] for i in others), default=0.0)
        chosen = [i for i in others if moved[i] >= max(PARTNER_FRACTION * largest, FOLLOWS * moved[index]) and moved[i] > 0]
        return tuple(self.names[i] for i in sorted(chosen, key=lambda i: -moved[i]))

    def correlation(self, kind: str | None = None) -> np.ndarray:
        return self.base.correlation(kind)

    def covariance(self) -> np.ndarray:
        return self.base.matrix

    @property
    def linearized(self) -> Covariance:
        return self.base

    def plot(self) -> Figure:
        """All curves with their thresholds, and the paths of the others."""
        return hooks.call("profile_figure", self)

    def __repr__(self) -> str:
        return short_text(self)

    def __str__(self) -> str:
        return str(hooks.call("profile_text", self))

    def _curve(self, name: str) -> ProfileCurve:
        if name not in self.curves:
            raise ProblemError(f"'{name}' was not profiled.{did_you_mean(name, self.curves)}")
        return self.curves[name]


def threshold_root(base: Covariance, name: str, level: float) -> float:
    """Root of the rise that counts as too much; on a linear model it gives the linearised interval exactly.

    So where the intervals go by the residuals, whose size is not the given one, or allow for their correlation.
    """
    if base.dof <= 0:
        return np.inf
    probability = level if name in base.active else (1 + level) / 2  # from a bound there is one side alone
    quantile = student_quantile(probability, base.dof)
    if base.noise_factors and base.default_kind == "plain":
        given, shown = base.given_std.get(name, np.nan), base.std(name, "plain")
        return quantile * shown / given if 0 < given < np.inf and 0 < shown < np.inf else quantile
    if base.default_kind != "corrected" or base.corrected is None or base.corrected_dof is None:
        return quantile
    i = base.names.index(name)
    plain, wide = base.std(name, "plain"), base.std(name, "corrected")
    if not (0 < plain < np.inf and 0 < wide < np.inf and base.corrected_dof[i] > 0):
        return quantile
    return student_quantile(probability, base.corrected_dof[i]) * wide / plain
