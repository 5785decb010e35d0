"""Propagation by simulations: a model without equations from segment to segment, with sensitivities by central differences.

A segment is a simulation that begins with a state; each parameter and each state is moved to either side. What that costs is
two simulations of the record per column, however many segments there are.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

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
        made: list[_Segment] = []
        for begin, part in zip(first, _segments(grid, tuple(int(k) for k in first), self.outputs), strict=False):
            try:
                unknown = np.ones(nodes.shape[1] + self.free.size, bool)
                if not made and grid.unknown_first is not None:  # by states that are known no derivative is asked for
                    unknown[:nodes.shape[1]] = False
                    unknown[grid.unknown_first] = True
                made.append(self._segment(part, nodes[len(made)], p, np.flatnonzero(unknown) if sensitivities else ()))
            except SimulationDiverged as bad:
                raise SimulationDiverged(bad.time, int(begin), bad.detail, bad.what, bad.lost) from None
        last = len(made) - 1
        own = [slice(None) if i == last else slice(0, -1) for i in range(len(made))]  # a node is that of the segment behind it
        jacobian, end_jacobian = None, None
        if sensitivities:
            jacobian = np.concatenate([m.output_jacobian[rows] for m, rows in zip(made, own, strict=True)])
            end_jacobian = np.stack([m.end_jacobian for m in made])
        return Propagation(np.concatenate([m.states[rows] for m, rows in zip(made, own, strict=True)]),
                           np.concatenate([m.outputs[rows] for m, rows in zip(made, own, strict=True)]), jacobian,
                           np.stack([m.states[-1] for m in made]), end_jacobian)

    def _segment(self, grid: Grid, x: np.ndarray, p: np.ndarray, columns: Sequence[int] | np.ndarray) -> _Segment:
        """With derivatives by these of the states and free parameters."""
        ups, downs = self._moved(x, p)
        rows_x, rows_p = np.tile(x, (1 + 2 * len(columns), 1)), np.tile(p, (1 + 2 * len(columns), 1))
        for k, i in enumerate(columns):
            rows, place = (rows_x, i) if i < x.size else (rows_p, self.free[i - x.size])
            rows[1 + 2 * k, place] += ups[i]
            rows[2 + 2 * k, place] -= downs[i]
        outputs, states = self.simulator.run_rows(rows_p, rows_x, grid)
        jacobian, end_jacobian = np.zeros((*outputs.shape[1:], ups.size)), np.zeros((x.size, ups.size))
        for k, i in enumerate(columns):
            one, other, gone = 1 + 2 * k, 2 + 2 * k, ups[i] + downs[i]
            with np.errstate(invalid="ignore"):
                slope = (outputs[one] - outputs[other]) / gone
            jacobian[..., i] = np.where(np.isfinite(outputs[0]), slope, 0.0)  # what nobody measures need not be finite
            end_jacobian[:, i] = (states[one, -1] - states[other, -1]) / gone
        return _Segment(outputs[0], states[0], jacobian, end_jacobian)

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
    for i, (begin, end) in enumerate(pairwise(first)):
        nodes = slice(begin, end + 1)
        wanted = grid.output_mask[nodes].copy()
        if i < len(first) - 2:
            wanted[-1] = 0
        finite = grid.finite_mask[nodes] * wanted[:, None] if grid.finite_mask.shape[1] else np.tile(wanted[:, None], outputs)
        parts.append(Grid(grid.time[nodes], 0, grid.substeps[begin:end], grid.u_begin[begin:end], grid.u_end[begin:end],
                          grid.u_node[nodes], np.ones(end + 1 - begin, np.uint8), record=grid,
                          finite_mask=np.ascontiguousarray(finite)))
    return tuple(parts)
