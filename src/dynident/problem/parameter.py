"""Parameter and InitialState: what is unknown, and what is known about it beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Prior:
    """Knowledge from elsewhere: the value is normally distributed with this mean and standard deviation."""

    mean: float
    std: float


@dataclass(frozen=True)
class Parameter:
    """An unknown constant of the model; `start` may be left out where the model brings one along, as FMUs do.

    `scale` is a typical magnitude (found automatically if left out), `log=True` estimates the logarithm (the value
    must be positive), `free=False` holds the value at `start`, `shared=False` gives each experiment its own value.
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

    def faults(self) -> list[str]:
        return _faults(f"parameter '{self.name}'", self)


@dataclass(frozen=True)
class InitialState:
    """An initial state that is estimated or held; without `start` it starts from the measurements.

    One value per experiment by default, since records rarely begin alike; `shared=True` asks for one value for all.
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

    def faults(self) -> list[str]:
        faults = _faults(f"initial state '{self.state}'", self)
        if not self.free and self.start is None:
            faults.append(f"initial state '{self.state}' is held (free=False) but has no start value.")
        return faults


def _faults(who: str, it: Parameter | InitialState) -> list[str]:
    """Everything wrong with one declaration, each as a sentence."""
    faults = _type_faults(who, it)
    if faults:
        return faults
    if it.start is not None and not np.isfinite(it.start):
        faults.append(f"{who}: start is {it.start}; give a finite number.")
    if np.isnan(it.lower) or np.isnan(it.upper):
        faults.append(f"{who}: a bound is NaN; leave it out for 'no bound'.")
    elif it.lower > it.upper:
        faults.append(f"{who}: lower = {it.lower:g} lies above upper = {it.upper:g}; swap them.")
    elif it.lower == it.upper and it.free:
        faults.append(f"{who}: lower equals upper; use free=False to hold a value.")
    elif it.start is not None and not it.lower <= it.start <= it.upper:
        faults.append(f"{who}: start = {it.start:g} lies outside of its bounds [{it.lower:g}, {it.upper:g}].")
    if it.scale is not None and not (np.isfinite(it.scale) and it.scale > 0):
        faults.append(f"{who}: scale = {it.scale} must be positive.")
    if it.log and it.start is not None and it.start <= 0:
        faults.append(f"{who}: log=True needs a positive start, not {it.start:g}.")
    if it.log and it.upper <= 0:
        faults.append(f"{who}: log=True needs a positive upper bound, not {it.upper:g}.")
    if it.prior is not None and not (np.isfinite(it.prior.mean) and it.prior.std > 0):
        faults.append(f"{who}: a prior needs a finite mean and a positive std.")
    return faults


def _type_faults(who: str, it: Parameter | InitialState) -> list[str]:
    """What is not even of the right kind, so that nothing else can be asked of it."""
    faults = [f"{who}: {field} is {getattr(it, field)!r}; give one number." for field in ("start", "scale")
              if getattr(it, field) is not None and not is_number(getattr(it, field))]
    faults += [f"{who}: {field} is {getattr(it, field)!r}; give one number, or leave it out for 'no bound'."
               for field in ("lower", "upper") if not is_number(getattr(it, field))]
    if it.prior is not None and not (isinstance(it.prior, Prior) and is_number(it.prior.mean)
                                     and is_number(it.prior.std)):
        faults.append(f"{who}: prior is {it.prior!r}; write Prior(mean, std) with two numbers.")
    return faults


def is_number(value: Any) -> bool:
    """One real number, of Python or of numpy."""
    return isinstance(value, Real) or (isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iuf")
