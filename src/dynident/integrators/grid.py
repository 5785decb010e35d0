"""Grid: the times of one record at which the state is known, and how the inputs move between them."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace

import numpy as np

from dynident.codegen.pointers import KeepsPointers, addresses
from dynident.errors import ProblemError, did_you_mean
from dynident.problem.experiment import Experiment
from dynident.problem.model import Model
from dynident.problem.output_filter import OutputFilter, filtered, sample_time_of

JITTER = 1e-6  # of a step; so much longer an interval adds none
EVEN = 1e-7  # of an interval; samples that differ by less are even


@dataclass(frozen=True, eq=False)
class Grid(KeepsPointers):
    """The samples of a record, and its start where that lies before the first sample."""

    time: np.ndarray  # (nodes,)
    offset: int  # node of sample 0: 1 where the start is a node of its own, else 0
    substeps: np.ndarray  # (nodes - 1,) int32
    u_begin: np.ndarray  # (nodes - 1, inputs) at the begin of each interval
    u_end: np.ndarray  # at its end; inputs move linearly in between
    u_node: np.ndarray  # (nodes, inputs)
    output_mask: np.ndarray  # (nodes,) uint8: outputs are asked for here
    first_mode: int = -1  # the mode in which it begins; -1: the first that is possible there
    finite_mask: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), np.uint8))  # (nodes, outputs) uint8: outputs that
    # must be finite, for models that are black boxes; of no columns: all
    unknown_first: np.ndarray | None = None  # int32: states whose value at the begin is unknown; None: all. By the others no
    # derivative is asked for in the first segment, and none need be carried
    u_before: np.ndarray | None = None  # (inputs,) before the first node, for models with dead times; None: as there
    record: Grid | None = None  # of which this is a part; what was before it says what arrives late
    filters: tuple[tuple[int, tuple[OutputFilter, ...]], ...] = ()  # output -> what it goes through, as its data did

    @property
    def inputs_before(self) -> np.ndarray:
        """Inputs before the first node, (1, inputs)."""
        if self.u_before is not None:
            return self.u_before[None]
        return self.u_begin[:1] if len(self.u_begin) else self.u_node[:1]

    def through_filters(self, outputs: np.ndarray) -> np.ndarray:
        """Outputs (nodes, outputs, ...) after the filters of the record, as its data are."""
        if not self.filters:
            return outputs
        outputs = outputs.copy()
        sample_time = sample_time_of(self.time[self.offset:], "a filter")
        for j, chain in self.filters:
            outputs[self.offset:, j] = filtered(chain, outputs[self.offset:, j], sample_time)
        return outputs

    @property
    def nodes(self) -> int:
        return int(self.time.size)

    @functools.cached_property
    def pointers(self) -> list[int]:
        """Where times, steps, inputs, wishes and unknown first states stand: compiled loops are called thousands of times."""
        unknown = np.zeros(0, np.int32) if self.unknown_first is None else self.unknown_first
        return addresses(self.time, self.substeps, self.u_begin, self.u_end, self.u_node, self.output_mask, unknown)

    def with_substeps(self, per_interval: int) -> Grid:
        """At least `per_interval` steps in a typical interval, and none longer than that makes them."""
        return replace(self, substeps=_substeps(self.time, per_interval))

    def with_substep_nodes(self) -> tuple[Grid, np.ndarray]:
        """The grid whose nodes are all sub-steps of this one, and where in it this one's nodes are."""
        interval = np.repeat(np.arange(self.nodes - 1), self.substeps)
        places = np.concatenate([[0], np.cumsum(self.substeps)])
        within = (np.arange(interval.size) - places[:-1][interval]) / self.substeps[interval]
        time = np.append(self.time[interval] + within * np.diff(self.time)[interval], self.time[-1:])
        time[places] = self.time
        move = self.u_end - self.u_begin
        u_begin = self.u_begin[interval] + within[:, None] * move[interval]
        u_end = u_begin + move[interval] / self.substeps[interval][:, None]
        u_node = np.vstack([u_begin, self.u_node[-1:]])
        u_node[places] = self.u_node
        wanted = np.zeros(time.size, np.uint8)
        wanted[places] = self.output_mask
        return Grid(time, int(places[self.offset]), np.ones(interval.size, np.int32), u_begin, u_end, u_node,
                    wanted, self.first_mode), places


def _substeps(time: np.ndarray, per_interval: int) -> np.ndarray:
    if time.size < 2:
        return np.zeros(0, dtype=np.int32)
    gaps = time[1:] - time[:-1]
    shortest, longest = gaps.min(), gaps.max()
    if longest <= 0:
        return np.ones(gaps.size, dtype=np.int32)
    if longest - shortest <= EVEN * longest:  # the usual case, which asks for no median
        return np.full(gaps.size, per_interval, dtype=np.int32)
    longest = np.median(gaps[gaps > 0]) / per_interval  # repeated times are no steps
    return np.maximum(1, np.ceil(gaps / longest * (1 - JITTER))).astype(np.int32)


def grid_of(model: Model, experiment: Experiment, per_interval: int = 1, everywhere: bool = False) -> Grid:
    """The grid of a record; outputs are wanted where something was measured, or `everywhere`."""
    time, offset = np.asarray(experiment.time), 0
    if experiment.start < time[0]:
        time, offset = np.concatenate([[experiment.start], time]), 1
    samples, nu = experiment.samples, len(model.inputs)
    u = np.zeros((samples, nu))
    for j, name in enumerate(model.inputs):
        u[:, j] = experiment.inputs[name]
    steps = [name for name in model.stepwise if experiment.hold[name] == "linear"]
    if steps:
        raise ProblemError(f"{experiment.label}: {', '.join(steps)} can only jump from value to value in this model, but the "
                           "record has it move linearly between samples; give hold=\"zero\" for it.")
    linear = np.array([experiment.hold[name] == "linear" for name in model.inputs], dtype=bool)
    u_begin, u_end = u[:-1].copy(), u[:-1].copy()
    u_end[:, linear] = u[1:, linear]
    if offset:  # a start of its own exists only without inputs
        u_begin, u_end, u = (np.zeros((len(time) - 1, nu)), np.zeros((len(time) - 1, nu)), np.zeros((len(time), nu)))
    wanted = np.zeros(time.size, dtype=np.uint8)
    wanted[offset:] = 1 if everywhere or experiment.filters else _measured(experiment)
    modes = model.modes
    if experiment.mode and experiment.mode not in modes:
        raise ProblemError(f"{experiment.label}: the model has no mode '{experiment.mode}'."
                           f"{did_you_mean(experiment.mode, [name for name in modes if name])}")
    first_mode = modes.index(experiment.mode) if experiment.mode else -1
    needed = np.zeros((time.size, 0 if everywhere else len(model.outputs)), dtype=np.uint8)
    for j, name in enumerate(model.outputs[:needed.shape[1]]):
        if name in experiment.outputs:
            needed[offset:, j] = name in experiment.filters or np.isfinite(experiment.outputs[name])
    said = experiment.before
    before = np.array([said.get(name, u[0, j]) for j, name in enumerate(model.inputs)]) if said else None
    filters = tuple((j, experiment.filters[name]) for j, name in enumerate(model.outputs) if name in experiment.filters)
    return Grid(time, offset, _substeps(time, per_interval), u_begin, u_end, np.ascontiguousarray(u), wanted,
                first_mode, needed, u_before=before, filters=filters)


def _measured(experiment: Experiment) -> np.ndarray:
    seen = np.zeros(experiment.samples, dtype=bool)
    for values in experiment.outputs.values():
        seen |= np.isfinite(values)
    return seen
