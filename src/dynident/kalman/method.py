"""Kalman method: the options of a filter, checked once, and its run from a problem to an estimate."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dynident.codegen import compiler
from dynident.errors import NotSupported
from dynident.integrators import integrator_named
from dynident.integrators.explicit import RUNGE_KUTTA
from dynident.integrators.rosenbrock import ROSENBROCK
from dynident.integrators.scheme import Explicit, Integrator
from dynident.methods.capabilities import Capabilities, Support
from dynident.methods.method import Method
from dynident.methods.options import (
    AUTOMATIC,
    check_options,
    documented,
    is_number,
    one_of,
    option,
    plain_options,
    true_or_false,
    whole_number,
)
from dynident.problem.problem import Problem

if TYPE_CHECKING:
    from dynident.estimate.estimate import Estimate
    from dynident.kalman.online import OnlineFilter

FILTERS = ("extended", "unscented", "iterated")
COVARIANCE_UPDATES = ("plain", "joseph", "square_root")  # in the kernels' order
PROCESS_NOISE_UNITS = ("second", "sample")
BOUND_HANDLING = ("project", "transform")
ESTIMATE = "estimate"  # in the place of a noise level: find it by maximum likelihood
MAX_HORIZON = 200  # samples; a longer one is a batch problem


# checks


def require_explicit(integrator: Integrator) -> Explicit:
    """A filter needs a formula for one step."""
    if not isinstance(integrator, Explicit):
        raise NotSupported(f"A Kalman filter needs a formula for one step, but '{integrator.name}' solves equations in "
                           "each. Use runge_kutta, symplectic_euler, leapfrog, simpson, heun or euler, or rosenbrock where "
                           "the model is stiff.")
    return integrator


def explicit_integrator(name: str, value: Any) -> list[str]:
    if value != AUTOMATIC:
        require_explicit(integrator_named(value))  # says itself what is wrong
    return []


def simulation_integrator(integrator: str) -> str:
    """The one by which a model is simulated whose filter takes these steps."""
    return {AUTOMATIC: "runge_kutta", ROSENBROCK.name: "radau5"}.get(integrator, integrator)


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
    return whole_number(1)(name, value) or ([] if value <= MAX_HORIZON else [
        f"{name} = {value} is longer than {MAX_HORIZON} samples; use multiple_shooting()."])


# options that both share

integrator_option = partial(
    option, AUTOMATIC, 'An explicit integrator by its name, or "rosenbrock", a linearly implicit step; '
    '"auto" takes runge_kutta, or rosenbrock where the model is stiff.', explicit_integrator)
substeps_option = partial(option, 1, "Steps of the integrator between two samples.", whole_number(1))
process_noise_option = partial(
    option, None, 'By state or parameter the standard deviation that it adds, in its unit, or "estimate"; what is not named '
    'has none (a parameter that has some is a random walk). '
    "None: what the problem states, else those of the velocities (of all states where there are none) are estimated.",
    noise_levels,
    keep_empty=True)  # an empty table is said: there is none
process_noise_unit_option = partial(
    option, "second", 'Whether process noise is added in one "second" or in one "sample".', one_of(PROCESS_NOISE_UNITS))
initial_std_option = partial(
    option, dict, "By name, in its unit; else from the prior, the bounds or the start value.", standard_deviations)
covariance_update_option = partial(
    option, "joseph", '"joseph" (Joseph form), "square_root" (square-root filter) or "plain".', one_of(COVARIANCE_UPDATES))
passes_option = partial(
    option, 1, "Over the data, each from the last one's parameters and the first covariance.", whole_number(1))
gate_option = partial(option, None, "Leave out measurements that are further off.", gate_width, unit="standard deviations")
bound_handling_option = partial(
    option, "project", '"project" onto the bounds, or "transform" parameters so that they cannot leave.',
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
        return Capabilities(process_noise=Support.YES, nonlinear_algebraic_variables=Support.NO,
                            settable_states=Support.YES)

    @property
    def chooses_integrator(self) -> bool:
        return self.integrator == AUTOMATIC

    @property
    def simulation_integrator(self) -> str:
        return simulation_integrator(self.integrator)

    @abstractmethod
    def options(self) -> dict[str, Any]: ...

    def check_supports(self, problem: Problem) -> None:
        from dynident.kalman.setup import build_setup

        build_setup(self, problem)

    def identify(self, problem: Problem, executor: Executor | None, report: Callable[..., object], /) -> Estimate:
        """All passes; a filter that stops gives an estimate that says where and why."""
        from dynident.kalman.backend import FilterStopped, backend_for
        from dynident.kalman.likelihood import estimate_noise
        from dynident.kalman.result import build_filter_estimate, stopped_estimate, unstable_steps
        from dynident.kalman.run import run_passes, smooth_pass
        from dynident.kalman.setup import build_setup

        began, compiled = time.perf_counter(), compiler.seconds_compiling
        setup = build_setup(self, problem)
        may_be_stiff = self.chooses_integrator and not setup.integrator.linearly_implicit and setup.simulated is None
        setup, remarks = estimate_noise(setup, report)
        remarks = (*filter(None, [setup.step_note]), *remarks)
        backend = backend_for(setup)
        try:
            done, history = run_passes(setup, backend, report)
            if self.smoother:
                done = smooth_pass(setup, backend, done)
        except FilterStopped as stop:
            return stopped_estimate(setup, stop)
        if may_be_stiff and unstable_steps(setup, backend, done):
            return self._stiffly(problem, executor, report)
        compiling = compiler.seconds_compiling - compiled
        times = {"compile": compiling, "filter": time.perf_counter() - began - compiling}
        return build_filter_estimate(setup, backend, done, remarks, history, times)

    def _stiffly(self, problem: Problem, executor: Executor | None, report: Callable[..., object]) -> Estimate:
        """Filtered again by linearly implicit steps, where explicit ones proved unstable along the estimate."""
        method = replace(self, integrator=ROSENBROCK.name)  # type: ignore[type-var]
        again = method.identify(problem, executor, report)
        note = (f"The model is stiff at the estimate (steps of {RUNGE_KUTTA.name} are unstable there): filtered again by steps "
                f"of {ROSENBROCK.name}, which are linearly implicit.")
        return replace(again, notes=(note, *again.notes))

    def start(self, problem: Problem, experiment: int = 0) -> OnlineFilter:
        """The same filter sample by sample: `update(t, u, y)` returns what is known after it."""
        from dynident.kalman.online import start

        return start(self, problem, experiment)


@documented
@dataclass(frozen=True)
class KalmanMethod(FilterMethod):
    """Kalman filter over the augmented state, sample by sample; for online use and for systems with process noise.

    Parameters are states that stand still. See the manual, methods/kalman.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]},
    ...                        noise={"x": di.Gaussian(0.01)})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=0.8, lower=0)])
    >>> print(f"{di.identify(problem, di.kalman(process_noise={}, passes=5)).values['k']:.1f}")
    0.5
    """

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


@documented
@dataclass(frozen=True)
class MovingHorizon(FilterMethod):
    """After each sample, Gauss-Newton steps over the last ones; steadier than a filter far from the answer.

    Moving horizon estimation with the covariance of a filter as arrival cost. See the manual, methods/kalman.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]},
    ...                        noise={"x": di.Gaussian(0.01)})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=0.8, lower=0)])
    >>> print(f"{di.identify(problem, di.moving_horizon(horizon=3, process_noise={}, iterations=3)).values['k']:.1f}")
    0.5
    """

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
