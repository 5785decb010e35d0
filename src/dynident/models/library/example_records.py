"""Example records: by which experiment is each ready model shown, and with which values?

A record is made of them by `dynident init --example NAME`, or `di.library.example_record(NAME)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dynident._util.hooks import call
from dynident.errors import ProblemError, did_you_mean
from dynident.models.library.machines import TYPICAL

OFF_TYPICAL = (1.2, 0.85, 1.1, 0.9)  # times the typical value, one after the other: what the example records were made with


@dataclass(frozen=True)
class ExampleExperiment:
    """Time, inputs as text in t, known initial states and noise of an example record; `fixed`: values that it cannot tell."""

    duration: float  # in the model's unit of time
    samples: int
    noise: Mapping[str, float]  # standard deviation by output
    inputs: Mapping[str, str] = field(default_factory=dict)
    initial: Mapping[str, float] = field(default_factory=dict)
    fixed: Sequence[str] = ()
    time_unit: str = "s"

    @property
    def time(self) -> np.ndarray:
        return np.linspace(0.0, self.duration, self.samples)


SQUARE = "where(sin(2*pi*t/{0}) > 0, {1}, {2})"
EXAMPLES: Mapping[str, ExampleExperiment] = {
    "mass_spring_damper": ExampleExperiment(20, 401, {"position": 0.02}, {"F": SQUARE.format(9, 1, -1)}, {"x": 0, "v": 0}),
    "two_mass": ExampleExperiment(2, 401, {"x1": 2e-4, "x2": 2e-4}, {"F": SQUARE.format(0.9, 10, -10)},
                                  {"x1": 0, "x2": 0, "v1": 0, "v2": 0}),
    "servo_axis": ExampleExperiment(4, 401, {"position": 2e-4}, {"u": "3*sin(4*t) + 2*sin(9*t)"}, {"q": 0, "v": 0}),
    "pendulum": ExampleExperiment(6, 301, {"angle": 0.01}, {}, {"angle": 1.2, "rate": 0}),
    "belt_drive": ExampleExperiment(2, 401, {"motor_angle": 0.01, "motor_speed": 0.2},
                                    {"tau": "1.2*sin(7*t) + 0.8*sin(17*t)"}, {"phi": 0, "z": 0, "omega": 0, "v": 0}),
    "two_link_robot": ExampleExperiment(
        3, 301, {"theta1": 1e-3, "theta2": 1e-3, "omega1": 0.01, "omega2": 0.01},
        {"I1": "8*sin(3*t) + 5*sin(7*t)", "I2": "20*sin(2*t)"}, {"theta1": 0, "theta2": 0.3, "omega1": 0, "omega2": 0},
        fixed=("m1", "sx1", "sy1", "gain1", "a1", "m2", "sx2", "sy2", "sz2", "Ix2", "Iz2", "gain2", "a2")),
    "dc_motor": ExampleExperiment(1, 501, {"current": 0.02, "speed": 0.3}, {"u": SQUARE.format(0.4, 12, -6)}, {"i": 0, "w": 0}),
    "duffing": ExampleExperiment(20, 501, {"position": 0.01}, {"F": "2*sin(1.2*t) + sin(2.9*t)"}, {"x": 0, "v": 0}),
    "quarter_car": ExampleExperiment(4, 801, {"wheel": 5e-4, "body": 5e-4}, {"z": SQUARE.format(1.7, 0.03, -0.02)},
                                     {"x_u": 0, "x_s": 0, "v_u": 0, "v_s": 0}),
    "cart_pendulum": ExampleExperiment(5, 501, {"position": 1e-3, "angle": 2e-3}, {"F": "4*sin(3*t) + 3*sin(5.5*t)"},
                                       {"x": 0, "v": 0, "angle": 0, "rate": 0}),
    "vehicle": ExampleExperiment(120, 241, {"speed": 0.1}, {"F": SQUARE.format(70, 3000, 0)}, {"v": 1}),
    "rc_circuit": ExampleExperiment(0.05, 251, {"voltage": 0.02, "current": 1e-5}, {"u": SQUARE.format(0.02, 5, 0)}, {"v": 0}),
    "rlc_circuit": ExampleExperiment(0.01, 401, {"current": 2e-3, "voltage": 0.05}, {"u": SQUARE.format(0.006, 5, -5)},
                                     {"i": 0, "v": 0}),
    "battery": ExampleExperiment(1800, 361, {"voltage": 0.002}, {"i": "where(sin(2*pi*t/300) > -0.3, 2, -0.5)"},
                                 {"charge": 0.9, "v1": 0}),
    "buck_converter": ExampleExperiment(0.01, 401, {"current": 0.05, "voltage": 0.05}, {"duty": SQUARE.format(0.004, 0.6, 0.4)},
                                        {"i": 0, "v": 0}),
    "heated_room": ExampleExperiment(172800, 289, {"room": 0.1},
                                     {"P": SQUARE.format(43000, 1500, 0), "T_out": "5 + 4*sin(2*pi*t/86400)"}, {"T": 18}),
    "building": ExampleExperiment(345600, 577, {"air": 0.05},
                                  {"P": SQUARE.format(61000, 3000, 0), "T_out": "5 + 4*sin(2*pi*t/86400)"},
                                  {"T_i": 18, "T_w": 15}),
    "dead_time_process": ExampleExperiment(200, 401, {"y": 0.2}, {"u": SQUARE.format(110, 40, 20)}, {"y": 0}),
    "tank": ExampleExperiment(400, 201, {"level": 0.003}, {"q": SQUARE.format(190, 4e-4, 1e-4)}, {"h": 0.5}),
    "two_tanks": ExampleExperiment(600, 301, {"upper": 0.003, "lower": 0.003}, {"q": SQUARE.format(290, 4e-4, 1e-4)},
                                   {"h1": 0.4, "h2": 0.3}),
    "consecutive_reactions": ExampleExperiment(10, 51, {"A": 0.01, "B": 0.01}, {}, {"A": 1, "B": 0}),
    "michaelis_menten": ExampleExperiment(100, 101, {"S": 0.02}, {}, {"S": 4}),
    "batch_reactor": ExampleExperiment(1200, 121, {"c": 0.01}, {"T": "320 + 20*t/1200"}, {"c": 2}),
    "bioreactor": ExampleExperiment(12, 61, {"X": 0.03, "S": 0.05}, {}, {"X": 0.2, "S": 10}, time_unit="h"),
    "logistic_growth": ExampleExperiment(20, 41, {"N": 2.0}, {}, {"N": 5}, time_unit="d"),
    "predator_prey": ExampleExperiment(20, 81, {"prey": 0.5, "predators": 0.5}, {}, {"x": 20, "y": 10}, time_unit="d"),
    "epidemic": ExampleExperiment(80, 81, {"I": 0.003}, {}, {"S": 0.99, "I": 0.01}, time_unit="d"),
    "drug_absorption": ExampleExperiment(24, 25, {"concentration": 0.05}, {}, {"gut": 320, "central": 0}, time_unit="h"),
}


def example_values(name: str) -> dict[str, float]:
    """The values behind the example record of a ready model: near the typical ones, but not those.

    >>> import dynident as di
    >>> di.library.example_values("pendulum")
    {'p': 11.772, 'd': 0.085}
    """
    experiment = _known(name)
    typical = TYPICAL[name]
    return {parameter: float(f"{value * (1.0 if parameter in experiment.fixed else OFF_TYPICAL[k % len(OFF_TYPICAL)]):.6g}")
            for k, (parameter, value) in enumerate(typical.items())}


def example_record(name: str, seed: int = 0) -> Any:
    """The example record of a ready model: simulated with `example_values`, with noise.

    >>> import dynident as di
    >>> di.library.example_record("tank").samples
    201
    """
    _known(name)
    return call("example_record", name, seed)


def _known(name: str) -> ExampleExperiment:
    if name not in EXAMPLES:
        raise ProblemError(f"the library has no model '{name}'.{did_you_mean(name, EXAMPLES)}")
    return EXAMPLES[name]
