"""Machines: small mechanical models (axes, arms, vehicles, motors, oscillators), to start from and to test with.

`TYPICAL` holds plausible parameter values for each as made by default, by the name of the function that makes it. The
two-link robot, whose equations follow from its energies, is the idealised robot of Schäfer, Runge, Flaßkamp, Büskens
(direct methods as nonlinear programs), Sec. V-A: joint 1 turns link 1 about the vertical z axis; joint 2 sits on that
axis, is carried by link 1 and turns link 2 about its y axis.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import casadi as ca

from dynident.errors import ProblemError
from dynident.models.equations import EquationModel
from dynident.models.library.friction import FrictionLaw, coulomb, viscous

TYPICAL: Mapping[str, Mapping[str, float]] = MappingProxyType({
    "mass_spring_damper": MappingProxyType({"m": 1.0, "d": 1.0, "k": 1.0}),
    "two_mass": MappingProxyType({"m1": 1.0, "m2": 5.0, "k": 1000.0, "b": 10.0}),
    "servo_axis": MappingProxyType({"M": 60.0, "Fv": 150.0, "Fc": 20.0, "offset": 1.0}),
    "pendulum": MappingProxyType({"p": 9.81, "d": 0.1}),
    "belt_drive": MappingProxyType({"inertia": 13.0e-4, "m": 12.5, "c_spec": 8940.0, "d": 97.66, "mu_v": 13.67,
                                    "mu_c": 28.13}),  # Table 1 of Beckmann, Dagen, Ortmaier, in SI units
    "two_link_robot": MappingProxyType({
        "m1": 6.0, "sx1": 0.0, "sy1": 0.0, "Iz1": 0.03, "dry1": 1.0, "viscous1": 8.0, "gain1": 0.7, "a1": 50.0,
        "m2": 23.0, "sx2": 0.0, "sy2": 0.0, "sz2": 0.2875, "Ix2": 0.6912, "Iy2": 0.6912, "Iz2": 0.115, "dry2": 2.0,
        "viscous2": 3.0, "gain2": 0.4, "a2": 50.0}),  # Table II of Schäfer, Runge, Flaßkamp, Büskens
    "dc_motor": MappingProxyType({"R": 2.0, "L": 0.005, "k": 0.05, "J": 1e-4, "b": 1e-4, "Tc": 0.01}),
    "duffing": MappingProxyType({"m": 1.0, "d": 0.3, "k": 1.0, "k3": 0.5}),
    "quarter_car": MappingProxyType({"m_u": 40.0, "k_t": 180e3, "k_s": 18e3, "c_s": 1500.0}),
    "cart_pendulum": MappingProxyType({"M": 1.0, "m": 0.3, "l": 0.5, "b": 2.0, "d": 0.005}),
    "vehicle": MappingProxyType({"m": 1500.0, "F0": 200.0, "F2": 0.4}),
    "rc_circuit": MappingProxyType({"R": 10e3, "C": 1e-6}),
    "rlc_circuit": MappingProxyType({"R": 20.0, "L": 0.01, "C": 10e-6}),
    "battery": MappingProxyType({"R0": 0.03, "R1": 0.02, "C1": 3000.0, "E0": 3.3, "E1": 0.8}),
    "buck_converter": MappingProxyType({"L": 1e-3, "C": 100e-6, "R": 0.5, "R_load": 10.0}),
    "heated_room": MappingProxyType({"R": 0.02, "C": 2e6}),
    "building": MappingProxyType({"R_i": 0.002, "C_i": 2e6, "R_o": 0.01, "C_w": 2e7}),
    "dead_time_process": MappingProxyType({"K": 2.0, "T": 20.0, "theta": 5.0}),
    "tank": MappingProxyType({"A": 0.02, "a": 1e-4}),
    "two_tanks": MappingProxyType({"A1": 0.02, "a1": 1e-4, "A2": 0.03, "a2": 1e-4}),
    "consecutive_reactions": MappingProxyType({"k1": 0.5, "k2": 0.2}),
    "michaelis_menten": MappingProxyType({"Vmax": 0.1, "Km": 1.0}),
    "batch_reactor": MappingProxyType({"k": 1e-3, "E": 60e3}),
    "bioreactor": MappingProxyType({"mu_max": 0.5, "Ks": 1.0, "Y": 0.5}),
    "logistic_growth": MappingProxyType({"r": 0.5, "K": 100.0}),
    "predator_prey": MappingProxyType({"a": 1.0, "b": 0.1, "c": 0.05, "d": 1.0}),
    "epidemic": MappingProxyType({"beta": 0.4, "gamma": 0.1}),
    "drug_absorption": MappingProxyType({"ka": 1.5, "ke": 0.1, "V": 30.0}),
})
LINK_1 = ("m1", "sx1", "sy1", "Iz1", "dry1", "viscous1", "gain1", "a1")
LINK_2 = ("m2", "sx2", "sy2", "sz2", "Ix2", "Iy2", "Iz2", "dry2", "viscous2", "gain2", "a2")
UNIT_OF = {"m": "kg", "s": "m", "I": "kg m^2", "d": "N m", "v": "N m s", "g": "N m/A", "a": "s"}  # by first letter


def mass_spring_damper() -> EquationModel:
    """m x'' + d x' + k x = F, with the position measured."""
    return EquationModel(
        name="mass_spring_damper", states={"x": "v", "v": "(F - d*v - k*x)/m"}, outputs={"position": "x"},
        inputs=["F"], parameters=["m", "d", "k"],
        units={"x": "m", "v": "m/s", "F": "N", "m": "kg", "d": "N s/m", "k": "N/m", "position": "m"})


