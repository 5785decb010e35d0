"""Delayed propagation: run a model with dead times along a record, on a grid with nodes where delayed inputs jump or bend."""

from __future__ import annotations

from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from dynident.errors import SimulationDiverged
from dynident.integrators.grid import Grid
from dynident.integrators.propagation import Propagation, Propagator, propagator_for
from dynident.integrators.scheme import AnyIntegrator
from dynident.models.delay import MovingGridModel
from dynident.models.equations import EquationModel

MOST_GRIDS = 64  # kept for another run
NEAREST_NODES = 1e-9  # of a sampling interval: how close a shifted node may stand to a sample; nearer ones are moved there


class DelayedPropagator:
    """The propagator of the model without delays, on a grid that is made anew for each value of the dead times."""

    def __init__(self, model: EquationModel, integrator: AnyIntegrator, free: tuple[int, ...], derivatives: bool):
        self.model, self.sizes = model, (len(model.states), len(model.inputs), len(model.outputs), len(free))
        p = ca.SX.sym("p", len(model.parameters))
        dead_times = ca.vertcat(*(delay.dead_time(p) for delay in model.delays))
        self.dead_times = ca.Function("dead_times", [p], [ca.densify(dead_times)])
        moving = derivatives and any(ca.which_depends(dead_times, p[list(free), 0], 1, False)) if free else False
        self.plain = MovingGridModel(model, moving)
        self.inner: Propagator = propagator_for(self.plain, integrator, free, derivatives)  # type: ignore[arg-type]
        self._last: dict[int, tuple[Grid, np.ndarray, SplitGrid]] = {}  # by grid: a point is run with and without derivatives

    def run(self, grid: Grid, first: np.ndarray, nodes: np.ndarray, p: np.ndarray, sensitivities: bool,
            reuse: Propagation | None = None) -> Propagation:
        dead_times = np.asarray(self.dead_times(p)).ravel()
        if not np.all(np.isfinite(dead_times)):
            raise SimulationDiverged(float(grid.time[0]), 0, what="a dead time is not finite")
        split = self._split(grid, dead_times)
        try:
            out = self.inner.run(split.grid, split.places[first], nodes, p, sensitivities)
        except SimulationDiverged as bad:
            node = min(int(np.searchsorted(split.places, bad.node)), grid.nodes - 1)
            raise SimulationDiverged(bad.time, node, bad.detail, bad.what, bad.lost) from None
        return Propagation(out.states[split.places], out.outputs[split.places],
                           None if out.jacobian is None else out.jacobian[split.places], out.end_states, out.end_jacobian)


    def _split(self, grid: Grid, dead_times: np.ndarray) -> SplitGrid:
        """The grid for these dead times; the last one of each record serves again while they stand still."""
        last = self._last.get(id(grid))
        if last is not None and last[0] is grid and np.array_equal(last[1], dead_times):
            return last[2]
        split = split_grid(grid, [delay.input for delay in self.model.delays], dead_times, self.plain.moving)
        if len(self._last) >= MOST_GRIDS:
            self._last.clear()
        self._last[id(grid)] = grid, dead_times, split
        return split


@dataclass(frozen=True, eq=False)
class SplitGrid:
    """A grid with nodes between the samples, and where in it the samples are."""

    grid: Grid
    places: np.ndarray


@dataclass(frozen=True, eq=False)
class _Course:
    """All inputs along a whole record: linear in each interval, held before the first and behind the last sample."""

    time: np.ndarray
    begin: np.ndarray  # (pieces, inputs): before the record, its intervals, behind it
    slope: np.ndarray

    @classmethod
    def of(cls, record: Grid) -> _Course:
        gaps = np.diff(record.time)[:, None]
        still = np.zeros((1, record.u_node.shape[1]))
        begin = np.vstack([record.inputs_before, record.u_begin, record.u_node[-1:]])
        return cls(record.time, begin, np.vstack([still, (record.u_end - record.u_begin) / gaps, still]))

    def pieces(self, times: np.ndarray) -> np.ndarray:
        """Which piece holds at and behind each time."""
        return np.searchsorted(self.time, times, side="right")

    def values(self, which: np.ndarray, times: np.ndarray, column: int) -> np.ndarray:
        since = times - self.time[np.maximum(which - 1, 0)]
        return self.begin[which, column] + self.slope[which, column] * since

    def corners(self, column: int) -> np.ndarray:
        """Samples at which an input jumps or bends."""
        gaps = np.diff(self.time, prepend=self.time[0])
        end = self.begin[:-1, column] + self.slope[:-1, column] * gaps
        scale = np.maximum(np.abs(end), np.abs(self.begin[1:, column]))
        jumps = np.abs(end - self.begin[1:, column]) > 4 * np.finfo(float).eps * scale  # the end of a line is rounded
        return np.flatnonzero(jumps | (self.slope[:-1, column] != self.slope[1:, column]))


