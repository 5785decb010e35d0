"""Method: what a user can say about the noise of the boundary value method, checked once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dynident.boundary.smoothing.correlation import correlation_table
from dynident.errors import did_you_mean
from dynident.integrators import integrator_named
from dynident.integrators.scheme import Adaptive, Explicit, Implicit
from dynident.methods.capabilities import Capabilities, Support
from dynident.methods.direct import initial_guess_option, options_with_guess
from dynident.methods.method import Method
from dynident.methods.options import (
    check_options,
    documented,
    is_number,
    is_whole,
    known_integrator,
    one_of,
    option,
    positive_number,
    true_or_false,
    whole_number,
)
from dynident.problem.problem import Problem

if TYPE_CHECKING:
    from dynident.estimate.estimate import Estimate

SOLVERS = ("smoother", "davidenko", "newton", "musn")
MEASUREMENTS = ("discrete", "continuous")
NoiseStd = Mapping[str, float] | float | None


# checks


def noise_std(name: str, value: Any) -> list[str]:
    return _number_faults(name, value)


def noise_std_or_zero(name: str, value: Any) -> list[str]:
    return _number_faults(name, value, zero=True)


def noise_table(name: str, value: Any) -> list[str]:
    return _number_faults(name, value, table=True)


def finder_options(name: str, value: Any) -> list[str]:
    return [] if isinstance(value, Mapping) else [f"{name} is a table from option to value, not {value!r}."]


def points_or_number(name: str, value: Any) -> list[str]:
    if value is None or (is_whole(value) and value >= 1):
        return []
    if not isinstance(value, (list, tuple, np.ndarray)) or not all(is_number(t) for t in value):
        return [f"{name} = {value!r}; give a number of segments from 1 on, or a list of times."]
    return [] if np.all(np.diff(np.asarray(value, dtype=float)) > 0) else [f"{name}: times must ascend."]


@documented
@dataclass(frozen=True)
class BoundaryValueMethod(Method):
    """States and parameters under a model with process noise (weak constraint); for models that are not quite right.

    Minimises the weighted sum of model errors, measurement errors and what is known of the initial state, (3.6) of the thesis.
    See the manual, methods/boundary_value.

    Examples
    --------
    >>> import dynident as di
    >>> decay = di.EquationModel(states={"x": "-k*x"})
    >>> record = di.Experiment([0, 1, 2, 3], outputs={"x": [1.0, 0.61, 0.37, 0.22]},
    ...                        noise={"x": di.Gaussian(0.01)})
    >>> problem = di.Problem(decay, [record], [di.Parameter("k", start=1, lower=0)])
    >>> print(f"{di.identify(problem, di.boundary_value(process_noise=0.01)).values['k']:.2f}")
    0.50
    """

    process_noise: NoiseStd = option(
        None, "Standard deviation that model errors add in one second (W is 1/variance): a number for all states, or a table "
        "by state; a parameter named in it may drift, all others stand still. 0: the model is right there. None: what the "
        "problem states, else small errors are allowed where forces act.", noise_std_or_zero)
    measurement_noise: NoiseStd = option(
        None, "Standard deviation by which residuals are weighed, in the unit of the output (V is 1/variance): a number or a "
        "table by output; None: that of each sample.", noise_std)
    initial_noise: Mapping[str, float] = option(
        dict, "Standard deviation of a start value, in its unit (R0 is 1/variance): a table by state or parameter.",
        noise_table)
    process_correlation: Mapping[str, float] = option(
        dict, 'Correlations of model errors (W is a full matrix): {"a, b": 0.5}, by pair of states.', correlation_table)
    measurement_correlation: Mapping[str, float] = option(
        dict, "The same of measurement errors (V), by pair of outputs, which must be measured together.", correlation_table)
    initial_correlation: Mapping[str, float] = option(
        dict, "The same of start values (R0), by pair of names in initial_noise.", correlation_table)
    measurements: str = option("discrete", '"discrete" weighs each sample, "continuous" the integral over time.',
                               one_of(MEASUREMENTS))
    solver: str = option("smoother", '"smoother", "davidenko", "newton", or "musn", a Newton method that keeps its Jacobian '
                         "while steps are short.", one_of(SOLVERS))
    integrator: str = option("runge_kutta", "An integrator with fixed steps.", known_integrator)
    substeps: int | str = option("auto", 'Steps of the integrator between two samples, or "auto".', whole_number(1, "auto"))
    weight_factor: float = option(1.0, "Times the weights of the model's errors, so that process noise is divided by its root: "
                                  "below 1 states follow the record more closely, above 1 the model.", positive_number)
    initial_guess: Any = initial_guess_option()
    shooting_points: Any = option(
        None, "Where the segments of a root finder begin: a number of segments (1: single shooting), or times of samples; "
        "None: every sample. Only with continuous measurements: single samples let costates jump.", points_or_number)
    max_restarts: int = option(8, "Further starts where none has led to a solution.", whole_number(0))
    max_iterations: int = option(250, "Of one attempt at the most.", whole_number(1))
    solver_options: Mapping[str, Any] = option(
        dict, 'Of the root finder, by name: for "davidenko" {"absolute": 0.05, "relative": 0.05, "estimate": "kramer", ...} '
        '(EA, ER and the others of Sec. 6.3), for "newton" {"test": "residual", ...} (4.37 to 4.40), for it and "musn" '
        '{"tolerance": 1e-6, "shortest": 1e-6}.', finder_options)
    refine: bool = option(False, "Whether the smoother's answer becomes that of the boundary value problem.", true_or_false)
    kind: ClassVar[str] = "boundary_value"

    def __post_init__(self) -> None:
        check_options(self, [*self._refine_faults(), *self._integrator_faults(), *self._finder_faults(),
                             *self._points_faults()])

    def _points_faults(self) -> list[str]:
        if self.shooting_points is None:
            return []
        if self.solver == "smoother" and self.refine is not True:
            return ['shooting_points are for the root finders; take solver = "davidenko", "newton" or "musn", or leave it out.']
        if self.measurements != "continuous":
            return ['shooting_points need measurements = "continuous": single samples let the costates jump, so that each '
                    "begins a segment."]
        return []

    def _finder_faults(self) -> list[str]:
        """Names that the root finder does not have; the smoother has none."""
        from dynident.boundary.smoothing.finders import finder_fields

        if not isinstance(self.solver_options, Mapping) or self.solver not in SOLVERS:
            return []
        known = finder_fields(self.solver)
        return [f"solver_options names '{name}', which solver = \"{self.solver}\" does not have."
                f"{did_you_mean(str(name), known) if known else ' It is for davidenko, newton and musn.'}"
                for name in self.solver_options if name not in known]

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
        return Capabilities(nonlinear_algebraic_variables=Support.NO, process_noise=Support.YES,
                            several_experiments=Support.NO if one else Support.YES)

    def options(self) -> dict[str, Any]:
        return options_with_guess(self)

    def measurement_std(self, output: str) -> float:
        """What `measurement_noise` says of an output, where it is given."""
        said = self.measurement_noise
        return float(said[output] if isinstance(said, Mapping) else said)  # type: ignore[arg-type]

    @property
    def simulation_integrator(self) -> str:
        return self.integrator

    def make_integrator(self) -> Explicit | Implicit:
        """The integrator that its options name."""
        integrator = integrator_named(self.integrator)
        assert not isinstance(integrator, Adaptive)
        return integrator

    def check_supports(self, problem: Problem) -> None:
        from dynident.boundary.smoothing.setup import setup_of

        setup_of(self, problem)

    def identify(self, problem: Problem, executor: Executor | None, report: Callable[..., object], /) -> Estimate:
        from dynident.boundary.smoothing.run import identify

        return identify(self, problem, report)


def _number_faults(option: str, given: Any, zero: bool = False, table: bool = False) -> list[str]:
    """A number, or one per name: positive, or zero where that has a meaning."""
    if given is None:
        return []
    if not isinstance(given, Mapping):
        if table:
            return [f"{option} is a table from name to standard deviation, not {given!r}."]
        given = {"": given}
    faults, wanted = [], "a positive number, or zero" if zero else "a positive number"
    for name, value in given.items():
        of = f" of '{name}'" if name else ""
        if not is_number(value) or np.isnan(value) or value < 0 or (value == 0 and not zero):
            faults.append(f"{option}{of} is {value!r}; give {wanted}.")
        elif np.isinf(value):
            faults.append(f"{option}{of} is infinite; give a finite number.")
    return faults
