"""Smoothing: states at every grid point are unknowns, and the model may miss the next one, at a price.

The functional (3.6) of the thesis on a grid: over an interval of length h a model error xi costs h xi' W xi; the state at its
end is missed by h xi, which costs defect' W defect / h. It is full discretization in which some equalities have become
residuals; as W grows it becomes full discretization again, and nothing is divided by W on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dynident.discretizations.collocation import FullDiscretization
from dynident.discretizations.finite import Evaluation, Linear, Point
from dynident.integrators.march import Diverged
from dynident.integrators.scheme import Explicit, Implicit
from dynident.problem.problem import Problem


class Smoothing:
    """A FiniteProblem; `weights` gives W by state (states without an entry, or with an infinite one, cannot be missed).

    States whose initial value is an unknown with log=True are logarithms at every node: they are drifting parameters.
    """

    noise = 0.0
    cheap_slopes = True

    def __init__(self, problem: Problem, integrator: Explicit | Implicit, steps: int, std: Mapping[str, float],
                 weights: Mapping[str, float]):
        self.problem, self.weights, self.steps, self.integrator = problem, dict(weights), steps, integrator
        self.full = FullDiscretization(problem, integrator, steps, std)
        self.frame, self.records, self.counts = self.full.frame, self.full.records, self.full.counts
        self.names, self.coordinates = self.full.names, self.full.coordinates
        self.residual_count, self.floor = self.full.residual_count, self.full.floor
        states = problem.model.states
        W = np.array([float(weights.get(name, np.inf)) for name in states])
        self.errs = np.flatnonzero(np.isfinite(W))  # states that may be missed
        self.hard = np.flatnonzero(~np.isfinite(W))
        self.equality_count = sum(r.grid.nodes - 1 for r in self.records) * (
            self.full.block - self.errs.size)
        self.reach = [np.sqrt(np.diff(r.grid.time)[:, None] / W[self.errs]) for r in self.records]  # (intervals, errors)
        self.log = np.array([any(u.initial and u.quantity == name and u.log for u in problem.unknowns) for name in states])
        self.logs = np.flatnonzero(self.log)
        scale = np.where(self.log, 1.0, self.frame.state_scale)
        self.node_scale = np.concatenate([scale, np.tile(self.frame.state_scale, self.full.stages // max(1, len(states)))])

    def start(self) -> Point:
        return self.from_values(self.full.start())

    def from_values(self, point: Point) -> Point:
        """Nodes as values to nodes as coordinates."""
        return self._seen(point, np.log)

    def to_values(self, point: Point) -> Point:
        """Nodes as coordinates to nodes as values."""
        with np.errstate(over="ignore", under="ignore"):
            found = self._seen(point, np.exp)
        if not all(np.isfinite(nodes).all() and (nodes[:, self.logs] > 0).all() for nodes in found.nodes):
            raise Diverged(np.nan, 0, what="a parameter is too large or too small for the computer")
        return found

    def _seen(self, point: Point, function) -> Point:
        if not self.logs.size:
            return point
        nodes = []
        for inner in point.nodes:
            inner = inner.copy()
            inner[:, self.logs] = function(inner[:, self.logs])
            nodes.append(inner)
        return Point(point.unknowns, tuple(nodes))

    def states(self, point: Point, e: int) -> np.ndarray:
        """Values of the states at all grid points of one experiment."""
        return self.full.states(self.to_values(point), e)

    def model_errors(self, point: Point) -> list[np.ndarray]:
        """xi of (3.5) over each interval, per experiment (intervals, states): what the rate lacks; 0 where it cannot err."""
        found = []
        for record, defect in zip(self.records, self.full.evaluate(self.to_values(point)).defects, strict=True):
            xi = np.zeros_like(defect)
            xi[:, self.errs] = -defect[:, self.errs] / np.diff(record.grid.time)[:, None]
            found.append(xi)
        return found

    def evaluate(self, point: Point) -> Evaluation:
        values = self.to_values(point)
        return self._own(self.full.evaluate(values), values)

    def _own(self, evaluation: Evaluation, values: Point) -> Evaluation:
        """The cost with that of the model errors, defects in coordinates, and as mismatch only what must not be missed."""
        cost, mismatch, defects = evaluation.cost, 0.0, []
        for defect, reach, nodes in zip(evaluation.defects, self.reach, values.nodes, strict=True):
            with np.errstate(over="ignore"):  # an overflow becomes inf, and that a rejected step
                errors = (defect[:, self.errs] / reach).ravel()
                cost += float(errors @ errors)
            missed = np.abs(defect[:, self.hard]) / self.frame.state_scale[self.hard]
            mismatch = max(mismatch, float(np.max(missed, initial=0.0)))
            own = defect.copy()
            own[:, self.logs] /= nodes[:, self.logs]
            defects.append(own)
        if not np.isfinite(cost):
            raise Diverged(np.nan, 0, what="the sum of squares is too large for the computer")
        return replace(evaluation, cost=cost, mismatch=mismatch, defects=tuple(defects))

    def linearize(self, point: Point) -> Linear:
        """The chains are in values; their units say what a step of a node's coordinate is in values."""
        values = self.to_values(point)
        linear = self.full.linearize(values)
        chains = []
        for chain, nodes, reach in zip(linear.chains, values.nodes, self.reach, strict=True):
            unit = np.ones_like(chain.defect)
            unit[:, self.logs] = nodes[:, self.logs]
            chains.append(replace(chain, missed=self.errs, noise=reach, unit=unit))
        return replace(linear, evaluation=self._own(linear.evaluation, values), chains=tuple(chains))

    def node_norm(self, nodes: tuple[np.ndarray, ...]) -> float:
        """Mean over the nodes of their squared steps, each divided by the typical size of its state."""
        total = 0.0
        with np.errstate(over="ignore"):  # an infinite step is too long for any test
            for inner in nodes:
                steps = (inner / self.node_scale).ravel()
                total += float(steps @ steps)
        return total / max(1, sum(len(n) for n in nodes))
