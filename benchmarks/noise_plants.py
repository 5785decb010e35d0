"""Noise plants: records of known truth with noise in the sensor of an input, behind it, in the model, in several, or nowhere.

Open loop: plants of `plants.py`, disturbed by the noisy simulation of dynident. Closed loop: a controller that sees what the
sensors say, and a simulator of its own, so that a disturbance comes back through the input.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import plants

import dynident as di
from dynident.kalman.prediction_error.noisy_simulation import simulate_disturbed
from dynident.models.augmented import disturbed_states

KINDS = ("none", "sensor", "behind", "process", "quantised", "both")  # both: sensor of the input and process
INPUT_NOISE = 0.1  # of the standard deviation of an input
PROCESS_NOISE = 0.01  # of that of a state, from sample to sample
START_FACTOR = 2.0
ROUNDING = 3.5  # standard deviations of a sensor's noise in a step of a quantised one
SUBSTEPS = 5  # of Runge and Kutta's scheme in a sample of a closed loop
OPEN = ("dc_motor", "two_inertias", "cart_with_pendulum", "coupled_pendulums", "spindle_with_friction", "quarter_car",
        "hydraulic_cylinder_with_pressure", "vehicle", "current_fed_motor", "two_tanks", "room_and_wall", "battery",
        "bioreactor", "stirred_reactor")

Controller = Callable[[float, Mapping[str, float], float], tuple[float, float]]  # (time, measured, memory) -> (input, memory)


@dataclass(frozen=True, eq=False)
class Loop:
    """A plant under a controller; `input_noise` as a standard deviation, else as a share of the input's own."""

    states: Mapping[str, str]
    outputs: Mapping[str, str]
    truth: Mapping[str, float]
    initial: Mapping[str, float]
    step: float
    samples: int
    input: str
    controller: Controller
    std: Mapping[str, float]  # of the sensors
    constants: Mapping[str, float] = field(default_factory=dict)
    input_noise: float | None = None
    encoder: float | None = None  # step of sensors that are quantised whatever the kind

    @property
    def model(self) -> di.EquationModel:
        return di.EquationModel(states=dict(self.states), outputs=dict(self.outputs), inputs=[self.input],
                                constants=dict(self.constants), parameters=list(self.truth))


def axis_in_position_loop() -> Loop:
    """An axis with friction under a PD controller; its current is the input."""

    def controller(t: float, seen: Mapping[str, float], last: float) -> tuple[float, float]:
        target = math.sin(9.4 * t) + 0.5 * math.copysign(1.0, math.sin(14.5 * t))
        return 4.0 * (target - seen["q"]) - 0.05 * (seen["q"] - last) / 1e-3, seen["q"]

    return Loop({"q": "w", "w": "(0.05*i - Fv*w - Fc*tanh(w/0.5))/J"}, {"q": "q"}, {"J": 2e-4, "Fv": 5e-4, "Fc": 0.02},
                {"q": 0.0, "w": 0.0}, 1e-3, 1500, "i", controller, {"q": 2e-4})


def drive_in_position_loop(samples: int = 2000) -> Loop:
    """Two masses and Stribeck friction under a PD controller at 1 kHz; encoders on both sides, 30 mA of noise in a sensor."""
    count = 2 * math.pi / 20_000

    def controller(t: float, seen: Mapping[str, float], last: float) -> tuple[float, float]:
        target = 0.6 * math.sin(7.0 * t) + 0.25 * math.copysign(1.0, math.sin(12.5 * t))
        return 8.0 * (target - seen["qm"]) - 0.12 * (seen["qm"] - last) / 1e-3, seen["qm"]

    friction, twist = "(Fv*wm + (Fc + (Fs - Fc)*exp(-(wm/vs)**2))*tanh(wm/0.3))", "(k*(qm - ql) + d*(wm - wl))"
    return Loop({"qm": "wm", "ql": "wl", "wm": f"(kt*i - {friction} - {twist})/Jm", "wl": f"{twist}/Jl"},
                {"qm": "qm", "ql": "ql"}, {"Jm": 2.3e-4, "Jl": 6.0e-4, "k": 40.0, "d": 0.02, "Fv": 8e-4, "Fc": 0.03},
                dict.fromkeys(("qm", "ql", "wm", "wl"), 0.0), 1e-3, samples, "i", controller, {"qm": 0.0, "ql": 0.0},
                {"kt": 0.08, "Fs": 0.045, "vs": 1.5}, 0.03, count)