def two_mass() -> EquationModel:
    """m1 x1'' = F - S and m2 x2'' = S with S = k (x1 - x2) + b (x1' - x2'), both positions measured."""
    return EquationModel(
        name="two_mass", states={"x1": "v1", "x2": "v2", "v1": "(F - coupling)/m1", "v2": "coupling/m2"},
        definitions={"coupling": "k*(x1 - x2) + b*(v1 - v2)"}, outputs={"x1": "x1", "x2": "x2"}, inputs=["F"],
        parameters=["m1", "m2", "k", "b"],
        units={"x1": "m", "x2": "m", "v1": "m/s", "v2": "m/s", "F": "N", "m1": "kg", "m2": "kg", "k": "N/m",
               "b": "N s/m"})


def servo_axis(friction: FrictionLaw | None = None, gain: float = 35.15, v_smooth: float | None = None,
               hybrid: bool = False) -> EquationModel:
    """M q'' = gain u - friction(q') - offset, with the position measured.

    Without another law, friction = Fv v + Fc tanh(v/v_smooth) with v_smooth = 0.01 m/s. `gain` is the force per unit
    of the drive signal u, in N; it must be known, since every other parameter scales with it. With `hybrid` the axis
    sticks and slips in modes of its own, and nothing is smoothed.
    """
    if v_smooth is not None and (friction is not None or hybrid):
        raise ProblemError("servo_axis: v_smooth has no meaning with hybrid=True." if hybrid else
                           "servo_axis: v_smooth is part of the friction law; give it there, as in coulomb(v_smooth).")
    law = viscous() + coulomb(0.01 if v_smooth is None else v_smooth) if friction is None else friction
    rates = {"q": "v", "v": "(gain*u - friction - offset)/M"}
    motion: dict[str, Any] = law.automaton(rates, push="gain*u - offset") | {"states": ["q", "v"]} if hybrid else {
        "states": rates, "definitions": {"friction": law.text("v")}, "constants": law.constants}
    units = {name: unit for name, unit in law.units.items() if name in law.parameters or name in motion["constants"]}
    return EquationModel(
        name="servo_axis", outputs={"position": "q"}, inputs=["u"], parameters=["M", *law.parameters, "offset"],
        units={"q": "m", "v": "m/s", "M": "kg", "offset": "N", "position": "m", **units},
        **motion | {"constants": {"gain": gain, **motion["constants"]}})


