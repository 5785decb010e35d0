"""Sensitivity simulation: outputs of a planned record, their sensitivities, and how both answer to the input.

The sensitivities S = dx/dq obey their own differential equation, S' = (df/dx) S + df/dq, eq. (15) of the input design paper
(Rauh, Senkel and Aschemann). They are simulated as further states, and that simulation is differentiated with respect to the
coefficients of the input: second-order sensitivities, which the gradient of any information criterion needs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dynident.design.input_parametrization import InputTrajectory
from dynident.errors import SimulationDiverged
from dynident.integrators import integrator_named
from dynident.integrators.grid import Grid
from dynident.integrators.propagation import Propagator, propagator_for
from dynident.models.equations import EquationModel
from dynident.models.variational import VariationalModel
from dynident.tolerances import PLAN_INTEGRATION

MAX_SUBSTEPS = 64  # between two samples


@dataclass(frozen=True, eq=False)
class SensitivityResult:
    """One simulated record and its derivatives with respect to the coefficients of its input."""

    inputs: np.ndarray  # (samples, inputs)
    outputs: np.ndarray  # (samples, outputs)
    sensitivities: np.ndarray  # (samples, outputs, q): q are unknown initial states, then free parameters
    monitored: np.ndarray  # (samples, expressions)
    d_inputs: np.ndarray  # (samples, inputs, coefficients)
    d_outputs: np.ndarray  # (samples, outputs, coefficients)
    d_sensitivities: np.ndarray  # (samples, outputs, q, coefficients)
    d_monitored: np.ndarray  # (samples, expressions, coefficients)


@dataclass(frozen=True, eq=False)
class PlannedSimulation:
    """The variational model on the sampling grid of a planned record."""

    inputs: InputTrajectory
    model: VariationalModel
    propagator: Propagator
    substeps: int = 1  # between two samples

    def run(self, c: np.ndarray, p: np.ndarray, x0: np.ndarray, derivatives: bool = True) -> SensitivityResult:
        """For the coefficients of one record; raises where the simulation diverges."""
        inputs, model = self.inputs, self.model
        sampled = inputs.sample(c)
        stretch = inputs.duration(c) / inputs.reference_duration
        out = self.propagator.run(self._grid(np.hstack([sampled.values, sampled.derivatives])),
                                  np.array([0, inputs.samples - 1]), model.first_state(x0)[None], model.values(p, stretch),
                                  derivatives, None)
        ny, nq, nw = len(model.model.outputs), model.unknowns, len(model.monitored)
        d_inputs = np.zeros((inputs.samples, len(inputs.slices), inputs.count))
        for place, (i, j) in enumerate(inputs.pairs):
            d_inputs[:, i, j] += sampled.derivatives[:, place]
        d = np.zeros((inputs.samples, ny * (1 + nq) + nw, inputs.count))
        if out.jacobian is not None:
            first = len(model.states)
            d = out.jacobian[:, :, first:first + inputs.count].copy()
            if inputs.free_duration:
                d[:, :, -1] += out.jacobian[:, :, -1] / inputs.reference_duration
        y, S, w = np.split(out.outputs, [ny, ny * (1 + nq)], axis=1)
        dy, dS, dw = np.split(d, [ny, ny * (1 + nq)], axis=1)
        shape = (inputs.samples, nq, ny)
        return SensitivityResult(sampled.values, y, S.reshape(shape).swapaxes(1, 2), w, d_inputs, dy,
                                 dS.reshape((*shape, inputs.count)).swapaxes(1, 2), dw)

    def _grid(self, columns: np.ndarray) -> Grid:
        """Inputs and their derivatives; a derivative is held between samples as its input is."""
        holds = [s.hold == "linear" for s in self.inputs.signals.values()]
        linear = np.array([*holds, *(holds[i] for i, _ in self.inputs.pairs)], bool)
        begin, end = columns[:-1].copy(), columns[:-1].copy()
        end[:, linear] = columns[1:, linear]
        n = self.inputs.samples
        return Grid(self.inputs.tau * self.inputs.reference_duration, 0, np.full(n - 1, self.substeps, np.int32), begin, end,
                    np.ascontiguousarray(columns), np.ones(n, np.uint8))


def planned_simulation(model: EquationModel, inputs: InputTrajectory, initial: tuple[int, ...], free: tuple[int, ...],
                       monitored: tuple[str, ...], substeps: int = 1) -> PlannedSimulation:
    """`initial` and `free`: indices of unknown initial states and parameters. `monitored`: expressions to be followed."""
    whole = VariationalModel(model, initial, free, inputs.pairs, inputs.count, monitored)
    propagator = propagator_for(whole, integrator_named("runge_kutta"), whole.varied)  # type: ignore[arg-type]
    return PlannedSimulation(inputs, whole, propagator, substeps)


def choose_substeps(simulation: PlannedSimulation, c: np.ndarray, p: np.ndarray, x0: np.ndarray) -> PlannedSimulation:
    """With as many steps between samples as outputs and sensitivities need at a point."""
    before, substeps = None, simulation.substeps
    while substeps <= MAX_SUBSTEPS:
        try:
            now = replace(simulation, substeps=substeps).run(c, p, x0, derivatives=False)
        except SimulationDiverged:
            now = None
        if before is not None and now is not None and _agree(before, now):
            return replace(simulation, substeps=substeps // 2)
        before, substeps = now, 2 * substeps
    return replace(simulation, substeps=MAX_SUBSTEPS)


def _agree(a: SensitivityResult, b: SensitivityResult) -> bool:
    for x, y in ((a.outputs, b.outputs), (a.sensitivities, b.sensitivities)):
        scale = np.max(np.abs(y), axis=0)
        if np.any(np.max(np.abs(x - y), axis=0) > PLAN_INTEGRATION * np.where(scale > 0, scale, 1.0)):
            return False
    return True
