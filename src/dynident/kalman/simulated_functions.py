"""Simulated functions: one step and the measurement function of a model without equations, with Jacobians by differences.

A step is a simulation from one moment to the next that begins with the filter's state and parameters; the outputs are those of
a simulation of a single moment. Differences are central. All points of a Jacobian, or all sigma points, go to the simulator in
one message.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynident.errors import SimulationDiverged
from dynident.integrators.grid import Grid
from dynident.models.augmented import Augmented
from dynident.transcription.simulators import SegmentSimulator


@dataclass(frozen=True, eq=False)
class SimulatedFunctions:
    """A model that is simulated, as a filter asks for it; what does not come to a good end is NaN, which stops the filter."""

    simulator: SegmentSimulator
    augmented: Augmented
    size: np.ndarray  # (states + free,) typical sizes, in the filter's coordinates

    def step(self, t: float, h: float, a: np.ndarray, u0: np.ndarray, u1: np.ndarray, p: np.ndarray, substeps: int = 1
             ) -> tuple[np.ndarray, np.ndarray]:
        """The states at the end of a step, and their Jacobian (states, size)."""
        moved = self.moved(t, h, self._around(a), u0, u1, p, substeps)
        return moved[0], self._slopes(moved, a)

    def outputs(self, t: float, a: np.ndarray, u: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The outputs, and their Jacobian (outputs, size)."""
        measured = self.measured(t, self._around(a), u, p)
        return measured[0], self._slopes(measured, a)

    def moved(self, t: float, h: float, points: np.ndarray, u0: np.ndarray, u1: np.ndarray, p: np.ndarray, substeps: int = 1
              ) -> np.ndarray:
        """The states (points, states) at the end of a step from each of these points (points, size)."""
        grid = _grid(np.array([t, t + h]), np.array([substeps], np.int32), u0[None], u1[None], np.vstack([u0, u1]),
                     len(self.augmented.model.outputs))
        return self._simulated(points, p, grid)[1][:, -1]

    def measured(self, t: float, points: np.ndarray, u: np.ndarray, p: np.ndarray) -> np.ndarray:
        """The outputs (points, outputs) at these points."""
        nothing = np.zeros((0, u.size))
        grid = _grid(np.array([t]), np.zeros(0, np.int32), nothing, nothing, u[None], len(self.augmented.model.outputs))
        return self._simulated(points, p, grid)[0][:, 0]

    def _simulated(self, points: np.ndarray, p: np.ndarray, grid: Grid) -> tuple[np.ndarray, np.ndarray]:
        model = self.augmented.model
        x, rows = points[:, :len(model.states)], np.tile(p, (len(points), 1))
        for place, (index, c) in enumerate(zip(self.augmented.free, self.augmented.coordinates, strict=True)):
            rows[:, index] = c.value(points[:, len(model.states) + place])
        try:
            return self.simulator.run_rows(rows, np.ascontiguousarray(x), grid)
        except SimulationDiverged:
            return tuple(np.full((len(points), grid.nodes, len(names)), np.nan)  # type: ignore[return-value]
                         for names in (model.outputs, model.states))

    def _steps(self, a: np.ndarray) -> np.ndarray:
        return np.cbrt(3 * self.simulator.noise) * np.maximum(np.abs(a), self.size)  # noise and curvature in balance

    def _around(self, a: np.ndarray) -> np.ndarray:
        """The point itself, then each entry moved up, then each moved down."""
        off = np.diag(self._steps(a))
        return np.vstack([a, a + off, a - off])

    def _slopes(self, values: np.ndarray, a: np.ndarray) -> np.ndarray:
        return ((values[1:a.size + 1] - values[a.size + 1:]) / (2 * self._steps(a)[:, None])).T


def _grid(time: np.ndarray, substeps: np.ndarray, u_begin: np.ndarray, u_end: np.ndarray, u_node: np.ndarray, outputs: int
          ) -> Grid:
    """With outputs and states everywhere, and outputs that need not be finite: who measures what is not known here."""
    return Grid(time, 0, substeps, u_begin, u_end, u_node, np.ones(time.size, np.uint8),
                finite_mask=np.zeros((time.size, outputs), np.uint8))
