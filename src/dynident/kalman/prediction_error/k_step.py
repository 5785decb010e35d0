"""k steps ahead: how well is a sample predicted from what was known some samples before?"""

from __future__ import annotations

import casadi as ca
import numpy as np

from dynident.errors import SimulationDiverged
from dynident.estimate.estimate import fit_percent
from dynident.integrators.grid import Grid, grid_of
from dynident.integrators.propagation import propagator_for
from dynident.kalman.prediction_error.innovations import InnovationModel
from dynident.kalman.prediction_error.setup import PredictionRecord, build_prediction
from dynident.problem.problem import Problem

HORIZONS = (1, 10, 100)  # samples


def fit_ahead(problem: Problem, known: np.ndarray, integrator: str, substeps: int) -> dict[int, dict[str, float]]:
    """Fit in percent per output, by the number of samples ahead; `known` (samples, states) is what a filter knew at each.

    The problem has one experiment, and its parameters are held. Where a prediction diverges, nothing is said of those that
    reach as far or farther.
    """
    setup = build_prediction(problem.with_output_noise_only(), {}, integrator, substeps)
    (record,), (experiment,) = setup.records, problem.experiments
    p, _ = problem.parameters_and_initial_state(np.full(len(problem.unknowns), np.nan), 0)
    grid = grid_of(problem.model, experiment, substeps, everywhere=True)
    propagator = propagator_for(problem.model, setup.model.integrator, (), derivatives=False)
    fits, x, done = {}, known, 0
    for steps in (k for k in HORIZONS if k < len(known)):
        try:
            for step in range(done, steps):  # the start at sample k is at k + step now; each sample is a segment of its own
                part = _from(grid, grid.offset + step)
                x = propagator.run(part, np.arange(part.nodes), x[:part.nodes - 1], p, False).end_states
        except SimulationDiverged:
            break
        done = steps
        outputs = _outputs(setup.model, record, x, p, steps)
        fits[steps] = {name: fit_percent(y[steps:], outputs[:, setup.problem.model.outputs.index(name)])
                       for name, y in experiment.outputs.items()}
    return fits


def _from(grid: Grid, node: int) -> Grid:
    """The grid from a node on, of which no outputs are asked."""
    return Grid(grid.time[node:], 0, grid.substeps[node:], grid.u_begin[node:], grid.u_end[node:], grid.u_node[node:],
                np.zeros(grid.nodes - node, np.uint8), record=grid)


def _outputs(model: InnovationModel, record: PredictionRecord, x: np.ndarray, p: np.ndarray, steps: int) -> np.ndarray:
    its = model.model
    column = {name: ca.SX.sym(name, size) for name, size in model.columns.items()}
    state, parameters = ca.SX.sym("x", len(its.states)), ca.SX.sym("p", len(its.parameters))
    y = ca.vertcat(its.output(column["at"], state, column["u"], parameters))
    output = ca.Function("output", [state, ca.vertcat(*column.values()), parameters], [ca.densify(y)])
    rows = record.columns[record.sample_rows[steps:steps + len(x)]]
    return np.asarray(output.map(len(x))(x.T, rows.T, np.tile(p[:, None], (1, len(x))))).T
