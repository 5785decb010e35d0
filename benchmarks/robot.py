"""Robot: the problem that several benchmarks speak about: 4 states, 23 unknowns, all states measured."""

from __future__ import annotations

import math

import numpy as np

import dynident as di
from dynident.models.library import TYPICAL, two_link_robot

SAMPLE_TIME = 2e-3  # s; with friction as steep as in the paper's Table II, steps beyond 5 ms are unstable
NOISE = 0.01
START = {"theta1": 0.1, "theta2": math.pi + 0.2, "omega1": 0.0, "omega2": 0.0}  # link 2 hangs
UNSEEN = 0.01  # a start for what Table II sets to zero
HOLD = {"I1": "linear", "I2": "linear"}


def currents(time: np.ndarray, seed: int = 1) -> dict[str, np.ndarray]:
    """Smooth currents, so that an integrator with step control has an easy time."""
    rng = np.random.default_rng(seed)
    return {name: sum(15 * np.sin(2 * np.pi * f * time + rng.uniform(0, 2 * np.pi)) for f in (0.3, 0.7, 1.1, 2.3))
            for name in ("I1", "I2")}


def record(samples: int, seed: int = 1, name: str = "") -> di.Experiment:
    """A simulated record with noise."""
    time = np.arange(samples) * SAMPLE_TIME
    inputs = currents(time, seed)
    quiet = di.Experiment(time=time, inputs=inputs, outputs={}, initial=START, hold=HOLD)
    truth = di.simulate(two_link_robot(), TYPICAL["two_link_robot"], quiet, substeps=4)  # far below the noise
    rng = np.random.default_rng(seed)
    outputs = {name: y + NOISE * rng.normal(size=samples) for name, y in truth.outputs.items()}
    return di.Experiment(time=time, inputs=inputs, outputs=outputs, hold=HOLD, name=name,
                         noise={name: di.Gaussian(NOISE) for name in outputs})


def robot_problem(samples: int) -> di.Problem:
    """19 parameters and 4 initial states are unknown."""
    parameters = [di.Parameter(name, start=value or UNSEEN) for name, value in TYPICAL["two_link_robot"].items()]
    return di.Problem(two_link_robot(), [record(samples)], parameters)


def rate_in_plain_python(x: list[float], current: tuple[float, float], p: dict[str, float]) -> list[float]:
    """The robot as one writes it for scipy: floats and `math`, which is faster there than arrays of four."""
    s, c = math.sin(x[1]), math.cos(x[1])
    out, up, side = c * p["sx2"] + s * p["sz2"], c * p["sz2"] - s * p["sx2"], p["sy2"]  # centre of mass of link 2
    m2, w1, w2 = p["m2"], x[2], x[3]
    mass_11 = (p["Iz1"] + p["m1"] * (p["sx1"]**2 + p["sy1"]**2) + m2 * (out**2 + side**2) + p["Ix2"] * s**2
               + p["Iz2"] * c**2)
    mass_12 = -m2 * side * up
    mass_22 = p["Iy2"] + m2 * (out**2 + up**2)
    turn = 2 * m2 * out * up + 2 * (p["Ix2"] - p["Iz2"]) * s * c  # d mass_11 / d theta2
    push_1 = (p["gain1"] * current[0] - p["dry1"] * math.tanh(p["a1"] * w1) - p["viscous1"] * w1 - turn * w1 * w2
              - m2 * side * out * w2**2)
    push_2 = (p["gain2"] * current[1] - p["dry2"] * math.tanh(p["a2"] * w2) - p["viscous2"] * w2 + turn * w1**2 / 2
              + m2 * 9.81 * out)
    determinant = mass_11 * mass_22 - mass_12**2
    return [w1, w2, (mass_22 * push_1 - mass_12 * push_2) / determinant, (mass_11 * push_2 - mass_12 * push_1) / determinant]
