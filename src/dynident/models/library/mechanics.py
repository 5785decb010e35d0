"""Mechanics: vehicles, motors and oscillators with known equations, to start from."""

from __future__ import annotations

from dynident.models.equations import EquationModel


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
