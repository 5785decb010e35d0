"""Direct-methods paper (Schäfer, Runge, Flaßkamp, Büskens), Sec. V-A: its idealised robot, a record, random starts.

Inputs and starts are not published; those here have the paper's order of magnitude. The data are made by an accurate
integration and fitted with explicit Euler, so that J of the paper does not go to zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dynident.errors import NotConverged, ProblemError
from dynident.estimate.estimate import Estimate
from dynident.models.library import TYPICAL, two_link_robot
from dynident.problem.experiment import Experiment
from dynident.problem.noise import Gaussian
from dynident.problem.parameter import Parameter
from dynident.problem.problem import Problem
from dynident.verbs.identify import identify
from dynident.verbs.simulate import simulate

SAMPLES, DURATION = 301, 1.5  # explicit Euler with friction as steep as in Table II is unstable beyond 5 ms
FACTOR = 10.0  # starts lie within this factor of the truth, either way
BOX = 20.0  # bounds lie at this many times the truth and at its part
ROBOT_ITERATIONS = 150  # iterations at the most
TRUTH = TYPICAL["two_link_robot"]  # Table II
INITIAL = {"theta1": 0.0, "theta2": np.pi + 0.2, "omega1": 0.0, "omega2": 0.0}


def robot_record(std: float = 1.0) -> Experiment:
    """All four states, exact: what Euler cannot follow is model error, as in the paper; its J has no weights."""
    time = np.linspace(0, DURATION, SAMPLES)
    turn = 2 * np.pi / DURATION
    currents = {"I1": 20 * np.sin(turn * time) + 14 * np.sin(2.3 * turn * time + 1),
                "I2": 30 * np.sin(1.4 * turn * time + 0.5) + 20 * np.sin(3.1 * turn * time)}
    quiet = Experiment(time, inputs=currents, initial=INITIAL, hold="linear")
    states = simulate(two_link_robot(), TRUTH, quiet).states
    return Experiment(time, inputs=currents, outputs=dict(states), hold="linear", name="robot",
                      noise={name: Gaussian(std) for name in states})


def robot_problem(record: Experiment, seed: int, factor: float = FACTOR, box: float = BOX) -> Problem:
    """Random starts: a factor for what is positive, a shift for centres of mass."""
    rng = np.random.default_rng(seed)
    parameters = []
    for name, value in TRUTH.items():
        if name.startswith("s"):
            parameters.append(Parameter(name, float(value + rng.uniform(-0.1, 0.1)), -1, 1))
        else:
            parameters.append(Parameter(name, float(value * factor ** rng.uniform(-1, 1)), value / box, value * box))
    return Problem(two_link_robot(), [record], parameters)


def fit(problem: Problem, method: Any) -> Estimate | None:
    """The best point found, converged or not; None where the start itself is not finite."""
    try:
        return identify(problem, method, progress=False)
    except NotConverged as stopped:
        return stopped.estimate
    except ProblemError:
        return None


def objective(estimate: Estimate | None) -> float:
    """J of the paper: mean over the samples of the squared distance."""
    return np.inf if estimate is None else estimate.cost / SAMPLES
