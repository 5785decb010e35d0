"""Validation: does the model foretell a record that it was not fitted to?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dynident.estimate.estimate import Trajectory
from dynident.problem.experiment import Experiment
from dynident.problem.problem import given_std
from dynident.statistics.residual_tests import FEWEST_SAMPLES, ResidualTest, noise_as_fitted, noise_level, residual_tests


@dataclass(frozen=True, eq=False)
class Validation:
    """What the model did on one record: fit in percent, errors, and tests of the residuals."""

    experiment: str
    fit: Mapping[str, float]  # per output, percent; NaN where the measured signal never moves
    rmse: Mapping[str, float]  # per output, in its unit
    tests: tuple[ResidualTest, ...]
    trajectory: Trajectory
    residuals: Mapping[str, np.ndarray]  # measured - model, NaN where not measured
    notes: tuple[str, ...] = ()  # what the reader must know beside the numbers, as sentences

    def __str__(self) -> str:
        lines = [f"{self.experiment}:"]
        lines += [f"  {name}: fit {self.fit[name]:.2f} %, rms error {self.rmse[name]:.4g}" for name in self.fit]
        lines += [f"  {test}" for test in self.tests]
        lines += [f"  note {note}" for note in self.notes]
        return "\n".join(lines)


def validation_metrics(experiment: Experiment, trajectory: Trajectory, noise_std: Mapping[str, float], dof: float = np.inf
                       ) -> Validation:
    """Compare a record with what the model did on it.

    Where the record gives no noise level, its residuals are compared with the fit's `noise_std` per output (known with
    `dof` degrees of freedom, infinite where it was given), and judged by their own spread otherwise.
    """
    residuals = {name: np.asarray(y, float) - trajectory.outputs[name] for name, y in experiment.outputs.items()}
    tests: list[ResidualTest] = []
    inputs = {name: np.asarray(u, float) for name, u in experiment.inputs.items()}
    for name, residual in residuals.items():
        given = given_std(experiment, name)
        there = np.isfinite(residual)
        if given is not None and np.any(there):
            tests.append(noise_level(float(np.sum((residual[there] / given[there]) ** 2)), float(np.sum(there)), name))
        elif noise_std.get(name) and np.sum(there) >= FEWEST_SAMPLES:
            tests.append(noise_as_fitted(residual, noise_std[name], dof, name))
        tests += residual_tests(residual, name, given, inputs)
    return Validation(
        experiment=experiment.label, tests=tuple(tests), trajectory=trajectory, residuals=residuals,
        fit={name: fit_percent(np.asarray(y, float), trajectory.outputs[name])
             for name, y in experiment.outputs.items()},
        rmse={name: float(np.sqrt(np.nanmean(r**2))) if np.any(np.isfinite(r)) else np.nan
              for name, r in residuals.items()})


def fit_percent(measured: np.ndarray, model: np.ndarray) -> float:
    """100 (1 - |measured - model| / |measured - mean|) over the samples present, as MATLAB's compare computes it.

    100 is perfect, 0 no better than the mean, negative worse; NaN where the measured signal never moves.
    """
    measured, model = np.asarray(measured, float), np.asarray(model, float)
    there = np.isfinite(measured)
    y = measured[there]
    swing = float(np.linalg.norm(y - np.mean(y))) if y.size else 0.0
    return 100 * (1 - float(np.linalg.norm(y - model[there])) / swing) if swing > 0 else np.nan
