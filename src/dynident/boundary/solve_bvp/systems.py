"""Systems: multiple shooting and collocation, as square systems of segments that must meet and of conditions at both ends.

`ShootingSystem`: segments are followed from their begin. `CollocationSystem` (lifted): one implicit step per segment, whose
stages are unknowns beside the states at the nodes. There nothing is simulated, so that nothing can run away from a poor guess:
a step is an equation between the values that stand there. Stages are eliminated segment by segment; what remains is a
`ShootingSystem` with one step per segment, and the same elimination along time solves it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from os import cpu_count
from typing import Any, Protocol, TypeVar

import numpy as np

from dynident.boundary.solve_bvp.block_elimination import BlockElimination, measure_links
from dynident.boundary.solve_bvp.problem import BoundaryConditions, BoundaryJacobian
from dynident.boundary.solve_bvp.root_finding import FactoredSystem
from dynident.errors import SimulationDiverged
from dynident.integrators.collocation_defects import CollocationDefects, Collocator, CompiledCollocator
from dynident.integrators.grid import Grid
from dynident.integrators.propagation import CompiledPropagator, Propagation, Propagator
from dynident.tolerances import BVP_EQUATION_ROUNDING

Part = TypeVar("Part")

STEPS_WORTH_A_THREAD = 8_000  # steps; with fewer a thread costs more than it saves (benchmarks/boundary_values.py)


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
        except SimulationDiverged as divergence:
            raise SimulationDiverged(divergence.time, divergence.node + low, divergence.detail, divergence.what) from None


def partition(steps: np.ndarray) -> list[tuple[int, int]]:
    """Ranges of segments of about equal work, one per thread; `steps`: how many there are before each segment, and in all."""
    count, total = len(steps) - 1, int(steps[-1] - steps[0])
    if total < 2 * STEPS_WORTH_A_THREAD:  # before the system is asked for its processors: that takes longer than a short run
        return [(0, count)]
    threads = min(cpu_count() or 1, total // STEPS_WORTH_A_THREAD, count)
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


# multiple shooting


@dataclass(frozen=True, eq=False)
class ShootingFactors:
    """The factored Jacobian; inside, every state is divided by its typical size."""

    elimination: BlockElimination
    sizes: np.ndarray  # (states,)
    parameter_sizes: np.ndarray  # (parameters,)
    growth: np.ndarray  # (segments,) how much a change at the begin of a segment can grow to its end

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """For one right-hand side (equations,), or many (any number, equations)."""
        n, count, many = self.sizes.size, self.elimination.segments * self.sizes.size, rhs.shape[:-1]
        defects = rhs[..., :count].reshape(*many, self.elimination.segments, n) / self.sizes
        s, p = self.elimination.solve(defects, rhs[..., count:])
        s *= self.sizes
        p *= self.parameter_sizes
        return np.concatenate([s.reshape(*many, count + n), p], axis=-1)

    def answer(self, changes: np.ndarray) -> np.ndarray:
        """How nodes and parameters follow changes of segments and conditions: the same here."""
        return self.solve(changes)

    @functools.cached_property
    def least_constrained_direction(self) -> np.ndarray:
        """How states at the nodes and p follow the condition at the ends that moves them most, per unit.

        A unit is what the condition changes by where all states move by their typical size.
        """
        units = self.elimination.row_size[self.sizes.size:]
        changes = np.zeros((units.size, self.elimination.segments * self.sizes.size + units.size))
        changes[:, -units.size:] = np.diag(units)
        moves = self.answer(changes)
        return np.asarray(moves[np.argmax(self._reach(moves))])

    def _reach(self, moves: np.ndarray) -> np.ndarray:
        """The largest change of each, in typical sizes."""
        nodes = self.elimination.segments + 1
        return np.asarray(np.max(np.abs(moves) / np.concatenate([np.tile(self.sizes, nodes), self.parameter_sizes]), axis=-1))

    @property
    def condition(self) -> float:
        """How far the solution moves at the most, in typical sizes, per unit change of a condition at the ends.

        This is the condition number that MUSN and the thesis warn about: its logarithm is the number of digits that are lost.
        """
        return float(self._reach(self.least_constrained_direction))


def factor_shooting_system(links: np.ndarray, tied: BoundaryJacobian, sizes: np.ndarray, parameter_sizes: np.ndarray,
                           regular: bool = True) -> ShootingFactors:
    """From the derivatives of all segments' ends and of the conditions at both ends; `regular` as for `BlockElimination`."""
    _, begin, end, shared = tied
    scaled = links * np.concatenate([sizes, parameter_sizes]) / sizes[:, None]
    elimination = BlockElimination(scaled, begin * sizes, end * sizes, shared * parameter_sizes, regular)
    return ShootingFactors(elimination, sizes, parameter_sizes, growth_of(links, sizes))


def rounding_errors(links: np.ndarray, tied: BoundaryJacobian, nodes: np.ndarray, p: np.ndarray) -> np.ndarray:
    """(segments x states + conditions,) what rounding leaves in each equation: units in the last place of its terms.

    Of `nodes` and `p` there may be many; then the first axis counts them.
    """
    _, begin, end, shared = (np.abs(each) for each in tied)
    links, nodes, p = np.abs(links), np.abs(nodes), np.abs(p)
    n = nodes.shape[-1]
    met = (links[:, :, :n] @ nodes[..., :-1, :, None])[..., 0] + nodes[..., 1:, :]
    if p.shape[-1]:
        met += (links[:, :, n:] @ p[..., None, :, None])[..., 0]
    held = nodes[..., 0, :] @ begin.T + nodes[..., -1, :] @ end.T + p @ shared.T
    return BVP_EQUATION_ROUNDING * np.concatenate([met.reshape(*met.shape[:-2], -1), held], axis=-1)


