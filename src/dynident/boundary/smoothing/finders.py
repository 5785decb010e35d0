"""Finders: which root finder a method names, with the options that a user gives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from dynident.boundary.solve_bvp.davidenko import Davidenko
from dynident.boundary.solve_bvp.newton import DampedNewton

FIRST_TIME_STEP = 0.05  # of Davidenko's artificial time: what the thesis begins with after a new Jacobian
FIXED = {"name", "max_iterations"}  # said elsewhere
FINDERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "davidenko": (Davidenko, {"first": FIRST_TIME_STEP}), "newton": (DampedNewton, {}),
    "musn": (DampedNewton, {"test": "kept", "name": "damped Newton, Jacobian kept"})}


def finder_fields(solver: str) -> tuple[str, ...]:
    """The options of a root finder that a user may set; none for the smoother."""
    if solver not in FINDERS:
        return ()
    make, own = FINDERS[solver]
    told = FIXED | ({"test"} & set(own))  # what makes it this one
    return tuple(f.name for f in fields(make) if f.name not in told)


def finder(solver: str, max_iterations: int, options: Mapping[str, Any]) -> Any:
    """The root finder with its options."""
    make, own = FINDERS[solver]
    return make(**{**own, "max_iterations": max_iterations, **options})
