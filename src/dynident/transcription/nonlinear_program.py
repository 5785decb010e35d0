"""Nonlinear program: a full discretization as a sparse NLP, assembled from one stage function mapped over the grid.

Variables: the unknowns, then per interval its end block: the stages inside it, and the state at its end. A scheme whose
last stage is that state (trapezoid, Hermite-Simpson, Radau) needs it only once, and an explicit one has no stages, so that
the counts are those of Table I of the direct-methods paper. All variables are divided by their typical size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from dynident.codegen.batched import BatchedFunction
from dynident.errors import NotSupported
from dynident.integrators.multistep_propagation import MultistepGrid, multistep_residual, multistep_symbols
from dynident.integrators.scheme import Explicit, Multistep
from dynident.integrators.step_functions import symbol_kind, symbolic_step, symbols
from dynident.linalg.finite_problem import Evaluation, Variables
from dynident.transcription.full_discretization import FullDiscretization
from dynident.transcription.parameter_constraints import ParameterConstraints, parameter_constraints, state_bounds


@dataclass(frozen=True, eq=False)
class SparsityPattern:
    """Where the entries of mapped blocks go in a sparse matrix: entries that meet are added."""

    shape: tuple[int, int]
    rows: np.ndarray  # of the matrix's nonzeros, column by column
    columns: np.ndarray
    place: np.ndarray  # of each block entry among the nonzeros, -1 for one that belongs to nothing free

    def gather(self, entries: np.ndarray) -> np.ndarray:
        keep = self.place >= 0
        return np.bincount(self.place[keep], weights=entries[keep], minlength=self.rows.size)


def sparsity_pattern(shape: tuple[int, int], rows: np.ndarray, columns: np.ndarray) -> SparsityPattern:
    """From the row and column of each block entry (-1: left out)."""
    keep = (rows >= 0) & (columns >= 0)
    code = np.where(keep, columns.astype(np.int64) * shape[0] + rows, -1)
    found, inverse = np.unique(code[keep], return_inverse=True)
    place = np.full(rows.size, -1, dtype=np.int64)
    place[keep] = inverse
    return SparsityPattern(shape, found % shape[0], found // shape[0], place)


@dataclass(frozen=True, eq=False)
class LinearizedProgram:
    """A sparse program linearised at a point, in scaled variables.

    The Lagrangian is a sum of elements, each of few variables (partially separable); `element_gradients` gives, for
    multipliers, the gradient of each in its own variables, (elements, n) per kind.
    """

    objective: float
    gradient: np.ndarray
    constraints: np.ndarray
    jacobian: np.ndarray  # nonzeros
    element_gradients: Callable[[np.ndarray], list[np.ndarray]]


class NonlinearProgram:
    """Objective, constraints and their derivatives for a point of a full discretization."""

    def __init__(self, finite: FullDiscretization):
        self.finite, self.problem = finite, finite.problem
        self.nx, self.nf = len(self.problem.model.states), len(finite.free)
        for unknown in self.problem.unknowns:
            if unknown.initial and unknown.log:
                raise NotSupported(f"'{unknown.name}' is estimated by its logarithm, which the sparse solvers do not take for "
                                   "an initial state. Use a lower bound instead, or solver=\"gauss_newton\".")
        if symbol_kind(self.problem.model) is not ca.SX:
            raise NotSupported(f"'{self.problem.model.algebraic[0]}' is an algebraic variable that enters nonlinearly, which "
                               "the sparse solvers do not take. Use solver=\"gauss_newton\", and no constraints.")
        self.closed, self.block = finite.closed, finite.block
        self.intervals = [r.grid.nodes - 1 for r in finite.records]
        self.unknowns = len(finite.names)
        self.size = self.unknowns + self.block * sum(self.intervals)
        self.between: ParameterConstraints = parameter_constraints(self.problem, finite.coordinates)
        self.matching = self.block * sum(self.intervals)
        self.stages = self._stage_functions()
        self._place()
        self.scale = self._scale()
        self.row_scale = np.concatenate([1 / np.tile(finite.objective.state_scale, self.matching // self.nx),
                                         np.ones(self.between.count)])
        self.factor = 1.0 / max(1, finite.residual_count)  # of the objective

    # the stage functions

    def _stage_functions(self) -> BatchedFunction:
        finite, logs = self.finite, self._log_parameters()
        key = f"{finite.model.content_hash()} {finite.integrator.name} {finite.free} {logs} program"
        return BatchedFunction(key, lambda: _functions(finite, self.block, self.closed, logs))

    def _log_parameters(self) -> tuple[bool, ...]:
        unknown = self.problem.bindings[0].parameter_unknown[list(self.finite.free)]
        return tuple(bool(self.finite.coordinates.log[i]) for i in unknown)

    # where everything stands

    def _place(self) -> None:
        f = self.stages.functions
        jac, hess = f["dyn_con_jac"].sparsity_out(1), f["dyn_con_hess"].sparsity_out(0)
        out_jac, out_hess = f["dyn_out_jac"].sparsity_out(1), f["dyn_out_hess"].sparsity_out(0)
        jr, jc, hr, hc, gc, ohr, ohc = [], [], [], [], [], [], []
        at, row = self.unknowns, 0
        self._intervals: list[np.ndarray] = []
        self._seen: list[np.ndarray] = []
        for e, count in enumerate(self.intervals):
            begin, nodes = self._columns(e, at, count)
            ends = at + self.block * np.arange(count)[:, None] + np.arange(self.block)
            free = np.tile(begin[1], (count, 1))
            before = np.vstack([np.full((1, self.nx), -1), nodes[:-2]])[:count, :self.finite.history]
            local = np.hstack([nodes[:-1], ends, before, free])  # variables of the stage: state, end block, past, parameters
            self._intervals.append(local)
            lines = row + self.block * np.arange(count)[:, None] + np.arange(self.block)
            jr.append(lines[:, jac.row()].ravel())
            jc.append(local[:, jac.get_col()].ravel())
            hr.append(local[:, hess.row()].ravel())
            hc.append(local[:, hess.get_col()].ravel())
            asked = np.flatnonzero(self.finite.records[e].grid.output_mask)
            seen = np.hstack([nodes, np.tile(begin[1], (count + 1, 1))])[asked]
            self._seen.append(seen)
            gc.append(seen[:, out_jac.get_col()])
            ohr.append(seen[:, out_hess.row()].ravel())
            ohc.append(seen[:, out_hess.get_col()].ravel())
            at, row = at + self.block * count, row + self.block * count
        k, n = self.between.count, self.unknowns
        jr.append(np.repeat(row + np.arange(k), n))
        jc.append(np.tile(np.arange(n), k))
        self.jacobian_pattern = sparsity_pattern((row + k, self.size), np.concatenate(jr), np.concatenate(jc))
        self.gradient_columns = gc
        self.objective_rows = out_jac.row()
        own = np.array([i for i, _ in self.finite.objective.priors], dtype=int)
        between = self.between.hessian.sparsity_out(0)
        rows = np.concatenate([*hr, *ohr, *self._products(gc), own, np.array(between.row(), dtype=int)])
        columns = np.concatenate([*hc, *ohc, *self._products(gc, second=True), own, np.array(between.get_col(), dtype=int)])
        upper = rows <= columns  # the solvers want the upper triangle
        self.hessian_pattern = sparsity_pattern((self.size, self.size), np.where(upper, rows, -1), np.where(upper, columns, -1))

    def _columns(self, e: int, at: int, count: int) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
        """Variables of the first state and of the free parameters, and those of the state at each node."""
        spread = self.finite.objective.unknown_map(e, np.ones(self.unknowns)).unknown
        later = at + self.block * np.arange(count)[:, None] + np.arange(self.block - self.nx, self.block)
        return (spread[:self.nx], spread[self.nx:]), np.vstack([spread[None, :self.nx], later])

    def _products(self, columns: list[np.ndarray], second: bool = False) -> list[np.ndarray]:
        """Variables of the products of derivative entries of the same output: the Gauss-Newton part of the Hessian."""
        first, other = self._pairs()
        return [c[:, other if second else first].ravel() for c in columns]

    def _pairs(self) -> tuple[np.ndarray, np.ndarray]:
        rows = np.asarray(self.objective_rows)
        first, other = np.nonzero(rows[:, None] == rows[None, :])
        return first, other

    def _scale(self) -> np.ndarray:
        own = np.where(np.isnan(self.finite.coordinates.scale), 1.0, self.finite.coordinates.scale)
        blocks = np.tile(self.finite.objective.state_scale, self.matching // self.nx)
        return np.concatenate([own, blocks])

    # to and from points

    def variables(self, point: Variables) -> np.ndarray:
        """Scaled variables of a point."""
        parts = [point.unknowns]
        for nodes in point.nodes:
            stages = nodes[:, self.nx:nodes.shape[1] - self.finite.history]
            if self.closed and stages.shape[1]:
                parts.append(np.hstack([stages[:, :-self.nx], nodes[:, :self.nx]]).ravel())
            else:
                parts.append(np.hstack([stages, nodes[:, :self.nx]]).ravel())
        return np.concatenate(parts) / self.scale

    def point(self, w: np.ndarray) -> Variables:
        w, at, nodes = w * self.scale, self.unknowns, []
        values = self.finite.coordinates.values(w[:self.unknowns])
        for e, count in enumerate(self.intervals):
            blocks = w[at:at + self.block * count].reshape(count, self.block)
            if self.finite.history:
                first = self.problem.parameters_and_initial_state(values, e)[1]
                nodes.append(self.finite.with_stages(e, np.vstack([first, blocks])))
            else:
                stages = blocks if self.closed and self.finite.stages else blocks[:, :-self.nx]
                nodes.append(np.hstack([blocks[:, -self.nx:], stages]))
            at += self.block * count
        return Variables(w[:self.unknowns], tuple(nodes))

    def bounds(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Lower and upper bounds of the variables and of the constraints."""
        c = self.finite.coordinates
        low, high = state_bounds(self.problem)
        stages = self.matching // self.nx
        lower, upper = np.concatenate([c.lower, np.tile(low, stages)]), np.concatenate([c.upper, np.tile(high, stages)])
        for i, unknown in enumerate(self.problem.unknowns):  # an initial state is a state too
            if unknown.initial:
                s = self.problem.model.states.index(unknown.quantity)
                lower[i], upper[i] = max(lower[i], low[s]), min(upper[i], high[s])
        zero = np.zeros(self.matching)
        return (lower / self.scale, upper / self.scale, np.concatenate([zero, self.between.lower]),
                np.concatenate([zero, self.between.upper]))

    # values and derivatives, of scaled variables

    def values(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Objective and constraints."""
        point = self.point(w)
        evaluation = self._evaluation(point)[0]
        return self.factor * evaluation.cost, self._constraints(point)

    def first(self, w: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, np.ndarray]:
        """Objective, its gradient, constraints, and the nonzeros of their Jacobian."""
        at = self.linear(w)
        return at.objective, at.gradient, at.constraints, at.jacobian

    def linear(self, w: np.ndarray) -> LinearizedProgram:
        """The program linearised, with the gradient of each element of the Lagrangian."""
        point = self.point(w)
        evaluation, weights, slopes = self._evaluation(point, slopes=True)
        gradient, pulls = np.zeros(self.size), []
        residuals = evaluation.weighted_residuals
        for columns, entries, rhs, weight in zip(self.gradient_columns, slopes, residuals, weights, strict=True):
            pulls.append(2 * (rhs * weight)[:, self.objective_rows] * entries)
            np.add.at(gradient, columns[columns >= 0], pulls[-1][columns >= 0])
        for (i, known), r in zip(self.finite.objective.priors, evaluation.prior, strict=True):
            c = self.finite.coordinates
            gradient[i] += 2 * r * known.derivative(c.values(point.unknowns)[i]) * c.derivative(point.unknowns)[i]
        blocks = [self._stage(e, "dyn_con_jac", point)[1] for e in range(len(self.intervals))]
        entries = np.concatenate([*(block.ravel() for block in blocks), self.between.at(point.unknowns)[1].ravel()])
        nonzeros = self.jacobian_pattern.gather(entries)
        nonzeros = nonzeros * self.scale[self.jacobian_pattern.columns] * self.row_scale[self.jacobian_pattern.rows]
        return LinearizedProgram(self.factor * evaluation.cost, self.factor * gradient * self.scale, self._constraints(point),
                                 nonzeros, lambda multipliers: self._element_gradients(pulls, blocks, multipliers))

    @property
    def element_columns(self) -> list[np.ndarray]:
        """Per record the variables of each interval (state, end block, past, parameters), then those of each output's node."""
        return [*self._intervals, *self._seen]

    def _element_gradients(self, pulls: list[np.ndarray], blocks: list[np.ndarray], multipliers: np.ndarray
                           ) -> list[np.ndarray]:
        """Of the conditions per interval, and of the outputs per node."""
        conditions, outputs = (self.stages.functions[name].sparsity_out(1) for name in ("dyn_con_jac", "dyn_out_jac"))
        weighted, found, at = multipliers * self.row_scale, [], 0
        for block, columns in zip(blocks, self._intervals, strict=True):
            own = weighted[at:at + self.block * len(columns)].reshape(-1, self.block)
            at += own.size
            found.append(_summed(block * own[:, conditions.row()], conditions.get_col(), columns.shape[1]))
        found += [self.factor * _summed(pull, outputs.get_col(), columns.shape[1])
                  for pull, columns in zip(pulls, self._seen, strict=True)]
        return [part * np.append(self.scale, 0.0)[columns]
                for part, columns in zip(found, self.element_columns, strict=True)]

    def element_hessians(self, w: np.ndarray, multipliers: np.ndarray, exact: bool, objective: float = 1.0
                         ) -> list[np.ndarray]:
        """(elements, n, n) per kind, in scaled variables."""
        point = self.point(w)
        evaluation, weights, slopes = self._evaluation(point, slopes=True)
        weighted, conditions, outputs, at = multipliers * self.row_scale, [], [], 0
        f = self.stages.functions
        for e, columns in enumerate(self._intervals):
            own = weighted[at:at + self.block * len(columns)].reshape(-1, self.block)
            at += own.size
            bent = self._stage(e, "dyn_con_hess", point, own)[0] * exact
            conditions.append(_scattered(bent, f["dyn_con_hess"].sparsity_out(0), columns.shape[1]))
            pull = 2 * objective * self.factor * evaluation.weighted_residuals[e] * weights[e]
            bent = self._node(e, "dyn_out_hess", point, pull)[0] * exact
            rows = _scattered(weights[e][:, self.objective_rows] * slopes[e], f["dyn_out_jac"].sparsity_out(1),
                              self._seen[e].shape[1])
            outputs.append(_scattered(bent, f["dyn_out_hess"].sparsity_out(0), self._seen[e].shape[1])
                           + 2 * objective * self.factor * rows.swapaxes(1, 2) @ rows)
        size = np.append(self.scale, 0.0)
        return [part * size[columns][:, :, None] * size[columns][:, None, :]
                for part, columns in zip([*conditions, *outputs], self.element_columns, strict=True)]

    def second(self, w: np.ndarray, objective: float, multipliers: np.ndarray, exact: bool) -> np.ndarray:
        """Nonzeros of the Lagrangian's Hessian; without the curvature of model and outputs if not exact."""
        point = self.point(w)
        multipliers = multipliers * self.row_scale
        evaluation, weights, slopes = self._evaluation(point, slopes=True)
        objective = objective * self.factor
        stage, output, product, at = [], [], [], 0
        pairs = self._pairs()
        for e, count in enumerate(self.intervals):
            own = multipliers[at:at + self.block * count].reshape(count, self.block)
            at += self.block * count
            pull = 2 * objective * evaluation.weighted_residuals[e] * weights[e]
            stage.append(self._stage(e, "dyn_con_hess", point, own)[0].ravel() * exact)
            output.append(self._node(e, "dyn_out_hess", point, pull)[0].ravel() * exact)
            rows = weights[e][:, self.objective_rows] * slopes[e]
            product.append(2 * objective * (rows[:, pairs[0]] * rows[:, pairs[1]]).ravel())
        prior = prior_curvature(self, point, objective / self.factor, exact, scaled=False)
        between = np.array(self.between.hessian(point.unknowns, multipliers[at:]).nonzeros())
        entries = self.hessian_pattern.gather(np.concatenate([*stage, *output, *product, prior, between]))
        return entries * self.scale[self.hessian_pattern.rows] * self.scale[self.hessian_pattern.columns]

    def _constraints(self, point: Variables) -> np.ndarray:
        blocks = [self._stage(e, "dyn_con", point)[0].ravel() for e in range(len(self.intervals))]
        own, between = np.concatenate([*blocks, np.zeros(0)]), self.between.at(point.unknowns)[0]
        return np.concatenate([own, between]) * self.row_scale

    def _evaluation(self, point: Variables, slopes: bool = False
                    ) -> tuple[Evaluation, list[np.ndarray], list[np.ndarray]]:
        """Cost and residuals at the wanted nodes, the weight of each row, and derivatives of the outputs."""
        outputs, derivatives, signals = [], [], self.finite.records
        for e, record in enumerate(signals):
            y, *d = self._node(e, "dyn_out_jac" if slopes else "dyn_out", point)
            full = np.full(record.weight.shape, np.nan)
            full[np.flatnonzero(record.grid.output_mask)] = y
            outputs.append(full)
            derivatives.extend(d)
        none = [np.zeros((0, self.nx)) for _ in signals]
        evaluation, factors = self.finite.objective.evaluation(point, signals, outputs, none, none)
        where = [np.flatnonzero(r.grid.output_mask) for r in signals]
        weights = [(r.weight * factor)[w] for r, factor, w in zip(signals, factors, where, strict=True)]
        rhs = tuple(r[w] for r, w in zip(evaluation.weighted_residuals, where, strict=True))
        return Evaluation(evaluation.cost, rhs, evaluation.prior, (), (), 0.0), weights, derivatives

    def _parts(self, e: int, point: Variables) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Fixed parameters (all), coordinates of the free ones, states at the nodes, end blocks."""
        values = self.finite.objective.values(point)
        p = self.problem.parameters_at(values, e)
        unknown = self.problem.bindings[e].parameter_unknown[list(self.finite.free)]
        states = self.finite.states(point, e)
        nodes = point.nodes[e][:, :point.nodes[e].shape[1] - self.finite.history]
        ends = nodes[:, self.nx:] if self.closed and self.finite.stages else np.hstack([nodes[:, self.nx:], nodes[:, :self.nx]])
        return p, point.unknowns[unknown], states, ends

    def _stage(self, e: int, name: str, point: Variables, multipliers: np.ndarray | None = None) -> list[np.ndarray]:
        p, free, states, ends = self._parts(e, point)
        g, extra = self.finite.records[e].grid, [] if multipliers is None else [multipliers]
        if isinstance(self.finite.integrator, Multistep):
            past, before = MultistepGrid.of(self.finite.integrator, g), np.vstack([states[:1], states[:-2]])
            extra = [past.ratio, past.time_before, before, past.u_before, *extra]
        arguments = [g.time[:-1, None], np.diff(g.time)[:, None], states[:-1], ends, g.u_begin, g.u_end, p, free, *extra]
        return self.stages(name, arguments, g.nodes - 1)

    def _node(self, e: int, name: str, point: Variables, multipliers: np.ndarray | None = None) -> list[np.ndarray]:
        p, free, states, _ = self._parts(e, point)
        g, extra = self.finite.records[e].grid, [] if multipliers is None else [multipliers]
        where = np.flatnonzero(g.output_mask)
        return self.stages(name, [g.time[where, None], states[where], g.u_node[where], p, free, *extra], where.size)


def prior_curvature(program: Any, point: Variables, objective: float, exact: bool, scaled: bool = True) -> np.ndarray:
    """(priors,) what each prior adds to the Hessian of the objective, in scaled variables unless told."""
    slope, log = program.finite.coordinates.derivative(point.unknowns), program.finite.coordinates.log
    values, found = program.finite.coordinates.values(point.unknowns), []
    for i, known in program.finite.objective.priors:
        steep, r = known.derivative(values[i]), known.residual(values[i])
        bent = r * (known.second_derivative(values[i]) * slope[i] ** 2 + steep * slope[i] * log[i]) if exact else 0.0
        size = program.scale[i] ** 2 if scaled else 1.0
        found.append(2 * objective * program.factor * ((slope[i] * steep) ** 2 + bent) * size)
    return np.array(found)


def _summed(entries: np.ndarray, columns: Sequence[int], width: int) -> np.ndarray:
    """(elements, width) of entries (elements, nonzeros), added by column."""
    found = np.zeros((len(entries), width))
    for k, column in enumerate(columns):
        found[:, column] += entries[:, k]
    return found


def _scattered(entries: np.ndarray, sparsity: ca.Sparsity, columns: int) -> np.ndarray:
    """(elements, rows, columns) dense blocks of entries (elements, nonzeros)."""
    found = np.zeros((len(entries), sparsity.size1(), columns))
    found[:, sparsity.row(), sparsity.get_col()] = entries
    return found


def _functions(finite: FullDiscretization, block: int, closed: bool, logs: tuple[bool, ...]) -> list[ca.Function]:
    """dyn_con (t, h, x, end, u0, u1, p, free) -> block residuals; dyn_out (t, x, u, p, free); derivatives of both.

    Of a multistep scheme dyn_con takes the past as well: ratio, t_before, x_before, u_before.
    """
    model, scheme = finite.model, finite.integrator
    multistep = isinstance(scheme, Multistep)
    s = multistep_symbols(model) if multistep else symbols(model)
    nx = len(model.states)
    free, end = ca.SX.sym("free", len(finite.free)), ca.SX.sym("end", block)
    p = ca.SX(s["p"])
    for place, (index, log) in enumerate(zip(finite.free, logs, strict=True)):
        p[index] = ca.exp(free[place]) if log else free[place]
    step = symbolic_step(model, scheme, {**s, "p": p})
    if isinstance(scheme, Multistep):
        residual = multistep_residual(model, scheme, {**s, "p": p}, end)
    elif isinstance(scheme, Explicit):
        residual = scheme.next_state(step) - end
    elif closed:
        residual = scheme.equations(step, end)
    else:
        stages = end[:-nx]
        residual = ca.vertcat(scheme.equations(step, stages), scheme.next_state(step, stages) - end[-nx:])
    y = model.output(s["t"], s["x"], s["u0"], p)
    m, k = ca.SX.sym("m", block), ca.SX.sym("k", len(model.outputs))
    past = [s["x_before"]] if multistep else []
    local, seen = ca.vertcat(s["x"], end, *past, free), ca.vertcat(s["x"], free)
    inputs = [s["t"], s["h"], s["x"], end, s["u0"], s["u1"], s["p"], free]
    inputs += [s[name] for name in ("ratio", "t_before", "x_before", "u_before")] if multistep else []
    node = [s["t"], s["x"], s["u0"], s["p"], free]

    def made(name: str, arguments: list[ca.SX], results: list[ca.SX]) -> ca.Function:
        return ca.Function(name, arguments, ca.cse(results))

    return [made("dyn_con", inputs, [ca.densify(residual)]),
            made("dyn_con_jac", inputs, [ca.densify(residual), ca.jacobian(residual, local)]),
            made("dyn_con_hess", [*inputs, m], [ca.hessian(ca.dot(m, residual), local)[0]]),
            made("dyn_out", node, [ca.densify(y)]), made("dyn_out_jac", node, [ca.densify(y), ca.jacobian(y, seen)]),
            made("dyn_out_hess", [*node, k], [ca.hessian(ca.dot(k, y), seen)[0]])]
