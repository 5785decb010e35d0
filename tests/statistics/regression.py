"""A problem whose model is a straight sum of known signals, so that every claim has a closed form beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from dynident.linalg.finite_problem import ResidualIndex, ResidualJacobian
from dynident.problem.experiment import Experiment
from dynident.problem.model import NominalValue
from dynident.problem.noise import Gaussian
from dynident.problem.parameter import Parameter
from dynident.problem.problem import Problem


@dataclass(frozen=True)
class Names:
    """A model that is only its names."""

    parameters: tuple[str, ...]
    outputs: tuple[str, ...] = ("y",)
    inputs: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    units: Mapping[str, str] = field(default_factory=dict)
    modes: tuple[str, ...] = ("",)
    hybrid: bool = False
    stepwise: tuple[str, ...] = ()
    sample_time: float | None = None
    delays: tuple = ()
    nominal_values: Mapping[str, NominalValue] = field(default_factory=dict)

    def definition(self) -> dict:
        return {"parameters": list(self.parameters)}

    def why_not_estimable(self, name: str) -> str:
        return ""


def regression_problem(parameters: list[Parameter], records: list[np.ndarray], std: float | None = None,
                       step: float = 0.1) -> Problem:
    """One output 'y' per record; NaN = missing."""
    noise = {"y": Gaussian(std)}
    runs = [Experiment(step * np.arange(y.size), outputs={"y": y}, noise=noise, name=f"run {i + 1}")
            for i, y in enumerate(records)]
    return Problem(Names(tuple(p.name for p in parameters)), runs, parameters)


def linearized(problem: Problem, regressors: list[np.ndarray], values: np.ndarray, std: float = 1.0) -> ResidualJacobian:
    """What a solver hands over at these values; missing samples have no row."""
    residuals, jacobian, experiments, samples = [], [], [], []
    for e, (run, x) in enumerate(zip(problem.experiments, regressors, strict=True)):
        there = np.flatnonzero(np.isfinite(run.outputs["y"]))
        residuals.append((x[there] @ values - run.outputs["y"][there]) / std)
        jacobian.append(x[there] / std)
        experiments.append(np.full(there.size, e))
        samples.append(there)
    rows = ResidualIndex(np.concatenate(experiments), np.zeros(sum(map(len, samples)), int), np.concatenate(samples))
    return ResidualJacobian.dense(np.asarray(values, float), np.concatenate(residuals), np.concatenate(jacobian), rows)


def fitted(regressors: list[np.ndarray], records: list[np.ndarray]) -> np.ndarray:
    x, y = np.concatenate(regressors), np.concatenate(records)
    there = np.isfinite(y)
    return np.linalg.lstsq(x[there], y[there], rcond=None)[0]


def autoregressive(rng: np.random.Generator, count: int, phi: float, std: float = 1.0) -> np.ndarray:
    """A stationary AR(1) record with this marginal standard deviation."""
    shocks = rng.normal(size=count) * np.sqrt(1 - phi**2)
    noise = np.empty(count)
    noise[0] = rng.normal()
    for k in range(1, count):
        noise[k] = phi * noise[k - 1] + shocks[k]
    return std * noise
