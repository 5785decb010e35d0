"""Set points: which motion gets from here to there as fast as the limits allow?"""

from __future__ import annotations

import numpy as np

from dynident.errors import ProblemError


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
