"""Estimates made by hand: every kind of result that a report has to show, without running a method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dynident.estimate.estimate import Estimate, Iteration, Trajectory, Validation, validation_metrics
from dynident.problem.experiment import Experiment
from dynident.problem.noise import Gaussian
from dynident.problem.parameter import InitialState, Parameter
from dynident.problem.problem import Problem
from dynident.statistics.covariance import Covariance

POSITION_NOISE, VELOCITY_NOISE = 1e-3, 5e-3


@dataclass(frozen=True)
class NamedModel:
    """A model of which only the names and the text are needed."""

    states: tuple[str, ...] = ("q", "v")
    inputs: tuple[str, ...] = ("u",)
    outputs: tuple[str, ...] = ("position", "velocity")
    parameters: tuple[str, ...] = ("M", "Fv", "Fc", "offset", "gain")
    units: Mapping[str, str] = field(default_factory=dict)
    modes: tuple[str, ...] = ("",)
    hybrid: bool = False
    stepwise: tuple[str, ...] = ()
    sample_time: float | None = None
    delays: tuple = ()
    nominal_values: Mapping[str, Any] = field(default_factory=dict)

    def definition(self) -> dict:
        return {"kind": "equations", "inputs": list(self.inputs), "constants": {"slip": 0.01},
                "states": {"q": "v", "v": f"(gain*u - Fv*v - Fc*tanh(v/slip) - offset) / {self.parameters[0]}"},
                "outputs": {self.outputs[0]: "q", "velocity": "v"}}

    def why_not_estimable(self, name: str) -> str:
        return ""


@dataclass(frozen=True)
class ModelWithUnits(NamedModel):
    """The same, and it knows its units."""

    units: Mapping[str, str] = field(default_factory=lambda: {"M": "t", "q": "mm", "v": "mm/s"})


@dataclass(frozen=True)
class Options:
    """Stands for the option object of a method."""

    segments: int = 20

    def options(self) -> dict[str, Any]:
        return {"kind": "multiple_shooting", "segments": self.segments}

    def objective_key(self) -> dict[str, Any]:
        return {}

    def transcribe(self, *_: Any) -> None:
        return None


def estimate(experiments: int = 1, samples: int = 400, parameter: str = "M", output: str = "position",
             **changes: Any) -> Estimate:
    """A drive that was pushed back and forth: M and Fv determined, Fc on its bound, offset open, gain held."""
    model = NamedModel(outputs=(output, "velocity"), parameters=(parameter, "Fv", "Fc", "offset", "gain"))
    problem = Problem(model, [_record(number, samples, output) for number in range(experiments)], [
        Parameter(parameter, start=50.0, lower=1.0, upper=500.0, unit="kg"),
        Parameter("Fv", start=100.0, lower=0.0, upper=1000.0, unit="N s/m"),
        Parameter("Fc", start=10.0, lower=0.0, unit="N"), Parameter("offset", start=0.0, unit="N"),
        Parameter("gain", start=35.15, free=False, unit="N/V"),
        InitialState("q", start=0.0, unit="m"), InitialState("v", start=0.0, free=False, unit="m/s")])
    found = np.array([49.8731, 103.412, 0.0, 12.3] + [1.2e-5] * experiments)
    trajectories = tuple(_trajectory(e, output) for e in problem.experiments)
    made = Estimate(
        problem, Options(), dict(zip(problem.names, found, strict=True)) | problem.fixed_values(),
        covariance(problem, found), True, "Gradient and step fell below their tolerances after 9 iterations.", 1.0e3,
        trajectories, tuple(_residuals(e, t) for e, t in zip(problem.experiments, trajectories, strict=True)),
        {output: POSITION_NOISE, "velocity": VELOCITY_NOISE},
        ("Fc lies on its lower bound; its interval is one-sided.",
         "The residuals of 'velocity' are correlated in time; the intervals are corrected for it."),
        _history(problem), {"iterations": 9, "simulations": 14, "jacobians": 10},
        {"compile": 0.21, "integrate": 0.34, "solve": 0.018},
        {f"fit_{output}": 98.31, "fit_velocity": 91.7, "reduced_chi2": 1.03, "dof": 794.0, "aic": -812.5})
    return replace(made, **changes)


def covariance(problem: Problem, found: np.ndarray) -> Covariance:
    std = np.array([0.17, 1.05, 0.0, 0.0] + [1.6e-5] * (found.size - 4))
    near = np.array([[(-0.8) ** abs(i - j) for j in range(found.size)] for i in range(found.size)])
    matrix = near * np.outer(std, std)
    return Covariance(
        problem.names, found, matrix, dof=794.0, corrected=2.25 * matrix, default_kind="corrected",
        reason="the residuals of 'velocity' fail the whiteness test", active={"Fc": "lower"},
        std_if_released={"plain": {"Fc": 0.6}, "corrected": {"Fc": 0.9}}, unidentifiable=("offset",),
        combinations=("offset / Fv = 0.119",), fixed=problem.fixed_values())


def not_converged(**options: Any) -> Estimate:
    return estimate(converged=False, status="Stopped by the limit of 50 iterations.", **options)


def shifted(made: Estimate, name: str, distance: float) -> Estimate:
    """The same estimate with one value moved, its interval with it."""
    values = made.uncertainty.values + distance * (np.array(made.problem.names) == name)
    return replace(made, values=dict(made.values) | {name: made.values[name] + distance},
                   uncertainty=replace(made.uncertainty, values=values))


def checked(output: str = "position", samples: int = 300) -> Validation:
    """A validation on a fifth run."""
    record = _record(4, samples, output)
    return validation_metrics(record, _trajectory(record, output), {output: POSITION_NOISE, "velocity": VELOCITY_NOISE})


def _record(number: int, samples: int, output: str) -> Experiment:
    rng = np.random.default_rng(number)
    time = np.linspace(0.0, 4.0, samples)
    position, velocity = _motion(time, number)
    position = position + POSITION_NOISE * rng.standard_normal(samples)
    velocity = velocity + VELOCITY_NOISE * rng.standard_normal(samples)
    velocity[samples // 3: samples // 3 + samples // 20] = np.nan  # the sensor was away for a while
    return Experiment(time, {"u": np.sign(np.sin(2 * np.pi * time))}, {output: position, "velocity": velocity},
                      {output: Gaussian(), "velocity": Gaussian(VELOCITY_NOISE)}, name=f"run {number + 1}",
                      units={output: "m", "velocity": "m/s", "u": "V"})


def _motion(time: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
    speed = (1.5 + 0.25 * number) * np.pi
    return 0.05 * (1 - np.cos(speed * time)), 0.05 * speed * np.sin(speed * time)


def _trajectory(experiment: Experiment, output: str) -> Trajectory:
    position, velocity = _motion(experiment.time, int(experiment.name.split()[1]) - 1)
    return Trajectory(experiment.name, experiment.time, {"q": position, "v": velocity},
                      {output: position, "velocity": velocity})


def _residuals(experiment: Experiment, trajectory: Trajectory) -> dict[str, np.ndarray]:
    return {name: measured - trajectory.outputs[name] for name, measured in experiment.outputs.items()}


def _history(problem: Problem) -> tuple[Iteration, ...]:
    return tuple(Iteration(n, 1e3 * (1 + 10.0 ** (3 - n)), 0.0 if n == 0 else 10.0 ** (1 - n), 10.0 ** (-n),
                           tuple(50 + 10 * 0.3**n * (i + 1) for i in range(len(problem.names)))) for n in range(10))
