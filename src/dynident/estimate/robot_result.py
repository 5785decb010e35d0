"""Robot result: what inverse dynamics found about an arm beside values: base parameters, errors per joint, consistency."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dynident._util.data_classes import short_fields


@dataclass(frozen=True)
class BaseParameter:
    """One combination of parameters that the torques tell, with its 95 % interval and the value of the robot's file."""

    name: str  # of the parameter that gathers the others
    words: str  # hz_3 + 0.571 m_4 + 0.571 m_5
    coefficients: Mapping[str, float]
    value: float
    std: float
    interval: tuple[float, float]
    nominal: float
    unit: str = ""

    @property
    def differs_from_zero(self) -> bool:
        return not self.interval[0] <= 0 <= self.interval[1]

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        half = (self.interval[1] - self.interval[0]) / 2
        return f"{self.words} = {self.value:.4g} +- {half:.2g}{unit} (file: {self.nominal:.4g})"


@dataclass(frozen=True)
class JointErrors:
    """RMS of measured minus predicted torque of one joint, on one record."""

    joint: str
    record: str
    rms: float
    rms_moving: float  # over samples at which the joint moves
    rms_nominal: float  # with the file's inertias and fitted friction


@dataclass(frozen=True)
class HausmanTest:
    """Durbin-Wu-Hausman: do least squares and instrumental variables differ by more than chance?"""

    statistic: float
    dof: int
    p_value: float

    @property
    def biased(self) -> bool:
        """Whether least squares is biased on these records, at 5 %; a wrong model biases both, and differently."""
        return self.p_value < 0.05

    def __str__(self) -> str:
        verdict = ("differ by more than chance: noise in the motion, or what the model lacks, biases least squares here"
                   if self.biased else "agree within chance: no bias of least squares is seen")
        return f"Least squares and instrumental variables {verdict} (Durbin-Wu-Hausman, p = {self.p_value:.2g})."


@dataclass(frozen=True)
class DidimCheck:
    """Direct and inverse dynamic identification: base parameters from torques along the motion that a model in its loop makes,
    which is taken as a smoothing spline of the recorded one (an arm that follows its command)."""

    base: Mapping[str, float]  # by name, as in `RobotResult.base`
    moved: float  # standard errors of least squares; the largest difference to it
    name: str  # of the base parameter that differs most
    outside: int  # base parameters beyond their 95 % interval
    rms: tuple[float, ...]  # by joint, of measured minus simulated torque
    converged: bool

    def __str__(self) -> str:
        said = (f"along a smoothing spline of the motion (DIDIM) {self.name} differs most, by {self.moved:.2g} standard "
                f"errors; {self.outside} of {len(self.base)} base parameters leave their intervals")
        end = "" if self.converged else " (it did not converge)"
        return f"{'Confirmed' if self.converged and not self.outside else 'Not confirmed'}: {said}{end}."


@dataclass(frozen=True, eq=False)
class RobotResult:
    """What a fit of torques says about an arm; `robot` is the arm as plain data, from which it can be built again."""

    robot: Mapping[str, Any]
    base: tuple[BaseParameter, ...]
    without_effect: tuple[str, ...]  # on any torque along these records
    parameters: Mapping[str, float]  # all inertial and drive parameters, those without effect included
    errors: tuple[JointErrors, ...]
    price: Mapping[str, float]  # by joint: what consistency adds to the RMS; empty where it was not asked for
    cutoff: float  # Hz, of the motion's filter
    parallel_cutoff: float  # Hz, of torques and regressor
    friction: tuple[str, ...] = ()  # what each friction law brought, as sentences
    hausman: HausmanTest | None = None
    instrumental: Mapping[str, float] | None = None  # base parameters by instrumental variables
    instrumental_std: Mapping[str, float] | None = None
    didim: DidimCheck | None = None
    of_file: Mapping[str, float] | None = None  # the file's inertias with friction and motors fitted, as rms_nominal has them

    __repr__ = short_fields
