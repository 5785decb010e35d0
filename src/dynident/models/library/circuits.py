"""Circuits and heat: electrical and thermal networks with known equations, to start from."""

from __future__ import annotations

from dynident.models.equations import EquationModel


def rc_circuit() -> EquationModel:
    """C v' = (u - v)/R, a resistor and a capacitor in series, with the capacitor's voltage and the current measured."""
    return EquationModel(
        name="rc_circuit", states={"v": "(u - v)/(R*C)"}, inputs=["u"], outputs={"voltage": "v", "current": "(u - v)/R"},
        parameters=["R", "C"], units={"v": "V", "u": "V", "voltage": "V", "current": "A", "R": "Ohm", "C": "F"})


def rlc_circuit() -> EquationModel:
    """L i' = u - R i - v, C v' = i, in series, with the current and the capacitor's voltage measured."""
    return EquationModel(
        name="rlc_circuit", states={"i": "(u - R*i - v)/L", "v": "i/C"}, inputs=["u"], outputs={"current": "i", "voltage": "v"},
        parameters=["R", "L", "C"],
        units={"i": "A", "v": "V", "u": "V", "current": "A", "voltage": "V", "R": "Ohm", "L": "H", "C": "F"})


def battery() -> EquationModel:
    """A cell of known capacity, discharged by i: voltage = E0 + E1 charge - R0 i - v1 with v1' = i/C1 - v1/(R1 C1)."""
    return EquationModel(
        name="battery", states={"charge": "-i/capacity", "v1": "i/C1 - v1/(R1*C1)"}, inputs=["i"],
        outputs={"voltage": "E0 + E1*charge - R0*i - v1"}, parameters=["R0", "R1", "C1", "E0", "E1"],
        constants={"capacity": 9000.0},
        units={"charge": "1", "v1": "V", "i": "A", "voltage": "V", "R0": "Ohm", "R1": "Ohm", "C1": "F", "E0": "V", "E1": "V",
               "capacity": "A s"})


def buck_converter() -> EquationModel:
    """L i' = duty Vin - R i - v, C v' = i - v/R_load, averaged over the switching, with current and voltage measured."""
    return EquationModel(
        name="buck_converter", states={"i": "(duty*Vin - R*i - v)/L", "v": "(i - v/R_load)/C"}, inputs=["duty"],
        outputs={"current": "i", "voltage": "v"}, parameters=["L", "C", "R", "R_load"], constants={"Vin": 24.0},
        units={"i": "A", "v": "V", "duty": "1", "current": "A", "voltage": "V", "L": "H", "C": "F", "R": "Ohm", "R_load": "Ohm",
               "Vin": "V"})


def heated_room() -> EquationModel:
    """C T' = P - (T - T_out)/R, a room heated by P, with its temperature measured."""
    return EquationModel(
        name="heated_room", states={"T": "(P - (T - T_out)/R)/C"}, inputs=["P", "T_out"], outputs={"room": "T"},
        parameters=["R", "C"],
        units={"T": "degC", "P": "W", "T_out": "degC", "room": "degC", "R": "K/W", "C": "J/K"})


def building() -> EquationModel:
    """C_i T_i' = P - (T_i - T_w)/R_i, C_w T_w' = (T_i - T_w)/R_i - (T_w - T_out)/R_o: air and walls, the air measured."""
    return EquationModel(
        name="building", states={"T_i": "(P - inward)/C_i", "T_w": "(inward - (T_w - T_out)/R_o)/C_w"},
        definitions={"inward": "(T_i - T_w)/R_i"}, inputs=["P", "T_out"], outputs={"air": "T_i"},
        parameters=["R_i", "C_i", "R_o", "C_w"],
        units={"T_i": "degC", "T_w": "degC", "P": "W", "T_out": "degC", "air": "degC", "R_i": "K/W", "C_i": "J/K", "R_o": "K/W",
               "C_w": "J/K"})


def dead_time_process() -> EquationModel:
    """T y' = K u(t - theta) - y, gain, lag and dead time of a process, with y measured."""
    return EquationModel(
        name="dead_time_process", states={"y": "(K*delay(u, theta) - y)/T"}, inputs=["u"], outputs={"y": "y"},
        parameters=["K", "T", "theta"], units={"y": "degC", "u": "%", "K": "degC/%", "T": "s", "theta": "s"})
