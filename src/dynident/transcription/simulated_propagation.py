"""Propagation by simulations: a model without equations from segment to segment, with sensitivities by central differences.

A segment is a simulation that begins with a state; each parameter and each state is moved to either side. What that costs is
two simulations of the record per column, however many segments there are.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from dynident.errors import SimulationDiverged
from dynident.integrators.grid import Grid
from dynident.integrators.propagation import Propagation
from dynident.transcription.simulators import SegmentSimulator

PARTS_KEPT = 64  # records in segments, whose inputs a simulator then knows


@dataclass(frozen=True, eq=False)
class DifferenceScale:
    """How large what is moved is, and between which bounds it stays."""

    states: np.ndarray  # (states,) typical sizes
    parameters: np.ndarray  # (free,) typical sizes
    lower: np.ndarray  # (free,)
    upper: np.ndarray


@dataclass(frozen=True, eq=False)
class SimulatedPropagator:
    """A `Propagator` on simulations that begin with any state."""

    simulator: SegmentSimulator
    outputs: int
    free: np.ndarray  # places of the free parameters
    scale: DifferenceScale

    def run(self, grid: Grid, first: np.ndarray, nodes: np.ndarray, p: np.ndarray, sensitivities: bool,
            reuse: Propagation | None = None) -> Propagation:
        made = []
        for begin, part in zip(first, _segments(grid, tuple(int(k) for k in first), self.outputs), strict=False):
            try:
                made.append(self._segment(part, nodes[len(made)], p, sensitivities))
            except SimulationDiverged as bad:
                raise SimulationDiverged(bad.time, int(begin), bad.detail, bad.what, bad.lost) from None
        last = len(made) - 1
        own = [slice(None) if i == last else slice(0, -1) for i in range(len(made))]  # a node is that of the segment behind it
        jacobian, end_jacobian = None, None
        if sensitivities:
            jacobian = np.ascontiguousarray(np.concatenate([m.output_jacobian[rows] for m, rows in zip(made, own, strict=True)]))
            end_jacobian = np.stack([m.end_jacobian for m in made])
        return Propagation(np.concatenate([m.states[rows] for m, rows in zip(made, own, strict=True)]),
                           np.concatenate([m.outputs[rows] for m, rows in zip(made, own, strict=True)]), jacobian,
                           np.stack([m.states[-1] for m in made]), end_jacobian)

    def _segment(self, grid: Grid, x: np.ndarray, p: np.ndarray, sensitivities: bool) -> _Segment:
        ups, downs = self._moved(x, p) if sensitivities else (np.zeros(0), np.zeros(0))
        rows_x, rows_p = np.tile(x, (1 + 2 * ups.size, 1)), np.tile(p, (1 + 2 * ups.size, 1))
        for i, (up, down) in enumerate(zip(ups, downs, strict=True)):
            rows, place = (rows_x, i) if i < x.size else (rows_p, self.free[i - x.size])
            rows[1 + 2 * i, place] += up
            rows[2 + 2 * i, place] -= down
        outputs, states = self.simulator.run_rows(rows_p, rows_x, grid)
        gone = (ups + downs)[:, None, None]
        return _Segment(outputs[0], states[0], np.moveaxis((outputs[1::2] - outputs[2::2]) / gone, 0, -1),
                        ((states[1::2, -1] - states[2::2, -1]) / gone[..., 0]).T)

    def _moved(self, x: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How far each state and free parameter is moved up and down: noise and curvature in balance, within the bounds."""
        values = np.concatenate([x, p[self.free]])
        size = np.maximum(np.abs(values), np.concatenate([self.scale.states, self.scale.parameters]))
        step = np.cbrt(3 * self.simulator.noise) * size
        open_ended = np.full(x.size, np.inf)
        up = np.minimum(step, np.concatenate([open_ended, self.scale.upper - p[self.free]]))
        down = np.minimum(step, np.concatenate([open_ended, p[self.free] - self.scale.lower]))
        return np.maximum(up, np.where(down > 0, 0.0, step)), np.maximum(down, 0.0)


@dataclass(frozen=True, eq=False)
class _Segment:
    outputs: np.ndarray  # (nodes, outputs)
    states: np.ndarray  # (nodes, states)
    output_jacobian: np.ndarray  # (nodes, outputs, states + free)
    end_jacobian: np.ndarray  # (states, states + free)


@functools.lru_cache(maxsize=PARTS_KEPT)  # the same object for the same segment: its inputs travel to the simulator once
def _segments(grid: Grid, first: tuple[int, ...], outputs: int) -> tuple[Grid, ...]:
    """A record as one grid a segment, with outputs and states everywhere; outputs must be finite where they are asked for."""
    parts = []
    for i, (begin, end) in enumerate(zip(first[:-1], first[1:], strict=True)):
        nodes = slice(begin, end + 1)
        wanted = grid.output_mask[nodes].copy()
        if i < len(first) - 2:
            wanted[-1] = 0
        finite = grid.finite_mask[nodes] * wanted[:, None] if grid.finite_mask.shape[1] else np.tile(wanted[:, None], outputs)
        parts.append(Grid(grid.time[nodes], 0, grid.substeps[begin:end], grid.u_begin[begin:end], grid.u_end[begin:end],
                          grid.u_node[nodes], np.ones(end + 1 - begin, np.uint8), finite_mask=np.ascontiguousarray(finite), record=grid))
    return tuple(parts)