def pendulum(torque: bool = False) -> EquationModel:
    """angle'' = -p sin(angle) - d angle', or with + b torque: p = g/l, d is damping over inertia, b is 1/inertia."""
    driven: dict[str, Any] = {"parameters": ["p", "d"]}
    if torque:
        driven = {"inputs": ["torque"], "parameters": ["p", "d", "b"]}
    units = {"angle": "rad", "rate": "rad/s", "p": "1/s^2", "d": "1/s"}
    return EquationModel(
        name="pendulum", states={"angle": "rate", "rate": "-p*sin(angle) - d*rate" + " + b*torque" * torque},
        outputs={"angle": "angle"}, units=units | ({"torque": "N m", "b": "1/(kg m^2)"} if torque else {}), **driven)


def belt_drive(k: float = 50.0, z0: float = 0.13, r1: float = 0.0159) -> EquationModel:
    """A motor moves a load on a belt whose stiffness depends on where the load is.

        phi' = omega,  inertia omega' = tau - r1 (Fd + Fc),  inertia = I_m + I_1
        z'   = v,      m v'           = Fd + Fc - Ff
        Fd = d (omega r1 - v),  Fc = c_spec (1 + 1/(z0 + z)) (phi r1 - z),  Ff = mu_v v + mu_c tanh(k v)

    `k` (s/m) is the steepness of the smoothed friction, `z0` (m) the position constant, `r1` (m) the pulley's radius.
    Motor angle and speed are measured. Equations (28) to (31) of Beckmann, Dagen, Ortmaier (discretization in an
    augmented Kalman filter). As printed, (28) adds 1 and 1/(z0 + z): read both as 1/m, with z in metres.
    """
    return EquationModel(
        name="belt_drive",
        states={"phi": "omega", "z": "v", "omega": "(tau - r1*(damping_force + belt_force))/inertia",
                "v": "(damping_force + belt_force - friction)/m"},
        definitions={"damping_force": "d*(omega*r1 - v)", "stiffness": "c_spec*(1 + 1/(z0 + z))",
                     "belt_force": "stiffness*(phi*r1 - z)", "friction": "mu_v*v + mu_c*tanh(k*v)"},
        outputs={"motor_angle": "phi", "motor_speed": "omega"}, inputs=["tau"],
        parameters=["inertia", "m", "c_spec", "d", "mu_v", "mu_c"], constants={"k": k, "z0": z0, "r1": r1},
        units={"phi": "rad", "omega": "rad/s", "z": "m", "v": "m/s", "tau": "N m", "inertia": "kg m^2", "m": "kg",
               "c_spec": "N", "d": "N s/m", "mu_v": "N s/m", "mu_c": "N", "k": "s/m", "z0": "m", "r1": "m",
               "motor_angle": "rad", "motor_speed": "rad/s"})


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
        name="two_link_robot", states=["theta1", "theta2", "omega1", "omega2"], rate=_two_link_rate, inputs=["I1", "I2"],
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


def _two_link_rate(t: Any, x: Any, u: Any, p: Any) -> list[Any]:
    velocity = ca.vertcat(x.omega1, x.omega2)
    q = ca.vertcat(x.theta1, x.theta2)
    joints = [(p.dry1, p.viscous1, p.gain1, p.a1, u.I1), (p.dry2, p.viscous2, p.gain2, p.a2, u.I2)]
    forces = ca.vertcat(*[gain * current - dry * ca.tanh(a * velocity[i]) - viscous * velocity[i]
                          for i, (dry, viscous, gain, a, current) in enumerate(joints)])
    return [x.omega1, x.omega2, *ca.vertsplit(accelerations(*energies(q, p), q, velocity, forces))]


