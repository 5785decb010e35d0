"""Run: filter the records of a problem and say what is known at the end, and how far to trust it."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from dynident.codegen import compiler
from dynident.estimate.estimate import Estimate
from dynident.kalman.backend import FilterBackend, FilterStopped, backend_for
from dynident.kalman.likelihood import estimate_noise
from dynident.kalman.method import FilterMethod
from dynident.kalman.passes import FilterPass, run_pass, smooth_pass
from dynident.kalman.result import build_filter_estimate, stopped_estimate
from dynident.kalman.setup import FilterSetup, build_setup
from dynident.problem.problem import Problem
from dynident.solvers.solver_result import Iteration


def identify(method: FilterMethod, problem: Problem, tell: Callable[..., object]) -> Estimate:
    """All passes; a filter that stops gives an estimate that says where and why."""
    began, compiled = time.perf_counter(), compiler.seconds_compiling
    setup, remarks = estimate_noise(build_setup(method, problem), tell)
    backend = backend_for(setup)
    try:
        done, history = run_passes(setup, backend, tell)
        if method.smoother:
            done = smooth_pass(setup, backend, done)
    except FilterStopped as stop:
        return stopped_estimate(setup, stop)
    compiling = compiler.seconds_compiling - compiled
    times = {"compile": compiling, "filter": time.perf_counter() - began - compiling}
    return build_filter_estimate(setup, backend, done, remarks, history, times)


def run_passes(setup: FilterSetup, backend: FilterBackend, tell: Callable[..., object]
               ) -> tuple[FilterPass, tuple[Iteration, ...]]:
    """Each pass begins with the parameters of the last one and the covariance of the first: no record counts twice
    in the standard deviations."""
    theta, history = setup.theta, []
    nx, passes = len(setup.augmented.model.states), setup.method.passes
    for number in range(passes):
        done = run_pass(setup, backend, theta, for_smoother=setup.method.smoother and number == passes - 1)
        before, theta = theta, np.where(setup.repeated, done.ends[-1][0][nx:], setup.theta)
        cost = sum(float(np.sum(s[:, backend.layout.sample["nis"]])) for s in done.samples)
        step = float(np.linalg.norm((theta - before) / np.where(setup.theta_std > 0, setup.theta_std, 1.0)))
        history.append(Iteration(number, cost, step))
        tell(history[-1])
    return done, tuple(history) if passes > 1 else ()
