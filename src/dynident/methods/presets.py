"""Presets: the map of the toolkit, each method by its name; a family is loaded when it is first asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from dynident._util.contracts import meets
from dynident.errors import ProblemError, did_you_mean
from dynident.methods.method import Method
from dynident.models.equations import EquationModel
from dynident.problem.problem import Problem

METHODS = {  # name -> the frozen dataclass of its options
    "automatic": "dynident.automatic.method:Automatic",
    "single_shooting": "dynident.methods.direct:SingleShooting",
    "multiple_shooting": "dynident.methods.direct:MultipleShooting",
    "full_discretization": "dynident.methods.direct:FullDiscretizationMethod",
    "least_squares": "dynident.black_box.method:LeastSquares",
    "kalman": "dynident.kalman.method:KalmanMethod",
    "moving_horizon": "dynident.kalman.method:MovingHorizon",
    "boundary_value": "dynident.boundary.smoothing.method:BoundaryValueMethod",
    "prediction_error": "dynident.kalman.prediction_error.method:PredictionError",
    "multistart": "dynident.verbs.multistart:MultiStart",
    "inverse_dynamics": "dynident.inverse_dynamics.method:InverseDynamics",
    "set_membership": "dynident.set_membership.method:SetMembership",
}


def method_class(name: str) -> type[Method]:
    """The class whose instances are the methods of that name."""
    module, _, made = METHODS[name].partition(":")
    return getattr(importlib.import_module(module), made)


def __getattr__(name: str) -> type[Method]:
    if name in METHODS:
        return method_class(name)
    raise AttributeError(f"module {__name__} has no attribute '{name}'")


def plain_method(problem: Problem) -> Method:
    """The method of a first and a last fit: multiple shooting; full discretization, which takes all constraints; least
    squares for FMUs and filtered outputs; prediction error where noise of inputs or of the model is stated; single shooting
    where standard deviations are formulas.

    A model without states has nothing to discretize; shooting takes its constraints.
    """
    if not isinstance(problem.model, EquationModel) or problem.filtered_outputs:
        return method_from("least_squares")
    if problem.process_noise or problem.noisy_inputs:
        return method_from("prediction_error")
    model = problem.model
    if problem.has_noise_formulas:
        return method_from("single_shooting")  # whose search lowers the likelihood itself at every step
    discretized = problem.constraints and model.states and not (model.hybrid or model.delays or model.sample_time)
    return method_from("full_discretization" if discretized else "multiple_shooting")


def method_from(options: Mapping[str, Any] | str | Method | None) -> Method:
    """A method from its name, from a `[method]` table (kind and options), or the default where nothing is said."""
    if not isinstance(options, (type, str, Mapping)) and options is not None and meets(options, Method):
        return options
    if not (options is None or isinstance(options, (str, Mapping))):
        raise ProblemError(_no_method(options))
    table = {"kind": options} if isinstance(options, str) else dict(options or {})
    kind = table.pop("kind", "automatic")
    if not isinstance(kind, str) or kind not in METHODS:
        raise ProblemError(f"There is no method '{kind}'.{did_you_mean(str(kind), METHODS)}")
    made = method_class(kind)
    allowed = [f.name for f in fields(made)]  # type: ignore[arg-type]  # each is a dataclass
    faults = [f"method '{kind}' has no option '{name}'.{did_you_mean(name, allowed)}" for name in table if name not in allowed]
    if faults:
        raise ProblemError(faults)
    return made(**table)


def _no_method(given: Any) -> str:
    """What is wrong with something that is neither a method nor says which one."""
    kind = next((name for name in METHODS if isinstance(given, type) and given is method_class(name)), "")
    if kind:
        return f"the method is the function {kind} itself; call it: {kind}()."
    return f"a method is made by one of {', '.join(METHODS)}, or named by its name; {given!r} is none."
