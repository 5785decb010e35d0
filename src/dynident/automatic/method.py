"""Method: what a user can say about the ladder, which is nothing unless wanted."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dynident.estimate.estimate import Estimate
from dynident.methods.capabilities import CONDITIONS, Capabilities, Support
from dynident.methods.method import Method
from dynident.methods.options import check_options, documented, option, unchecked, whole_number
from dynident.methods.presets import method_from, plain_method
from dynident.problem.problem import Problem

STAGES = ("plain", "smooth", "prediction", "climb", "rounds")


def known_stages(name: str, value: Any) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        return [f"{name} = {value!r}; give a list of some of {', '.join(STAGES)}."]
    return [f"{name} names {each!r}, which is none of {', '.join(STAGES)}." for each in value if each not in STAGES]


def with_integrator_of(estimate: Estimate, method: Any) -> Any:
    """The method with the integrator that the fit chose, where the choice was left to it."""
    if not method.chooses_integrator:
        return method
    return replace(method, integrator=estimate.method.simulation_integrator)


@documented
@dataclass(frozen=True)
class Automatic(Method):
    """Nothing to choose: a plain fit, and, where what it leaves over is not noise, smoothing and restarts until it is.

    The estimate says by which stage it arrived and whether it is believed. See the manual, methods/automatic.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]},
    ...                        noise={"x": di.Gaussian(0.01)})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=1, lower=0)])
    >>> estimate = di.identify(problem, di.automatic())
    >>> print(f"{estimate.values['k']:.2f} by the stage '{estimate.arrived_by}'")
    0.50 by the stage 'plain'
    """

    method: Any = option(None, "The method of the first and the last fit, its name or its [method] table; None: multiple "
                         "shooting, full discretization with bounds on states, least_squares for FMUs.", unchecked)
    budget: int | None = option(None, "Simulations with sensitivities at the most; None: twenty times the first stages.",
                                whole_number(1, None))
    seed: int = option(0, "Of the starts of the rounds.", whole_number(0))
    stages: Sequence[str] = option(STAGES, "Which stages may be climbed: plain, smooth, prediction, climb, rounds.",
                                   known_stages)
    kind: ClassVar[str] = "automatic"

    def __post_init__(self) -> None:
        check_options(self)
        object.__setattr__(self, "method", None if self.method is None else method_from(self.method))
        object.__setattr__(self, "stages", tuple(self.stages))

    def options(self) -> dict[str, Any]:
        said: dict[str, Any] = {"kind": self.kind, "seed": self.seed}
        if self.method is not None:
            said["method"] = self.method.options()
        if self.budget is not None:
            said["budget"] = self.budget
        if self.stages != STAGES:
            said["stages"] = list(self.stages)
        return said

    @property
    def inner_method(self) -> Method:
        return self._own.inner_method

    @property
    def _own(self) -> Method:
        return method_from("multiple_shooting") if self.method is None else self.method

    @property
    def capabilities(self) -> Capabilities:
        if self.method is not None:
            return self.method.capabilities
        return Capabilities(black_boxes=Support.YES, settable_states=Support.YES, hybrid_models=Support.YES,
                            models_without_states=Support.YES, dead_times=Support.YES, discrete_time=Support.YES,
                            constraints=Support.YES, state_bounds=Support.YES,  # by the method that suits the problem
                            process_noise=Support.YES, input_noise=Support.YES, filtered_outputs=Support.YES,
                            noise_formulas=Support.YES, **CONDITIONS)

    @property
    def simulation_integrator(self) -> str:
        return self._own.simulation_integrator

    def objective_key(self) -> dict[str, Any]:
        return self._own.objective_key()

    def for_initial_states(self, least_iterations: int) -> Method | None:
        return self._own.for_initial_states(least_iterations)

    def chosen(self, problem: Problem) -> Automatic:
        """With the method that suits the problem, where none was said."""
        return self if self.method is not None else replace(self, method=plain_method(problem))

    def check_supports(self, problem: Problem) -> None:
        self.chosen(problem)._own.check_supports(problem)

    def identify(self, problem: Problem, executor: Executor | None, report: Callable[..., object], /) -> Estimate:
        from dynident.automatic.run import climb_ladder, estimate_of
        from dynident.automatic.state import AutomaticSetup

        chosen = self.chosen(problem)
        chosen._own.check_supports(problem)
        if chosen._own.kind == "prediction_error":
            return chosen._own.identify(problem, executor, report)  # the criterion is stated; it has stages of its own
        setup = AutomaticSetup(problem, chosen.method, self.budget, self.seed, tuple(self.stages), executor, report)
        began = time.perf_counter()
        estimate = estimate_of(setup, climb_ladder(setup))
        others = max(0.0, time.perf_counter() - began - sum(estimate.times.values()))
        times = {**estimate.times, "other stages": others} if len(estimate.stages) > 1 else estimate.times
        other = estimate.smoothed is not None or estimate.arrived_by == "prediction"
        made_by = estimate.method if other else with_integrator_of(estimate, chosen.method)
        return replace(estimate, problem=problem.with_noise_of(estimate.problem), method=replace(chosen, method=made_by),
                       times=times)
