"""Relaxed shooting: the segments of a shooting problem each for itself (decoupled), as a start for the one that meets.

Nothing has to meet, so errors of the start cannot grow along the record, and the parameters fall into place from far
away: farthest while each segment begins where the measurements say, without the bias of their noise once its first state
is an unknown of its own. What comes out is a start for the problem in which the segments meet.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynident.linalg.finite_problem import Evaluation, LinearizedProblem, SegmentChain, UnknownMap, Variables, Workspace
from dynident.problem.transforms import Transforms
from dynident.transcription.shooting import Shooting


class RelaxedShooting:
    """A shooting problem without its matching conditions; nodes are held, or stand behind the unknowns of the problem."""

    equality_count = 0

    def __init__(self, shooting: Shooting, begin: Variables, free_nodes: bool):
        self.shooting, self.begin, self.free_nodes = shooting, begin, free_nodes
        self.nx = len(shooting.problem.model.states)
        self.own = len(shooting.names)  # unknowns of the problem itself
        nodes, c = sum(len(n) for n in begin.nodes) if free_nodes else 0, shooting.coordinates
        scale = np.tile(shooting.objective.state_scale, nodes)
        self.coordinates = Transforms(
            np.append(c.log, np.zeros(scale.size, bool)), np.append(c.lower, np.full(scale.size, -np.inf)),
            np.append(c.upper, np.full(scale.size, np.inf)), np.append(c.scale, scale))
        self.names = shooting.names + tuple(f"node {k}" for k in range(scale.size))
        self.residual_count, self.rounding_cost = shooting.residual_count, shooting.rounding_cost
        self.jacobian_is_cheap, self.simulation_noise = shooting.jacobian_is_cheap, shooting.simulation_noise
        self.node_step_norm, self.counts = shooting.node_step_norm, shooting.counts
        nodes_of = [n.ravel() for n in begin.nodes] if free_nodes else []
        self._start = Variables(np.concatenate([begin.unknowns, *nodes_of]))
        self._last = self._start, begin  # a point and its linked form: one object for one point, which need not run twice

    def shooting_variables(self, point: Variables) -> Variables:
        """The same point as one of the shooting problem."""
        if self._last[0] is not point:
            self._last = point, self._with_nodes(point)
        return self._last[1]

    def _with_nodes(self, point: Variables) -> Variables:
        if not self.free_nodes:
            return Variables(point.unknowns, self.begin.nodes)
        nodes, at = [], self.own
        for held in self.begin.nodes:
            nodes.append(point.unknowns[at:at + held.size].reshape(held.shape))
            at += held.size
        return Variables(point.unknowns[:self.own], tuple(nodes))

    def start(self) -> Variables:
        return self._start

    def evaluate(self, point: Variables) -> Evaluation:
        return _without_defects(self.shooting.evaluate(self.shooting_variables(point)))

    def linearize(self, point: Variables, workspace: Workspace | None = None) -> LinearizedProblem:
        linear = self.shooting.linearize(self.shooting_variables(point), workspace)
        evaluation = _without_defects(linear.evaluation)
        if not self.free_nodes:
            apart = tuple(replace(c, transition=np.zeros_like(c.transition), defect=np.zeros_like(c.defect))
                          for c in linear.chains)
            return replace(linear, evaluation=evaluation, chains=apart)
        chains, spreads, node = [], [], self.own
        for chain, spread in zip(linear.chains, linear.unknown_maps, strict=True):
            slope = np.append(np.ones(self.nx), spread.derivative[self.nx:])
            chains += [self._segment(chain, i) for i in range(len(chain.segment_starts) - 1)]
            spreads.append(spread)
            for _ in range(len(chain.segment_starts) - 2):
                spreads.append(UnknownMap(np.append(np.arange(node, node + self.nx), spread.unknown[self.nx:]), slope))
                node += self.nx
        return replace(linear, evaluation=evaluation, unknowns=len(self.names),
                       chains=tuple(chains), unknown_maps=tuple(spreads))

    def _segment(self, chain: SegmentChain, i: int) -> SegmentChain:
        """One segment as a chain of its own; its end belongs to the next one, that of the last one to itself."""
        rows = slice(int(chain.segment_starts[i]), int(chain.segment_starts[i + 1]) + (i == len(chain.segment_starts) - 2))
        return SegmentChain(np.array([0, rows.stop - rows.start - 1]), chain.jacobian[rows], chain.weight[rows],
                            chain.rhs[rows], np.zeros_like(chain.transition[:1]), np.zeros((0, self.nx)))


def _without_defects(evaluation: Evaluation) -> Evaluation:
    """The max_defect stays, for whoever watches."""
    return replace(evaluation, defects=(), stage_residuals=())
