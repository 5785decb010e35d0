"""Presets: the map of the toolkit, each named method a few lines of composition."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from dynident.errors import ProblemError, did_you_mean
from dynident.methods.direct import FullDiscretizationMethod, ShootingMethod
from dynident.methods.method import Method


def single_shooting(integrator: str = "runge_kutta", substeps: int | str = "auto", solver: str = "auto",
                    loss: str = "squared", iterations: int = 200) -> ShootingMethod:
    """One simulation per record from the initial state; small and exact, but needs a fair start."""
    return ShootingMethod("single_shooting", 1, integrator, substeps, solver, loss, iterations)


def multiple_shooting(segments: int | None = None, integrator: str = "runge_kutta", substeps: int | str = "auto",
                      solver: str = "auto", loss: str = "squared", iterations: int = 200) -> ShootingMethod:
    """Each record cut into segments that start from the measurements and must meet in the end; for poor starts."""
    return ShootingMethod("multiple_shooting", segments, integrator, substeps, solver, loss, iterations)


def full_discretization(scheme: str = "trapezoid", degree: int | None = None, steps_per_sample: int | str = "auto",
                        solver: str = "auto", loss: str = "squared", iterations: int = 200) -> FullDiscretizationMethod:
    """States at every grid point as unknowns, a one-step scheme as equalities; for the poorest starts and stiff models."""
    return FullDiscretizationMethod(scheme, degree, steps_per_sample, solver, loss, iterations)


METHODS: tuple[Callable[..., Method], ...] = (single_shooting, multiple_shooting, full_discretization)


def method_from(options: Mapping[str, Any] | str | Method | None) -> Method:
    """A method from its name, from a `[method]` table (kind and options), or the default where nothing is said."""
    if isinstance(options, Method):
        return options
    table = {"kind": options} if isinstance(options, str) else dict(options or {})
    kind = table.pop("kind", "multiple_shooting")
    known = {make.__name__: make for make in METHODS}
    if kind not in known:
        raise ProblemError(f"There is no method '{kind}'.{did_you_mean(str(kind), known)}")
    allowed = inspect.signature(known[kind]).parameters
    faults = [f"method '{kind}' has no option '{name}'.{did_you_mean(name, allowed)}" for name in table if name not in allowed]
    if faults:
        raise ProblemError(faults)
    return known[kind](**table)
