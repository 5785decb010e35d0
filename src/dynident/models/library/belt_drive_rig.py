"""Belt drive rig: the closed loop of Sec. 3 of the filter paper, as a model that can be simulated.

A cascade as in industrial drives: P on the motor angle, PI on the motor speed, which is a filtered derivative of the
measured angle in the paper and here the filtered speed. Gains and set points are not given in the paper; the defaults
make a crisp but damped loop.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynident.models.equations import EquationModel
from dynident.models.library.machines import belt_drive
from dynident.models.library.setpoints import jerk_limited_move
from dynident.problem.experiment import Experiment

FINE_RATE = 16_000.0  # Hz, of the simulation that stands for the rig


@dataclass(frozen=True)
class Cascade:
    """Gains of the controller."""

    position_gain: float = 40.0  # 1/s
    speed_gain: float = 0.6  # N m s/rad
    reset_time: float = 0.03  # s, of the PI controller
    filter_time: float = 5e-4  # s, of the speed signal


@dataclass(frozen=True)
class Motion:
    """Moves to and fro on the belt, acceleration trapezoids with a short jerk time."""

    distance: float = 0.4  # m
    velocity: float = 1.5  # m/s
    acceleration: float = 15.0  # m/s^2
    jerk_time: float = 0.008  # s: acceleration over jerk
    pause: float = 0.25  # s between moves
    duration: float = 4.0  # s


def closed_loop(cascade: Cascade | None = None, **constants: float) -> EquationModel:
    """The belt drive with its controller; inputs are set points of motor angle and speed, the torque is an output."""
    cascade = cascade or Cascade()
    plant = belt_drive(**constants).definition()
    torque = "speed_gain*(wanted - seen) + stored"
    definitions = {**plant["definitions"], "wanted": "omega_set + position_gain*(phi_set - phi)", "tau": torque}
    states = {**plant["states"], "seen": "(omega - seen)/filter_time",
              "stored": "speed_gain/reset_time*(wanted - seen)"}
    return EquationModel(
        name="belt_drive_closed_loop", states=states, definitions=definitions,
        outputs={**plant["outputs"], "torque": "tau"}, inputs=["phi_set", "omega_set"], parameters=plant["parameters"],
        constants={**plant["constants"], **vars(cascade)})


def set_points(motion: Motion | None = None, rate: float = FINE_RATE, r1: float = 0.0159) -> Experiment:
    """Motor angle and speed to follow, as inputs of the closed loop that starts at rest."""
    motion = motion or Motion()
    time = np.arange(round(motion.duration * rate) + 1) / rate
    position, speed = np.zeros(time.size), np.zeros(time.size)
    begin, way = motion.pause, motion.distance
    while begin < motion.duration:
        s, v = jerk_limited_move(time, way, motion.velocity, motion.acceleration,
                                 motion.acceleration / motion.jerk_time, begin)
        position, speed = position + s, speed + v
        moving = np.flatnonzero(v)
        if not moving.size:
            break
        begin, way = time[moving[-1]] + motion.pause, -way
    rest = dict.fromkeys(("phi", "z", "omega", "v", "seen", "stored"), 0.0)
    return Experiment(time, {"phi_set": position / r1, "omega_set": speed / r1}, initial=rest, hold="linear")
