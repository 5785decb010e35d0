"""Identify: the one verb."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any

from dynident._util.progress import reporter
from dynident.errors import NotConverged
from dynident.estimate.estimate import Estimate
from dynident.methods.method import Method
from dynident.methods.presets import method_from, usual_method
from dynident.problem.problem import Problem


def identify(problem: Problem, method: Method | str | Mapping[str, Any] | None = None, executor: Executor | None = None,
             progress: Callable[..., object] | bool | None = None) -> Estimate:
    """Find the unknowns of a problem; without a method, by the one that suits it (see `usual_method`).

    Raises NotConverged, with the best point attached as `.estimate`, where no optimum was reached, Ctrl-C included.
    `executor` runs side by side what a method has to do many times, the starts of `multistart` or the runs of a black box;
    methods that have one thing to do after the other do not use it. `progress` takes a callable for each iteration, or False
    for silence.
    """
    with reporter(progress) as tell:
        chosen = usual_method(problem) if method is None else method_from(method)
        estimate = chosen.identify(problem, executor, tell)
    if not estimate.converged:
        raise NotConverged(estimate.status, estimate)
    return estimate
