"""Robot: two links whose equations follow from their energies.

The idealised robot of Schäfer, Runge, Flaßkamp, Büskens (direct methods as nonlinear programs), Sec. V-A. Joint 1 turns
link 1 about the vertical z axis; joint 2 sits on that axis, is carried by link 1 and turns link 2 about its y axis.
"""

from __future__ import annotations

from typing import Any

import casadi as ca

from dynident.models.equations import EquationModel

LINK_1 = ("m1", "sx1", "sy1", "Iz1", "dry1", "viscous1", "gain1", "a1")
LINK_2 = ("m2", "sx2", "sy2", "sz2", "Ix2", "Iy2", "Iz2", "dry2", "viscous2", "gain2", "a2")
UNIT_OF = {"m": "kg", "s": "m", "I": "kg m^2", "d": "N m", "v": "N m s", "g": "N m/A", "a": "s"}  # by first letter


def two_link_robot(gravity: float = 9.81) -> EquationModel:
    """M(theta) theta'' = F(theta, theta') - dry tanh(a theta') - viscous theta' + gain I, all four states measured.

    19 parameters: mass m, centre of mass s and moments of inertia I about it, both along the link's own axes, dry
    (kappa_1 in Table II of the paper), viscous (kappa_2) and gain (kappa_3); the table names the two frictions the
    other way round. What of link 1 has no effect is left out. Inputs are the currents I1, I2; angles are in rad, and
    link 2 stands upright at theta2 = 0. Many sets of parameters give the same motion.
    """
    units = {"theta1": "rad", "theta2": "rad", "omega1": "rad/s", "omega2": "rad/s", "I1": "A", "I2": "A",
             "gravity": "m/s^2", **{name: UNIT_OF[name[0]] for name in (*LINK_1, *LINK_2)}}
    return EquationModel(
        name="two_link_robot", states=["theta1", "theta2", "omega1", "omega2"], rate=_rate, inputs=["I1", "I2"],
        parameters=[*LINK_1, *LINK_2], constants={"gravity": gravity}, units=units)


def accelerations(mass: ca.SX, potential: ca.SX, q: ca.SX, velocity: ca.SX, forces: ca.SX) -> ca.SX:
    """q'' of two coordinates by the Euler-Lagrange equations for L = q' mass(q) q' / 2 - potential(q)."""
    slopes = [ca.reshape(ca.jacobian(mass, q[i]), 2, 2) for i in range(2)]  # d mass / d q_i
    drift = slopes[0] * velocity[0] + slopes[1] * velocity[1]  # d mass / dt
    pull = ca.vertcat(*[ca.dot(velocity, slope @ velocity) / 2 for slope in slopes])
    push = forces - ca.gradient(potential, q) + pull - drift @ velocity
    determinant = mass[0, 0] * mass[1, 1] - mass[0, 1] * mass[1, 0]
    return ca.vertcat(mass[1, 1] * push[0] - mass[0, 1] * push[1],
                      mass[0, 0] * push[1] - mass[1, 0] * push[0]) / determinant


def energies(q: ca.SX, p: Any) -> tuple[ca.SX, ca.SX]:
    """The mass matrix, by which the kinetic energy is q' mass q' / 2, and the potential energy.

    Velocities are taken along the axes of link 1, those of turning along the axes of link 2.
    """
    c, s = ca.cos(q[1]), ca.sin(q[1])
    upwards = ca.SX([0, 0, 1])
    centre_1 = ca.vertcat(p.sx1, p.sy1, 0)
    centre_2 = ca.vertcat(c * p.sx2 + s * p.sz2, p.sy2, c * p.sz2 - s * p.sx2)
    motion_1 = ca.horzcat(ca.cross(upwards, centre_1), ca.SX(3, 1))  # velocity of the centre of mass per q'
    motion_2 = ca.horzcat(ca.cross(upwards, centre_2), ca.jacobian(centre_2, q[1]))
    spin_2 = ca.vertcat(ca.horzcat(-s, 0), ca.horzcat(0, 1), ca.horzcat(c, 0))
    mass = (p.m1 * (motion_1.T @ motion_1) + ca.diag(ca.vertcat(p.Iz1, 0))
            + p.m2 * (motion_2.T @ motion_2) + spin_2.T @ ca.diag(ca.vertcat(p.Ix2, p.Iy2, p.Iz2)) @ spin_2)
    return mass, p.m2 * p.gravity * centre_2[2]


def _rate(t: Any, x: Any, u: Any, p: Any) -> list[Any]:
    velocity = ca.vertcat(x.omega1, x.omega2)
    q = ca.vertcat(x.theta1, x.theta2)
    joints = [(p.dry1, p.viscous1, p.gain1, p.a1, u.I1), (p.dry2, p.viscous2, p.gain2, p.a2, u.I2)]
    forces = ca.vertcat(*[gain * current - dry * ca.tanh(a * velocity[i]) - viscous * velocity[i]
                          for i, (dry, viscous, gain, a, current) in enumerate(joints)])
    return [x.omega1, x.omega2, *ca.vertsplit(accelerations(*energies(q, p), q, velocity, forces))]