def level_in_loop() -> Loop:
    """A tank whose level is held by a PI controller; its inflow is the input."""

    def controller(t: float, seen: Mapping[str, float], integral: float) -> tuple[float, float]:
        missing = 2.0 + 0.8 * math.copysign(1.0, math.sin(0.06 * t)) - seen["h"]
        return max(0.0, 3.0 * missing + 0.1 * integral), integral + missing

    return Loop({"h": "c*u - a*sqrt(h)"}, {"h": "h"}, {"c": 0.05, "a": 0.08}, {"h": 1.5}, 1.0, 400, "u", controller,
                {"h": 5e-3})


LOOPS: Mapping[str, Callable[[], Loop]] = {make.__name__: make for make in (
    axis_in_position_loop, drive_in_position_loop, level_in_loop)}
NAMES = (*OPEN, *LOOPS)


@cache
def loop(name: str) -> Loop:
    return LOOPS[name]()


def initial_states(name: str) -> dict[str, float]:
    """The true ones, as unknowns are called."""
    it = loop(name) if name in LOOPS else plants.plant(name)
    return {f"{state}(0)": value for state, value in it.initial.items()}


def noisy_problem(name: str, kind: str, seed: int, factor: float = START_FACTOR) -> tuple[di.Problem, dict[str, float]]:
    """A record of the plant with the noise of this kind, said where it is; starts off by the root of `factor` to all of it."""
    rng = np.random.default_rng([seed, KINDS.index(kind), *name.encode()])
    record, problem, disturbed, truth = (_closed if name in LOOPS else _open)(name, kind, rng)
    begin = plants.away(truth, name, factor, seed) if factor != 1 else truth
    parameters = [replace(p, start=begin[p.name]) if isinstance(p, di.Parameter) and p.name in begin else p
                  for p in problem.parameters]
    return problem.replace(experiments=[record], parameters=parameters,
                           process_noise=dict.fromkeys(disturbed, di.Gaussian())), truth


def _open(name: str, kind: str, rng: np.random.Generator) -> tuple[di.Experiment, di.Problem, list[str], dict[str, float]]:
    at_truth = plants.problem_at_truth(name)
    (record,) = at_truth.experiments
    model, truth = at_truth.model, dict(plants.plant(name).truth)
    step = float(np.median(np.diff(record.time)))
    values = np.array([plants.plant(name).initial[u.quantity] if u.initial else truth[u.quantity] for u in at_truth.unknowns])
    inputs = {n: INPUT_NOISE * float(np.std(u)) for n, u in record.inputs.items() if np.std(u) > 0}
    run = di.simulate(model, {**truth, **{f"{s}(0)": v for s, v in plants.plant(name).initial.items()}},
                      replace(record, initial={}))
    states = {n: PROCESS_NOISE * float(np.std(run.states[n])) / np.sqrt(step) for n in disturbed_states(model)}
    disturbed = {"behind": inputs, "process": states, "both": states}.get(kind, {})
    (course,) = simulate_disturbed(at_truth, values, disturbed, "runge_kutta", 4, rng)
    std = plants.noise_std(name)
    outputs, sensed = {}, kind in ("sensor", "both")
    for k, output in enumerate(model.outputs):
        read = course[:, k] + std[output] * rng.normal(size=len(course))
        count = ROUNDING * std[output]
        shift = count * rng.uniform()  # where a sensor's levels lie has nothing to do with the plant
        outputs[output] = count * np.round((course[:, k] + shift) / count) - shift if kind == "quantised" else read
    noise = dict.fromkeys(outputs, di.Gaussian()) | ({n: di.Gaussian(s) for n, s in inputs.items()} if sensed else {})
    seen = {n: u + inputs.get(n, 0.0) * rng.normal(size=u.size) * sensed for n, u in record.inputs.items()}
    return replace(record, inputs=seen, outputs=outputs, noise=noise), at_truth, list(disturbed), truth


