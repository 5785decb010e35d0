"""Identify: the one verb."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any

from dynident.errors import NotConverged
from dynident.estimate.estimate import Estimate
from dynident.methods.method import Method
from dynident.methods.presets import method_from
from dynident.problem.problem import Problem
from dynident.progress import shown


def identify(problem: Problem, method: Method | str | Mapping[str, Any] | None = None, executor: Executor | None = None,
             progress: Callable[..., object] | bool | None = None) -> Estimate:
    """Find the unknowns of a problem; without a method, by multiple shooting, or full discretization with constraints.

    Raises NotConverged, with the best point attached as `.estimate`, where no optimum was reached, Ctrl-C included.
    `progress` takes a callable for each iteration, or False for silence.
    """
    with shown(progress) as tell:
        if method is None and problem.constraints:
            method = "full_discretization"  # the one that takes them
        estimate = method_from(method).identify(problem, executor, tell)
    if not estimate.converged:
        raise NotConverged(estimate.status, estimate)
    return estimate
