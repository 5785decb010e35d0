"""Relaxed start (continuation from decoupled segments): a start for a problem in which segments have to meet, from problems
in which they need not.

1. Short segments that begin where the measurements say: nearly linear in the parameters, whatever the start.
2. The usual segments, from there or from the user's start, whichever fits them better.
3. The same with first states of their own, which takes away the bias that noise in the measurements brings.

Nothing has to meet (`RelaxedShooting`), so errors of the start cannot grow along the record, and the parameters fall into
place from far away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from dynident._util.frozen import changed
from dynident.errors import SimulationDiverged
from dynident.integrators.scheme import AnyIntegrator
from dynident.linalg.finite_problem import Evaluation, LinearizedProblem, PlainRecord, UnknownMap, Variables, Workspace
from dynident.methods.outer_loop import Listener, RunLog, run_solver
from dynident.problem.parameter import Transforms
from dynident.problem.problem import Problem
from dynident.solvers.levenberg_marquardt import LevenbergMarquardt
from dynident.solvers.solver_result import SolverResult
from dynident.tolerances import RELAXED_STEP_TOLERANCE
from dynident.transcription.plain_record import relaxed_record
from dynident.transcription.shooting import SAMPLES_PER_SEGMENT, Shooting, default_segments

ITERATIONS = 30  # for a start; what is not found by then is left to the method itself


@dataclass(frozen=True, eq=False)
class RelaxedStart:
    """Values of the unknowns, and the states of each record that go with them."""

    unknowns: np.ndarray
    times: list[np.ndarray]
    states: list[np.ndarray]  # per record (nodes, states)
    outcome: SolverResult  # of the last solve


def relaxed_start(problem: Problem, integrator: AnyIntegrator, substeps: int, noise_std: Mapping[str, float], loss: str,
                  max_iterations: int, log: RunLog, listener: Listener) -> tuple[RelaxedStart | None, RunLog]:
    """The start, and the log with what it took.

    None where records are too short to be cut, do not show every state, or the model diverges on every piece.
    """
    solver = LevenbergMarquardt(min(max_iterations, ITERATIONS), step_tolerance=RELAXED_STEP_TOLERANCE)
    samples = [e.samples for e in problem.experiments]

    def cut(segments: Sequence[int]) -> Shooting:
        return Shooting(problem, integrator, segments, substeps, noise_std, loss)

    def solve(shooting: Shooting, initial: Variables, free_nodes: bool, log: RunLog) -> tuple[Variables, SolverResult, RunLog]:
        relaxed = RelaxedShooting(shooting, initial, free_nodes)
        outcome, log = run_solver(solver, relaxed, relaxed.start(), log, listener)
        return relaxed.shooting_variables(outcome.point), outcome, log

    usual = cut([default_segments(n) for n in samples])
    if not usual.equality_count or not usual.all_states_measured:
        return None, log
    try:
        here = usual.start()
        short = cut([max(1, (n - 1) // SAMPLES_PER_SEGMENT) for n in samples])
        if short.equality_count > usual.equality_count:
            there, outcome, log = solve(short, short.start(), False, log)
            moved = replace(here, unknowns=there.unknowns)
            better = _cost(usual, moved, True) < _cost(usual, here, False)  # as a rule, and its derivatives are there then
            here = moved if better else here
            if outcome.interrupted:
                return _start(usual, here, outcome), log
        here, outcome, log = solve(usual, here, False, log)
        if not outcome.interrupted:
            here, outcome, log = solve(usual, here, True, log)
        return _start(usual, here, outcome), log
    except SimulationDiverged:
        return None, log


def _cost(shooting: Shooting, point: Variables, with_jacobian: bool) -> float:
    try:
        return shooting.linearize(point).evaluation.cost if with_jacobian else shooting.evaluate(point).cost
    except SimulationDiverged:
        return np.inf


def _start(shooting: Shooting, point: Variables, outcome: SolverResult) -> RelaxedStart:
    states = [out.states for out in shooting.run(point, False)]
    return RelaxedStart(point.unknowns, [record.grid.time for record in shooting.records], states, outcome)


class RelaxedShooting:
    """A shooting problem without its matching conditions; nodes are held, or stand behind the unknowns of the problem."""

    equality_count = 0

    def __init__(self, shooting: Shooting, initial: Variables, free_nodes: bool):
        self.shooting, self.initial, self.free_nodes = shooting, initial, free_nodes
        self.nx = len(shooting.problem.model.states)
        self.problem_unknowns = len(shooting.names)  # unknowns of the problem itself
        nodes, c = sum(len(n) for n in initial.nodes) if free_nodes else 0, shooting.coordinates
        scale = np.tile(shooting.objective.state_scale, nodes)
        self.coordinates = Transforms(
            np.append(c.log, np.zeros(scale.size, bool)), np.append(c.lower, np.full(scale.size, -np.inf)),
            np.append(c.upper, np.full(scale.size, np.inf)), np.append(c.scale, scale))
        self.names = shooting.names + tuple(f"node {k}" for k in range(scale.size))
        self.residual_count, self.rounding_cost = shooting.residual_count, shooting.rounding_cost
        self.jacobian_is_cheap, self.simulation_noise = shooting.jacobian_is_cheap, shooting.simulation_noise
        self.jacobian_error = shooting.jacobian_error
        self.node_step_norm, self.counts = shooting.node_step_norm, shooting.counts
        places = self.problem_unknowns + np.arange(scale.size).reshape(-1, self.nx)
        ends = np.cumsum([0, *(len(n) for n in initial.nodes)])
        self._node_unknowns = [places[begin:end] for begin, end in pairwise(ends)]  # of each record: (segments - 1, states)
        nodes_of = [n.ravel() for n in initial.nodes] if free_nodes else []
        self._start = Variables(np.concatenate([initial.unknowns, *nodes_of]))
        self._last = self._start, initial  # a point and its linked form: one object for one point, which need not run twice

    def shooting_variables(self, point: Variables) -> Variables:
        """The same point as one of the shooting problem."""
        if self._last[0] is not point:
            self._last = point, self._with_nodes(point)
        return self._last[1]

    def _with_nodes(self, point: Variables) -> Variables:
        if not self.free_nodes:
            return Variables(point.unknowns, self.initial.nodes)
        nodes, at = [], self.problem_unknowns
        for each in self.initial.nodes:
            nodes.append(point.unknowns[at:at + each.size].reshape(each.shape))
            at += each.size
        return Variables(point.unknowns[:self.problem_unknowns], tuple(nodes))

    def start(self) -> Variables:
        return self._start

    def evaluate(self, point: Variables) -> Evaluation:
        return _without_defects(self.shooting.evaluate(self.shooting_variables(point)))

    def plain_record(self) -> PlainRecord | None:
        if len(self.initial.nodes) != 1:
            return None
        slopes = np.ones(self.problem_unknowns)
        unknown = (self._segment_map(self.shooting.objective.unknown_map(0, slopes), self._node_unknowns[0]) if self.free_nodes
                   else self.shooting.objective.unknown_map(0, slopes)).unknown
        return relaxed_record(self.shooting, self.initial.nodes[0], self.free_nodes, unknown)

    def linearize(self, point: Variables, workspace: Workspace | None = None, known: Evaluation | None = None
                  ) -> LinearizedProblem:
        linear = self.shooting.linearize(self.shooting_variables(point), workspace)
        evaluation = _without_defects(linear.evaluation)
        if not self.free_nodes:
            apart = tuple(changed(c, transition=np.zeros_like(c.transition), defect=np.zeros_like(c.defect))
                          for c in linear.chains)
            return changed(linear, evaluation=evaluation, chains=apart)
        chains = tuple(changed(chain, linked=False) for chain in linear.chains)
        maps = tuple(map(self._segment_map, linear.unknown_maps, self._node_unknowns)) if self.coordinates.any_log else (
            self._straight_maps)
        return changed(linear, evaluation=evaluation, unknowns=len(self.names), chains=chains, unknown_maps=maps)

    @cached_property
    def _straight_maps(self) -> tuple[UnknownMap, ...]:
        """The same at every point, where no unknown is a logarithm."""
        objective, one = self.shooting.objective, np.ones(self.problem_unknowns)
        return tuple(self._segment_map(objective.unknown_map(e, one), nodes) for e, nodes in enumerate(self._node_unknowns))

    def _segment_map(self, mapping: UnknownMap, nodes: np.ndarray) -> UnknownMap:
        """The same parameters in each segment, and a first state of its own from the second one on: these unknowns."""
        unknown, derivative = (np.tile(each, (len(nodes) + 1, 1)) for each in (mapping.unknown, mapping.derivative))
        unknown[1:, :self.nx], derivative[1:, :self.nx] = nodes, 1.0
        return UnknownMap(unknown, derivative)


def _without_defects(evaluation: Evaluation) -> Evaluation:
    """The max_defect stays, for whoever watches."""
    return changed(evaluation, defects=(), stage_residuals=())
