"""Smoothing: states at every grid point are unknowns, and the model may miss the next one, at a price.

The functional (3.6) of the thesis on a grid: over an interval of length h a model error xi costs h xi' W xi; the state at its
end is missed by h xi, which costs defect' W defect / h. It is full discretization in which some equalities have become
residuals; as W grows it becomes full discretization again, and nothing is divided by W on the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import casadi as ca
import numpy as np

from dynident.boundary.smoothing.correlation import ErrorCorrelation
from dynident.errors import SimulationDiverged
from dynident.integrators.scheme import Explicit, Implicit
from dynident.linalg.finite_problem import Evaluation, LinearizedProblem, SegmentChain, Variables, Workspace
from dynident.models.equations import EquationModel
from dynident.problem.noise import sum_of_squares
from dynident.problem.problem import Problem
from dynident.tolerances import NO_MODEL_ERROR
from dynident.transcription.full_discretization import FullDiscretization


class WeakConstraintProblem:
    """A FiniteProblem; `weights` gives W by state (states without an entry, or with an infinite one, cannot be missed).

    States whose initial value is an unknown with log=True are logarithms at every node: they are drifting parameters.
    """

    simulation_noise = jacobian_error = 0.0
    jacobian_is_cheap = True

    def __init__(self, problem: Problem, integrator: Explicit | Implicit, steps: int, std: Mapping[str, float],
                 weights: Mapping[str, float], correlation: ErrorCorrelation | None = None):
        self.problem, self.weights, self.steps, self.integrator = problem, dict(weights), steps, integrator
        self.full = FullDiscretization(problem, integrator, steps, std)
        self.objective, self.records, self.counts = self.full.objective, self.full.records, self.full.counts
        self.names, self.coordinates = self.full.names, self.full.coordinates
        self.residual_count, self.rounding_cost = self.full.residual_count, self.full.rounding_cost
        states = problem.model.states
        W = np.array([float(weights.get(name, np.inf)) for name in states])
        longest = max((float(np.max(np.diff(r.grid.time), initial=0.0)) for r in self.records), default=0.0)
        W = np.where(np.sqrt(longest / W) < NO_MODEL_ERROR * self.objective.state_scale, np.inf, W)
        self.errs = np.flatnonzero(np.isfinite(W))  # states that may be missed
        self.hard = np.flatnonzero(~np.isfinite(W))
        self.equality_count = sum(r.grid.nodes - 1 for r in self.records) * (
            self.full.block - self.errs.size)
        go = correlation or ErrorCorrelation()
        self.mixing = go.mixing(states, self.errs, 1 / np.sqrt(W[self.errs]))  # T: nodes are T x, whose errors are uncorrelated
        self.whitening = go.whitening(problem.model.outputs)  # L: of weighted residuals
        self.reach = [np.sqrt(np.diff(r.grid.time)[:, None] / W[self.errs]) for r in self.records]  # (intervals, errors)
        self.log = np.array([any(u.initial and u.quantity == name and u.log for u in problem.unknowns) for name in states])
        self.logs = _sliced(np.flatnonzero(self.log))
        assert isinstance(problem.model, EquationModel)
        self.still = _still(problem.model)
        scale = np.where(self.log, 1.0, self.objective.state_scale)
        self.node_scale = np.concatenate([scale, np.tile(self.objective.state_scale, self.full.stages // max(1, len(states)))])

    def start(self) -> Variables:
        return self.from_values(self.full.start())

    def from_values(self, point: Variables) -> Variables:
        """Nodes as values to nodes as coordinates."""
        return self._seen(point, np.log, self.mixing)

    def to_values(self, point: Variables) -> Variables:
        """Nodes as coordinates to nodes as values."""
        with np.errstate(over="ignore", under="ignore"):
            found = self._seen(point, np.exp, None if self.mixing is None else np.linalg.inv(self.mixing))
        if not all(np.isfinite(nodes).all() and (nodes[:, self.logs] > 0).all() for nodes in found.nodes):
            raise SimulationDiverged(np.nan, 0, what="a parameter is too large or too small for the computer")
        return found

    def _seen(self, point: Variables, function, mixing: np.ndarray | None) -> Variables:
        if not np.any(self.log) and mixing is None:
            return point
        nodes = []
        for inner in point.nodes:
            inner = inner.copy()
            inner[:, self.logs] = function(inner[:, self.logs])
            if mixing is not None:  # of states that are no logarithms
                inner[:, :len(mixing)] = inner[:, :len(mixing)] @ mixing.T
            nodes.append(inner)
        return Variables(point.unknowns, tuple(nodes))

    def states(self, point: Variables, e: int) -> np.ndarray:
        """Values of the states at all grid points of one experiment."""
        return self.full.states(self.to_values(point), e)

    def model_errors(self, point: Variables) -> list[np.ndarray]:
        """xi of (3.5) over each interval, per experiment (intervals, states): what the rate lacks; 0 where it cannot err."""
        found = []
        for record, defect in zip(self.records, self.full.evaluate(self.to_values(point)).defects, strict=True):
            xi = np.zeros_like(defect)
            xi[:, self.errs] = -defect[:, self.errs] / np.diff(record.grid.time)[:, None]
            found.append(xi)
        return found

    def evaluate(self, point: Variables) -> Evaluation:
        values = self.to_values(point)
        return self._own(self.full.evaluate(values), self._units(values))

    def _units(self, values: Variables) -> list[np.ndarray]:
        """What a step of a node's coordinate is in values, per experiment (intervals, states)."""
        units = [np.ones((len(nodes), self.log.size)) for nodes in values.nodes]
        for unit, nodes in zip(units, values.nodes, strict=True):
            unit[:, self.logs] = nodes[:, self.logs]
        return units

    def _own(self, evaluation: Evaluation, units: list[np.ndarray]) -> Evaluation:
        """The cost with that of the model errors, defects in coordinates, and as max_defect only what must not be missed."""
        cost, max_defect = evaluation.cost, 0.0
        erring = _sliced(self.errs)
        residuals = evaluation.weighted_residuals
        if self.whitening is not None:
            residuals = tuple(r @ self.whitening.T for r in residuals)
            cost += sum(sum_of_squares(r) for r in residuals) - sum(sum_of_squares(r) for r in evaluation.weighted_residuals)
        mixed = evaluation.defects if self.mixing is None else tuple(d @ self.mixing.T for d in evaluation.defects)
        for defect, reach in zip(mixed, self.reach, strict=True):
            with np.errstate(over="ignore"):  # an overflow becomes inf, and that a rejected step
                cost += sum_of_squares(defect[:, erring] / reach)
            if self.hard.size:
                missed = np.abs(defect[:, self.hard]) / self.objective.state_scale[self.hard]
                max_defect = max(max_defect, float(np.max(missed, initial=0.0)))
        if not np.isfinite(cost):
            raise SimulationDiverged(np.nan, 0, what="the sum of squares is too large for the computer")
        defects = tuple(defect / unit for defect, unit in zip(mixed, units, strict=True))
        return replace(evaluation, cost=cost, max_defect=max_defect, defects=defects, weighted_residuals=residuals)

    def plain_record(self) -> None:
        """Its nodes have to meet, up to noise."""

    def linearize(self, point: Variables, workspace: Workspace | None = None, known: Evaluation | None = None
                  ) -> LinearizedProblem:
        """The chains are in values, with the units of the nodes' coordinates."""
        values = self.to_values(point)
        plain = self.mixing is None and self.whitening is None
        units, linear = self._units(values), self.full.linearize(values, workspace, known if plain else None)
        evaluation = known or self._own(linear.evaluation, units)
        chains = tuple(replace(chain if plain else self._uncorrelated(chain), noisy_states=self.errs, process_std=reach,
                               constant_states=self.still, node_scale=unit)
                       for chain, reach, unit in zip(linear.chains, self.reach, units, strict=True))
        return replace(linear, evaluation=evaluation, chains=chains)

    def _uncorrelated(self, chain: SegmentChain) -> SegmentChain:
        """The chain in T x at all nodes but the first, whose state follows the unknowns, with rows L times the residuals."""
        if self.whitening is not None:
            rows = self.whitening @ (chain.weight[:, :, None] * chain.jacobian)
            seen = np.any(chain.weight > 0, axis=1, keepdims=True)
            chain = replace(chain, jacobian=rows, weight=seen * np.ones_like(chain.weight), rhs=chain.rhs @ self.whitening.T)
        if self.mixing is None:
            return chain
        T, n = self.mixing, chain.transition.shape[2]
        back = np.eye(n)
        back[:len(T), :len(T)] = np.linalg.inv(T)

        def in_nodes(derivative: np.ndarray) -> np.ndarray:
            return np.concatenate([derivative[:1], derivative[1:] @ back])

        return replace(chain, jacobian=in_nodes(chain.jacobian), transition=T @ in_nodes(chain.transition),
                       defect=chain.defect @ T.T, stage=in_nodes(chain.stage))

    def node_step_norm(self, nodes: tuple[np.ndarray, ...]) -> float:
        """Mean over the nodes of their squared steps, each divided by the typical size of its state."""
        total = 0.0
        with np.errstate(over="ignore"):  # an infinite step is too long for any test
            for inner in nodes:
                total += sum_of_squares(inner / self.node_scale)
        return total / max(1, sum(len(n) for n in nodes))


def _still(model: EquationModel) -> int:
    """So many of the last states have no rate, as parameters that were made states."""
    rates = model.rate(*(ca.SX.sym("a", model.rate.size1_in(k)) for k in range(4)))
    return next((k for k in range(rates.numel()) if not rates[rates.numel() - 1 - k].is_zero()), rates.numel())


def _sliced(places: np.ndarray) -> Any:
    """Places that follow each other as a slice, which needs no copy."""
    together = places.size and places[-1] - places[0] == places.size - 1
    return slice(int(places[0]), int(places[-1]) + 1) if together else places
