"""Full discretization: the states at every grid point are unknowns, and a scheme is an equality between them.

Sec. III-C of the direct-methods paper. For implicit schemes the stages inside a step are unknowns too; they are eliminated
interval by interval, so that what remains has the same shape as multiple shooting with one step per segment. For multistep
schemes a node holds the state before it too, so that they link neighbours like the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dynident.errors import SimulationDiverged
from dynident.integrators.collocation_defects import CollocationDefects, Collocator, collocator_for, stage_unknowns
from dynident.integrators.delayed_propagation import SplitGrid, split_grid
from dynident.integrators.grid import Grid, grid_of
from dynident.integrators.propagation import propagator_for
from dynident.integrators.scheme import Explicit, Implicit, Multistep
from dynident.linalg.finite_problem import Evaluation, LinearizedProblem, SegmentChain, Variables, Workspace
from dynident.models.delay import MovingGridModel
from dynident.problem.problem import Problem
from dynident.transcription.initial_guess import states_from_measurements
from dynident.transcription.objective import Objective, WeightedData
from dynident.transcription.shooting import Shooting, default_segments

START_WINDOW = 8  # samples to either side from which the first guess of a state is read


class Nodes(WeightedData):
    """One experiment on its fine grid: every node has a state, the samples sit at `places`."""

    def __init__(self, problem: Problem, index: int, steps_per_sample: int, std: Mapping[str, float]):
        coarse = grid_of(problem.model, problem.experiments[index], steps_per_sample)
        split = on_plain_grid(problem, index, coarse)
        self.name = problem.experiments[index].name
        self.grid, places = split.grid.with_substep_nodes()
        self.coarse_places = places[split.places]  # of the nodes of the coarse grid
        self.pointers = self.coarse_places[coarse.offset:]  # of the samples
        nodes = self.grid.nodes
        self.segment_starts = np.append(np.arange(nodes), nodes - 1)  # each node a segment, the last one without length
        super().__init__(problem, index, self.grid, self.pointers, std)


def on_plain_grid(problem: Problem, index: int, grid: Grid) -> SplitGrid:
    """The grid of a record, with nodes where delayed inputs jump or bend, since dead times are held; and where its own are."""
    if not problem.model.delays:
        return SplitGrid(grid, np.arange(grid.nodes))
    held = problem.bindings[index].parameters
    late = np.array([float(delay.dead_time(held)) for delay in problem.model.delays])
    return split_grid(grid, [delay.input for delay in problem.model.delays], late, moving=False)


class FullDiscretization:
    """The finite problem of full discretization; see Point for how states and stages stand in its nodes."""

    simulation_noise = jacobian_error = 0.0
    jacobian_is_cheap = True

    def __init__(self, problem: Problem, integrator: Explicit | Implicit | Multistep, steps_per_sample: int,
                 std: Mapping[str, float], loss: str = "squared"):
        self.problem, self.integrator, self.steps, self.std, self.loss = problem, integrator, steps_per_sample, std, loss
        self.objective = Objective(problem, loss)
        self.free = tuple(int(i) for i in self.objective.free)
        model: Any = MovingGridModel(problem.model, moving=False) if problem.model.delays else problem.model
        self.model = model
        self.collocator: Collocator = collocator_for(model, integrator, self.free)
        self.stages = stage_unknowns(problem.model, integrator)
        nx = len(problem.model.states)
        # the last stage is the state at the interval's end:
        self.closed = not isinstance(integrator, Implicit) or integrator.points[-1] == 1.0
        self.block = (self.stages or nx) + (0 if self.closed else nx)  # unknowns per interval, each once
        self.history = nx if isinstance(integrator, Multistep) else 0  # of a node, what repeats the node before it
        self.records = [Nodes(problem, e, steps_per_sample, std) for e in range(len(problem.experiments))]
        self.names, self.coordinates = self.objective.names, self.objective.coordinates
        self.residual_count = self.objective.residual_count(self.records)
        self.equality_count = sum(r.grid.nodes - 1 for r in self.records) * self.block
        self.rounding_cost = self.objective.rounding_cost(self.records)
        self.counts = {"simulations": 0, "jacobians": 0}
        self.node_step_norm = self.objective.node_step_norm
        self._scratch = Workspace()  # of evaluations, which keep nothing of it

    # where to begin

    def start(self) -> Variables:
        values = self.objective.start_values
        return Variables(self.coordinates.coordinates(values),
                     tuple(self._start_nodes(e, values) for e in range(len(self.records))))

    def _start_nodes(self, e: int, values: np.ndarray) -> np.ndarray:
        """States from the measurements where they show them, from a simulation otherwise."""
        record, experiment = self.records[e], self.problem.experiments[e]
        window = int(np.clip(experiment.samples // 50, 1, START_WINDOW))
        states = states_from_measurements(self.problem.model, experiment, record.grid.time, window)
        p, states[0] = self.problem.parameters_and_initial_state(values, e)
        blind = np.isnan(states)
        if np.any(blind):
            states = np.where(blind, self._simulated(e, states[0], p), states)
        return self.with_stages(e, states)

    def _simulated(self, e: int, x0: np.ndarray, p: np.ndarray) -> np.ndarray:
        """The states of a simulation from the start; where it diverges, those at the start (a first guess only)."""
        grid = self.records[e].grid
        try:
            propagator = propagator_for(self.model, self.integrator, self.free)
            return propagator.run(grid, np.array([0, grid.nodes - 1]), x0[None], p, False).states
        except SimulationDiverged:
            return np.tile(x0, (grid.nodes, 1))

    def with_stages(self, e: int, states: np.ndarray) -> np.ndarray:
        """Nodes of a point from the states at all grid points, stages on the line between them."""
        if self.history:
            return np.hstack([states[1:], states[:-1]])
        fractions = self.integrator.points if isinstance(self.integrator, Implicit) else ()
        between = [states[:-1] + c * (states[1:] - states[:-1]) for c in fractions]
        return np.hstack([states[1:], *between])

    def from_states(self, unknowns: np.ndarray, times: list[np.ndarray], states: list[np.ndarray]) -> Variables:
        """A point from trajectories on other grids, by linear interpolation."""
        nodes = []
        for e, record in enumerate(self.records):
            x = np.column_stack([np.interp(record.grid.time, times[e], column) for column in states[e].T])
            x[0] = self.problem.parameters_and_initial_state(self.coordinates.values(unknowns), e)[1]
            nodes.append(self.with_stages(e, x))
        return Variables(unknowns, tuple(nodes))

    # at a point

    def states(self, point: Variables, e: int) -> np.ndarray:
        """States at all grid points of one experiment."""
        x0 = self.problem.parameters_and_initial_state(self.coordinates.values(point.unknowns), e)[1]
        return np.vstack([x0, point.nodes[e][:, :len(x0)]])

    def run(self, point: Variables, sensitivities: bool, workspace: Workspace) -> list[CollocationDefects]:
        """Each record at a point, in the memory of the workspace."""
        values = self.objective.values(point)
        workspace.renew()
        self.counts["jacobians" if sensitivities else "simulations"] += 1
        results = []
        for e, record in enumerate(self.records):
            p, x0 = self.problem.parameters_and_initial_state(values, e)
            inner = point.nodes[e]
            try:
                out = self.collocator.run(record.grid, np.vstack([x0, inner[:, :len(x0)]]), inner[:, len(x0):], p,
                                          sensitivities, workspace.arrays.get((e, sensitivities)))
            except SimulationDiverged as bad:
                raise bad.within(record.name) from None
            workspace.arrays[e, sensitivities] = out
            results.append(out)
        return results

    def evaluate(self, point: Variables) -> Evaluation:
        return self._evaluation(point, self.run(point, False, self._scratch))

    def _evaluation(self, point: Variables, results: list[CollocationDefects]) -> Evaluation:
        return self.objective.evaluation(point, self.records, [out.outputs for out in results],
                                     [out.defect.copy() for out in results], [out.correction.copy() for out in results])[0]

    def plain_record(self) -> None:
        """Its nodes have to meet."""

    def linearize(self, point: Variables, workspace: Workspace | None = None, known: Evaluation | None = None
                  ) -> LinearizedProblem:
        """`known`: residuals at this very point, where they are at hand."""
        workspace = workspace or Workspace()
        results = self.run(point, True, workspace)
        evaluation = known or self._evaluation(point, results)
        weights = [record.weight * factor for record, factor in zip(self.records, evaluation.factors, strict=True)
                   ] if evaluation.factors else [record.weight for record in self.records]
        residuals = evaluation.weighted_residuals
        chains = [SegmentChain(record.segment_starts, out.jacobian, weight, rhs, out.link, out.defect, out.stage)
                  for record, out, weight, rhs in zip(self.records, results, weights, residuals, strict=True)]
        return self.objective.linear(point, evaluation, chains, workspace, self.history)

    # what the statistics need

    def transfer(self, point: Variables, before: FullDiscretization) -> Variables:
        """A point of the same problem with other weights or steps."""
        if before.steps == self.steps:
            return point
        times = [record.grid.time for record in before.records]
        return self.from_states(point.unknowns, times, [before.states(point, e) for e in range(len(times))])

    def to_shooting(self, point: Variables) -> tuple[Shooting, Variables]:
        """The same solution seen as multiple shooting with the same steps: for trajectories and derivatives along time."""
        segments = [1 if self.history else default_segments(e.samples) for e in self.problem.experiments]
        shooting = Shooting(self.problem, self.integrator, segments, self.steps, self.std, self.loss)
        nodes = []
        for e, (fine, coarse) in enumerate(zip(self.records, shooting.records, strict=True)):
            nodes.append(self.states(point, e)[fine.coarse_places[coarse.segment_starts[1:-1]]])
            assert fine.grid.nodes == fine.coarse_places[-1] + 1
        return shooting, Variables(point.unknowns, tuple(nodes))
