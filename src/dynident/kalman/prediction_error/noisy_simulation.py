"""Noisy simulation: a record of a model that is disturbed while it runs, each noise drawn where it physically is."""

from __future__ import annotations

from collections.abc import Mapping

import casadi as ca
import numpy as np

from dynident.integrators.scheme import StepFunction
from dynident.kalman.prediction_error.innovations import InnovationModel
from dynident.kalman.prediction_error.setup import PredictionRecord, PredictionSetup, build_prediction
from dynident.problem.problem import Problem

NOISE_SUBSTEPS = 8  # times the sub-steps of the fit: noise of a state is added at the end of each


def simulate_disturbed(problem: Problem, unknowns: np.ndarray, process_noise: Mapping[str, float], integrator: str,
                       substeps: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Outputs without errors of their sensors, per experiment (samples, outputs); inputs as the records hold them."""
    setup = build_prediction(problem.with_output_noise_only(), dict(process_noise), integrator, NOISE_SUBSTEPS * substeps)
    return [_run(setup, record, unknowns, process_noise, e, rng) for e, record in enumerate(setup.records)]


def _run(setup: PredictionSetup, record: PredictionRecord, unknowns: np.ndarray, process_noise: Mapping[str, float], e: int,
         rng: np.random.Generator) -> np.ndarray:
    model, rows, samples = setup.model, len(record.columns), len(record.sample_rows)
    its = model.model
    p, x0 = setup.problem.parameters_and_initial_state(unknowns, e)
    sample = np.cumsum(record.columns[:, model.column_of("first")]).astype(int) - 1  # at which a row's interval ends
    errors = rng.standard_normal((samples, len(its.inputs))) * [process_noise.get(name, 0.0) for name in its.inputs]
    linear = np.array([setup.problem.experiments[e].hold[name] == "linear" for name in its.inputs], bool)
    counts = np.bincount(sample)[sample]
    share = (np.arange(rows) - np.concatenate([[0], record.sample_rows + 1])[sample]) / counts
    before = errors[np.maximum(sample - 1, 0)]
    slope = np.where(linear, errors[sample] - before, 0.0)
    h = record.columns[:, model.column_of("h")]
    moved = rng.standard_normal((rows, len(its.states))) * [process_noise.get(name, 0.0) for name in its.states]
    given = [record.columns.T, (before + share[:, None] * slope).T, (before + (share + 1 / counts)[:, None] * slope).T,
             (moved * np.sqrt(h)[:, None]).T, errors[sample].T]
    _, outputs = _step(model).mapaccum(rows)(x0, *given, np.tile(p[:, None], (1, rows)))
    return np.asarray(outputs).T[record.sample_rows]


def _step(model: InnovationModel) -> ca.Function:
    """(state, row, errors of inputs at both ends, noise of the state, error at the sample, p) -> state and outputs after it."""
    its = model.model
    column = {name: ca.SX.sym(name, size) for name, size in model.columns.items()}
    nx, nu = len(its.states), len(its.inputs)
    x, w0, w1, dx, w, p = (ca.SX.sym("v", size) for size in (nx, nu, nu, nx, nu, len(its.parameters)))
    positions, velocities = its.position_velocity() if model.integrator.position_velocity else ((), ())
    after = dx + model.integrator.next_state(StepFunction(its.rate, column["t"], column["h"], x, column["u0"] + w0,
                                                          column["u1"] + w1, p, positions, velocities))
    y = ca.vertcat(its.output(column["at"], after, column["u"] + w, p))
    return ca.Function("step", [x, ca.vertcat(*column.values()), w0, w1, dx, w, p], [after, ca.densify(y)])
