"""Designed inputs against random ones: is a plan ever beaten by the best of many PRBS, multisines and chirps within the limits?

Five machines. `design_input` tries its own shapes from its default starts. Random inputs of three kinds are drawn within the
same limits on the input, with the same sampling and duration: binary signals of a random clock, sums of sines with random
amplitudes and phases, chirps between random frequencies. All of them, the plan included, are judged by one evaluation that
shares nothing with the planner: Runge-Kutta steps in NumPy, and central differences for the sensitivities.

The pendulum is too weakly driven to reach its upright position. One that is driven strongly enough stands beside it, kept
below by a limit on the angle, which random inputs have to keep as the plan does. Without that limit a plan swings through the
upright position, where differences of 1e-5 and of 1e-7 of a parameter give sensitivities that are far apart: nothing could be
compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from timing import Line, Result, main, once, size, spoken

import dynident as di

DRAWS = size(1000, 3)  # of each kind
STARTS = size(4, 1)
SUBSTEPS = size(4, 1)  # between two samples
DIFFERENCE = 1e-5  # of a parameter
ON_LIMIT = 1e-3  # of a state: a plan lies on its limit, and a difference moves it beyond
FUNCTIONS = {"sin": np.sin, "cos": np.cos, "exp": np.exp, "tanh": np.tanh}


@dataclass(frozen=True)
class Case:
    """A machine at rest or in its steady state, the limits of its input, and what is sought."""

    states: dict[str, str]
    outputs: dict[str, str]
    values: dict[str, float]
    initial: dict[str, float]
    limits: tuple[float, float]
    duration: float
    std: float
    samples: int = size(201, 31)
    reach: tuple[str, float] | None = None  # a state, and how far from zero it may go

    @property
    def time(self) -> np.ndarray:
        return np.linspace(0, self.duration, self.samples)

    def problem(self) -> di.Problem:
        model = di.EquationModel(states=self.states, inputs=["u"], outputs=self.outputs)
        nothing = 0 * self.time
        run = di.Experiment(self.time, {"u": nothing}, dict.fromkeys(self.outputs, nothing),
                            {name: di.Gaussian(self.std) for name in self.outputs}, self.initial)
        return di.Problem(model, [run], [di.Parameter(n, v) for n, v in self.values.items()])


CASES = {
    "Duffing": Case({"x": "v", "v": "u - d*v - k*x - b*x**3"}, {"x": "x"}, {"d": 0.3, "k": 1.0, "b": 1.0},
                    {"x": 0.0, "v": 0.0}, (-1.0, 1.0), 20.0, 0.01),
    "drive train": Case({"angle": "speed", "speed": "alpha*speed + beta*(u - T*tanh(speed/0.05))"}, {"angle": "angle"},
                        {"alpha": -4.5, "beta": 65.0, "T": 0.12}, {"angle": 0.0, "speed": 0.0}, (-0.6, 0.6), 8.0, 1e-3),
    "pendulum": Case({"q": "w", "w": "-p*sin(q) - d*w + b*u"}, {"angle": "q"}, {"p": 9.8, "d": 0.8, "b": 2.0},
                     {"q": 0.0, "w": 0.0}, (-1.0, 1.0), 10.0, 0.01),
    "strong pendulum": Case({"q": "w", "w": "-p*sin(q) - d*w + b*u"}, {"angle": "q"}, {"p": 9.8, "d": 0.4, "b": 3.0},
                                  {"q": 0.0, "w": 0.0}, (-1.0, 1.0), 10.0, 0.01, reach=("q", 2.0)),
    "two masses": Case({"x": "v", "v": "(u - k*(x - y) - c*(v - w))/m", "y": "w", "w": "(k*(x - y) + c*(v - w) - d*w)/M"},
                       {"x": "x"}, {"m": 1.0, "M": 2.0, "k": 50.0, "c": 0.5, "d": 1.0},
                       {"x": 0.0, "v": 0.0, "y": 0.0, "w": 0.0}, (-5.0, 5.0), 10.0, 1e-3),
    "reaction": Case({"a": "u*(2 - a) - k*a", "b": "k*a - r*b/(K + b) - u*b"}, {"b": "b"}, {"k": 0.7, "r": 0.4, "K": 0.3},
                     {"a": 1.0, "b": 0.1}, (0.0, 0.5), 20.0, 0.01),
}


def outputs_of(case: Case, values: np.ndarray, u: np.ndarray, hold: str) -> np.ndarray:
    """(outputs, samples, inputs tried) by Runge-Kutta steps, for inputs (samples, tried) and one set of parameters.

    NaN where a limit on the states is broken.
    """
    rates = [compile(text, name, "eval") for name, text in case.states.items()]
    reads = [compile(text, name, "eval") for name, text in case.outputs.items()]
    p = {**FUNCTIONS, **dict(zip(case.values, values, strict=True))}
    step = case.time[1] / SUBSTEPS

    def rate(x: np.ndarray, now: np.ndarray) -> np.ndarray:
        at = {**p, **dict(zip(case.states, x, strict=True)), "u": now}
        return np.array([np.broadcast_to(eval(own, at), now.shape) for own in rates])  # the text of the cases above

    x = np.repeat(np.array([case.initial[n] for n in case.states], float)[:, None], u.shape[1], axis=1)
    found, kept = [], np.ones(u.shape[1], bool)
    for k in range(case.samples):
        if case.reach is not None:
            kept &= np.abs(x[list(case.states).index(case.reach[0])]) <= case.reach[1] + ON_LIMIT
        found.append([eval(own, {**p, **dict(zip(case.states, x, strict=True))}) for own in reads])
        if k == case.samples - 1:
            break
        slope = (u[k + 1] - u[k]) / SUBSTEPS if hold == "linear" else 0 * u[k]
        for j in range(SUBSTEPS):
            a, b = u[k] + j * slope, u[k] + (j + 1) * slope
            k1 = rate(x, a)
            k2 = rate(x + step / 2 * k1, (a + b) / 2)
            k3 = rate(x + step / 2 * k2, (a + b) / 2)
            x = x + step / 6 * (k1 + 2 * k2 + 2 * k3 + rate(x + step * k3, b))
    return np.where(kept, np.array(found).swapaxes(0, 1), np.nan)


def costs_of(case: Case, u: np.ndarray, hold: str) -> np.ndarray:
    """(tried,) log of the geometric mean of the relative standard deviations (D), for inputs (samples, tried)."""
    values = np.array(list(case.values.values()))
    columns = []
    for i, value in enumerate(values):
        change = DIFFERENCE * abs(value) * np.eye(values.size)[i]
        more, less = (outputs_of(case, values + sign * change, u, hold) for sign in (1, -1))
        columns.append((more - less) / (2 * DIFFERENCE * case.std))  # relative to the value
    S = np.array(columns)  # (parameters, outputs, samples, tried)
    F = np.einsum("iost,jost->tij", S, S)
    whole = np.isfinite(F).all(axis=(1, 2))
    sign, log_det = np.linalg.slogdet(np.where(whole[:, None, None], F, 0.0))
    return np.where(whole & (sign > 0) & np.isfinite(log_det), -log_det / (2 * values.size), np.inf)


def random_binary(case: Case, rng: np.random.Generator) -> np.ndarray:
    clock = int(rng.integers(1, 31))
    bits = rng.integers(0, 2, case.samples // clock + 2)
    begin = int(rng.integers(0, clock))
    return np.array(case.limits)[np.repeat(bits, clock)[begin:begin + case.samples]]


def random_multisine(case: Case, rng: np.random.Generator) -> np.ndarray:
    lines = rng.choice(np.arange(1, 41), int(rng.integers(1, 13)), replace=False)
    turns = np.multiply.outer(np.linspace(0, 1, case.samples), lines) + rng.uniform(0, 1, lines.size)
    u = np.sin(2 * np.pi * turns) @ rng.uniform(0.1, 1, lines.size)
    low, high = case.limits
    return low + (high - low) * (u - u.min()) / np.ptp(u)


def random_chirp(case: Case, rng: np.random.Generator) -> np.ndarray:
    first, last = np.exp(rng.uniform(np.log(0.3), np.log(50), 2))  # turns over the record, if it were the only frequency
    s = np.linspace(0, 1, case.samples)
    low, high = case.limits
    return 0.5 * (low + high) + 0.5 * (high - low) * np.sin(2 * np.pi * (first * s + (last - first) * s**2 / 2)
                                                            + rng.uniform(0, 2 * np.pi))


KINDS: dict[str, tuple[Callable[[Case, np.random.Generator], np.ndarray], str]] = {
    "PRBS": (random_binary, "zero"), "multisine": (random_multisine, "linear"), "chirp": (random_chirp, "linear")}


def compare(name: str, case: Case) -> list[Line]:
    low, high = case.limits
    limits = [f"{low} <= u <= {high}"]
    if case.reach is not None:
        limits.append(f"{-case.reach[1]} <= {case.reach[0]} <= {case.reach[1]}")
    seconds, plan = once(lambda: di.design_input(case.problem(), None, "D", limits, use_records=False, starts=STARTS,
                                                 progress=False))
    ours = float(costs_of(case, plan.inputs["u"][:, None], plan.record.hold["u"])[0])
    rng, best, within = np.random.default_rng(20), {}, 0
    for kind, (draw, hold) in KINDS.items():
        tried = np.array([draw(case, rng) for _ in range(DRAWS)]).T
        costs = costs_of(case, tried, hold)
        best[kind], within = float(np.min(costs)), within + int(np.isfinite(costs).sum())
    nearest = min(best, key=lambda kind: best[kind])
    others = ", ".join(f"{kind} {np.exp(cost - ours):.2f}" for kind, cost in best.items())
    limited = "" if case.reach is None else f"; {within:,} of {3 * DRAWS:,} keep the limit on {case.reach[0]}"
    predicted = np.exp(abs(plan.cost - ours)) - 1
    return [Line(f"{name}: mean standard deviation, best of {DRAWS:,} random {nearest} / the plan ({plan.shape})",
                 f"{np.exp(best[nearest] - ours):.3f}", ">= 1", best[nearest] >= ours),
            Line(f"{name}: of each kind", others + limited),
            Line(f"{name}: the planner's criterion against this evaluation", f"{100 * predicted:.2g} %", "<= 3 %",
                 predicted <= 0.03),
            Line(f"{name}: CPU time of the plan, all shapes", spoken(seconds))]


def run() -> Result:
    return Result("Designed inputs against random ones",
                  f"Five machines, 201 samples, limits on the input (and on the angle where a pendulum is kept), D-optimal; "
                  f"{DRAWS:,} draws of each of three kinds. {STARTS} starts of each of five shapes; means are geometric.",
                  [line for name, case in CASES.items() for line in compare(name, case)])


if __name__ == "__main__":
    main(run)
