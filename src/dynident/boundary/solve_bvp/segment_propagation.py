"""Segments: where does each segment of a time interval lead, and how does its end follow its begin?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from os import cpu_count
from typing import Any, Protocol, TypeVar

import numpy as np

from dynident.errors import SimulationDiverged
from dynident.integrators.grid import Grid
from dynident.integrators.propagation import CompiledPropagator, Propagation, Propagator

Part = TypeVar("Part")

WORTH_A_THREAD = 8_000  # steps; with fewer a thread costs more than it saves (benchmarks/boundary_values.py)


@dataclass(frozen=True, eq=False)
class SegmentEnds:
    """What a run over all segments gives."""

    states: np.ndarray  # (segments, states): where each segment leads
    links: Any  # None without sensitivities; (segments, states, states + parameters): by (its begin, p)
    path: Any = None  # (grid nodes, states): the states inside of the segments, where they are known


class Segments(Protocol):
    """All segments at once; what happens inside of one (steps, inputs, jumps) is its own affair.

    `run` raises SimulationDiverged where a number is not finite. The next run with sensitivities may overwrite its arrays.
    """

    @property
    def count(self) -> int: ...

    @property
    def states(self) -> int: ...

    @property
    def parameters(self) -> int: ...

    def run(self, begins: np.ndarray, p: np.ndarray, sensitivities: bool) -> SegmentEnds:
        """`begins`: (count, states); `p`: (parameters,)."""
        ...


class PropagatedSegments:
    """A march along a grid; segment i runs from grid node first[i] to first[i + 1].

    `parameters`: how many there are in all; `place` gives those of the march from them, and `free` says which of them the
    march's free parameters are, in its order. Unless said otherwise all three are the same.
    """

    def __init__(self, march: Propagator, grid: Grid, first: np.ndarray, states: int, parameters: int = 0,
                 place: Callable[[np.ndarray], np.ndarray] | None = None, free: Sequence[int] | None = None):
        self.march, self.grid, self.first = march, grid, np.ascontiguousarray(first, dtype=np.int64)
        self.count, self.states, self.parameters = len(first) - 1, states, parameters
        self.place = place or (lambda p: p)
        self.columns = np.concatenate([np.arange(states), states + np.arange(parameters if free is None else 0),
                                       states + np.array(free or [], dtype=int)]).astype(int)
        self.slices = self._slices()

    def _slices(self) -> list[tuple[int, int]]:
        """Only compiled marches can share a process."""
        steps = np.concatenate([[0], np.cumsum(self.grid.substeps)])[self.first]
        return partition(steps) if isinstance(self.march, CompiledPropagator) else [(0, self.count)]

    def run(self, begins: np.ndarray, p: np.ndarray, sensitivities: bool) -> SegmentEnds:
        everything = self.place(np.asarray(p, dtype=float))

        def part(edges: tuple[int, int]) -> Propagation:
            return self._part(*edges, begins, everything, sensitivities)

        parts = run_threads(part, self.slices)
        paths = [m.states[:-1] for m in parts[:-1]] + [parts[-1].states]
        return SegmentEnds(np.concatenate([m.end_states for m in parts]),
                           self._links([m.end_jacobian for m in parts]) if sensitivities else None,
                           np.concatenate(paths))

    def _links(self, parts: list[Any]) -> np.ndarray:
        """With a column for every parameter, also for those that no segment depends on."""
        links = np.concatenate(parts)
        if self.columns.size == self.states + self.parameters:
            return links
        wide = np.zeros((*links.shape[:2], self.states + self.parameters))
        wide[:, :, self.columns] = links
        return wide

    def _part(self, begin: int, end: int, begins: np.ndarray, p: np.ndarray, sensitivities: bool) -> Propagation:
        low, high = int(self.first[begin]), int(self.first[end])
        grid = slice_grid(self.grid, low, high)
        try:
            return self.march.run(grid, self.first[begin:end + 1] - low, begins[begin:end], p, sensitivities)
        except SimulationDiverged as wall:
            raise SimulationDiverged(wall.time, wall.node + low, wall.detail, wall.what) from None


def partition(steps: np.ndarray) -> list[tuple[int, int]]:
    """Ranges of segments of about equal work, one per thread; `steps`: how many there are before each segment, and in all."""
    count, total = len(steps) - 1, int(steps[-1] - steps[0])
    threads = min(cpu_count() or 1, total // WORTH_A_THREAD, count)
    if threads < 2:
        return [(0, count)]
    cuts = np.searchsorted(steps, np.linspace(steps[0], steps[-1], threads + 1)[1:-1])
    return list(pairwise(np.unique(np.concatenate([[0], cuts, [count]])).tolist()))


def run_threads(part: Callable[[tuple[int, int]], Part], ranges: list[tuple[int, int]]) -> list[Part]:
    """Every range in a thread of its own; compiled loops let go of the interpreter."""
    if len(ranges) == 1:
        return [part(ranges[0])]
    with ThreadPoolExecutor(len(ranges)) as pool:
        return list(pool.map(part, ranges))


def slice_grid(grid: Grid, low: int, high: int) -> Grid:
    """The nodes from `low` to `high` of a grid."""
    if high - low == grid.nodes - 1:
        return grid
    return replace(grid, time=grid.time[low:high + 1], substeps=grid.substeps[low:high], u_begin=grid.u_begin[low:high],
                   u_end=grid.u_end[low:high], u_node=grid.u_node[low:high + 1], output_mask=grid.output_mask[low:high + 1])