def dc_motor() -> EquationModel:
    """L i' = u - R i - k w, J w' = k i - b w - Tc tanh(w/0.5), with current and speed measured."""
    return EquationModel(
        name="dc_motor", states={"i": "(u - R*i - k*w)/L", "w": "(k*i - b*w - Tc*tanh(w/w_smooth))/J"}, inputs=["u"],
        outputs={"current": "i", "speed": "w"}, parameters=["R", "L", "k", "J", "b", "Tc"], constants={"w_smooth": 0.5},
        units={"i": "A", "w": "rad/s", "u": "V", "current": "A", "speed": "rad/s", "R": "Ohm", "L": "H", "k": "N m/A",
               "J": "kg m^2", "b": "N m s", "Tc": "N m", "w_smooth": "rad/s"})


def duffing() -> EquationModel:
    """m x'' + d x' + k x + k3 x^3 = F, a spring that hardens, with the position measured."""
    return EquationModel(
        name="duffing", states={"x": "v", "v": "(F - d*v - k*x - k3*x**3)/m"}, outputs={"position": "x"}, inputs=["F"],
        parameters=["m", "d", "k", "k3"],
        units={"x": "m", "v": "m/s", "F": "N", "m": "kg", "d": "N s/m", "k": "N/m", "k3": "N/m^3", "position": "m"})


def quarter_car() -> EquationModel:
    """A wheel (m_u, tyre k_t) under a body (m_s, known) on spring k_s and damper c_s over a road of height z, both measured."""
    return EquationModel(
        name="quarter_car", states={"x_u": "v_u", "x_s": "v_s", "v_u": "(k_t*(z - x_u) - strut)/m_u", "v_s": "strut/m_s"},
        definitions={"strut": "k_s*(x_u - x_s) + c_s*(v_u - v_s)"}, inputs=["z"], outputs={"wheel": "x_u", "body": "x_s"},
        parameters=["m_u", "k_t", "k_s", "c_s"], constants={"m_s": 300.0},
        units={"x_u": "m", "x_s": "m", "v_u": "m/s", "v_s": "m/s", "z": "m", "wheel": "m", "body": "m", "m_u": "kg",
               "k_t": "N/m", "k_s": "N/m", "c_s": "N s/m", "m_s": "kg"})


def cart_pendulum() -> EquationModel:
    """A cart (M, friction b) with a hanging pendulum (m, length l, friction d), pushed by F; position and angle measured."""
    return EquationModel(
        name="cart_pendulum",
        states={"x": "v", "angle": "rate", "v": "a", "rate": "-(c*a + g*s)/l - d*rate/(m*l*l)"},
        definitions={"s": "sin(angle)", "c": "cos(angle)",
                     "a": "(F - b*v + m*l*rate*rate*s + m*g*s*c + c*d*rate/l)/(M + m*s*s)"},
        inputs=["F"], outputs={"position": "x", "angle": "angle"}, parameters=["M", "m", "l", "b", "d"], constants={"g": 9.81},
        units={"x": "m", "angle": "rad", "v": "m/s", "rate": "rad/s", "F": "N", "position": "m", "M": "kg", "m": "kg", "l": "m",
               "b": "N s/m", "d": "N m s", "g": "m/s^2"})


def vehicle() -> EquationModel:
    """m v' = F - F0 - F2 v^2, rolling and air resistance of a vehicle, with the speed measured."""
    return EquationModel(
        name="vehicle", states={"v": "(F - F0*tanh(v/v_smooth) - F2*v*v)/m"}, inputs=["F"], outputs={"speed": "v"},
        parameters=["m", "F0", "F2"], constants={"v_smooth": 0.1},
        units={"v": "m/s", "F": "N", "speed": "m/s", "m": "kg", "F0": "N", "F2": "N s^2/m^2", "v_smooth": "m/s"})
