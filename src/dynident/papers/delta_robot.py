"""FMU paper (Kampfmann, Mösch, Menager), Sec. 7 and Table 1: inverse dynamics of a delta robot, motion to torques.

Each axis turns an upper arm about a horizontal line; two parallel rods, the lower arm, lead from its elbow to a plate
that moves without turning. Angles count downwards from the horizontal. The paper gives no dimensions; those here
belong to a robot of that size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import casadi as ca
import numpy as np

from dynident.models.equations import EquationModel

AXES = (1, 2, 3)
SPEED_SMOOTH = 0.5  # rad/s of the motor: friction turns over this
POWER_SMOOTH = 1.0  # W: the gear turns from driving to driven over this

# Table 1: start and estimate of each parameter
TABLE_1: Mapping[str, tuple[float, float]] = MappingProxyType({
    "lower_arm_mass": (0.1, 0.08), "upper_arm_mass": (1.5, 1.74), "base_plate_mass": (0.87, 1.1),
    "inertia": (0.000144, 0.000155), "efficiency": (1.0, 0.907), "coulomb": (0.12, 0.105), "viscous": (0.001, 0.00128)})
UNITS = MappingProxyType({
    "lower_arm_mass": "kg", "upper_arm_mass": "kg", "base_plate_mass": "kg", "inertia": "kg m^2", "efficiency": "1",
    "coulomb": "N m", "viscous": "N m s/rad", **{f"position_{i}": "rad" for i in AXES},
    **{f"velocity_{i}": "rad/s" for i in AXES}, **{f"acceleration_{i}": "rad/s^2" for i in AXES},
    **{f"torque_{i}": "N m" for i in AXES}})


@dataclass(frozen=True)
class Geometry:
    """Lengths in m; `offset` is how much farther from the centre the axes are than the joints of the plate."""

    offset: float = 0.12
    upper: float = 0.30
    lower: float = 0.80
    ratio: float = 22.0  # of the gear


def delta_robot(geometry: Geometry = Geometry(), gravity: float = 9.81) -> EquationModel:
    """Nine inputs (position, velocity, acceleration of each axis), three motor torques, seven parameters, no state.

    Masses: lower arm (both rods of one arm, slender and uniform), upper arm (slender and uniform), plate. `inertia` is
    that of motor and gear at the motor. The gear loses 1 - efficiency of the power, whichever way it flows; friction is
    coulomb + viscous at the motor.
    """
    def torques(t: Any, x: Any, u: Any, p: Any) -> dict[str, Any]:
        q, v, a = (ca.vertcat(*[u[f"{what}_{i}"] for i in AXES]) for what in ("position", "velocity", "acceleration"))
        load = arm_torques(geometry, q, v, a, p.lower_arm_mass, p.upper_arm_mass, p.base_plate_mass, gravity)
        speed = geometry.ratio * v
        driving = ca.tanh(load * v / POWER_SMOOTH)  # 1: the motor drives the arm; -1: the arm drives the motor
        share = (1 / p.efficiency + p.efficiency) / 2 + (1 / p.efficiency - p.efficiency) / 2 * driving
        motor = (p.inertia * geometry.ratio * a + load * share / geometry.ratio
                 + p.coulomb * ca.tanh(speed / SPEED_SMOOTH) + p.viscous * speed)
        return {f"torque_{i}": motor[k] for k, i in enumerate(AXES)}

    inputs = [f"{what}_{i}" for what in ("position", "velocity", "acceleration") for i in AXES]
    return EquationModel(name="delta_robot", states=[], inputs=inputs, output=torques,
                         parameters=list(TABLE_1), units=UNITS)


def arm_torques(g: Geometry, q: ca.SX, v: ca.SX, a: ca.SX, lower: Any, upper: Any, plate: Any, gravity: float) -> ca.SX:
    """Torques at the axes by the principle of virtual work; exact for slender uniform rods.

    A rod between two points that accelerate with b and c against gravity works on their virtual motion as
    mass (b/3 + c/6) at the first and mass (b/6 + c/3) at the second. The rods keep their length, rod (P - E) = const:
    from this follow the velocity and the acceleration of the plate, and how the plate works back on the axes.
    """
    place, up = plate_position(g, q), ca.vertcat(0, 0, gravity)
    paths = [_elbow_path(g, q[k], k) for k in range(3)]  # d elbow / d angle
    rods = [place - _elbow(g, q[k], k) for k in range(3)]
    lever = ca.vertcat(*[ca.dot(rods[k], paths[k]) for k in range(3)])
    inverse = _inverse(rods)  # of the matrix whose rows are the rods
    velocity = inverse @ (lever * v)
    bends = [paths[k] * a[k] + _elbow_bend(g, q[k], k) * v[k] ** 2 for k in range(3)]  # accelerations of the elbows
    turn = ca.vertcat(*[ca.dot(rods[k], bends[k]) - ca.sumsqr(velocity - paths[k] * v[k]) for k in range(3)])
    pull = inverse @ turn + up
    at_elbows = [lower * ((bends[k] + up) / 3 + pull / 6) for k in range(3)]
    at_plate = plate * pull + lower * (pull + (bends[0] + bends[1] + bends[2] + 3 * up) / 6)
    total = lever * (inverse.T @ at_plate) + ca.vertcat(*[ca.dot(paths[k], at_elbows[k]) for k in range(3)])
    return total + upper * g.upper**2 / 3 * a - upper * gravity * g.upper / 2 * ca.cos(q)


def _inverse(rows: list[ca.SX]) -> ca.SX:
    a, b, c = rows
    columns = [ca.cross(b, c), ca.cross(c, a), ca.cross(a, b)]
    return ca.horzcat(*columns) / ca.dot(a, columns[0])


def _direction(k: int) -> tuple[float, float]:
    return float(np.cos(2 * np.pi * k / 3)), float(np.sin(2 * np.pi * k / 3))


def _elbow(g: Geometry, angle: Any, k: int) -> ca.SX:
    """The elbow of arm k, moved inwards by the size of the plate."""
    c, s = _direction(k)
    reach = g.offset + g.upper * ca.cos(angle)
    return ca.vertcat(c * reach, s * reach, -g.upper * ca.sin(angle))


def _elbow_path(g: Geometry, angle: Any, k: int) -> ca.SX:
    c, s = _direction(k)
    return -g.upper * ca.vertcat(c * ca.sin(angle), s * ca.sin(angle), ca.cos(angle))


def _elbow_bend(g: Geometry, angle: Any, k: int) -> ca.SX:
    c, s = _direction(k)
    return -g.upper * ca.vertcat(c * ca.cos(angle), s * ca.cos(angle), -ca.sin(angle))


def plate_position(g: Geometry, q: ca.SX) -> ca.SX:
    """Where the plate is: below the centre of the circle through the elbows, at the length of the rods from each."""
    first, second, third = (_elbow(g, q[k], k) for k in range(3))
    b, c = second - first, third - first
    normal = ca.cross(b, c)
    size = ca.sumsqr(normal)
    centre = (ca.sumsqr(c) * ca.cross(normal, b) + ca.sumsqr(b) * ca.cross(c, normal)) / (2 * size)
    return first + centre - normal / ca.sqrt(size) * ca.sqrt(g.lower**2 - ca.sumsqr(centre))


def axis_angles(position: Any, geometry: Geometry = Geometry()) -> np.ndarray:
    """The angles of the three axes for a position of the plate, elbows outwards."""
    x, y, z = (float(value) for value in position)
    g, angles = geometry, []
    for k in range(3):
        c, s = _direction(k)
        inwards, aside = g.offset - (c * x + s * y), -s * x + c * y
        A, B = 2 * g.upper * inwards, 2 * g.upper * z
        C = inwards**2 + aside**2 + z**2 + g.upper**2 - g.lower**2
        angles.append(np.arctan2(B, A) + np.arccos(-C / np.hypot(A, B)))
    return np.array(angles)


SAMPLES, DURATION = 6250, 62.278  # of the paper's record
CYCLES = (6, 10, 13, 17)  # in a quarter of the record each: four speeds
WAYPOINTS = ((-0.22, 0.05, -0.86), (-0.18, 0.03, -0.76), (0.0, -0.06, -0.72), (0.17, -0.04, -0.77),
             (0.23, -0.02, -0.85), (0.16, 0.02, -0.78), (-0.02, 0.07, -0.73), (-0.2, 0.06, -0.78))  # m


def pick_and_place(samples: int = SAMPLES, duration: float = DURATION, geometry: Geometry = Geometry()
                   ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Time and the nine inputs: a cycle through picking and placing at four speeds, one after the other.

    Each axis goes from waypoint to waypoint by a polynomial of degree five that starts and ends at rest.
    """
    angles = np.array([axis_angles(point, geometry) for point in WAYPOINTS])
    time = np.linspace(0.0, duration, samples)
    block = duration / len(CYCLES)
    inputs = {f"{what}_{i}": np.zeros(samples) for what in ("position", "velocity", "acceleration") for i in AXES}
    for n, now in enumerate(time):
        speed = min(int(now / block), len(CYCLES) - 1)
        move = block / (CYCLES[speed] * len(WAYPOINTS))
        count, rest = divmod(now - speed * block, move)
        begin, end = angles[int(count) % len(angles)], angles[(int(count) + 1) % len(angles)]
        s = rest / move
        place, rate, bend = s**3 * (10 - 15 * s + 6 * s**2), 30 * s**2 * (1 - s) ** 2, 60 * s * (1 - s) * (1 - 2 * s)
        for k, i in enumerate(AXES):
            inputs[f"position_{i}"][n] = begin[k] + (end[k] - begin[k]) * place
            inputs[f"velocity_{i}"][n] = (end[k] - begin[k]) * rate / move
            inputs[f"acceleration_{i}"][n] = (end[k] - begin[k]) * bend / move**2
    return time, inputs
