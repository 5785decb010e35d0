"""Shooting: cut time into segments and ask that they meet (continuity conditions, also called matching conditions);
one segment is single shooting, several are multiple shooting."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from dynident._util.contracts import meets
from dynident._util.frozen import frozen
from dynident.errors import ProblemError, SimulationDiverged
from dynident.integrators.grid import Grid, grid_of
from dynident.integrators.propagation import Propagation, Propagator, propagator_for
from dynident.integrators.scheme import Adaptive, AnyIntegrator, Integrator
from dynident.linalg.block_rows import stacked
from dynident.linalg.finite_problem import (
    Evaluation,
    LinearizedProblem,
    PlainRecord,
    ResidualIndex,
    ResidualJacobian,
    SegmentChain,
    Variables,
    Workspace,
)
from dynident.problem.problem import Problem
from dynident.transcription.initial_guess import states_from_measurements
from dynident.transcription.objective import Objective, WeightedData
from dynident.transcription.plain_record import relaxed_record
from dynident.transcription.simulated_propagation import DifferenceScale, SimulatedPropagator
from dynident.transcription.simulators import SimulatedModel, declared_names, segment_notes

SAMPLES_PER_SEGMENT = 10  # at least, where the number of segments is not given
USUAL_SEGMENTS = 20
WIDEST_READING = 25  # samples to either side from which the state at a node is read off


def default_segments(samples: int) -> int:
    """How many segments a record is cut into where nothing is said."""
    return min(max((samples - 1) // SAMPLES_PER_SEGMENT, 1), USUAL_SEGMENTS)


def segment_starts(nodes: int, segments: int, name: str) -> np.ndarray:
    """Nodes at which the segments begin, and the last node."""
    if segments < 1 or segments > max(1, nodes - 1):
        raise ProblemError(f"'{name}' has {nodes} samples and cannot be cut into {segments} segments; "
                           f"use 1 to {max(1, nodes - 1)}.")
    if nodes <= 1:
        return np.zeros(2, np.int64)
    return np.rint(np.arange(segments + 1) * ((nodes - 1) / segments)).astype(np.int64)  # a node or more apart: all different


class ExperimentData(WeightedData):
    """One experiment on its grid: what is measured, how it is weighted, where it is cut."""

    def __init__(self, problem: Problem, index: int, segments: int, substeps: int, std: Mapping[str, float]):
        experiment = problem.experiments[index]
        self.name = experiment.name
        binding = problem.bindings[index]
        follows = () if binding.first_state is None else binding.first_state.states
        unknown = np.union1d(np.flatnonzero(binding.initial_unknown >= 0), follows).astype(np.int32)
        self.grid: Grid = replace(grid_of(problem.model, experiment, substeps), unknown_first=unknown)
        self.segment_starts = segment_starts(self.grid.nodes, segments, experiment.name)
        super().__init__(problem, index, self.grid, np.arange(self.grid.offset, self.grid.nodes), std)
        self.no_stages = np.zeros((len(self.segment_starts) - 2, 0))  # between nodes, as collocation has
        self._grids = {substeps: self.grid}  # by their steps; one for all copies, as
        self._readings: dict[int, np.ndarray] = {}  # by the number of segments; one for all copies with these measurements

    def states_at_inner_nodes(self, problem: Problem, index: int) -> np.ndarray:
        """(segments - 1, states) from the measurements; NaN where these do not show a state."""
        segments = len(self.segment_starts) - 1
        if segments not in self._readings:
            shortest = int(np.min(np.diff(self.segment_starts)))
            self._readings[segments] = states_from_measurements(
                problem.model, problem.experiments[index], self.grid.time[self.segment_starts[1:-1]],
                min(max(shortest // 2, 1), WIDEST_READING))
        return self._readings[segments].copy()

    def cut(self, segments: int, substeps: int) -> ExperimentData:
        """The same record in other segments, on a grid of other steps."""
        changed = self if substeps == 1 else self.with_substeps(substeps)
        if segments == len(self.segment_starts) - 1:
            return changed
        changed = copy.copy(changed)
        changed.segment_starts = segment_starts(self.grid.nodes, segments, self.name)
        changed.no_stages = np.zeros((len(changed.segment_starts) - 2, 0))
        return changed

    def with_substeps(self, substeps: int) -> ExperimentData:
        """On a grid of other steps; what is measured and where it is cut stays."""
        changed = copy.copy(self)
        if substeps not in self._grids:
            self._grids[substeps] = self.grid.with_substeps(substeps)
        changed.grid = self._grids[substeps]
        return changed

    def with_outputs(self, outputs: Mapping[int, np.ndarray]) -> ExperimentData:
        """With other measured values of some outputs, by their number; what was missing stays missing."""
        changed = copy.copy(self)
        changed.measured, changed._readings = self.measured.copy(), {}
        for j, values in outputs.items():
            present = self.weight[self.grid.offset:, j] > 0
            changed.measured[self.grid.offset:, j] = np.where(present, values, 0.0)
        return changed


def _propagator(problem: Problem, integrator: AnyIntegrator, objective: Objective) -> Propagator:
    """Of equations with exact sensitivities; of a model that is simulated by differences."""
    free, model, outputs = objective.free, problem.model, len(problem.model.outputs)
    if not meets(model, SimulatedModel):
        return propagator_for(model, integrator, tuple(int(i) for i in free))
    size, lower, upper = np.zeros(free.size), np.full(free.size, -np.inf), np.full(free.size, np.inf)
    for binding in problem.bindings:
        for k, i in enumerate(binding.parameter_unknown[free]):
            if i >= 0:
                unknown = problem.unknowns[i]
                size[k] = max(size[k], abs(objective.start_values[i]), unknown.scale or 0.0)
                lower[k], upper[k] = max(lower[k], unknown.lower), min(upper[k], unknown.upper)
    scale = DifferenceScale(objective.state_scale, np.where(size > 0, size, 1.0), lower, upper)
    simulator = model.segment_simulator(declared_names(problem), integrator.name)
    return SimulatedPropagator(simulator, outputs, free, scale)


_records: WeakKeyDictionary[Problem, tuple[dict[str, float], list[ExperimentData]]] = WeakKeyDictionary()


def _uncut_records(problem: Problem, std: Mapping[str, float]) -> list[ExperimentData]:
    """The records with these weights in one segment each: a fit cuts and steps them in several ways."""
    if problem not in _records or _records[problem][0] != dict(std):
        _records[problem] = dict(std), [ExperimentData(problem, e, 1, 1, std) for e in range(len(problem.experiments))]
    return _records[problem][1]


@frozen
class _PropagatedRecords:
    """The records as they were run at a point, and where that stands in memory."""

    point: Variables
    results: list[Propagation]
    workspace: Workspace
    lease: object

    def at(self, point: Variables) -> bool:
        """Whether it is of this very point, and not written over."""
        return self.point is point and self.workspace.lease is self.lease


class Shooting:
    """The finite problem of single and multiple shooting (eqs. (4), (5) of the direct-methods paper)."""

    def __init__(self, problem: Problem, integrator: AnyIntegrator, segments: Sequence[int], substeps: int,
                 std: Mapping[str, float], loss: str = "squared", start_values: np.ndarray | None = None):
        """`start_values` of the unknowns, where they are not those of the problem."""
        self.problem, self.loss, self.substeps, self.integrator = problem, loss, substeps, integrator
        self.objective = Objective(problem, loss, start_values)
        self.propagator: Propagator = _propagator(problem, integrator, self.objective)
        self.records = [record.cut(segments[e], substeps) for e, record in enumerate(_uncut_records(problem, std))]
        self.names, self.coordinates = self.objective.names, self.objective.coordinates
        self.residual_count = self.objective.residual_count(self.records)
        self.equality_count = sum((len(r.segment_starts) - 2) * len(problem.model.states) for r in self.records)
        self.rounding_cost = self.objective.rounding_cost(self.records)
        self.jacobian_is_cheap = not (isinstance(integrator, Adaptive) and integrator.plugin) and not self.simulated
        self.counts = {"simulations": 0, "jacobians": 0}
        self.node_step_norm = self.objective.node_step_norm
        self._scratch = Workspace()  # of evaluations, which keep nothing of it
        self._last_runs: dict[bool, _PropagatedRecords] = {}  # without and with sensitivities

    def with_bounds(self, lower: np.ndarray, upper: np.ndarray) -> Shooting:
        """The same problem within other bounds, in solver coordinates; what is compiled and known serves both."""
        return self._with(coordinates=replace(self.coordinates, lower=lower, upper=upper))

    def with_substeps(self, substeps: int) -> Shooting:
        """The same problem with other steps between the samples; what does not depend on these is shared."""
        if substeps == self.substeps:
            return self
        return self._with(substeps=substeps, records=[record.with_substeps(substeps) for record in self.records],
                          counts={"simulations": 0, "jacobians": 0}, _scratch=Workspace(), _last_runs={})

    def whole_records(self) -> Shooting:
        """The same problem by single shooting."""
        if not self.equality_count:
            return self
        return self._with(records=[record.cut(1, self.substeps) for record in self.records], equality_count=0,
                          counts={"simulations": 0, "jacobians": 0}, _scratch=Workspace(), _last_runs={})

    def with_data(self, outputs: Sequence[Mapping[str, np.ndarray]]) -> Shooting:
        """The same problem with other measured values, by record and output; what was missing stays missing."""
        names = self.problem.model.outputs
        return self._with(records=[record.with_outputs({names.index(name): y for name, y in own.items()})
                                   for record, own in zip(self.records, outputs, strict=True)])

    def simulated_by(self, integrator: Integrator) -> Shooting:
        """The same problem by another integrator, for simulations alone; they are not counted."""
        propagator = propagator_for(self.problem.model, integrator, (), derivatives=False)
        return self._with(integrator=integrator, propagator=propagator, counts={"simulations": 0, "jacobians": 0},
                          _scratch=Workspace(), _last_runs={})

    def _with(self, **changes: Any) -> Shooting:
        changed = copy.copy(self)
        vars(changed).update(changes)
        return changed

    @property
    def simulated(self) -> bool:
        """A model without equations, whose sensitivities are differences."""
        return isinstance(self.propagator, SimulatedPropagator)

    @property
    def notes(self) -> tuple[str, ...]:
        return segment_notes(self.propagator.simulator) if isinstance(self.propagator, SimulatedPropagator) else ()

    @property
    def jacobian_error(self) -> float:
        """Relative, of sensitivities that are central differences."""
        return float(np.cbrt(3 * self.propagator.simulator.noise) ** 2) if isinstance(
            self.propagator, SimulatedPropagator) else 0.0

    @property
    def simulation_noise(self) -> float:
        """What an integrator that chooses its own steps adds to the weighted residuals; no other adds any."""
        tolerance = self.integrator.relative_tolerance if isinstance(self.integrator, Adaptive) else 0.0
        if isinstance(self.propagator, SimulatedPropagator) and self.propagator.simulator.hidden_solver:
            tolerance = self.propagator.simulator.noise
        return tolerance * float(np.sqrt(sum(float(np.sum((r.measured * r.weight) ** 2)) for r in self.records)))

    # where to begin

    @property
    def all_states_measured(self) -> bool:
        """The measurements show every state, so that every node starts from them."""
        return self.objective.all_states_measured

    def from_states(self, unknowns: np.ndarray, times: Sequence[np.ndarray], states: Sequence[np.ndarray]) -> Variables:
        """A point from trajectories on other grids, by linear interpolation."""
        inner = [r.grid.time[r.segment_starts[1:-1]] for r in self.records]
        nodes = tuple(np.array([np.interp(wanted, t, column) for column in x.T]).reshape(x.shape[1], wanted.size).T
                      for wanted, t, x in zip(inner, times, states, strict=True))  # of no states, too
        return Variables(unknowns, nodes)

    def start(self) -> Variables:
        xi = self.coordinates.coordinates(self.objective.start_values)
        return Variables(xi, tuple(self._start_nodes(e, self.objective.start_values) for e in range(len(self.records))))

    def _start_nodes(self, e: int, values: np.ndarray) -> np.ndarray:
        """Inner nodes from the measurements; states that these do not show follow the model from node to node."""
        record, nx = self.records[e], len(self.problem.model.states)
        inner = record.segment_starts[1:-1]
        if not inner.size:
            return np.zeros((0, nx))
        nodes = record.states_at_inner_nodes(self.problem, e)
        if np.any(np.isnan(nodes)):
            p, x = self.problem.parameters_and_initial_state(values, e)
            for i in range(len(inner)):
                x = self._simulate_segment(record, i, x, p)
                nodes[i] = np.where(np.isnan(nodes[i]), x, nodes[i])
                x = nodes[i]
        return nodes

    def _simulate_segment(self, record: ExperimentData, segment: int, x: np.ndarray, p: np.ndarray) -> np.ndarray:
        begin, end = record.segment_starts[segment], record.segment_starts[segment + 1]
        g = record.grid
        part = Grid(g.time[begin:end + 1], 0, g.substeps[begin:end], g.u_begin[begin:end], g.u_end[begin:end],
                    g.u_node[begin:end + 1], np.zeros(end - begin + 1, np.uint8), record=g)
        try:
            return self.propagator.run(part, np.array([0, end - begin]), x[None], p, False).end_states[0]
        except SimulationDiverged:
            return x  # a start value only: the solver will say what it makes of it

    # at a point

    def run_with_all_outputs(self, point: Variables) -> list[Propagation]:
        """As `run`, with outputs also where nothing was measured, as far as the model has values there."""
        if all(np.all(record.grid.output_mask) for record in self.records):
            return self.run(point, True)  # nothing is missing, and the statistics ask for the same
        try:
            return self.run(point, False, everywhere=True)
        except SimulationDiverged:
            return self.run(point, False)

    def run(self, point: Variables, sensitivities: bool, everywhere: bool = False) -> list[Propagation]:
        """Each record at a point. What the last run found there serves again."""
        if everywhere:
            return self._simulate(point, False, Workspace(), everywhere=True)
        ran = self._propagate(point, sensitivities, Workspace())
        ran.workspace.release()
        return ran.results

    def _propagate(self, point: Variables, sensitivities: bool, workspace: Workspace) -> _PropagatedRecords:
        """The last run where it was at this very point, else one in the workspace."""
        for known in (True,) if sensitivities else (False, True):
            if known in self._last_runs and self._last_runs[known].at(point):
                return self._last_runs[known]
        workspace.renew()
        results = self._simulate(point, sensitivities, workspace)
        ran = self._last_runs[sensitivities] = _PropagatedRecords(point, results, workspace, workspace.lease)
        return ran

    def _simulate(self, point: Variables, sensitivities: bool, workspace: Workspace, everywhere: bool = False
                  ) -> list[Propagation]:
        values = self.objective.values(point)
        self.counts["jacobians" if sensitivities else "simulations"] += 1
        arrays = workspace.arrays
        propagated = []
        for e, record in enumerate(self.records):
            p, x0 = self.problem.parameters_and_initial_state(values, e)
            nodes = np.concatenate([x0[None], point.nodes[e]]) if len(point.nodes[e]) else x0[None]
            grid = replace(record.grid, output_mask=np.ones_like(record.grid.output_mask)) if everywhere else record.grid
            try:
                out = self.propagator.run(grid, record.segment_starts, nodes, p, sensitivities, arrays.get((e, sensitivities)))
            except SimulationDiverged as bad:
                raise bad.within(record.name) from None
            if sensitivities and (first := self.problem.bindings[e].first_state) is not None:
                add_first_state(out, record.segment_starts, first.derivative(p, tuple(int(i) for i in self.objective.free)))
            arrays[e, sensitivities] = out
            propagated.append(out)
        return propagated

    def evaluate(self, point: Variables) -> Evaluation:
        return self._evaluation(point, self._propagate(point, False, self._scratch).results)[0]

    def _evaluation(self, point: Variables, propagated: list[Propagation]) -> tuple[Evaluation, list[Any]]:
        defects = [out.end_states[:-1] - inner for out, inner in zip(propagated, point.nodes, strict=True)]
        return self.objective.evaluation(point, self.records, [out.outputs for out in propagated], defects,
                                     [record.no_stages for record in self.records])

    def linearize(self, point: Variables, workspace: Workspace | None = None, known: Evaluation | None = None
                  ) -> LinearizedProblem:
        workspace = workspace or Workspace()
        ran = self._propagate(point, True, workspace)
        if ran.workspace is not workspace:
            ran.workspace.release()  # its arrays belong to two now
        evaluation, factors = self._evaluation(point, ran.results)
        chains = []
        for e, (record, out, factor) in enumerate(zip(self.records, ran.results, factors, strict=True)):
            assert out.jacobian is not None and out.end_jacobian is not None
            weight = evaluation.weights[e] if evaluation.weights else record.weight
            weight = weight * factor if evaluation.factors else weight
            chains.append(SegmentChain(record.segment_starts, out.jacobian, weight,
                                       evaluation.weighted_residuals[e], out.end_jacobian, evaluation.defects[e]))
        return self.objective.linear(point, evaluation, chains, workspace)

    def plain_record(self) -> PlainRecord | None:
        if self.equality_count:
            return None
        unknown = self.objective.unknown_map(0, np.zeros(len(self.names))).unknown
        return relaxed_record(self, np.zeros((0, len(self.problem.model.states))), False, unknown)

    # what the statistics need

    def to_shooting(self, point: Variables) -> tuple[Shooting, Variables]:
        """The problem and a point of it by shooting, as every transcription can show them."""
        return self, point

    def transfer(self, point: Variables, before: Shooting) -> Variables:
        """A point of the same problem with other weights or steps."""
        return point

    def linearization(self, point: Variables) -> ResidualJacobian:
        """Residuals and their total derivative in the user's units, inner nodes eliminated; squared loss.

        What a course that blows up makes too large for the computer is infinite here, and said by whoever asks.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            return self._linearization(point)

    def _linearization(self, point: Variables) -> ResidualJacobian:
        propagated = self._propagate(point, True, Workspace()).results
        values = self.coordinates.values(point.unknowns)
        blocks, residuals, where = [], [], []
        for e, (record, out) in enumerate(zip(self.records, propagated, strict=True)):
            weighed = record.weighed(out.outputs)
            seen = weighed.weight > 0
            node, output = np.nonzero(seen)
            unknown = self.objective.unknown_map(e, np.ones(len(values))).unknown
            total = total_jacobian(out, record.segment_starts)[seen][:, unknown >= 0]
            blocks.append((unknown[unknown >= 0], total * weighed.weight[seen][:, None]))
            residuals.append(weighed.residuals[seen])
            place = np.column_stack([np.full(node.size, e), output, node - record.grid.offset])
            place[record.weight[seen] == 0] = -1  # of a standard deviation: information, and no measured value
            where.append(place)
        for i, known in self.objective.priors:
            blocks.append((np.array([i]), np.array([[known.derivative(values[i])]])))
            residuals.append(np.array([known.residual(values[i])]))
            where.append(np.array([[-1, -1, i]]))
        index = np.vstack(where)
        return ResidualJacobian(values, np.concatenate(residuals), stacked(blocks, len(values)), ResidualIndex(*index.T))


def add_first_state(out: Propagation, first: np.ndarray, slope: np.ndarray) -> None:
    """Add to the derivatives by parameters what reaches the first segment through a first state that follows from them."""
    assert out.jacobian is not None and out.end_jacobian is not None
    nx, end = out.states.shape[1], int(first[1]) + (len(first) == 2)
    out.jacobian[:end, :, nx:] += out.jacobian[:end, :, :nx] @ slope
    out.end_jacobian[0][:, nx:] += out.end_jacobian[0][:, :nx] @ slope


def total_jacobian(out: Propagation, first: np.ndarray) -> np.ndarray:
    """d outputs / d (first state, free parameters) of a whole record, (nodes, outputs, n): segments chained."""
    assert out.jacobian is not None and out.end_jacobian is not None
    nx = out.states.shape[1]
    total = np.empty_like(out.jacobian)
    entry = np.eye(total.shape[2])  # d (state at the segment's begin, parameters) / d (first state, parameters)
    for i in range(len(first) - 1):
        last = i == len(first) - 2
        own = slice(first[i], first[i + 1] + last)
        np.matmul(out.jacobian[own], entry, out=total[own])
        entry[:nx] = out.end_jacobian[i] @ entry
    return total
