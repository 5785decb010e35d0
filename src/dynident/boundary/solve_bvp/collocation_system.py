"""Collocation system (lifted): one implicit step per segment, whose stages are unknowns beside the states at the nodes.

Nothing is simulated, so that nothing can run away from a poor guess: a step is an equation between the values that stand
there. Stages are eliminated segment by segment; what remains is a `ShootingSystem` with one step per segment, and the same
elimination along time solves it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynident.boundary.solve_bvp.boundary_conditions import BoundaryConditions
from dynident.boundary.solve_bvp.root_finding import FactoredSystem
from dynident.boundary.solve_bvp.segment_propagation import partition, run_threads, slice_grid
from dynident.boundary.solve_bvp.shooting_system import ROUNDING, ShootingFactors, factor_shooting_system, rounding_errors
from dynident.integrators.collocation_defects import CollocationDefects, Collocator, CompiledCollocator
from dynident.integrators.grid import Grid


@dataclass(frozen=True, eq=False)
class CollocationFactors:
    """The factored Jacobian; stages follow state and parameters."""

    linked: ShootingFactors
    stage: np.ndarray  # (segments, stage unknowns, states + parameters)

    @property
    def condition(self) -> float:
        return self.linked.condition

    @property
    def softest(self) -> np.ndarray:
        return self.linked.softest

    @property
    def growth(self) -> np.ndarray:
        return self.linked.growth

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        segments, unknowns, _ = self.stage.shape
        outer = self.linked.solve(rhs[:rhs.size - segments * unknowns])
        n, m = self.linked.sizes.size, self.linked.parameter_sizes.size
        begins = outer[:segments * n].reshape(segments, n)
        moved = np.hstack([begins, np.tile(outer[outer.size - m:], (segments, 1))])
        inner = rhs[rhs.size - segments * unknowns:] + np.einsum("kij,kj->ki", self.stage, moved).ravel()
        return np.concatenate([outer, inner])


class CollocationSystem:
    """Unknowns: states at all nodes, p, then the stages of every segment. A `SquareSystem`.

    The equations of the stages are given as what Newton's method would change them by, at fixed state and parameters.
    `n`: number of states; `free`: which of the parameters the collocator's are; `points`: where in a step each stage is the
    state.
    """

    def __init__(self, collocator: Collocator, grid: Grid, ends: BoundaryConditions, points: tuple[float, ...], n: int,
                 free: tuple[int, ...], scale: np.ndarray, regular: bool = True):
        self.collocator, self.grid, self.ends, self.points, self.free = collocator, grid, ends, points, list(free)
        self.states, self.count = n, grid.nodes - 1
        self.sizes, self.parameter_sizes, self.regular = scale[:n], scale[n:], regular
        together = isinstance(collocator, CompiledCollocator)  # CasADi's own machine takes no threads
        self.slices = partition(np.arange(self.count + 1)) if together else [(0, self.count)]
        self.room: dict[tuple[int, bool], CollocationDefects] = {}  # used again: fresh memory costs as much as a run
        self.scale = np.concatenate([np.tile(self.sizes, self.count + 1), self.parameter_sizes,
                                     np.tile(self.sizes, self.count * len(points))])

    def pack(self, nodes: np.ndarray, p: np.ndarray, stages: np.ndarray | None = None) -> np.ndarray:
        """z from states at the nodes (segments + 1, states), p, and stages (segments, points, states)."""
        if stages is None:
            share = np.array(self.points)[None, :, None]
            stages = (1 - share) * nodes[:-1, None] + share * nodes[1:, None]
        return np.concatenate([np.ravel(nodes), p, np.ravel(stages)])

    def unpack(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        count, m = (self.count + 1) * self.states, self.parameter_sizes.size
        return z[:count].reshape(-1, self.states), z[count:count + m]

    def stages(self, z: np.ndarray) -> np.ndarray:
        """(segments, points, states)"""
        return z[z.size - self.count * len(self.points) * self.states:].reshape(self.count, len(self.points), self.states)

    def run(self, z: np.ndarray, sensitivities: bool) -> CollocationDefects:
        """All intervals; the arrays are overwritten by the next run."""
        nodes, p = self.unpack(z)
        stages, used = self.stages(z).reshape(self.count, -1), p[self.free]

        def part(edges: tuple[int, int]) -> CollocationDefects:
            low, high = edges
            return self.collocator.run(slice_grid(self.grid, low, high), nodes[low:high + 1], stages[low:high], used,
                                       sensitivities, self.room.get((low, sensitivities)))

        parts = run_threads(part, self.slices)
        self.room.update({(low, sensitivities): out for (low, _), out in zip(self.slices, parts, strict=True)})
        return _joined(parts, sensitivities)

    def value(self, z: np.ndarray) -> np.ndarray:
        nodes, p = self.unpack(z)
        out = self.run(z, False)
        return np.concatenate([out.defect.ravel(), self.ends.value(nodes[0], nodes[-1], p), -out.correction.ravel()])

    def linearize(self, z: np.ndarray) -> FactoredSystem:
        nodes, p = self.unpack(z)
        out = self.run(z, True)
        tied = self.ends.linearize(nodes[0], nodes[-1], p)
        links, stage = self.widened(out.link[:-1]), self.widened(out.stage)
        linked = factor_shooting_system(links, tied, self.sizes, self.parameter_sizes, self.regular)
        value = np.concatenate([out.defect.ravel(), tied[0], -out.correction.ravel()])
        large = np.maximum(np.abs(nodes), self.sizes), np.maximum(np.abs(p), self.parameter_sizes)
        before = np.hstack([large[0][:-1], np.tile(large[1], (self.count, 1))])
        inner = np.abs(self.stages(z)).reshape(self.count, -1) + np.einsum("kij,kj->ki", np.abs(stage), before)
        rounding = np.concatenate([rounding_errors(links, tied, *large), ROUNDING * inner.ravel()])
        return FactoredSystem(value, CollocationFactors(linked, stage), rounding)

    def widened(self, slopes: np.ndarray) -> np.ndarray:
        """With a column for every parameter, also for those that no step depends on."""
        n, m = self.states, self.parameter_sizes.size
        wide = np.zeros((*slopes.shape[:2], n + m))
        wide[:, :, :n] = slopes[:, :, :n]
        wide[:, :, [n + k for k in self.free]] = slopes[:, :, n:]
        return wide


def _joined(parts: list[CollocationDefects], sensitivities: bool) -> CollocationDefects:
    """Ranges of intervals as one; outputs are not asked for."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    links = [part.link[:-1] for part in parts[:-1]] + [parts[-1].link] if sensitivities else []
    return CollocationDefects(first.outputs, None, np.concatenate([part.defect for part in parts]),
                      np.concatenate(links) if sensitivities else None,
                      np.concatenate([part.correction for part in parts]),
                      np.concatenate([part.stage for part in parts]) if sensitivities else None)
