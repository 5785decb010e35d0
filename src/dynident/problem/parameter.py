"""Parameter and InitialState: what is unknown, what is known about it beforehand, and how a solver sees it (transforms)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dynident.problem.problem import Problem


@dataclass(frozen=True)
class Prior:
    """Knowledge from elsewhere: the value, or its logarithm, is normal with this mean and standard deviation.

    A fit with priors is the maximum a posteriori estimate. See the manual, howto/unknowns.

    Parameters
    ----------
    mean : float
        On the scale `on`: in the unit of the parameter, or its logarithm.
    std : float
        Likewise.
    on : str, default "lin"
        Which number is normal: "lin" the value itself, "ln" its natural, "log10" its decimal logarithm.

    Examples
    --------
    >>> import dynident as di
    >>> di.Parameter("M", start=80, unit="kg", prior=di.Prior(mean=95, std=5)).prior
    Prior(mean=95, std=5, on='lin')
    >>> round(di.Prior(-2, 0.5, on="log10").residual(0.1), 9)
    2.0
    """

    mean: float
    std: float
    on: str = "lin"

    def residual(self, value: float) -> float:
        """How far a value lies from the mean, in standard deviations; infinite where it has no logarithm."""
        if self.on == "lin":
            return float((value - self.mean) / self.std)
        if not value > 0:
            return -math.inf
        return float((math.log(value) / LOGARITHMS[self.on] - self.mean) / self.std)

    def derivative(self, value: float) -> float:
        """d residual / d value."""
        return 1 / self.std if self.on == "lin" else 1 / (value * LOGARITHMS[self.on] * self.std)

    def second_derivative(self, value: float) -> float:
        """d derivative / d value."""
        return 0.0 if self.on == "lin" else -self.derivative(value) / value

    def log_density(self, value: float) -> float:
        """Of the number that is normal, on its own scale."""
        return -0.5 * self.residual(value) ** 2 - math.log(self.std) - 0.5 * math.log(2 * math.pi)

    @property
    def center(self) -> float:
        """The value at the mean, in the unit of the parameter."""
        return float(self.mean) if self.on == "lin" else math.exp(self.mean * LOGARITHMS[self.on])


LOGARITHMS = {"ln": 1.0, "log10": math.log(10.0)}  # scale -> natural logarithm of what counts as one on it
SCALES = ("lin", *LOGARITHMS)
PER = ("experiment", "group")


@dataclass(frozen=True)
class Parameter:
    """A constant of the model that is estimated or fixed.

    See the manual, howto/unknowns.

    Parameters
    ----------
    name : str
        As in the model.
    start : float, optional
        Start value, in `unit`; may be left out where the model brings one along, as FMUs do.
    lower : float, default -inf
        Lower bound, in `unit`.
    upper : float, default inf
        Upper bound, in `unit`.
    scale : float, optional
        Typical magnitude, in `unit`; found automatically if left out.
    log : bool, default False
        Whether the logarithm is estimated; the value is positive then.
    unit : str, default ""
        Unit of the value, for tables and for the check of units; "" says nothing.
    free : bool, default True
        Whether the value is estimated; False fixes it at `start`.
    shared : bool, default True
        Whether all experiments have one value; False gives each its own.
    prior : Prior, optional
        What is known of the value from elsewhere.
    per : str, default ""
        "experiment" gives each its own value, as `shared=False` does; "group" one to all experiments of the same
        `Experiment(group=...)`; "" leaves it to `shared`.

    Notes
    -----
    What is wrong with a parameter is said by the `Problem` that it becomes part of.

    Examples
    --------
    >>> import dynident as di
    >>> di.Parameter("M", start=50, lower=1, upper=500, unit="kg").upper
    500
    """

    name: str
    start: float | None = None
    lower: float = -np.inf
    upper: float = np.inf
    scale: float | None = None
    log: bool = False
    unit: str = ""
    free: bool = True
    shared: bool = True
    prior: Prior | None = None
    per: str = ""

    def faults(self) -> list[str]:
        """Everything that is wrong with it, each as a sentence."""
        faults = _faults(f"parameter '{self.name}'", self)
        if self.per not in ("", *PER):
            faults.append(f"parameter '{self.name}': per is {self.per!r}; write \"experiment\" or \"group\".")
        elif self.per == "group" and not self.shared:
            faults.append(f"parameter '{self.name}': shared=False gives each experiment a value, per=\"group\" each group; "
                          "keep one of the two.")
        return faults

    @property
    def common(self) -> bool:
        """Whether all experiments have one value."""
        return self.shared and not self.per


@dataclass(frozen=True)
class InitialState:
    """An initial state that is estimated or fixed; one value per experiment unless `shared`.

    See the manual, howto/initial_states.

    Parameters
    ----------
    state : str
        As in the model.
    start : float, optional
        Start value, in `unit`; left out, it is taken from the measurements.
    lower : float, default -inf
        Lower bound, in `unit`.
    upper : float, default inf
        Upper bound, in `unit`.
    scale : float, optional
        Typical magnitude, in `unit`; found automatically if left out.
    log : bool, default False
        Whether the logarithm is estimated; the value is positive then.
    unit : str, default ""
        Unit of the value; "" says nothing.
    free : bool, default True
        Whether the value is estimated; False fixes it at `start`.
    shared : bool, default False
        Whether all experiments begin at one value; records rarely begin alike.
    prior : Prior, optional
        What is known of the value from elsewhere.

    Notes
    -----
    What is wrong with an initial state is said by the `Problem` that it becomes part of. Known initial states are better said
    by `Experiment(initial=...)`, and those that nothing is said about are free.

    Examples
    --------
    >>> import dynident as di
    >>> di.InitialState("q", start=0, lower=-0.1, upper=0.1, unit="m").shared
    False
    """

    state: str
    start: float | None = None
    lower: float = -np.inf
    upper: float = np.inf
    scale: float | None = None
    log: bool = False
    unit: str = ""
    free: bool = True
    shared: bool = False
    prior: Prior | None = None

    @property
    def common(self) -> bool:
        """Whether all experiments begin at one value."""
        return self.shared

    def faults(self) -> list[str]:
        """Everything that is wrong with it, each as a sentence."""
        faults = _faults(f"initial state '{self.state}'", self)
        if not self.free and self.start is None:
            faults.append(f"initial state '{self.state}' is fixed (free=False) but has no start value.")
        return faults


def _faults(label: str, it: Parameter | InitialState) -> list[str]:
    """Everything wrong with one declaration, each as a sentence."""
    faults = _type_faults(label, it)
    if faults:
        return faults
    if it.start is not None and not np.isfinite(it.start):
        faults.append(f"{label}: start is {it.start}; give a finite number.")
    if np.isnan(it.lower) or np.isnan(it.upper):
        faults.append(f"{label}: a bound is NaN; leave it out for 'no bound'.")
    elif it.lower > it.upper:
        faults.append(f"{label}: lower = {it.lower:g} lies above upper = {it.upper:g}; swap them.")
    elif it.lower == it.upper and it.free:
        faults.append(f"{label}: lower equals upper; use free=False to fix a value.")
    elif it.start is not None and np.isfinite(it.start) and not it.lower <= it.start <= it.upper:
        faults.append(f"{label}: start = {it.start:g} lies outside of its bounds [{it.lower:g}, {it.upper:g}]; "
                      "start inside, or widen them.")
    if it.scale is not None and not (np.isfinite(it.scale) and it.scale > 0):
        faults.append(f"{label}: scale = {it.scale} must be positive.")
    if it.log and it.start is not None and it.start <= 0:
        faults.append(f"{label}: log=True needs a positive start, not {it.start:g}.")
    if it.log and it.upper <= 0:
        faults.append(f"{label}: log=True needs a positive upper bound, not {it.upper:g}.")
    if it.prior is not None and not (np.isfinite(it.prior.mean) and it.prior.std > 0):
        faults.append(f"{label}: a prior needs a finite mean and a positive std.")
    if it.prior is not None and it.prior.on not in SCALES:
        faults.append(f"{label}: a prior is normal on \"lin\", \"ln\" or \"log10\", not on {it.prior.on!r}.")
    elif it.prior is not None and it.prior.on != "lin" and not it.lower >= 0:
        faults.append(f"{label}: a prior on a logarithm needs lower = 0 or more; lower is {it.lower:g}.")
    return faults


def _type_faults(label: str, it: Parameter | InitialState) -> list[str]:
    """What is not even of the right kind, so that nothing else can be asked of it."""
    faults = [f"{label}: {field} is {getattr(it, field)!r}; give one number." for field in ("start", "scale")
              if getattr(it, field) is not None and not is_number(getattr(it, field))]
    faults += [f"{label}: {field} is {getattr(it, field)!r}; give one number, or leave it out for 'no bound'."
               for field in ("lower", "upper") if not is_number(getattr(it, field))]
    if it.prior is not None and not (isinstance(it.prior, Prior) and is_number(it.prior.mean)
                                     and is_number(it.prior.std)):
        faults.append(f"{label}: prior is {it.prior!r}; write Prior(mean, std) with two numbers.")
    return faults


def is_number(value: Any) -> bool:
    """One real number, of Python or of numpy."""
    return isinstance(value, Real) or (isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iuf")


@dataclass(frozen=True, eq=False)
class Transforms:
    """One solver coordinate per unknown: its value, or the logarithm of its value."""

    log: np.ndarray  # (unknowns,) bool
    lower: np.ndarray  # in solver coordinates
    upper: np.ndarray
    scale: np.ndarray  # typical size of a change, NaN where nothing is known yet
    value_bounds: tuple[np.ndarray, np.ndarray] | None = None  # as they were given, which rounding must not cross

    @cached_property
    def any_log(self) -> bool:
        return bool(np.any(self.log))

    @cached_property
    def all_scaled(self) -> bool:
        """Whether a typical size is known of every unknown."""
        return not np.any(np.isnan(self.scale))

    @cached_property
    def least_typical(self) -> tuple[np.ndarray, np.ndarray]:
        """Typical sizes, one at the least, and of which unknowns they are known."""
        return np.fmax(self.scale, 1.0), np.isfinite(self.scale)

    def values(self, xi: np.ndarray) -> np.ndarray:
        values = np.array(xi, dtype=float)
        if not self.any_log:
            return values
        with np.errstate(over="ignore"):  # an overflow becomes inf, and that a rejected step
            np.exp(values, out=values, where=self.log)
        if self.value_bounds is not None:  # exp(log(bound)) may lie beyond the bound by rounding
            lower, upper = self.value_bounds
            np.copyto(values, lower, where=self.log & (xi <= self.lower) & (values < lower))
            np.copyto(values, upper, where=self.log & (xi >= self.upper) & (values > upper))
        return values

    def coordinates(self, values: np.ndarray) -> np.ndarray:
        return np.where(self.log, np.log(np.where(self.log, values, 1.0)), values)

    def derivative(self, xi: np.ndarray) -> np.ndarray:
        """d value / d coordinate."""
        if not self.any_log:
            return np.ones(len(self.log))
        return np.where(self.log, self.values(xi), 1.0)


def transforms_of(problem: Problem, start: np.ndarray) -> Transforms:
    """Coordinates for a problem; `start` are the values to begin with, since some come from the data."""
    log = np.array([u.log for u in problem.unknowns], dtype=bool)
    lower = np.array([u.lower for u in problem.unknowns], dtype=float)
    upper = np.array([u.upper for u in problem.unknowns], dtype=float)
    scale = np.array([u.scale if u.scale is not None else np.nan for u in problem.unknowns], dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(np.isnan(scale) & (start != 0), np.abs(start), scale)
        span = upper - lower
        scale = np.where(np.isnan(scale) & np.isfinite(span), span / 10, scale)
        bounds = lower, upper
        lower = np.where(log, np.log(np.where(log, np.maximum(lower, 0), 1)), lower)
        upper = np.where(log, np.log(np.where(log, upper, 1)), upper)
    return Transforms(log, lower, upper, np.where(log, 1.0, scale), bounds if np.any(log) else None)
