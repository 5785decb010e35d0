"""Fit: filter the records of a problem and say what is known at the end, and how far to trust it."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from dynident.estimate.estimate import Estimate
from dynident.kernels import compiler
from dynident.methods.kalman.assemble import assemble, stopped_estimate
from dynident.methods.kalman.engine import Engine, Stopped, engine_for
from dynident.methods.kalman.likelihood import estimate_levels
from dynident.methods.kalman.options import KalmanMethod
from dynident.methods.kalman.passes import Pass, run, smooth
from dynident.methods.kalman.setup import Setup, setup_of
from dynident.problem.problem import Problem
from dynident.solvers.outcome import Iteration


def identify(method: KalmanMethod, problem: Problem, tell: Callable[..., object]) -> Estimate:
    """All passes; a filter that stops gives an estimate that says where and why."""
    began, compiled = time.perf_counter(), compiler.seconds_compiling
    setup, remarks = estimate_levels(setup_of(method, problem), tell)
    engine = engine_for(setup)
    try:
        done, history = _passes(setup, engine, tell)
        if method.smoother:
            smooth(setup, engine, done)
    except Stopped as stop:
        return stopped_estimate(setup, stop)
    compiling = compiler.seconds_compiling - compiled
    times = {"compile": compiling, "filter": time.perf_counter() - began - compiling}
    return assemble(setup, engine, done, remarks, history, times)


def _passes(setup: Setup, engine: Engine, tell: Callable[..., object]) -> tuple[Pass, tuple[Iteration, ...]]:
    """Each pass begins with the parameters of the last one and the covariance of the first: no record counts twice
    in the standard deviations."""
    theta, history = setup.theta, []
    nx = len(setup.augmented.model.states)
    for number in range(setup.method.passes):
        last = number == setup.method.passes - 1
        done = run(setup, engine, theta, links=last and setup.method.smoother)
        before, theta = theta, np.where(setup.repeated, done.ends[-1][0][nx:], setup.theta)
        cost = sum(float(np.sum(s[:, engine.layout.sample["nis"]])) for s in done.samples)
        step = float(np.linalg.norm((theta - before) / np.where(setup.theta_std > 0, setup.theta_std, 1.0)))
        history.append(Iteration(number, cost, step))
        tell(history[-1])
    return done, tuple(history) if setup.method.passes > 1 else ()
