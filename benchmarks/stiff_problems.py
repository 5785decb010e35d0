"""Stiff problems: the ones that integrators for stiff models are measured on, with parameters to be found.

Robertson, van der Pol, HIRES and pollution as in the test set for initial value problem solvers (Mazzia and Magherini);
Oregonator of Field and Noyes as in Hairer and Wanner, Solving Ordinary Differential Equations II.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import dynident as di


@dataclass(frozen=True)
class StiffProblem:
    """A model, its values, first states and times; `free` are those parameters that a fit looks for."""

    model: di.EquationModel
    values: dict[str, float]
    initial: dict[str, float]
    time: np.ndarray
    free: tuple[str, ...]
    away: float = 1.1  # start values, times the true ones
    segments: int = 1  # more where a fit in one piece ends at another minimum, as with steep flanks


def robertson() -> StiffProblem:
    model = di.EquationModel(states={"a": "-k1*a + k3*b*c", "b": "k1*a - k3*b*c - k2*b**2", "c": "k2*b**2"},
                             parameters=["k1", "k2", "k3"])
    return StiffProblem(model, {"k1": 0.04, "k2": 3e7, "k3": 1e4}, {"a": 1, "b": 0, "c": 0},
                        np.concatenate([[0], np.logspace(-3, 4, 100)]), ("k1", "k2", "k3"))


def kinetics() -> StiffProblem:
    model = di.EquationModel(states={"A": "-k1*A + k4*C", "B": "k1*A - k2*B*B - k3*B", "C": "k2*B*B + k3*B - k4*C"},
                             parameters=["k1", "k2", "k3", "k4"])
    return StiffProblem(model, {"k1": 1.0, "k2": 1e4, "k3": 1.0, "k4": 1e-2}, {"A": 1, "B": 0, "C": 0},
                        np.linspace(0, 10, 101), ("k1", "k2", "k3", "k4"))


def van_der_pol(mu: float, away: float = 1.1, segments: int = 10) -> StiffProblem:
    model = di.EquationModel(states={"x": "v", "v": "mu*(1 - x*x)*v - w*x"}, parameters=["mu", "w"])
    return StiffProblem(model, {"mu": mu, "w": 1.0}, {"x": 2, "v": 0}, np.linspace(0, 2 * mu, 101), ("mu",),
                        away, segments)


def hires() -> StiffProblem:
    states = {"y1": "-k1*y1 + k2*y2 + k3*y3 + s", "y2": "k1*y1 - k4*y2", "y3": "-k5*y3 + k2*y4 + k6*y5",
              "y4": "k3*y2 + k1*y3 - k7*y4", "y5": "-k8*y5 + k2*y6 + k2*y7",
              "y6": "-k9*y6*y8 + k10*y4 + k1*y5 - k2*y6 + k10*y7", "y7": "k9*y6*y8 - k11*y7", "y8": "-k9*y6*y8 + k11*y7"}
    values = {"k1": 1.71, "k2": 0.43, "k3": 8.32, "k4": 8.75, "k5": 10.03, "k6": 0.035, "k7": 1.12, "k8": 1.745, "k9": 280.0,
              "k10": 0.69, "k11": 1.81, "s": 0.0007}
    initial = {**dict.fromkeys(states, 0.0), "y1": 1.0, "y8": 0.0057}
    return StiffProblem(di.EquationModel(states=states, parameters=list(values)), values, initial,
                        np.linspace(0, 321.8122, 101), ("k1", "k3", "k8"))


def oregonator() -> StiffProblem:
    model = di.EquationModel(states={"x": "s*(y + x*(1 - q*x - y))", "y": "(z - (1 + x)*y)/s", "z": "w*(x - z)"},
                             parameters=["s", "q", "w"])
    return StiffProblem(model, {"s": 77.27, "q": 8.375e-6, "w": 0.161}, {"x": 1, "y": 2, "z": 3}, np.linspace(0, 300, 101),
                        ("s", "q", "w"))


POLLUTION_RATES = (0.35, 26.6, 12300, 8.6e-4, 8.2e-4, 15000, 1.3e-4, 24000, 16500, 9000, 0.022, 12000, 1.88, 16300, 4.8e6,
                   3.5e-4, 0.0175, 1e8, 4.44e11, 1240, 2.1, 5.78, 0.0474, 1780, 3.12)
POLLUTION_REACTIONS = ("y1", "y2*y4", "y5*y2", "y7", "y7", "y7*y6", "y9", "y9*y6", "y11*y2", "y11*y1", "y13", "y10*y2", "y14",
                       "y1*y6", "y3", "y4", "y4", "y16", "y16", "y17*y6", "y19", "y19", "y1*y4", "y19*y1", "y20")
POLLUTION_BALANCES = {
    1: "-r1 - r10 - r14 - r23 - r24 + r2 + r3 + r9 + r11 + r12 + r22 + r25", 2: "-r2 - r3 - r9 - r12 + r1 + r21",
    3: "-r15 + r1 + r17 + r19 + r22", 4: "-r2 - r16 - r17 - r23 + r15", 5: "-r3 + r4 + r4 + r6 + r7 + r13 + r20",
    6: "-r6 - r8 - r14 - r20 + r3 + r18 + r18", 7: "-r4 - r5 - r6 + r13", 8: "r4 + r5 + r6 + r7", 9: "-r7 - r8",
    10: "-r12 + r7 + r9", 11: "-r9 - r10 + r8 + r11", 12: "r9", 13: "-r11 + r10", 14: "-r13 + r12", 15: "r14",
    16: "-r18 - r19 + r16", 17: "-r20", 18: "r20", 19: "-r21 - r22 - r24 + r23 + r25", 20: "-r25 + r24"}


def pollution() -> StiffProblem:
    values = {f"k{i}": rate for i, rate in enumerate(POLLUTION_RATES, 1)}
    model = di.EquationModel(states={f"y{i}": text for i, text in POLLUTION_BALANCES.items()},
                             definitions={f"r{i}": f"k{i}*{of}" for i, of in enumerate(POLLUTION_REACTIONS, 1)},
                             parameters=list(values))
    initial = {**dict.fromkeys(model.states, 0.0), "y2": 0.2, "y4": 0.04, "y7": 0.1, "y8": 0.3, "y9": 0.01, "y17": 0.007}
    return StiffProblem(model, values, initial, np.linspace(0, 60, 61), ("k1", "k2", "k3", "k12"))


PROBLEMS = {"Robertson to 1e4": robertson, "kinetics, rates 1e-2 to 1e4": kinetics,
            "van der Pol 100": lambda: van_der_pol(100.0, 1.0005, 1),
            "van der Pol 1000": lambda: van_der_pol(1000.0, 1.0005, 1),
            "van der Pol 100 from 10 % off": lambda: van_der_pol(100.0),
            "van der Pol 1000 from 10 % off": lambda: van_der_pol(1000.0), "HIRES": hires,
            "Oregonator": oregonator, "pollution": pollution}