def split_grid(grid: Grid, inputs: list[int], dead_times: np.ndarray, moving: bool) -> SplitGrid:
    """The grid on which a `MovingGridModel` is plain: channels as its inputs, shifted corners as nodes."""
    course = _Course.of(grid.record or grid)
    time, places, c, begun = _nodes(grid, course, inputs, dead_times)
    widths, middle = np.diff(time), (time[:-1] + time[1:]) / 2
    nu = grid.u_node.shape[1]
    sources = [*((column, 0.0) for column in range(nu)), *zip(inputs, dead_times, strict=True)]  # input and dead time
    begin, end, node, slopes, node_slopes = [], [], [], [], []
    for k, (column, late) in enumerate(sources):
        which, at_node = course.pieces(middle) if k < nu else begun[:-1, k - nu], course.pieces(time - late)
        begin.append(course.values(which, time[:-1] - late, column))
        end.append(course.values(which, time[1:] - late, column))
        node.append(course.values(at_node, time - late, column))
        slopes.append(course.slope[which, column])
        node_slopes.append(course.slope[at_node, column])
    if moving:
        for columns, more in zip((begin, end, node), _moving_channels(c, widths, dead_times, slopes, node_slopes), strict=True):
            columns += more
    interval = np.repeat(np.arange(grid.nodes - 1), np.diff(places))
    share = widths / np.diff(grid.time)[interval]
    substeps = np.maximum(1, np.ceil(grid.substeps[interval] * share * (1 - 1e-6))).astype(np.int32)
    wanted = np.zeros(len(time), np.uint8)
    wanted[places] = grid.output_mask
    u_begin, u_end, u_node = (np.ascontiguousarray(np.column_stack(columns)) for columns in (begin, end, node))
    return SplitGrid(replace(grid, time=time, offset=int(places[grid.offset]), substeps=substeps, u_begin=u_begin, u_end=u_end,
                             u_node=u_node, output_mask=wanted, finite_mask=np.zeros((0, 0), np.uint8), record=None,
                             u_before=None), places)


def _moving_channels(c: np.ndarray, widths: np.ndarray, dead_times: np.ndarray, slopes: list[np.ndarray],
                     node_slopes: list[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """At begins, ends and nodes: by how much nodes move with each dead time, its rise, what channels change by, dead times."""
    (nodes, nd), channels = c.shape, len(slopes)
    own = np.vstack([np.zeros((channels - nd, nd)), np.eye(nd)])  # the dead time that a channel has itself
    begin, end, node = ([c[part, d] for d in range(nd)] for part in (slice(None, -1), slice(1, None), slice(None)))
    for d in range(nd):
        rise = np.diff(c[:, d]) / widths
        begin.append(rise)
        end.append(rise)
        node.append(np.zeros(nodes))
    for d in range(nd):
        for k in range(channels):
            begin.append(slopes[k] * (c[:-1, d] - own[k, d]))
            end.append(slopes[k] * (c[1:, d] - own[k, d]))
            node.append(node_slopes[k] * (c[:, d] - own[k, d]))
    for late in dead_times[:nd]:
        begin.append(np.full(nodes - 1, late))
        end.append(np.full(nodes - 1, late))
        node.append(np.full(nodes, late))
    return begin, end, node


def _nodes(grid: Grid, course: _Course, inputs: list[int], dead_times: np.ndarray
           ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Samples and shifted corners in order, where the samples are, with which dead time each node moves, and which piece of its
    input each delayed channel follows from there on; the last two (nodes, delays)."""
    shifted, owner, begins = [np.zeros(0)], [np.zeros(0, int)], [np.zeros(0, int)]
    for d, (column, late) in enumerate(zip(inputs, dead_times, strict=True)):
        corners = course.corners(column)
        arriving = course.time[corners] + late
        within = (arriving > grid.time[0]) & (arriving < grid.time[-1])
        shifted.append(arriving[within])
        owner.append(np.full(np.count_nonzero(within), d))
        begins.append(corners[within] + 1)
    edges, of, piece = np.concatenate(shifted), np.concatenate(owner), np.concatenate(begins)
    order = np.argsort(edges, kind="stable")
    edges, of, piece = edges[order], of[order], piece[order]
    interval = np.clip(np.searchsorted(grid.time, edges, side="right") - 1, 0, max(0, grid.nodes - 2))
    if edges.size:
        gaps = np.diff(grid.time)[interval]
        near = np.maximum(NEAREST_NODES, 64 * np.finfo(float).eps * np.max(np.abs(grid.time)) / gaps)
        rank = np.arange(edges.size) - np.searchsorted(interval, interval)  # among the nodes of its interval
        count = np.bincount(interval, minlength=grid.nodes)[interval]
        place = np.clip((edges - grid.time[interval]) / gaps, near * (rank + 1), 1 - near * (count - rank))
        for k in range(1, int(np.max(rank, initial=0)) + 1):  # several in one interval keep their distance
            behind = np.flatnonzero(rank == k)
            place[behind] = np.maximum(place[behind], place[behind - 1] + near[behind])
        edges = grid.time[interval] + place * gaps
    whole = np.concatenate([grid.time, edges])
    order = np.argsort(whole, kind="stable")
    places = np.empty(whole.size, np.int64)
    places[order] = np.arange(whole.size)
    c = np.zeros((whole.size, len(inputs)))
    c[places[grid.nodes:], of] = 1.0
    begun = np.zeros((whole.size, len(inputs)), np.int64)
    begun[0] = course.pieces(grid.time[0] - dead_times)
    begun[places[grid.nodes:], of] = piece
    return whole[order], places[:grid.nodes], c, np.maximum.accumulate(begun, axis=0)
