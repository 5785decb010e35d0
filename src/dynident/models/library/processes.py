"""Processes: tanks, reactions, growth and spread, circuits and heat, with known equations, to start from."""

from __future__ import annotations

from dynident.models.equations import EquationModel


def tank() -> EquationModel:
    """A h' = q - a sqrt(2 g h), a tank with a hole, filled by q, with the level measured."""
    return EquationModel(
        name="tank", states={"h": "(q - a*sqrt(2*g*maximum(h, 0)))/A"}, inputs=["q"], outputs={"level": "h"},
        parameters=["A", "a"], constants={"g": 9.81},
        units={"h": "m", "q": "m^3/s", "level": "m", "A": "m^2", "a": "m^2", "g": "m/s^2"})


def two_tanks() -> EquationModel:
    """A1 h1' = q - a1 sqrt(2 g h1), A2 h2' = a1 sqrt(2 g h1) - a2 sqrt(2 g h2), one above the other, both levels measured."""
    return EquationModel(
        name="two_tanks", states={"h1": "(q - between)/A1", "h2": "(between - a2*sqrt(2*g*maximum(h2, 0)))/A2"},
        definitions={"between": "a1*sqrt(2*g*maximum(h1, 0))"}, inputs=["q"], outputs={"upper": "h1", "lower": "h2"},
        parameters=["A1", "a1", "A2", "a2"], constants={"g": 9.81},
        units={"h1": "m", "h2": "m", "q": "m^3/s", "upper": "m", "lower": "m", "A1": "m^2", "a1": "m^2", "A2": "m^2",
               "a2": "m^2", "g": "m/s^2"})


def consecutive_reactions() -> EquationModel:
    """A -> B -> C with rates k1 A and k2 B, with the concentrations of A and B measured."""
    return EquationModel(
        name="consecutive_reactions", states={"A": "-k1*A", "B": "k1*A - k2*B"}, outputs={"A": "A", "B": "B"},
        parameters=["k1", "k2"], units={"A": "mol/l", "B": "mol/l", "k1": "1/s", "k2": "1/s"})


def michaelis_menten() -> EquationModel:
    """S' = -Vmax S/(Km + S), an enzyme at work, with the substrate measured."""
    return EquationModel(
        name="michaelis_menten", states={"S": "-Vmax*S/(Km + S)"}, outputs={"S": "S"}, parameters=["Vmax", "Km"],
        units={"S": "mmol/l", "Vmax": "mmol/(l s)", "Km": "mmol/l"})


def batch_reactor() -> EquationModel:
    """c' = -k exp(-E/R (1/T - 1/T_ref)) c, a reaction along a temperature T that was measured, with c measured."""
    return EquationModel(
        name="batch_reactor", states={"c": "-k*exp(-E/R*(1/T - 1/T_ref))*c"}, inputs=["T"], outputs={"c": "c"},
        parameters=["k", "E"], constants={"R": 8.314, "T_ref": 330.0},
        units={"c": "mol/l", "T": "K", "k": "1/s", "E": "J/mol", "R": "J/(mol K)", "T_ref": "K"})


def bioreactor() -> EquationModel:
    """X' = mu X, S' = -mu X/Y with mu = mu_max S/(Ks + S): growth by Monod, biomass and substrate measured."""
    return EquationModel(
        name="bioreactor", states={"X": "growth*X", "S": "-growth*X/Y"}, definitions={"growth": "mu_max*S/(Ks + S)"},
        outputs={"X": "X", "S": "S"}, parameters=["mu_max", "Ks", "Y"],
        units={"X": "g/l", "S": "g/l", "mu_max": "1/h", "Ks": "g/l", "Y": "1"})


def logistic_growth() -> EquationModel:
    """N' = r N (1 - N/K), growth up to a capacity, with N measured."""
    return EquationModel(name="logistic_growth", states={"N": "r*N*(1 - N/K)"}, outputs={"N": "N"}, parameters=["r", "K"],
                         units={"N": "1", "r": "1/d", "K": "1"})


def predator_prey() -> EquationModel:
    """x' = a x - b x y, y' = c x y - d y (Lotka and Volterra), both measured."""
    return EquationModel(
        name="predator_prey", states={"x": "a*x - b*x*y", "y": "c*x*y - d*y"}, outputs={"prey": "x", "predators": "y"},
        parameters=["a", "b", "c", "d"],
        units={"x": "1", "y": "1", "prey": "1", "predators": "1", "a": "1/d", "b": "1/d", "c": "1/d", "d": "1/d"})


def epidemic() -> EquationModel:
    """S' = -beta S I, I' = beta S I - gamma I, shares of a population (Kermack and McKendrick), with I measured."""
    return EquationModel(
        name="epidemic", states={"S": "-beta*S*I", "I": "beta*S*I - gamma*I"}, outputs={"I": "I"}, parameters=["beta", "gamma"],
        units={"S": "1", "I": "1", "beta": "1/d", "gamma": "1/d"})


def drug_absorption() -> EquationModel:
    """gut' = -ka gut, central' = ka gut - ke central, concentration = central/V after a dose: one compartment, one measured."""
    return EquationModel(
        name="drug_absorption", states={"gut": "-ka*gut", "central": "ka*gut - ke*central"},
        outputs={"concentration": "central/V"}, parameters=["ka", "ke", "V"],
        units={"gut": "mg", "central": "mg", "concentration": "mg/l", "ka": "1/h", "ke": "1/h", "V": "l"})


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
