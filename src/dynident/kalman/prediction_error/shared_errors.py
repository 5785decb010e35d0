"""Shared errors: how do errors of inputs' sensors move the innovations, and with them what the filter knew before?

The recorded input holds the error of its sensor, and so does every prediction that is made with it: innovations of a right
model follow the recorded input then. By how much is found by moving the record as its sensors would.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dynident.estimate.estimate import Estimate
from dynident.kalman.prediction_error.scoring import evaluate
from dynident.kalman.prediction_error.setup import build_prediction
from dynident.methods.noise_estimation import with_noise_std
from dynident.problem.experiment import Experiment
from dynident.problem.noise import Gaussian

DRAWS = 4  # of all errors of all sensors; the mean over samples does the rest


@dataclass(frozen=True, eq=False)
class MovedRecord:
    """One experiment with its inputs moved: whitened innovations (samples, outputs), states (samples, states), inputs."""

    whitened: np.ndarray
    states: np.ndarray
    inputs: tuple[np.ndarray, ...]


def moved_records(estimate: Estimate) -> list[list[tuple[MovedRecord, MovedRecord]]]:
    """Per experiment and draw the record moved by errors of its inputs' sensors, and moved by as much the other way.

    Empty where no sensor of an input errs, and where the filter breaks down. At the values and noises of the estimate.
    """
    experiments = estimate.problem.experiments
    found: list[list[tuple[MovedRecord, MovedRecord]]] = [[] for _ in experiments]
    rng = np.random.default_rng(0)
    for _ in range(DRAWS if estimate.input_noise else 0):
        errors = [_drawn(estimate, experiment, rng) for experiment in experiments]
        up, down = (_moved(estimate, errors, side) for side in (1.0, -1.0))
        for own, *pair in zip(found, up, down, strict=True) if up and down else ():
            own.append((pair[0], pair[1]))
    return found


def _drawn(estimate: Estimate, experiment: Experiment, rng: np.random.Generator) -> dict[str, np.ndarray]:
    std = {name: noise.std if noise.std is not None else estimate.input_noise[name]
           for name, noise in experiment.input_noise.items()}
    return {name: np.asarray(size, float) * rng.standard_normal(experiment.samples) for name, size in std.items()}


def _moved(estimate: Estimate, errors: list[dict[str, np.ndarray]], side: float) -> list[MovedRecord]:
    problem = estimate.problem
    levels = {**estimate.noise_std, **estimate.input_noise}
    moved = [_with_inputs(with_noise_std(experiment, levels), own, side)
             for experiment, own in zip(problem.experiments, errors, strict=True)]
    process: dict[str, float | None] = dict(estimate.process_noise)
    known = problem.replace(experiments=moved, process_noise={name: Gaussian(std) for name, std in process.items()})
    setup = build_prediction(known, process, estimate.method.simulation_integrator, int(estimate.counts.get("substeps", 1)))
    values = np.array([float(estimate.values[name]) for name in problem.names])
    at = evaluate(setup, setup.coordinates(values), derivatives=False)
    nx = len(problem.model.states)
    return [MovedRecord(np.where(record.there, own.e / np.sqrt(own.s), np.nan), own.mean[:, :nx],
                        tuple(np.asarray(u, float) for u in experiment.inputs.values()))
            for record, own, experiment in zip(setup.records, at.innovations, moved, strict=False)]


def _with_inputs(experiment: Experiment, errors: Mapping[str, np.ndarray], side: float) -> Experiment:
    return replace(experiment, inputs={name: u + side * errors[name] if name in errors else u
                                       for name, u in experiment.inputs.items()})
