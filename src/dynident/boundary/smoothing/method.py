"""Options: what a user can say about the weights of the boundary value method, checked once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from dynident.errors import ProblemError, did_you_mean
from dynident.integrators import integrator_named
from dynident.integrators.scheme import Adaptive, Explicit, Implicit
from dynident.problem.problem import Problem

if TYPE_CHECKING:
    from dynident.estimate.estimate import Estimate

SOLVERS = ("smoother", "davidenko", "newton", "musn")
MEASUREMENTS = ("discrete", "continuous")
Weight = Mapping[str, float] | float | None


@dataclass(frozen=True)
class BoundaryValueMethod:
    """Smallest weighted sum of model errors, measurement errors and what is known of the first state, (3.6) of the thesis.

    `model_weight` (W): a number for all states, or a table by state; a parameter named in it may drift, all others stand
    still. Infinite: the model is right there. None: small errors are allowed where forces act. `measurement_weight` (V): a
    number or a table by output; None: 1/std^2 of each sample. `measurements`: "discrete" weighs each sample, "continuous" the
    integral over time. `initial_weight` (R0): by state or parameter, towards its start value. `solver`: "smoother",
    "davidenko", "newton", or "musn", a Newton method that keeps its Jacobian while steps are short. `integrator`: a scheme
    with fixed steps; `steps_per_sample`: how many, or "auto". `restarts`: further starts where none has led to a solution.
    `iterations`: of one attempt at the most. `polish`: whether the smoother's answer becomes that of the boundary value
    problem.
    """

    model_weight: Weight = None
    measurement_weight: Weight = None
    initial_weight: Mapping[str, float] = field(default_factory=dict)
    measurements: str = "discrete"
    solver_name: str = "smoother"
    integrator: str = "runge_kutta"
    steps_per_sample: int | str = "auto"
    restarts: int = 8
    iterations: int = 250
    polish: bool = False
    kind: str = "boundary_value"

    def __post_init__(self) -> None:
        object.__setattr__(self, "model_weight", _with_infinity(self.model_weight))
        faults = []
        for option, value, known in (("solver", self.solver_name, SOLVERS), ("measurements", self.measurements, MEASUREMENTS)):
            if value not in known:
                faults.append(f"{option} = {value!r} is not known.{did_you_mean(str(value), known)}")
        faults += _whole_faults("restarts", self.restarts, 0) + _whole_faults("iterations", self.iterations, 1)
        if self.steps_per_sample != "auto":
            faults += _whole_faults("steps_per_sample", self.steps_per_sample, 1, ', or "auto"')
        if not isinstance(self.polish, bool):
            faults.append(f"polish = {self.polish!r}; say true or false.")
        elif self.polish and self.solver_name in SOLVERS[1:]:
            faults.append(f"polish = true polishes what the smoother finds, but solver = \"{self.solver_name}\" finds a root "
                          "itself. Leave one of the two out.")
        faults += _weight_faults("model_weight", self.model_weight, infinite=True)
        faults += _weight_faults("measurement_weight", self.measurement_weight)
        faults += _weight_faults("initial_weight", self.initial_weight, table=True)
        faults += self._integrator_faults()
        if faults:
            raise ProblemError(faults)

    def _integrator_faults(self) -> list[str]:
        scheme = integrator_named(self.integrator)
        if isinstance(scheme, Adaptive):
            return [f"integrator '{self.integrator}' chooses its own steps; boundary_value needs one with fixed steps, such as "
                    "runge_kutta, or radau where the model is stiff."]
        if scheme.position_velocity and (self.polish is True or self.solver_name in SOLVERS[1:]):
            asked = "polish = true" if self.polish is True else f'solver = "{self.solver_name}"'
            return [f"integrator '{self.integrator}' takes positions and velocities only, but {asked} also integrates the "
                    'costates of (3.13). Use runge_kutta, or solver = "smoother" without polish, which integrates no costates.']
        return []

    def options(self) -> dict[str, Any]:
        """What was set, as plain data under the names by which the preset takes it."""
        data = {f.name: getattr(self, f.name) for f in fields(self)}
        data["solver"] = data.pop("solver_name")
        data = {key: dict(value) if isinstance(value, Mapping) else value for key, value in data.items()}
        return {"kind": data.pop("kind"), **{k: v for k, v in data.items() if v is not None and v != {}}}

    def scheme(self) -> Explicit | Implicit:
        scheme = integrator_named(self.integrator)
        assert not isinstance(scheme, Adaptive)
        return scheme

    def refuse(self, problem: Problem) -> None:
        from dynident.boundary.smoothing.setup import setup_of

        setup_of(self, problem)

    def identify(self, problem: Problem, executor: Executor | None, tell: Callable[..., object]) -> Estimate:
        from dynident.boundary.smoothing.run import identify

        return identify(self, problem, tell)


def _with_infinity(weight: Any) -> Any:
    """A saved result says "inf", since JSON has no other word for it."""
    if isinstance(weight, Mapping):
        return {name: _with_infinity(value) for name, value in weight.items()}
    return np.inf if isinstance(weight, str) and weight == "inf" else weight


def _whole_faults(option: str, value: Any, least: int, other: str = "") -> list[str]:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= least
    return [] if whole else [f"{option} = {value!r}; give a whole number from {least} on{other}."]


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
        number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
        if not number or np.isnan(value) or value <= 0:
            faults.append(f"{option}{of} is {value!r}; give a positive number.")
        elif np.isinf(value) and not infinite:
            faults.append(f"{option}{of} is infinite; give a finite number.")
    return faults
