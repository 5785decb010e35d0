"""Kalman method: the options of a filter, checked once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from dynident.errors import NotSupported, ProblemError, did_you_mean
from dynident.integrators import integrator_named
from dynident.integrators.scheme import Explicit, Integrator
from dynident.problem.problem import Problem

if TYPE_CHECKING:
    from dynident.estimate.estimate import Estimate
    from dynident.kalman.online import OnlineFilter

FILTERS = ("extended", "unscented", "iterated", "horizon")
COVARIANCE_UPDATES = ("plain", "joseph", "square_root")  # in the kernels' order
PROCESS_NOISE_UNITS = ("second", "sample")
BOUND_HANDLING = ("project", "transform")
CHOICES = {"filter": FILTERS, "covariance_update": COVARIANCE_UPDATES, "process_noise_unit": PROCESS_NOISE_UNITS,
           "bound_handling": BOUND_HANDLING}  # by option
ESTIMATE = "estimate"  # in the place of a noise level: find it by maximum likelihood
LONGEST_HORIZON = 200  # samples; a longer one is a batch problem


@dataclass(frozen=True)
class KalmanMethod:
    """A filter over each record, parameters as states that stand still.

    `filter`: "extended", "unscented", "iterated" or "horizon". `process_noise`: by state or parameter the standard
    deviation that it adds in one second (in one sample with process_noise_unit="sample"), or "estimate"; what is not
    named has none; None estimates those of the velocities (of all states where the model has no velocities).
    `initial_std`: by name; else from the prior, the bounds or the start value. `covariance_update`: "joseph" (Joseph
    form), "square_root" (square-root filter) or "plain". `smoother`: go back over the record (RTS smoother). `passes`
    over the data, each from the last one's parameters and the first covariance. `gate`: leave out measurements this many
    standard deviations off. `bound_handling`: "project" onto the bounds, or "transform" parameters so that they cannot
    leave. `iterations`: how often the iterated filter linearises a measurement, and Gauss-Newton steps per sample of the
    moving horizon, whose length in samples is `horizon`.
    """

    kind: str = "kalman"
    filter: str = "extended"
    integrator: str = "runge_kutta"
    substeps: int = 1
    process_noise: Mapping[str, float | str] | str | None = None
    process_noise_unit: str = "second"
    initial_std: Mapping[str, float] = field(default_factory=dict)
    covariance_update: str = "joseph"
    smoother: bool = False
    passes: int = 1
    gate: float | None = None
    bound_handling: str = "project"
    iterations: int = 3
    horizon: int = 10

    def __post_init__(self) -> None:
        require_explicit(integrator_named(self.integrator))
        faults = []
        for option, known in CHOICES.items():
            value = getattr(self, option)
            if value not in known:
                faults.append(f"{option} = {value!r} is not known.{did_you_mean(str(value), known)}")
        for option in ("substeps", "passes", "iterations", "horizon"):
            value = getattr(self, option)
            if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
                faults.append(f"{option} = {value!r}; give a whole number from 1 on.")
        if not faults and self.horizon > LONGEST_HORIZON:
            faults.append(f"horizon = {self.horizon} is longer than {LONGEST_HORIZON} samples; "
                          "use multiple_shooting().")
        if self.gate is not None and not (_is_number(self.gate) and self.gate > 0):
            faults.append(f"gate = {self.gate!r}; give a positive number of standard deviations, or None.")
        if not isinstance(self.smoother, (bool, np.bool_)):
            faults.append(f"smoother = {self.smoother!r}; say true or false.")
        elif self.filter == "horizon" and self.smoother:
            faults.append("a moving horizon has no smoother; use kalman(smoother=True).")
        if self.filter == "unscented" and self.covariance_update == "square_root":
            faults.append("the unscented filter keeps the covariance itself; leave covariance_update at \"joseph\".")
        faults += _level_faults("initial_std", self.initial_std)
        if isinstance(self.process_noise, Mapping):
            numbers = {name: v for name, v in self.process_noise.items() if not (isinstance(v, str) and v == ESTIMATE)}
            faults += _level_faults("process_noise", numbers)
        elif self.process_noise is not None and not (isinstance(self.process_noise, str)
                                                     and self.process_noise == ESTIMATE):
            faults.append(f"process_noise = {self.process_noise!r}; give a table from name to standard deviation, or "
                          "\"estimate\".")
        if faults:
            raise ProblemError(faults)

    def options(self) -> dict[str, Any]:
        """What was set, as plain data; what another kind of filter would read is left out."""
        unread = {"horizon": self.filter != "horizon", "iterations": self.filter not in ("horizon", "iterated"),
                  "filter": self.kind == "moving_horizon", "smoother": self.kind == "moving_horizon"}
        data = {f.name: getattr(self, f.name) for f in fields(self) if not unread.get(f.name)}
        data = {key: dict(value) if isinstance(value, Mapping) else value for key, value in data.items()}
        defaults: dict[str, Any] = {"initial_std": {}}  # an empty process_noise has a meaning: there is none
        return {key: value for key, value in data.items() if value is not None and value != defaults.get(key)}

    def refuse(self, problem: Problem) -> None:
        from dynident.kalman.setup import build_setup

        build_setup(self, problem)

    def identify(self, problem: Problem, executor: Executor | None, tell: Callable[..., object]) -> Estimate:
        from dynident.kalman.run import identify

        return identify(self, problem, tell)

    def start(self, problem: Problem, experiment: int = 0) -> OnlineFilter:
        """The same filter sample by sample: `update(t, u, y)` returns what is known after it."""
        from dynident.kalman.online import start

        return start(self, problem, experiment)


def _level_faults(option: str, levels: Any) -> list[str]:
    if not isinstance(levels, Mapping):
        return [f"{option} is a table from name to standard deviation, not {levels!r}."]
    return [f"{option} of '{name}' is {value!r}; give a standard deviation." for name, value in levels.items()
            if not _is_number(value) or not np.isfinite(value) or value < 0]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def require_explicit(integrator: Integrator) -> Explicit:
    """A filter needs a formula for one step."""
    if not isinstance(integrator, Explicit):
        raise NotSupported(f"A Kalman filter needs a formula for one step, but '{integrator.name}' solves equations in "
                           "each. Use runge_kutta, symplectic_euler, leapfrog, simpson, heun or euler, with more "
                           "substeps where the model is stiff.")
    return integrator
