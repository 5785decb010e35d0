"""Problems on which a plain fit misses, and how the tests of the ladder fit them."""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp

import dynident as di


def exact(rate, x0, time, **options):
    return solve_ivp(rate, (time[0], time[-1]), x0, "LSODA", time, rtol=1e-10, atol=1e-12, **options).y


def fitted(problem, method=None):
    try:
        return di.identify(problem, method, progress=False)
    except di.NotConverged as stopped:
        return stopped.estimate


def beats(std=0.02, known=True):
    """Two oscillators of which the sum is measured: a plain fit from afar ends in a wrong minimum."""
    time = np.linspace(0, 10, 301)
    y = np.cos(2 * time) + 0.5 * np.sin(5 * time) + std * np.random.default_rng(0).standard_normal(time.size)
    model = di.EquationModel(states={"x": "v", "v": "-a*x", "y": "w", "w": "-b*y"}, outputs={"sum": "x + y"})
    run = di.Experiment(time, {}, {"sum": y}, noise={"sum": di.Gaussian(std if known else None)})
    return di.Problem(model, [run], [di.Parameter("a", 40.0), di.Parameter("b", 0.3)])