def growth_of(links: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """(segments,) how much a change at the begin of a segment grows to its end, at the most; states in typical sizes."""
    scaled = np.abs(links[:, :, :sizes.size]) * sizes / sizes[:, None]
    return np.max(np.sum(scaled, axis=2), axis=1)


class ShootingSystem:
    """Unknowns: states at the segments' begins and at the last end, then p. A `NonlinearSystem`.

    `scale`: typical size of each state, then of each parameter (states + parameters,); ones unless given. `regular`: whether
    conditions that do not determine the solution are refused, or solved as far as they do.
    """

    def __init__(self, segments: Segments, ends: BoundaryConditions, scale: np.ndarray | None = None, regular: bool = True):
        self.segments, self.ends, self.regular = segments, ends, regular
        n, m = segments.states, segments.parameters
        sizes = np.ones(n + m) if scale is None else np.asarray(scale, dtype=float)
        self.sizes, self.parameter_sizes = sizes[:n], sizes[n:]
        self.scale = np.concatenate([np.tile(self.sizes, segments.count + 1), self.parameter_sizes])

    def pack(self, nodes: np.ndarray, p: np.ndarray) -> np.ndarray:
        """z from the states at all nodes (segments + 1, states) and p."""
        return np.concatenate([np.ravel(nodes), p])

    def unpack(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        count = (self.segments.count + 1) * self.segments.states
        return z[:count].reshape(-1, self.segments.states), z[count:]

    def value(self, z: np.ndarray) -> np.ndarray:
        nodes, p = self.unpack(z)
        ends = self.segments.run(nodes[:-1], p, False)
        return np.concatenate([(ends.states - nodes[1:]).ravel(), self.ends.value(nodes[0], nodes[-1], p)])

    def linearize(self, z: np.ndarray) -> FactoredSystem:
        nodes, p = self.unpack(z)
        ends = self.segments.run(nodes[:-1], p, True)
        tied = self.ends.linearize(nodes[0], nodes[-1], p)
        factors = factor_shooting_system(ends.links, tied, self.sizes, self.parameter_sizes, self.regular)
        return FactoredSystem(np.concatenate([(ends.states - nodes[1:]).ravel(), tied[0]]), factors,
                          rounding_errors(ends.links, tied, *self.at_least_typical(nodes, p)))

    def at_least_typical(self, nodes: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Magnitudes for the rounding of a step: what stands near zero came there from about its typical size."""
        return np.maximum(np.abs(nodes), self.sizes), np.maximum(np.abs(p), self.parameter_sizes)


# collocation


@dataclass(frozen=True, eq=False)
class CollocationFactors:
    """The factored Jacobian; stages follow state and parameters."""

    linked: ShootingFactors
    stage: np.ndarray  # (segments, stage unknowns, states + parameters)

    @property
    def condition(self) -> float:
        return self.linked.condition

    @property
    def least_constrained_direction(self) -> np.ndarray:
        return self.linked.least_constrained_direction

    @property
    def growth(self) -> np.ndarray:
        return self.linked.growth

    def answer(self, changes: np.ndarray) -> np.ndarray:
        """How nodes and parameters follow changes of segments and conditions, where the equations of the stages stay."""
        return self.linked.solve(changes)

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        segments, unknowns, _ = self.stage.shape
        outer = self.linked.solve(rhs[:rhs.size - segments * unknowns])
        n, m = self.linked.sizes.size, self.linked.parameter_sizes.size
        begins = outer[:segments * n].reshape(segments, n)
        moved = np.hstack([begins, np.tile(outer[outer.size - m:], (segments, 1))])
        inner = rhs[rhs.size - segments * unknowns:] + np.einsum("kij,kj->ki", self.stage, moved).ravel()
        return np.concatenate([outer, inner])


class CollocationSystem:
    """Unknowns: states at all nodes, p, then the stages of every segment. A `NonlinearSystem`.

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
        sizes = np.concatenate([self.sizes, self.parameter_sizes])
        scaled, growth, rounding = measure_links(links, stage, z, sizes, BVP_EQUATION_ROUNDING)
        _, begin, end, shared = tied
        elimination = BlockElimination(scaled, begin * self.sizes, end * self.sizes, shared * self.parameter_sizes,
                                       self.regular)
        linked = ShootingFactors(elimination, self.sizes, self.parameter_sizes, growth)
        value = np.concatenate([out.defect.ravel(), tied[0], -out.correction.ravel()])
        at = [np.maximum(np.abs(each), size) for each, size in ((nodes[0], self.sizes), (nodes[-1], self.sizes),
                                                                (p, self.parameter_sizes))]
        held = sum(np.abs(slope) @ each for slope, each in zip(tied[1:], at, strict=True))
        rounding[self.count * self.states:][:held.size] = BVP_EQUATION_ROUNDING * held
        return FactoredSystem(value, CollocationFactors(linked, stage), rounding)

    def widened(self, slopes: np.ndarray) -> np.ndarray:
        """With a column for every parameter, also for those that no step depends on."""
        n, m = self.states, self.parameter_sizes.size
        if not m:
            return slopes.copy()  # the next run overwrites it
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
