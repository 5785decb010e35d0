"""Processes: tanks, reactions, growth and spread with known equations, to start from."""

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
