"""Plants: machines and processes of which only a part of the states is measured, with truth, record and starts.

Simulated by scipy from the same text that the model is made of, evaluated by Python and NumPy, so that no integrator and no
derivative of dynident stands on both sides. Used by `arrival.py`, and by whatever else wants known truths with hidden states.

HELD_BACK is a quarter of them: chosen by name before any method ran on any of them, and not looked at while a method is
being tuned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
from scipy.integrate import solve_ivp

import dynident as di

FACTORS = (5, 30, 100)
BOUND = 1e3  # times the truth to either side, where a problem has bounds
NAMESPACE = {"sin": np.sin, "cos": np.cos, "exp": np.exp, "sqrt": np.sqrt, "tanh": np.tanh, "pi": np.pi, "log": np.log}


@dataclass(frozen=True, eq=False)
class Plant:
    """Equations as text, the truth, and an experiment; `known` are states whose first value a user would know."""

    states: Mapping[str, str]
    outputs: Mapping[str, str]
    truth: Mapping[str, float]
    initial: Mapping[str, float]
    time: np.ndarray
    inputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    constants: Mapping[str, float] = field(default_factory=dict)
    known: tuple[str, ...] = ()
    noise: float = 0.01  # of each output's standard deviation

    @property
    def model(self) -> di.EquationModel:
        return di.EquationModel(states=dict(self.states), outputs=dict(self.outputs), inputs=list(self.inputs),
                                constants=dict(self.constants), parameters=list(self.truth))


def steps(time: np.ndarray, every: float, amplitude: float, seed: int, offset: float = 0.0) -> np.ndarray:
    """A random level every so often."""
    levels = np.random.default_rng(seed).uniform(-amplitude, amplitude, int(np.ceil((time[-1] - time[0]) / every)) + 2)
    return offset + levels[((time - time[0]) / every + 1e-9).astype(int)]


def binary(time: np.ndarray, every: float, amplitude: float, seed: int, offset: float = 0.0) -> np.ndarray:
    return offset + amplitude * np.sign(steps(time, every, 1.0, seed))


def grid(end: float, samples: int) -> np.ndarray:
    return np.linspace(0.0, end, samples)


# drives and mechanisms


def dc_motor() -> Plant:
    t = grid(4.0, 401)
    return Plant({"i": "(u - R*i - K*w)/L", "w": "(K*i - b*w)/J"}, {"speed": "w"}, {"R": 2.0, "K": 0.12, "J": 3e-3},
                 {"i": 0.0, "w": 0.0}, t, {"u": steps(t, 0.3, 12.0, 1)}, {"L": 0.15, "b": 1e-3})


def two_inertias() -> Plant:
    t = grid(3.0, 601)
    twist = "(k*(q1 - q2) + d*(v1 - v2))"
    return Plant({"q1": "v1", "q2": "v2", "v1": f"(u - b*v1 - {twist})/J1", "v2": f"{twist}/J2"}, {"motor": "q1"},
                 {"J1": 0.02, "J2": 0.05, "k": 12.0, "d": 0.03, "b": 0.1}, {"q1": 0.0, "q2": 0.0, "v1": 0.0, "v2": 0.0}, t,
                 {"u": binary(t, 0.11, 1.5, 2)})


def cart_with_pendulum() -> Plant:
    t = grid(8.0, 401)
    bottom = "(M + m*sin(a)**2)"
    return Plant({"x": "v", "a": "w", "v": f"(F - b*v + m*sin(a)*(l*w**2 + 9.81*cos(a)))/{bottom}",
                  "w": f"-(cos(a)*(F - b*v + m*l*w**2*sin(a)) + (M + m)*9.81*sin(a))/(l*{bottom}) - c*w"}, {"cart": "x"},
                 {"M": 1.2, "m": 0.5, "l": 0.6, "b": 2.0, "c": 0.15}, {"x": 0.0, "a": 0.3, "v": 0.0, "w": 0.0}, t,
                 {"F": steps(t, 0.5, 6.0, 3)})


def coupled_pendulums() -> Plant:
    t = grid(10.0, 401)
    return Plant({"a": "w", "b": "v", "w": "-p*sin(a) - k*(a - b) - d*w + g*u", "v": "-q*sin(b) - k*(b - a) - d*v"},
                 {"first": "a"}, {"p": 9.0, "q": 14.0, "k": 3.0, "d": 0.2, "g": 2.0},
                 {"a": 0.4, "b": -0.8, "w": 0.0, "v": 0.0}, t, {"u": binary(t, 0.7, 1.0, 4)})


def spindle_with_friction() -> Plant:
    t = grid(5.0, 501)
    return Plant({"q": "v", "v": "(u - Fv*v - Fc*tanh(v/0.02))/J"}, {"position": "q"}, {"J": 0.4, "Fv": 0.8, "Fc": 1.1},
                 {"q": 0.0, "v": 0.0}, t, {"u": steps(t, 0.4, 4.0, 5)})


def quarter_car() -> Plant:
    t = grid(4.0, 401)
    spring = "(ks*(zs - zu) + cs*(vs - vu))"
    return Plant({"zs": "vs", "zu": "vu", "vs": f"-{spring}/ms", "vu": f"({spring} - kt*(zu - z))/mu"}, {"body": "zs"},
                 {"ms": 300.0, "mu": 40.0, "ks": 1.6e4, "cs": 1.2e3}, {"zs": 0.0, "zu": 0.0, "vs": 0.0, "vu": 0.0}, t,
                 {"z": steps(t, 0.25, 0.03, 6)}, {"kt": 1.8e5})


def hydraulic_cylinder() -> Plant:
    t = grid(3.0, 601)
    return Plant({"x": "v", "v": "(A*p - d*v - 40*x)/m", "p": "(beta/V)*(q*u - A*v - c*p)"}, {"position": "x"},
                 {"m": 3.0, "d": 25.0, "beta": 60.0, "c": 0.3}, {"x": 0.0, "v": 0.0, "p": 0.0}, t,
                 {"u": binary(t, 0.2, 1.0, 7)}, {"A": 2.0, "V": 1.0, "q": 4.0})


def hydraulic_cylinder_with_pressure() -> Plant:
    """The position alone has the transfer function of three sets of parameters; with the pressure one is left."""
    return replace(hydraulic_cylinder(), outputs={"position": "x", "pressure": "p"})


def vehicle() -> Plant:
    t = grid(6.0, 401)
    ax, bx, mass, u = 1.2, 1.5, 1500.0, 20.0
    front, rear = f"(Cf*(st - (vy + {ax}*r)/{u}))", f"(Cr*(-(vy - {bx}*r)/{u}))"
    return Plant({"vy": f"({front} + {rear})/{mass} - {u}*r", "r": f"({ax}*{front} - {bx}*{rear})/Iz"}, {"yaw": "r"},
                 {"Cf": 7e4, "Cr": 9e4, "Iz": 2500.0}, {"vy": 0.0, "r": 0.0}, t, {"st": steps(t, 0.5, 0.05, 8)})


def current_fed_motor() -> Plant:
    t = grid(3.0, 451)
    return Plant({"psi": "(Lm*id - psi)/Tr", "w": "(kt*psi*iq - b*w)/J"}, {"speed": "w"}, {"Tr": 0.25, "kt": 1.4, "b": 0.06},
                 {"psi": 0.0, "w": 0.0}, t, {"id": steps(t, 0.45, 2.0, 9, 3.0), "iq": steps(t, 0.2, 4.0, 10)},
                 {"Lm": 0.2, "J": 0.05})


def induction_motor() -> Plant:
    t = grid(1.2, 601)
    wave = 2 * np.pi * 8 * t
    return Plant({"ia": "(ua - Rs*ia - Lm/Lr*(-fa/Tr - 2*w*fb + Lm*ia/Tr))/Ls",
                  "ib": "(ub - Rs*ib - Lm/Lr*(-fb/Tr + 2*w*fa + Lm*ib/Tr))/Ls",
                  "fa": "-fa/Tr - 2*w*fb + Lm*ia/Tr", "fb": "-fb/Tr + 2*w*fa + Lm*ib/Tr",
                  "w": "(3*Lm/Lr*(fa*ib - fb*ia) - b*w)/J"}, {"ia": "ia", "ib": "ib"},
                 {"Rs": 1.8, "Tr": 0.12, "Ls": 0.02, "J": 0.02, "b": 0.02},
                 {"ia": 0.0, "ib": 0.0, "fa": 0.0, "fb": 0.0, "w": 0.0}, t,
                 {"ua": 60 * np.cos(wave) * np.minimum(t / 0.3, 1.0) + 5, "ub": 60 * np.sin(wave) * np.minimum(t / 0.3, 1.0)},
                 {"Lm": 0.15, "Lr": 0.17}, known=("fa", "fb"))


# processes


def two_tanks() -> Plant:
    t = grid(300.0, 301)
    return Plant({"h1": "a*u - k1*sqrt(h1)", "h2": "k1*sqrt(h1) - k2*sqrt(h2)"}, {"lower": "h2"},
                 {"a": 0.5, "k1": 0.25, "k2": 0.2}, {"h1": 2.0, "h2": 1.5}, t, {"u": steps(t, 25.0, 0.5, 11, 0.8)})


def three_tanks() -> Plant:
    t = grid(400.0, 401)
    return Plant({"x": "a*u - k1*(x - y)", "y": "k1*(x - y) - k2*(y - z)", "z": "k2*(y - z) - k3*z"}, {"last": "z"},
                 {"a": 0.1, "k1": 0.15, "k2": 0.08, "k3": 0.05}, {"x": 0.0, "y": 0.0, "z": 0.0}, t,
                 {"u": steps(t, 30.0, 1.0, 12, 1.0)}, known=("x", "y"))


def consecutive_reactions() -> Plant:
    return Plant({"A": "-k1*A", "B": "k1*A - k2*B + k3*C", "C": "k2*B - k3*C"}, {"B": "B"},
                 {"k1": 0.6, "k2": 0.25, "k3": 0.04}, {"A": 1.0, "B": 0.0, "C": 0.0}, grid(25.0, 101), known=("A", "C"))


def enzyme() -> Plant:
    return Plant({"S": "-V*E*S/(K + S)", "P": "V*E*S/(K + S)", "E": "-d*E"}, {"P": "P"}, {"V": 1.2, "K": 0.7, "d": 0.08},
                 {"S": 4.0, "P": 0.0, "E": 1.0}, grid(15.0, 121), known=("S", "E"))


def bioreactor() -> Plant:
    t = grid(60.0, 241)
    growth = "(mu*S/(Ks + S))"
    return Plant({"X": f"{growth}*X - D*X", "S": f"D*(Sf - S) - {growth}*X/Y"}, {"X": "X"},
                 {"mu": 0.5, "Ks": 0.4, "Y": 0.45}, {"X": 0.4, "S": 3.0}, t, {"D": steps(t, 8.0, 0.15, 13, 0.2)}, {"Sf": 8.0})


def stirred_reactor() -> Plant:
    t = grid(40.0, 401)
    rate = "(k0*exp(-E*(1/T - 1/350))*c)"
    return Plant({"c": f"0.5*(1 - c) - {rate}", "T": f"0.5*(330 - T) + 120*{rate} + UA*(Tc - T)"}, {"T": "T"},
                 {"k0": 0.3, "E": 6000.0, "UA": 0.8}, {"c": 0.8, "T": 335.0}, t, {"Tc": steps(t, 3.0, 12.0, 14, 320.0)})


def room_and_wall() -> Plant:
    t = grid(72.0, 433)
    out = 5 + 6 * np.sin(2 * np.pi * t / 24)
    return Plant({"T": "(P*u - (T - W)/R1)/C", "W": "((T - W)/R1 - (W - O)/R2)/Cw"}, {"T": "T"},
                 {"C": 0.5, "Cw": 6.0, "R1": 1.5, "R2": 3.0}, {"T": 18.0, "W": 14.0}, t,
                 {"u": binary(t, 4.0, 0.5, 15, 0.5), "O": out}, {"P": 8.0})


def battery() -> Plant:
    t = grid(600.0, 601)
    return Plant({"v1": "-v1/(R1*C1) + i/C1", "v2": "-v2/(R2*C2) + i/C2", "z": "-i/3600"},
                 {"V": "3.4 + 0.6*z + 0.2*z**3 - R0*i - v1 - v2"},
                 {"R0": 0.02, "R1": 0.015, "C1": 600.0, "R2": 0.03, "C2": 4000.0}, {"v1": 0.0, "v2": 0.0, "z": 0.8}, t,
                 {"i": steps(t, 25.0, 2.0, 16, 0.5)}, known=("v1", "v2", "z"))


# life and chaos


def epidemic() -> Plant:
    return Plant({"S": "-beta*S*I", "E": "beta*S*I - sigma*E", "I": "sigma*E - gamma*I"}, {"I": "I"},
                 {"beta": 0.6, "sigma": 0.25, "gamma": 0.15}, {"S": 0.99, "E": 0.008, "I": 0.002}, grid(120.0, 121),
                 known=("S",))


def predator_and_prey() -> Plant:
    return Plant({"x": "a*x - x*y", "y": "c*x*y - m*y"}, {"prey": "x"}, {"a": 1.1, "c": 0.4, "m": 0.8}, {"x": 2.0, "y": 0.7},
                 grid(25.0, 201))


def glucose() -> Plant:
    t = grid(180.0, 181)
    insulin = 10 + 80 * np.exp(-((t - 20) / 15) ** 2) + 40 * np.exp(-((t - 80) / 25) ** 2)
    return Plant({"G": "-(p1 + X)*G + p1*90", "X": "-p2*X + p3*(I - 10)"}, {"G": "G"},
                 {"p1": 0.03, "p2": 0.04, "p3": 3e-5}, {"G": 280.0, "X": 0.0}, t, {"I": insulin})


def drug() -> Plant:
    return Plant({"gut": "-ka*gut", "c": "ka*gut - (ke + k12)*c + k21*p", "p": "k12*c - k21*p"}, {"c": "c"},
                 {"ka": 1.5, "ke": 0.2, "k12": 0.5, "k21": 0.15}, {"gut": 10.0, "c": 0.0, "p": 0.0}, grid(24.0, 97),
                 known=("gut", "c", "p"))


def oscillator() -> Plant:
    return Plant({"x": "v", "v": "mu*(1 - x**2)*v - w*x"}, {"x": "x"}, {"mu": 2.0, "w": 1.5}, {"x": 0.5, "v": 0.0},
                 grid(25.0, 301))


def nerve() -> Plant:
    return Plant({"V": "c*(V - V**3/3 + R)", "R": "-(V - a + b*R)/c"}, {"V": "V"}, {"a": 0.2, "b": 0.3, "c": 3.0},
                 {"V": -1.0, "R": 1.0}, grid(20.0, 201))


def barnacle() -> Plant:
    t = grid(300.0, 601)
    return Plant({"V": "(I - gc*0.5*(1 + tanh((V + 1.2)/18))*(V - 120) - gk*n*(V + 84) - 2*(V + 60))/20",
                  "n": "phi*(0.5*(1 + tanh((V - 2)/30)) - n)"}, {"V": "V"}, {"gc": 4.4, "gk": 8.0, "phi": 0.05},
                 {"V": -40.0, "n": 0.05}, t, {"I": steps(t, 40.0, 40.0, 17, 90.0)})


def lorenz() -> Plant:
    return Plant({"x": "s*(y - x)", "y": "x*(r - z) - y", "z": "x*y - b*z"}, {"x": "x"}, {"s": 10.0, "r": 28.0, "b": 8 / 3},
                 {"x": 1.0, "y": 2.0, "z": 20.0}, grid(6.0, 301))


def rossler() -> Plant:
    return Plant({"x": "-y - z", "y": "x + a*y", "z": "b + z*(x - c)"}, {"y": "y"}, {"a": 0.2, "b": 0.3, "c": 5.0},
                 {"x": 1.0, "y": 3.0, "z": 0.5}, grid(40.0, 401))


def two_tones() -> Plant:
    return Plant({"x": "v", "v": "-w1*x", "y": "w", "w": "-w2*y"}, {"sum": "x + y"}, {"w1": 4.0, "w2": 30.0},
                 {"x": 1.0, "v": 0.0, "y": 0.0, "w": 3.0}, grid(10.0, 301), noise=0.05)


PLANTS: Mapping[str, Callable[[], Plant]] = {make.__name__: make for make in (
    dc_motor, two_inertias, cart_with_pendulum, coupled_pendulums, spindle_with_friction, quarter_car, hydraulic_cylinder,
    vehicle, current_fed_motor, induction_motor, two_tanks, three_tanks, consecutive_reactions, enzyme, bioreactor,
    stirred_reactor, room_and_wall, battery, epidemic, predator_and_prey, glucose, drug, oscillator, nerve, barnacle, lorenz,
    rossler, two_tones)}
VARIANTS = {"hydraulic_cylinder_with_pressure": hydraulic_cylinder_with_pressure}  # plants of the noise study only
HELD_BACK = ("cart_with_pendulum", "quarter_car", "bioreactor", "battery", "epidemic", "barnacle", "rossler")
WRONG = {  # plant -> a model that lacks something: its states; the outputs keep their equations
    "two_inertias": {"q1": "v1", "v1": "(u - b*v1 - k*q1)/J1"},  # one inertia on a spring
    "oscillator": {"x": "v", "v": "-mu*v - w*x"},  # linear
    "coupled_pendulums": {"a": "w", "w": "-p*sin(a) - d*w + g*u"},  # without the second
    "nerve": {"V": "c*(V - V**3/3) + a"},  # without recovery
    "enzyme": {"S": "-V*S", "P": "V*S"},  # first order
}


@cache
def plant(name: str) -> Plant:
    return {**PLANTS, **VARIANTS}[name]()


@cache
def clean_outputs(name: str) -> dict[str, np.ndarray]:
    """Outputs at the samples without noise, by scipy; inputs are held between samples."""
    it = plant(name)
    rates = [compile(text, name, "eval") for text in it.states.values()]
    seen = {out: compile(text, name, "eval") for out, text in it.outputs.items()}
    fixed = {**NAMESPACE, **it.constants, **it.truth}
    x = np.array([it.initial[s] for s in it.states])
    states = [x]
    for k in range(it.time.size - 1):
        held = {**fixed, **{u: float(values[k]) for u, values in it.inputs.items()}}

        def rate(t: float, x: np.ndarray, held: dict = held) -> list[float]:
            names = {**held, "t": t, **dict(zip(it.states, x, strict=True))}
            return [eval(code, {"__builtins__": {}}, names) for code in rates]

        x = solve_ivp(rate, (it.time[k], it.time[k + 1]), x, method="DOP853", rtol=1e-9, atol=1e-11).y[:, -1]
        states.append(x)
    columns = dict(zip(it.states, np.array(states).T, strict=True))
    return {out: np.broadcast_to(eval(code, {"__builtins__": {}}, {**fixed, **it.inputs, **columns, "t": it.time}),
                                 it.time.shape).astype(float) for out, code in seen.items()}


def noise_std(name: str) -> dict[str, float]:
    return {out: plant(name).noise * float(np.std(y)) for out, y in clean_outputs(name).items()}


def record(name: str, noise_given: bool = True, seed: int = 0) -> di.Experiment:
    it, std = plant(name), noise_std(name)
    rng = np.random.default_rng([seed, *name.encode()])
    measured = {out: y + std[out] * rng.standard_normal(y.size) for out, y in clean_outputs(name).items()}
    return di.Experiment(it.time, dict(it.inputs), measured, name=name, initial={s: it.initial[s] for s in it.known},
                         noise={out: di.Gaussian(s if noise_given else None) for out, s in std.items()})


def start(name: str, factor: float, number: int) -> dict[str, float]:
    return away(plant(name).truth, name, factor, number)


def away(truth: Mapping[str, float], name: str, factor: float, number: int) -> dict[str, float]:
    """The truth, off by the square root of the factor to all of it, up or down in each parameter."""
    rng = np.random.default_rng([number, int(factor), *name.encode()])
    away = rng.choice([-1.0, 1.0], len(truth)) * rng.uniform(0.5, 1.0, len(truth))
    return {p: float(value * factor**a) for (p, value), a in zip(truth.items(), away, strict=True)}


def problem(name: str, factor: float = 5, number: int = 0, noise_given: bool = True, bounds: bool = False, seed: int = 0
            ) -> di.Problem:
    begin, truth = start(name, factor, number), plant(name).truth

    def limits(p: str) -> dict[str, float]:
        low, high = sorted((truth[p] / BOUND, truth[p] * BOUND))
        return {"lower": low, "upper": high} if bounds else {}

    return di.Problem(plant(name).model, [record(name, noise_given, seed)],
                      [di.Parameter(p, start=value, **limits(p)) for p, value in begin.items()])


def problem_at_truth(name: str, noise_given: bool = True, seed: int = 0) -> di.Problem:
    """Started at the truth, first states too: what it leads to is the global optimum as far as anybody knows."""
    it = plant(name)
    free = [di.InitialState(s, start=value) for s, value in it.initial.items() if s not in it.known]
    return di.Problem(it.model, [record(name, noise_given, seed)],
                      [*(di.Parameter(p, start=value) for p, value in it.truth.items()), *free])


def wrong_problem(name: str, factor: float = 5, number: int = 0, noise_given: bool = True) -> di.Problem:
    """The record of a plant with a model that cannot describe it."""
    it, begin = plant(name), start(name, factor, number)
    words = set(re.findall(r"[A-Za-z_]\w*", " ".join(WRONG[name].values())))
    used = [p for p in it.truth if p in words]
    model = di.EquationModel(states=WRONG[name], outputs=dict(it.outputs), inputs=[u for u in it.inputs if u in words],
                             parameters=used)
    run = record(name, noise_given)
    run = di.Experiment(run.time, {u: run.inputs[u] for u in model.inputs}, run.outputs, name=name, noise=run.noise,
                        initial={s: v for s, v in run.initial.items() if s in model.states})
    return di.Problem(model, [run], [di.Parameter(p, start=begin[p]) for p in used])
