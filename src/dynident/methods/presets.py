"""Presets: the map of the toolkit, each named method a few lines of composition."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dynident.black_box.method import LeastSquares
from dynident.boundary.smoothing.method import BoundaryValueMethod, Weight
from dynident.errors import ProblemError, did_you_mean
from dynident.kalman.method import KalmanMethod
from dynident.methods.direct import FullDiscretizationMethod, ShootingMethod
from dynident.methods.method import Method
from dynident.models.equations import EquationModel
from dynident.problem.problem import Problem
from dynident.set_membership.method import SetMembership
from dynident.verbs.multistart import MultiStart


def single_shooting(integrator: str = "runge_kutta", substeps: int | str = "auto", solver: str = "auto",
                    loss: str = "squared", iterations: int = 200) -> ShootingMethod:
    """One simulation per record from the initial state; small and exact, but needs a fair start."""
    return ShootingMethod("single_shooting", 1, integrator, substeps, solver, loss, iterations)


def multiple_shooting(segments: int | None = None, integrator: str = "runge_kutta", substeps: int | str = "auto",
                      solver: str = "auto", loss: str = "squared", iterations: int = 200) -> ShootingMethod:
    """Each record cut into segments that start from the measurements and must meet in the end; for poor starts."""
    return ShootingMethod("multiple_shooting", segments, integrator, substeps, solver, loss, iterations)


def full_discretization(scheme: str = "hermite_simpson", degree: int | None = None, steps_per_sample: int | str = "auto",
                        solver: str = "auto", hessian: str | None = None, loss: str = "squared", iterations: int = 200
                        ) -> FullDiscretizationMethod:
    """States at every grid point as unknowns, a one-step scheme as equalities; for the poorest starts and stiff models."""
    return FullDiscretizationMethod(scheme, degree, steps_per_sample, solver, hessian, loss, iterations)


def kalman(filter: str = "extended", integrator: str = "runge_kutta", substeps: int = 1,
           process_noise: Mapping[str, float | str] | str | None = None, process_noise_unit: str = "second",
           initial_std: Mapping[str, float] | None = None, covariance_update: str = "joseph", smoother: bool = False,
           passes: int = 1, gate: float | None = None, bound_handling: str = "project", iterations: int = 3
           ) -> KalmanMethod:
    """Sample by sample, parameters as states that stand still; for online use and for disturbed systems."""
    return KalmanMethod("kalman", filter, integrator, substeps, process_noise, process_noise_unit, initial_std or {},
                        covariance_update, smoother, passes, gate, bound_handling, iterations)


def moving_horizon(horizon: int = 10, integrator: str = "runge_kutta", substeps: int = 1,
                   process_noise: Mapping[str, float | str] | str | None = None, process_noise_unit: str = "second",
                   initial_std: Mapping[str, float] | None = None, covariance_update: str = "joseph", passes: int = 1,
                   gate: float | None = None, bound_handling: str = "project", iterations: int = 1) -> KalmanMethod:
    """After each sample, Gauss-Newton steps over the last ones; steadier than a filter far from the answer."""
    return KalmanMethod("moving_horizon", "horizon", integrator, substeps, process_noise, process_noise_unit,
                        initial_std or {}, covariance_update, False, passes, gate, bound_handling, iterations, horizon)


def least_squares(global_search: int = 0, integrator: str = "runge_kutta", substeps: int | str = "auto",
                  loss: str = "squared", iterations: int = 200) -> LeastSquares:
    """Simulations and differences only: for FMUs, and for any model as a check; optionally after a global search."""
    return LeastSquares(global_search, integrator, substeps, loss, iterations)


def multistart(method: Method | str | Mapping[str, Any] | None = None, starts: int = 20, seed: int = 0,
               points: Sequence[Mapping[str, float]] = ()) -> MultiStart:
    """Any method from many start points inside the bounds; says how often the best optimum was found."""
    if isinstance(points, (str, Mapping)) or not isinstance(points, Sequence):
        raise ProblemError(f"points = {points!r}; give a list of tables from name to start value.")
    return MultiStart(method_from(method), starts, seed, tuple(points))


def set_membership(algorithm: str = "auto", max_boxes: int = 300, subdivisions: int | None = None,
                   velocity_subdivisions: int = 0, velocity: str = "", passes: int = 1,
                   reset: Mapping[str, str] | None = None, standstill_time: float = 0.0, max_outliers: int = 0,
                   input_error: Mapping[str, float] | None = None, tolerance: float = 0.02, order: int | None = None,
                   taylor_degree: int = 1, rigorous: bool = False, strategy: Any = None) -> SetMembership:
    """Bounds outside of which no value can explain the data, proved; for errors that never exceed a bound.

    `algorithm` is "batch" (all samples at once), "recursive" (box by box along the record), "paper" (as published), or
    "auto". `max_boxes` at a time, `subdivisions` (M) per sample, `velocity_subdivisions` (M_v) of the state `velocity`,
    `passes` over the record. `reset={"T": "speed"}`: T may change once in each standstill, when the output `speed` has
    been measured as zero for `standstill_time`. `max_outliers` samples may be wrong; `input_error` bounds inputs.
    `taylor_degree` of the polynomials in the unknowns (batch). `rigorous=True` trusts no libm. `strategy` is a name or a
    function.
    """
    return SetMembership(algorithm, max_boxes, subdivisions, velocity_subdivisions, velocity, passes, _table(reset),
                         standstill_time, max_outliers, _table(input_error), tolerance, order, taylor_degree, rigorous,
                         strategy)


def boundary_value(model_weight: Weight = None, measurement_weight: Weight = None,
                   initial_weight: Mapping[str, float] | None = None, measurements: str = "discrete",
                   solver: str = "smoother", integrator: str = "runge_kutta", steps_per_sample: int | str = "auto",
                   restarts: int = 8, iterations: int = 250, polish: bool = False) -> BoundaryValueMethod:
    """States and parameters under a model that may err, at a price; for models that are not quite right."""
    return BoundaryValueMethod(model_weight, measurement_weight, _table(initial_weight), measurements, solver, integrator,
                               steps_per_sample, restarts, iterations, polish)


def _table(given: Any) -> Any:
    """What was given, whatever it is: the option object says what is wrong with it."""
    return {} if given is None else given


METHODS: tuple[Callable[..., Method], ...] = (single_shooting, multiple_shooting, full_discretization, least_squares,
                                              kalman, moving_horizon, boundary_value, multistart, set_membership)


def usual_method(problem: Problem) -> Method:
    """Where nothing is said: multiple shooting; full discretization, which takes all constraints; least squares for FMUs.

    A model without states has nothing to discretize; shooting takes its constraints.
    """
    if not isinstance(problem.model, EquationModel):
        return least_squares()
    discretized = problem.constraints and problem.model.states and not problem.model.hybrid
    return full_discretization() if discretized else multiple_shooting()


def method_from(options: Mapping[str, Any] | str | Method | None) -> Method:
    """A method from its name, from a `[method]` table (kind and options), or the default where nothing is said."""
    if isinstance(options, Method):
        return options
    known = {make.__name__: make for make in METHODS}
    if options is not None and not isinstance(options, (str, Mapping)):
        name = getattr(options, "__name__", "")
        raise ProblemError(f"the method is the function {name} itself; call it: {name}()." if name in known else
                           f"a method is made by one of {', '.join(known)}, or named by its name; {options!r} is none.")
    table = {"kind": options} if isinstance(options, str) else dict(options or {})
    kind = table.pop("kind", "multiple_shooting")
    if not isinstance(kind, str) or kind not in known:
        raise ProblemError(f"There is no method '{kind}'.{did_you_mean(str(kind), known)}")
    allowed = inspect.signature(known[kind]).parameters
    faults = [f"method '{kind}' has no option '{name}'.{did_you_mean(name, allowed)}" for name in table if name not in allowed]
    if faults:
        raise ProblemError(faults)
    return known[kind](**table)
