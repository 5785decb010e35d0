"""Estimates made by hand: every kind of result that a report has to show, without running a method."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dynident.estimate.estimate import Estimate, Iteration, Trajectory
from dynident.problem.experiment import Experiment
from dynident.problem.noise import Gaussian
from dynident.problem.parameter import InitialState, Parameter
from dynident.problem.problem import Problem

MEANING = ("If the model holds and the errors are independent and normal, 95 of 100 such intervals contain the true "
           "value. They are linearised at the estimate.")


@dataclass(frozen=True)
class NamedModel:
    """A model of which only the names and the text are needed."""

    states: tuple[str, ...] = ("q", "v")
    inputs: tuple[str, ...] = ("u",)
    outputs: tuple[str, ...] = ("position", "velocity")
    parameters: tuple[str, ...] = ("M", "Fv", "Fc", "offset", "gain")

    def definition(self) -> dict:
        return {"kind": "equations", "inputs": list(self.inputs), "constants": {},
                "states": {"q": "v", "v": "(gain*u - Fv*v - Fc*tanh(v/0.01) - offset) / M"},
                "outputs": {"position": "q", "velocity": "v"}}


@dataclass(frozen=True)
class Options:
    """Stands for the option object of a method."""

    segments: int = 20


@dataclass(frozen=True, eq=False)
class Linearised:
    """An uncertainty made by hand: half widths by name, intervals that replace them, remarks."""

    values: Mapping[str, float]
    half: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)
    meaning: str = MEANING

    def interval(self, name: str, level: float = 0.95) -> tuple[float, float]:
        if name in self.intervals:
            return self.intervals[name]
        return self.values[name] - self.half[name], self.values[name] + self.half[name]

    def std(self, name: str) -> float:
        return self.half[name] / 1.96

    def remark(self, name: str) -> str:
        return self.remarks.get(name, "")

    def correlation(self) -> np.ndarray:
        size = len(self.half)
        return np.array([[(-0.8) ** abs(i - j) for j in range(size)] for i in range(size)])


def estimate(experiments: int = 1, samples: int = 400, parameter: str = "M", output: str = "position",
             **changes: Any) -> Estimate:
    """A drive that was pushed back and forth: M and Fv determined, Fc one-sided, offset open, gain held."""
    model = NamedModel(outputs=(output, "velocity"), parameters=(parameter, "Fv", "Fc", "offset", "gain"))
    records = [_record(number, samples, output) for number in range(experiments)]
    problem = Problem(model, records, [
        Parameter(parameter, start=50.0, lower=1.0, upper=500.0, unit="kg"),
        Parameter("Fv", start=100.0, lower=0.0, upper=1000.0, unit="N s/m"), Parameter("Fc", start=10.0, lower=0.0, unit="N"),
        Parameter("offset", start=0.0, unit="N"), Parameter("gain", start=35.15, free=False, unit="N/V"),
        InitialState("q", start=0.0, unit="m"), InitialState("v", start=0.0, free=False, unit="m/s")])
    values = {parameter: 49.8731, "Fv": 103.412, "Fc": 0.8, "offset": 12.3}
    half = {parameter: 0.3412, "Fv": 2.108, "Fc": 0.5, "offset": 1.0}
    for name in problem.names[4:]:
        values[name], half[name] = 1.2e-5, 3.1e-5
    values |= problem.held_values()
    uncertainty = Linearised(values, half, {"Fc": (0.0, 2.1), "offset": (-math.inf, math.inf)},
                             {"Fc": "at its lower bound", "offset": "not determined"})
    trajectories = tuple(_trajectory(e, output) for e in problem.experiments)
    residuals = tuple({name: e.outputs[name] - t.outputs[name] for name in e.outputs}
                      for e, t in zip(problem.experiments, trajectories, strict=True))
    made = Estimate(
        problem, Options(), values, uncertainty, True, "Gradient and step fell below their tolerances after 9 iterations.",
        1.0e3, trajectories, residuals, {output: 1.02e-4, "velocity": 2.1e-3},
        ("Fc lies on its lower bound; its interval is one-sided.",
         "The residuals of 'velocity' are correlated in time; the intervals are corrected for it."),
        _history(problem), {"iterations": 9, "simulations": 14, "jacobians": 10},
        {"compile": 0.21, "integrate": 0.34, "solve": 0.018},
        {f"fit_{output}": 98.31, "fit_velocity": 91.7, "reduced_chi2": 1.03, "dof": 794.0, "aic": -812.5, "bic": -790.1})
    return replace(made, **changes)


def not_converged(**options: Any) -> Estimate:
    return estimate(converged=False, status="Stopped by the limit of 50 iterations.", **options)


def validation(made: Estimate, name: str = "second run") -> Any:
    """What a validation holds, by hand: the first record of the estimate under another name."""
    from dynident.estimate.validation import Validation

    record = made.problem.experiments[0].renamed(name)
    return Validation(record, made)  # replaced in `validations` below


def _record(number: int, samples: int, output: str) -> Experiment:
    rng = np.random.default_rng(number)
    time = np.linspace(0.0, 4.0, samples)
    position, velocity = _motion(time, number)
    position = position + 1e-3 * rng.standard_normal(samples)
    velocity = velocity + 5e-3 * rng.standard_normal(samples)
    velocity[samples // 3: samples // 3 + samples // 20] = np.nan  # the sensor was away for a while
    return Experiment(time, {"u": np.sign(np.sin(2 * np.pi * time))}, {output: position, "velocity": velocity},
                      {output: Gaussian(), "velocity": Gaussian(5e-3)}, name=f"run {number + 1}",
                      units={output: "m", "velocity": "m/s", "u": "V"})


def _motion(time: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
    speed = 1.5 + 0.25 * number
    return 0.05 * (1 - np.cos(speed * np.pi * time)), 0.05 * speed * np.pi * np.sin(speed * np.pi * time)


def _trajectory(experiment: Experiment, output: str) -> Trajectory:
    number = int(experiment.name.split()[1]) - 1
    position, velocity = _motion(experiment.time, number)
    return Trajectory(experiment.name, experiment.time, {"q": position, "v": velocity},
                      {output: position, "velocity": velocity})


def _history(problem: Problem) -> tuple[Iteration, ...]:
    return tuple(Iteration(n, 1e3 * (1 + 10.0 ** (3 - n)), 0.0 if n == 0 else 10.0 ** (1 - n), 10.0 ** (-n),
                           tuple(50 + 10 * 0.3**n * (i + 1) for i in range(len(problem.names)))) for n in range(10))
