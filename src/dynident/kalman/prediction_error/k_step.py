"""k steps ahead: how well is a sample predicted from what was known some samples before?"""

from __future__ import annotations

import casadi as ca
import numpy as np

from dynident.estimate.estimate import fit_percent
from dynident.integrators.scheme import StepFunction
from dynident.kalman.prediction_error.innovations import InnovationModel
from dynident.kalman.prediction_error.setup import PredictionRecord, build_prediction
from dynident.problem.problem import Problem

AHEAD = (1, 10, 100)  # samples


def fit_ahead(problem: Problem, known: np.ndarray, integrator: str, substeps: int) -> dict[int, dict[str, float]]:
    """Fit in percent per output, by the number of samples ahead; `known` (samples, states) is what a filter knew at each.

    The problem has one experiment, and its parameters are held.
    """
    setup = build_prediction(problem.with_output_noise_only(), {}, integrator, substeps)
    (record,), (experiment,) = setup.records, problem.experiments
    p, _ = problem.parameters_and_initial_state(np.full(len(problem.unknowns), np.nan), 0)
    fits, x, done = {}, known, 0
    for steps in (k for k in AHEAD if k < len(known)):
        for step in range(done, steps):
            x = _one_sample(setup.model, record, x[:len(known) - 1 - step], p, step)
        done = steps
        outputs = _outputs(setup.model, record, x, p, steps)
        fits[steps] = {name: fit_percent(y[steps:], outputs[:, setup.problem.model.outputs.index(name)])
                       for name, y in experiment.outputs.items()}
    return fits


def _one_sample(model: InnovationModel, record: PredictionRecord, x: np.ndarray, p: np.ndarray, step: int) -> np.ndarray:
    """States of all starts one sample later: the one that began at sample k is at k + step now."""
    ends = record.sample_rows[1 + step:1 + step + len(x)]
    begins = record.sample_rows[step:step + len(x)] + 1
    counts, x = ends - begins + 1, x.copy()
    move, _ = _functions(model)
    for s in range(int(np.max(counts, initial=0))):
        active = np.flatnonzero(counts > s)
        rows = record.columns[begins[active] + s]
        x[active] = np.asarray(move.map(active.size)(x[active].T, rows.T, np.tile(p[:, None], (1, active.size)))).T
    return x


def _outputs(model: InnovationModel, record: PredictionRecord, x: np.ndarray, p: np.ndarray, steps: int) -> np.ndarray:
    _, output = _functions(model)
    rows = record.columns[record.sample_rows[steps:steps + len(x)]]
    return np.asarray(output.map(len(x))(x.T, rows.T, np.tile(p[:, None], (1, len(x))))).T


def _functions(model: InnovationModel) -> tuple[ca.Function, ca.Function]:
    """(state, row, p) -> the state at the end of the row; and the outputs there."""
    its = model.model
    column = {name: ca.SX.sym(name, size) for name, size in model.columns.items()}
    x, p = ca.SX.sym("x", len(its.states)), ca.SX.sym("p", len(its.parameters))
    positions, velocities = its.position_velocity() if model.integrator.position_velocity else ((), ())
    after = model.integrator.next_state(StepFunction(its.rate, column["t"], column["h"], x, column["u0"], column["u1"], p,
                                                     positions, velocities))
    y = ca.vertcat(its.output(column["at"], x, column["u"], p))
    row = ca.vertcat(*column.values())
    return ca.Function("move", [x, row, p], [ca.densify(after)]), ca.Function("output", [x, row, p], [ca.densify(y)])
