"""Method: what a user can say about the weights of the boundary value method, checked once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dynident.integrators import integrator_named
from dynident.integrators.scheme import Adaptive, Explicit, Implicit
from dynident.methods.capabilities import Capabilities, Support
from dynident.methods.method import Method
from dynident.methods.options import check_options, is_number, known_integrator, one_of, option, true_or_false, whole_number
from dynident.problem.problem import Problem

if TYPE_CHECKING:
    from dynident.estimate.estimate import Estimate

SOLVERS = ("smoother", "davidenko", "newton", "musn")
MEASUREMENTS = ("discrete", "continuous")
Weight = Mapping[str, float] | float | None


# checks


def finite_weight(name: str, value: Any) -> list[str]:
    return _weight_faults(name, value)


def model_weight(name: str, value: Any) -> list[str]:
    return _weight_faults(name, value, infinite=True)


def weight_table(name: str, value: Any) -> list[str]:
    return _weight_faults(name, value, table=True)


@dataclass(frozen=True)
class BoundaryValueMethod(Method):
    """States and parameters under a model that may err, at a price; for models that are not quite right.

    The smallest weighted sum of model errors, measurement errors and what is known of the first state, (3.6) of the thesis.
    """

    model_weight: Weight = option(
        None, "W: a number for all states, or a table by state; a parameter named in it may drift, all others stand still. "
        "Infinite: the model is right there. None: small errors are allowed where forces act.", model_weight)
    measurement_weight: Weight = option(None, "V: a number or a table by output; None: 1/std^2 of each sample.", finite_weight)
    initial_weight: Mapping[str, float] = option(dict, "R0: by state or parameter, towards its start value.", weight_table)
    measurements: str = option("discrete", '"discrete" weighs each sample, "continuous" the integral over time.',
                               one_of(MEASUREMENTS))
    solver: str = option("smoother", '"smoother", "davidenko", "newton", or "musn", a Newton method that keeps its Jacobian '
                         "while steps are short.", one_of(SOLVERS))
    integrator: str = option("runge_kutta", "An integrator with fixed steps.", known_integrator)
    substeps: int | str = option("auto", 'Steps of the integrator between two samples, or "auto".', whole_number(1, "auto"))
    max_restarts: int = option(8, "Further starts where none has led to a solution.", whole_number(0))
    max_iterations: int = option(250, "Of one attempt at the most.", whole_number(1))
    refine: bool = option(False, "Whether the smoother's answer becomes that of the boundary value problem.", true_or_false)
    kind: ClassVar[str] = "boundary_value"

    def __post_init__(self) -> None:
        object.__setattr__(self, "model_weight", _with_infinity(self.model_weight))
        check_options(self, [*self._refine_faults(), *self._integrator_faults()])

    def _refine_faults(self) -> list[str]:
        if self.refine is not True or self.solver not in SOLVERS[1:]:
            return []
        return [f"refine = true refines what the smoother finds, but solver = \"{self.solver}\" finds a root itself. Leave "
                "one of the two out."]

    def _integrator_faults(self) -> list[str]:
        integrator = integrator_named(self.integrator)
        if isinstance(integrator, Adaptive):
            return [f"integrator '{self.integrator}' chooses its own steps; boundary_value needs one with fixed steps, such as "
                    "runge_kutta, or radau where the model is stiff."]
        if integrator.position_velocity and (self.refine is True or self.solver in SOLVERS[1:]):
            asked = "refine = true" if self.refine is True else f'solver = "{self.solver}"'
            return [f"integrator '{self.integrator}' takes positions and velocities only, but {asked} also integrates the "
                    'costates of (3.13). Use runge_kutta, or solver = "smoother" without refine, which integrates no costates.']
        return []

    @property
    def capabilities(self) -> Capabilities:
        one = self.refine or self.solver != "smoother"
        return Capabilities(process_noise=Support.YES, several_experiments=Support.NO if one else Support.YES)

    @property
    def simulation_integrator(self) -> str:
        return self.integrator

    def make_integrator(self) -> Explicit | Implicit:
        integrator = integrator_named(self.integrator)
        assert not isinstance(integrator, Adaptive)
        return integrator

    def check_supports(self, problem: Problem) -> None:
        from dynident.boundary.smoothing.setup import setup_of

        setup_of(self, problem)

    def identify(self, problem: Problem, executor: Executor | None, report: Callable[..., object], /) -> Estimate:
        from dynident.boundary.smoothing.run import identify

        return identify(self, problem, report)


def _with_infinity(weight: Any) -> Any:
    """A saved result says "inf", since JSON has no other word for it."""
    if isinstance(weight, Mapping):
        return {name: _with_infinity(value) for name, value in weight.items()}
    return np.inf if isinstance(weight, str) and weight == "inf" else weight


def _weight_faults(option: str, weight: Any, infinite: bool = False, table: bool = False) -> list[str]:
    """A weight is positive; 0 would say that nothing is known, which leaving it out says too."""
    if weight is None:
        return []
    if not isinstance(weight, Mapping):
        if table:
            return [f"{option} is a table from name to weight, not {weight!r}."]
        weight = {"": weight}
    faults = []
    for name, value in weight.items():
        of = f" of '{name}'" if name else ""
        if not is_number(value) or np.isnan(value) or value <= 0:
            faults.append(f"{option}{of} is {value!r}; give a positive number.")
        elif np.isinf(value) and not infinite:
            faults.append(f"{option}{of} is infinite; give a finite number.")
    return faults
