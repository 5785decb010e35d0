"""Discrete propagation: run a model in discrete time along a record, one step of its map per sample time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynident.errors import ProblemError
from dynident.integrators.explicit import EULER
from dynident.integrators.grid import Grid
from dynident.integrators.propagation import Propagation, propagator_for
from dynident.models.delay import MapAsRate
from dynident.models.equations import EquationModel
from dynident.tolerances import SAMPLE_TIME_JITTER


class DiscretePropagator:
    """The map as an Euler step of length one over the number of the sample; inputs are held from sample to sample."""

    def __init__(self, model: EquationModel, free: tuple[int, ...], derivatives: bool):
        self.model = model
        self.inner = propagator_for(MapAsRate(model), EULER, free, derivatives)  # type: ignore[arg-type]

    def run(self, grid: Grid, first: np.ndarray, nodes: np.ndarray, p: np.ndarray, sensitivities: bool,
            reuse: Propagation | None = None) -> Propagation:
        counted = grid_of_sample_numbers(grid, float(self.model.sample_time or 0))
        return self.inner.run(counted, first, nodes, p, sensitivities, reuse)


def grid_of_sample_numbers(grid: Grid, sample_time: float) -> Grid:
    """The grid over the number of the sample; refused where the record is not sampled in whole steps."""
    steps = np.diff(grid.time) / sample_time
    whole = np.round(steps)
    bad = np.flatnonzero((np.abs(steps - whole) > SAMPLE_TIME_JITTER) | (whole < 1))
    if bad.size:
        k = int(bad[0])
        raise ProblemError(f"the model steps by sample_time = {sample_time:g}, but from t = {grid.time[k]:g} to "
                           f"{grid.time[k + 1]:g} the record takes {steps[k]:.6g} steps. Resample it, or set sample_time.")
    begin = grid.time[0] / sample_time
    return replace(grid, time=begin + np.concatenate([[0.0], np.cumsum(whole)]), substeps=whole.astype(np.int32))