def _closed(name: str, kind: str, rng: np.random.Generator) -> tuple[di.Experiment, di.Problem, list[str], dict[str, float]]:
    return record_of_loop(loop(name), name, kind, rng)


def record_of_loop(it: Loop, name: str, kind: str, rng: np.random.Generator
                   ) -> tuple[di.Experiment, di.Problem, list[str], dict[str, float]]:
    """A record, the problem at the truth, what is disturbed, and the truth. Sizes of noises are those of a run without any."""
    _, current, _, states = closed_loop(it, np.random.default_rng(0), 0.0, {}, False)
    size = it.input_noise or INPUT_NOISE * float(np.std(current))
    moved = {n: PROCESS_NOISE * float(np.std(states[n])) / math.sqrt(it.step) for n in disturbed_states(it.model)}
    disturbed = {"behind": {it.input: size}, "process": moved, "both": moved}.get(kind, {})
    time, current, outputs, _ = closed_loop(it, rng, size if kind == "behind" else 0.0,
                                            {} if kind == "behind" else disturbed, kind == "quantised")
    sensed = kind in ("sensor", "both")
    record = di.Experiment(time, {it.input: current + size * rng.normal(size=time.size) * sensed}, outputs, name=name,
                           noise=dict.fromkeys(outputs, di.Gaussian()) | ({it.input: di.Gaussian(size)} if sensed else {}))
    problem = di.Problem(it.model, [record], [*(di.Parameter(n, v) for n, v in it.truth.items()),
                                              *(di.InitialState(s, v) for s, v in it.initial.items())])
    return record, problem, list(disturbed), dict(it.truth)


def closed_loop(it: Loop, rng: np.random.Generator, behind: float, disturbed: Mapping[str, float], quantised: bool
                ) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Time, what the controller asked for, what the sensors said, and the states; one sample after another."""
    known = {"__builtins__": {}, **{n: getattr(math, n) for n in ("sin", "exp", "sqrt", "tanh")}, **it.constants, **it.truth}
    rates = eval(f"lambda {', '.join((*it.states, it.input))}: ({', '.join(it.states.values())},)", known)
    shown = eval(f"lambda {', '.join(it.states)}: ({', '.join(it.outputs.values())},)", known)
    h, levels = it.step / SUBSTEPS, {n: it.encoder or ROUNDING * std for n, std in it.std.items()}
    shift = {n: levels[n] * rng.uniform() for n in it.outputs}
    moved = np.array([disturbed.get(n, 0.0) for n in it.states]) * math.sqrt(h)
    x, memory, rows, seen, course = tuple(it.initial.values()), 0.0, [], [], []
    for k in range(it.samples):
        reading = {n: levels[n] * round((y + shift[n]) / levels[n]) - shift[n] if quantised or it.encoder
                   else y + it.std[n] * rng.normal() for n, y in zip(it.outputs, shown(*x), strict=True)}
        asked, memory = it.controller(k * it.step, reading, memory)
        rows.append(asked)
        seen.append(list(reading.values()))
        course.append(x)
        felt = asked + behind * rng.normal()
        for _ in range(SUBSTEPS):
            k1 = rates(*x, felt)
            k2 = rates(*(a + h / 2 * b for a, b in zip(x, k1, strict=True)), felt)
            k3 = rates(*(a + h / 2 * b for a, b in zip(x, k2, strict=True)), felt)
            k4 = rates(*(a + h * b for a, b in zip(x, k3, strict=True)), felt)
            push = moved * rng.normal(size=moved.size)
            x = tuple(a + h / 6 * (b + 2 * c + 2 * d + e) + f for a, b, c, d, e, f in zip(x, k1, k2, k3, k4, push, strict=True))
    outputs = dict(zip(it.outputs, np.array(seen).T, strict=True))
    return it.step * np.arange(it.samples), np.array(rows), outputs, dict(zip(it.states, np.array(course).T, strict=True))
