"""Filter paper (Beckmann, Dagen, Ortmaier), Sec. 3: its belt drive in closed loop, and the set points that it follows.

A cascade as in industrial drives: P on the motor angle, PI on the motor speed, which is a filtered derivative of the
measured angle in the paper and here the filtered speed. Gains and set points are not given in the paper; the defaults
make a crisp but damped loop.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynident.errors import ProblemError
from dynident.models.equations import EquationModel
from dynident.models.library.machines import belt_drive
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


def jerk_limited_move(time: np.ndarray, distance: float, velocity: float, acceleration: float, jerk: float,
                      start: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Position and velocity at `time` of a move that begins at `start`: an acceleration trapezoid (seven phases).

    At each instant the velocity, the acceleration or the jerk is at its limit, so that no move within the limits is
    faster (Biagiotti and Melchiorri, Trajectory Planning, 2008). A short move leaves out the phases it cannot reach.
    """
    faults = [f"{name} = {value} must be positive." for name, value in
              (("velocity", velocity), ("acceleration", acceleration), ("jerk", jerk)) if not value > 0]
    if faults:
        raise ProblemError(faults)
    way = abs(distance)
    ramp, plateau, cruise = _phases(way, velocity, acceleration, jerk)
    steps = np.array([ramp, plateau, ramp, cruise, ramp, plateau, ramp])
    jerks = jerk * np.array([1, 0, -1, 0, -1, 0, 1])
    edges = start + np.concatenate([[0.0], np.cumsum(steps)])
    position, speed = np.zeros(time.size), np.zeros(time.size)
    s = v = a = 0.0
    for begin, length, j in zip(edges[:-1], steps, jerks, strict=True):
        tau = np.clip(time - begin, 0, length)
        inside = time >= begin
        position[inside] = (s + v * tau + a * tau**2 / 2 + j * tau**3 / 6)[inside]
        speed[inside] = (v + a * tau + j * tau**2 / 2)[inside]
        s, v, a = (s + v * length + a * length**2 / 2 + j * length**3 / 6, v + a * length + j * length**2 / 2,
                   a + j * length)
    done = time >= edges[-1]
    position[done], speed[done] = way, 0.0
    return np.sign(distance) * position, np.sign(distance) * speed


def _phases(way: float, velocity: float, acceleration: float, jerk: float) -> tuple[float, float, float]:
    """Lengths of a jerk phase, of a phase of full acceleration, and of the phase at full velocity."""
    ramp = min(acceleration / jerk, np.sqrt(velocity / jerk))
    top = min(acceleration, jerk * ramp)
    plateau = max(velocity / top - ramp, 0.0) if top > 0 else 0.0
    reached = top * (ramp + plateau)  # the velocity at the end of the first ramp
    climb = reached * (2 * ramp + plateau) / 2
    if 2 * climb <= way:
        return ramp, plateau, (way - 2 * climb) / reached
    ramp = acceleration / jerk  # the full velocity is not reached: solve a T^2 + ... for the plateau
    plateau = -1.5 * ramp + np.sqrt(0.25 * ramp**2 + way / acceleration)
    if plateau >= 0:
        return ramp, plateau, 0.0
    return float(np.cbrt(way / (2 * jerk))), 0.0, 0.0
