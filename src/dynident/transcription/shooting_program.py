"""Shooting program: single or multiple shooting as a sparse NLP, for general solvers.

Variables: the unknowns, then the states at the inner multinodes, each divided by its typical size; constraints: the
matching conditions (5) of the direct-methods paper, then those between parameters. The Lagrangian is a sum over segments,
each of the segment's first state and the parameters alone.
"""

from __future__ import annotations

import numpy as np

from dynident.linalg.finite_problem import LinearizedProblem, Variables
from dynident.transcription.nonlinear_program import LinearizedProgram, prior_curvature, sparsity_pattern
from dynident.transcription.parameter_constraints import ParameterConstraints, parameter_constraints
from dynident.transcription.shooting import Shooting

SENSITIVITY_STEP = 1e-5  # of a variable's size: central differences of sensitivities lose a third of their digits


class ShootingProgram:
    """Objective, constraints and their derivatives for a point of a shooting problem."""

    def __init__(self, finite: Shooting):
        self.finite, self.problem = finite, finite.problem
        self.nx, self.unknowns = len(self.problem.model.states), len(finite.names)
        self.segments = [len(record.segment_starts) - 1 for record in finite.records]
        self.matching = self.nx * sum(count - 1 for count in self.segments)
        self.size = self.unknowns + self.matching
        self.between: ParameterConstraints = parameter_constraints(self.problem, finite.coordinates)
        self.factor = 1.0 / max(1, finite.residual_count)  # of the objective
        own = np.where(np.isnan(finite.coordinates.scale), 1.0, finite.coordinates.scale)
        states = np.tile(finite.objective.state_scale, self.matching // max(1, self.nx))
        self.scale = np.concatenate([own, states])
        self.row_scale = np.concatenate([1 / states, np.ones(self.between.count)])
        self._place()

    def _place(self) -> None:
        """Which variables each segment depends on, and where its derivatives go."""
        self.element_columns: list[np.ndarray] = []
        jr, jc, at, row = [], [], self.unknowns, 0
        for e, count in enumerate(self.segments):
            spread = self.finite.objective.unknown_map(e, np.ones(self.unknowns)).unknown
            inner = at + np.arange(self.nx * (count - 1)).reshape(count - 1, self.nx)
            local = np.hstack([np.vstack([spread[None, :self.nx], inner]), np.tile(spread[self.nx:], (count, 1))])
            self.element_columns.append(local)
            lines = row + np.arange(self.nx * (count - 1)).reshape(count - 1, self.nx)
            jr += [np.repeat(lines, local.shape[1], axis=1).ravel(), lines.ravel()]
            jc += [np.tile(local[:-1], (1, self.nx)).ravel(), inner.ravel()]
            at, row = at + inner.size, row + lines.size
        k, n = self.between.count, self.unknowns
        jr.append(np.repeat(row + np.arange(k), n))
        jc.append(np.tile(np.arange(n), k))
        self.jacobian_pattern = sparsity_pattern((row + k, self.size), np.concatenate(jr), np.concatenate(jc))
        rows = [np.repeat(c, c.shape[1], axis=1).ravel() for c in self.element_columns]
        columns = [np.tile(c, (1, c.shape[1])).ravel() for c in self.element_columns]
        own = np.array([i for i, _ in self.finite.objective.priors], dtype=int)
        between = self.between.hessian.sparsity_out(0)
        rows += [own, np.array(between.row(), dtype=int)]
        columns += [own, np.array(between.get_col(), dtype=int)]
        r, c = np.concatenate(rows), np.concatenate(columns)
        self.hessian_pattern = sparsity_pattern((self.size, self.size), np.where(r <= c, r, -1), np.where(r <= c, c, -1))

    # to and from points

    def variables(self, point: Variables) -> np.ndarray:
        """Scaled variables of a point."""
        return np.concatenate([point.unknowns, *(nodes.ravel() for nodes in point.nodes)]) / self.scale

    def point(self, w: np.ndarray) -> Variables:
        w, at, nodes = w * self.scale, self.unknowns, []
        for count in self.segments:
            nodes.append(w[at:at + self.nx * (count - 1)].reshape(count - 1, self.nx))
            at += nodes[-1].size
        return Variables(w[:self.unknowns], tuple(nodes))

    def bounds(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Lower and upper bounds of the variables and of the constraints."""
        c, free, zero = self.finite.coordinates, np.full(self.matching, np.inf), np.zeros(self.matching)
        return (np.concatenate([c.lower, -free]) / self.scale, np.concatenate([c.upper, free]) / self.scale,
                np.concatenate([zero, self.between.lower]), np.concatenate([zero, self.between.upper]))

    # values and derivatives, of scaled variables

    def values(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Objective and constraints."""
        point = self.point(w)
        evaluation = self.finite.evaluate(point)
        return self.factor * evaluation.cost, self._constraints(point, evaluation.defects)

    def first(self, w: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        """Objective, its gradient, constraints, and the nonzeros of their Jacobian."""
        at = self.linear(w)
        return at.objective, at.gradient, at.constraints, at.jacobian

    def linear(self, w: np.ndarray) -> LinearizedProgram:
        """The program linearised, with the gradient of each element of the Lagrangian."""
        point = self.point(w)
        linear = self.finite.linearize(point)
        slopes = [self._slopes(linear, e) for e in range(len(self.segments))]
        blocks = []
        for e, slope in enumerate(slopes):
            links = linear.chains[e].transition[:self.segments[e] - 1] * slope[:-1, None, :]
            blocks += [links.ravel(), np.full(self.nx * (self.segments[e] - 1), -1.0)]
        between, between_jacobian = self.between.at(point.unknowns)
        blocks.append(between_jacobian.ravel())
        nonzeros = self.jacobian_pattern.gather(np.concatenate(blocks))
        nonzeros = nonzeros * self.scale[self.jacobian_pattern.columns] * self.row_scale[self.jacobian_pattern.rows]
        pulls = [self._pulls(linear, e) * slope for e, slope in enumerate(slopes)]
        gradient = np.zeros(self.size)
        for columns, pull in zip(self.element_columns, pulls, strict=True):
            np.add.at(gradient, columns[columns >= 0], pull[columns >= 0])
        linear.priors.gather(2 * linear.evaluation.prior, gradient)
        defects = linear.evaluation.defects
        transitions = [chain.transition[:-1].copy() for chain in linear.chains]

        def element_gradients(multipliers: np.ndarray) -> list[np.ndarray]:
            found, row = [], 0
            for e, slope in enumerate(slopes):
                own = self.factor * pulls[e]
                count = self.nx * (self.segments[e] - 1)
                pull = (multipliers * self.row_scale)[row:row + count].reshape(-1, self.nx)
                own[:-1] += np.einsum("ij,ijk->ik", pull, transitions[e]) * slope[:-1]
                found.append(own * np.append(self.scale, 0.0)[self.element_columns[e]])
                row += count
            return found

        return LinearizedProgram(self.factor * linear.evaluation.cost, self.factor * gradient * self.scale,
                                 self._constraints(point, defects, between), nonzeros, element_gradients)

    def second(self, w: np.ndarray, objective: float, multipliers: np.ndarray, exact: bool) -> np.ndarray:
        """Nonzeros of the Lagrangian's Hessian; if exact, by central differences of the segments' gradients."""
        point = self.point(w)
        blocks = self.element_hessians(w, multipliers, exact, objective)
        entries = [block.ravel() for block in blocks]
        entries.append(prior_curvature(self, point, objective, exact))
        between = self.between.hessian(point.unknowns, (multipliers * self.row_scale)[self.matching:])
        entries.append(np.array(between.nonzeros()) / np.array(self._between_scale()))
        nonzeros = self.hessian_pattern.gather(np.concatenate(entries))
        return nonzeros

    def _between_scale(self) -> np.ndarray:
        """The Hessian between parameters is of unscaled unknowns; this divides it into scaled ones."""
        pattern = self.between.hessian.sparsity_out(0)
        return 1 / (self.scale[np.array(pattern.row(), dtype=int)] * self.scale[np.array(pattern.get_col(), dtype=int)])

    def element_hessians(self, w: np.ndarray, multipliers: np.ndarray, exact: bool, objective: float = 1.0
                         ) -> list[np.ndarray]:
        """(segments, n, n) per record, in scaled variables."""
        return self._differences(w, multipliers, objective) if exact else self._gauss_newton(w, objective)

    def _gauss_newton(self, w: np.ndarray, objective: float) -> list[np.ndarray]:
        linear, found = self.finite.linearize(self.point(w)), []
        for e, count in enumerate(self.segments):
            chain, n = linear.chains[e], self.element_columns[e].shape[1]
            slope = self._slopes(linear, e) * np.append(self.scale, 0.0)[self.element_columns[e]]
            rows = chain.weight[:, :, None] * chain.jacobian
            blocks = np.empty((count, n, n))
            for i in range(count):
                own = rows[_nodes(chain.segment_starts, i, count)].reshape(-1, n) * slope[i]
                blocks[i] = 2 * objective * self.factor * own.T @ own
            found.append(blocks)
        return found

    def _differences(self, w: np.ndarray, multipliers: np.ndarray, objective: float) -> list[np.ndarray]:
        """All segments at once: each depends on variables of its own, and on the parameters of all."""
        found = [np.zeros((*c.shape, c.shape[1])) for c in self.element_columns]
        for k in range(max(c.shape[1] for c in self.element_columns)):
            ahead, back = w.copy(), w.copy()
            for columns in self.element_columns:
                moved = columns[:, k][columns[:, k] >= 0]
                ahead[moved], back[moved] = w[moved] + SENSITIVITY_STEP, w[moved] - SENSITIVITY_STEP
            up, down = (self.linear(at).element_gradients(multipliers / objective) for at in (ahead, back))
            for e, columns in enumerate(self.element_columns):
                change = objective * (up[e] - down[e]) / (2 * SENSITIVITY_STEP)
                found[e][:, :, k] = np.where(columns[:, k, None] >= 0, change, 0.0)
        return [(blocks + blocks.swapaxes(1, 2)) / 2 for blocks in found]

    def _slopes(self, linear: LinearizedProblem, e: int) -> np.ndarray:
        """(segments, n) how the segment's numbers follow its variables: 1 at inner nodes, the transform's slope elsewhere."""
        derivative = linear.unknown_maps[e].derivative
        slopes = np.tile(derivative, (self.segments[e], 1))
        slopes[1:, :self.nx] = 1.0
        return slopes

    def _pulls(self, linear: LinearizedProblem, e: int) -> np.ndarray:
        """(segments, n) gradient of the segment's part of the cost."""
        chain, count = linear.chains[e], self.segments[e]
        each = 2 * np.einsum("ij,ijk->ik", chain.weight * chain.rhs, chain.jacobian)
        return np.array([each[_nodes(chain.segment_starts, i, count)].sum(axis=0) for i in range(count)])

    def _constraints(self, point: Variables, defects: tuple[np.ndarray, ...], between: np.ndarray | None = None) -> np.ndarray:
        between = self.between.at(point.unknowns)[0] if between is None else between
        return np.concatenate([*(d.ravel() for d in defects), between]) * self.row_scale


def _nodes(starts: np.ndarray, i: int, count: int) -> slice:
    """Nodes of a segment; the last one has the last node too."""
    return slice(int(starts[i]), int(starts[i + 1]) + (i == count - 1))
