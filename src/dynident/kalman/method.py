"""Kalman method: the options of a filter, checked once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dynident.errors import NotSupported
from dynident.integrators import integrator_named
from dynident.integrators.scheme import Explicit, Integrator
from dynident.methods.capabilities import Capabilities, Support
from dynident.methods.method import Method
from dynident.methods.options import check_options, is_number, one_of, option, plain_options, true_or_false, whole_number
from dynident.problem.problem import Problem

if TYPE_CHECKING:
    from dynident.estimate.estimate import Estimate
    from dynident.kalman.online import OnlineFilter

FILTERS = ("extended", "unscented", "iterated")
COVARIANCE_UPDATES = ("plain", "joseph", "square_root")  # in the kernels' order
PROCESS_NOISE_UNITS = ("second", "sample")
BOUND_HANDLING = ("project", "transform")
ESTIMATE = "estimate"  # in the place of a noise level: find it by maximum likelihood
LONGEST_HORIZON = 200  # samples; a longer one is a batch problem


# checks


def require_explicit(integrator: Integrator) -> Explicit:
    """A filter needs a formula for one step."""
    if not isinstance(integrator, Explicit):
        raise NotSupported(f"A Kalman filter needs a formula for one step, but '{integrator.name}' solves equations in "
                           "each. Use runge_kutta, symplectic_euler, leapfrog, simpson, heun or euler, with more "
                           "substeps where the model is stiff.")
    return integrator


def explicit_integrator(name: str, value: Any) -> list[str]:
    require_explicit(integrator_named(value))  # says itself what is wrong
    return []


def noise_levels(name: str, value: Any) -> list[str]:
    """None, "estimate", or a table from name to standard deviation or "estimate"."""
    if isinstance(value, Mapping):
        return standard_deviations(name, {key: v for key, v in value.items() if not (isinstance(v, str) and v == ESTIMATE)})
    if value is None or (isinstance(value, str) and value == ESTIMATE):
        return []
    return [f"{name} = {value!r}; give a table from name to standard deviation, or \"estimate\"."]


def standard_deviations(name: str, value: Any) -> list[str]:
    if not isinstance(value, Mapping):
        return [f"{name} is a table from name to standard deviation, not {value!r}."]
    return [f"{name} of '{key}' is {v!r}; give a standard deviation." for key, v in value.items()
            if not is_number(v) or not np.isfinite(v) or v < 0]


def gate_width(name: str, value: Any) -> list[str]:
    good = value is None or (is_number(value) and value > 0)
    return [] if good else [f"{name} = {value!r}; give a positive number of standard deviations, or None."]


def horizon_length(name: str, value: Any) -> list[str]:
    return whole_number(1)(name, value) or ([] if value <= LONGEST_HORIZON else [
        f"{name} = {value} is longer than {LONGEST_HORIZON} samples; use multiple_shooting()."])


# options that both share


def integrator_option() -> Any:
    return option("runge_kutta", "An explicit integrator: a name from the table of integrators.", explicit_integrator)


def substeps_option() -> Any:
    return option(1, "Steps of the integrator between two samples.", whole_number(1))


def process_noise_option() -> Any:
    return option(None, 'By state or parameter the standard deviation that it adds, or "estimate"; what is not named has none. '
                        "None estimates those of the velocities (of all states where the model has none).", noise_levels,
                  keep_empty=True)  # an empty table is said: there is none


def process_noise_unit_option() -> Any:
    return option("second", 'Whether process noise is added in one "second" or in one "sample".', one_of(PROCESS_NOISE_UNITS))


def initial_std_option() -> Any:
    return option(dict, "By name; else from the prior, the bounds or the start value.", standard_deviations)


def covariance_update_option() -> Any:
    return option("joseph", '"joseph" (Joseph form), "square_root" (square-root filter) or "plain".',
                  one_of(COVARIANCE_UPDATES))


def passes_option() -> Any:
    return option(1, "Over the data, each from the last one's parameters and the first covariance.", whole_number(1))


def gate_option() -> Any:
    return option(None, "Leave out measurements that are further off.", gate_width, unit="standard deviations")


def bound_handling_option() -> Any:
    return option("project", '"project" onto the bounds, or "transform" parameters so that they cannot leave.',
                  one_of(BOUND_HANDLING))


class FilterMethod(Method):
    """What all filters share: parameters as states that stand still, sample by sample."""

    filter: str
    integrator: str
    substeps: int
    process_noise: Mapping[str, float | str] | str | None
    process_noise_unit: str
    initial_std: Mapping[str, float]
    covariance_update: str
    smoother: bool
    passes: int
    gate: float | None
    bound_handling: str
    iterations: int
    horizon: int

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(process_noise=Support.YES)

    @property
    def simulation_integrator(self) -> str:
        return self.integrator

    @abstractmethod
    def options(self) -> dict[str, Any]: ...

    def check_supports(self, problem: Problem) -> None:
        from dynident.kalman.setup import build_setup

        build_setup(self, problem)

    def identify(self, problem: Problem, executor: Executor | None, report: Callable[..., object], /) -> Estimate:
        from dynident.kalman.run import identify

        return identify(self, problem, report)

    def start(self, problem: Problem, experiment: int = 0) -> OnlineFilter:
        """The same filter sample by sample: `update(t, u, y)` returns what is known after it."""
        from dynident.kalman.online import start

        return start(self, problem, experiment)


@dataclass(frozen=True)
class KalmanMethod(FilterMethod):
    """Sample by sample, parameters as states that stand still; for online use and for disturbed systems."""

    filter: str = option("extended", '"extended", "unscented" or "iterated".', one_of(FILTERS))
    integrator: str = integrator_option()
    substeps: int = substeps_option()
    process_noise: Mapping[str, float | str] | str | None = process_noise_option()
    process_noise_unit: str = process_noise_unit_option()
    initial_std: Mapping[str, float] = initial_std_option()
    covariance_update: str = covariance_update_option()
    smoother: bool = option(False, "Go back over the record (RTS smoother).", true_or_false)
    passes: int = passes_option()
    gate: float | None = gate_option()
    bound_handling: str = bound_handling_option()
    iterations: int = option(3, "How often the iterated filter linearises a measurement.", whole_number(1))
    kind: ClassVar[str] = "kalman"
    horizon: ClassVar[int] = 1  # type: ignore[misc]  # no option of this filter

    def __post_init__(self) -> None:
        both = self.filter == "unscented" and self.covariance_update == "square_root"
        check_options(self, ["the unscented filter keeps the covariance itself; leave covariance_update at \"joseph\"."] * both)

    def options(self) -> dict[str, Any]:
        return plain_options(self, unread=() if self.filter == "iterated" else ("iterations",))


@dataclass(frozen=True)
class MovingHorizon(FilterMethod):
    """After each sample, Gauss-Newton steps over the last ones; steadier than a filter far from the answer."""

    horizon: int = option(10, "How many of the last samples are looked at.", horizon_length, unit="samples")
    integrator: str = integrator_option()
    substeps: int = substeps_option()
    process_noise: Mapping[str, float | str] | str | None = process_noise_option()
    process_noise_unit: str = process_noise_unit_option()
    initial_std: Mapping[str, float] = initial_std_option()
    covariance_update: str = covariance_update_option()
    passes: int = passes_option()
    gate: float | None = gate_option()
    bound_handling: str = bound_handling_option()
    iterations: int = option(1, "Gauss-Newton steps per sample.", whole_number(1))
    kind: ClassVar[str] = "moving_horizon"
    filter: ClassVar[str] = "horizon"  # type: ignore[misc]  # no option of this filter
    smoother: ClassVar[bool] = False  # type: ignore[misc]  # the same

    def __post_init__(self) -> None:
        check_options(self)

    def options(self) -> dict[str, Any]:
        return plain_options(self)
