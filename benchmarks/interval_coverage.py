"""Interval coverage: how often does the printed 95 % interval hold the truth, by kind of record?

    python benchmarks/interval_coverage.py

Random fits of three models with known truth: white noise given right, not given, given wrong by up to ten times to either side;
slow noise, AR(1) of 0.5 to 0.9; a parameter whose true value lies near its bound; a parameter that the record hardly shows.
Coverage is of intervals that are printed as numbers; how often one is printed stands beside.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from timing import Line, Result, main, size

import dynident as di

FITS = size(350, 1)  # per kind
LEVEL = 0.95


@dataclass(frozen=True)
class Kind:
    """Of records and what is said about their noise."""

    name: str
    low: float  # targets, shares
    high: float
    pole: float = 0.0  # of the noise
    given: Callable[[np.random.Generator], float | None] = lambda rng: 1.0  # std over the true one
    model: str = "lag"
    level: float = 0.03  # noise over signal


def wrong_by_ten(rng: np.random.Generator) -> float:
    return float(10 ** rng.uniform(-1, 1))


KINDS = (
    Kind("white noise, given", 0.93, 0.97), Kind("white noise, not given", 0.93, 0.97, given=lambda rng: None),
    Kind("white noise, given wrong by up to 10 times", 0.93, 0.97, given=wrong_by_ten),
    Kind("at a bound", 0.93, 0.97, model="bound"), Kind("hardly identifiable", 0.93, 0.97, model="weak", level=0.1),
    Kind("AR(1) 0.5", 0.89, 0.97, pole=0.5, given=lambda rng: None),
    Kind("AR(1) 0.9", 0.89, 0.97, pole=0.9, given=lambda rng: None),
    Kind("AR(1) 0.9, std given", 0.89, 0.97, pole=0.9))
MODELS = {  # states, truth, bounds of the first parameter, first state
    "lag": ({"x": "(g*u - x)/T"}, {"g": 2.0, "T": 0.5}, (-np.inf, np.inf)),
    "bound": ({"q": "v", "v": "3*u - d*v - k*q"}, {"d": 0.02, "k": 9.0}, (0.0, np.inf)),
    "weak": ({"x": "(2*u - x - c*x**3)/T"}, {"c": 0.05, "T": 0.5}, (-np.inf, np.inf))}


def coverage(kind: Kind, seed: int) -> tuple[int, int, int]:
    """Intervals that hold the truth, that are printed as numbers, and all."""
    states, truth, (lower, upper) = MODELS[kind.model]
    model = di.EquationModel(states=states, inputs=["u"], outputs={"y": next(iter(states))})
    held, printed, total = 0, 0, 0
    for k in range(FITS):
        rng = np.random.default_rng([seed, k])
        samples = int(rng.choice([30, 60, 120, 300]))
        time = np.linspace(0, 12, samples)
        u = np.sum([np.sin(w * time + p) for w, p in zip(rng.uniform(0.3, 4, 3), rng.uniform(0, 6, 3), strict=True)], axis=0)
        values = {**truth, **{f"{s}(0)": 0.0 for s in states}}
        clean = np.asarray(di.simulate(model, values, di.Experiment(time, inputs={"u": u}), substeps=8).outputs["y"])
        std, factor = kind.level * float(np.std(clean)), kind.given(rng)
        noise = {} if factor is None else {"y": di.Gaussian(std * factor)}
        record = di.Experiment(time, {"u": u}, {"y": clean + std * noise_with(kind.pole, samples, rng)}, noise,
                               initial=dict.fromkeys(states, 0.0))
        first, *others = truth
        unknowns = [di.Parameter(first, truth[first] + 0.05, lower, upper), *(di.Parameter(p, 1.2 * truth[p]) for p in others)]
        try:
            estimate = di.identify(di.Problem(model, [record], unknowns), di.single_shooting(), progress=False)
        except di.NotConverged:
            continue
        for name, value in truth.items():
            low, high = estimate.uncertainty.interval(name, LEVEL)
            number = np.isfinite(low) and np.isfinite(high) and not estimate.verdict.withholds_intervals
            total, printed, held = total + 1, printed + number, held + (number and low <= value <= high)
    return held, printed, total


def noise_with(pole: float, samples: int, rng: np.random.Generator) -> np.ndarray:
    """AR(1) of unit variance."""
    e = rng.normal(0, 1, samples)
    for k in range(1, samples):
        e[k] = pole * e[k - 1] + np.sqrt(1 - pole**2) * e[k]
    return e


def run() -> Result:
    lines = []
    for seed, kind in enumerate(KINDS):
        held, printed, total = coverage(kind, seed)
        share = held / max(printed, 1)
        lines.append(Line(f"{kind.name}: intervals that hold the truth", f"{100 * share:.1f} % of {printed}",
                          f"{100 * kind.low:.0f} to {100 * kind.high:.0f} %", kind.low <= share <= kind.high))
        lines.append(Line(f"{kind.name}: printed as a number", f"{100 * printed / max(total, 1):.1f} %", ">= 90 %",
                          printed >= 0.9 * total))
    return Result("Coverage of intervals", f"{FITS} random fits a kind.", lines)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(run)
