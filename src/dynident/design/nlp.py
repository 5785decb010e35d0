"""Nonlinear program of a design: cost and constraints of a plan, with exact first derivatives, of all coefficients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dynident.design.constraints import PathConstraint
from dynident.design.criteria import InformationState
from dynident.design.design_problem import DesignProblem
from dynident.design.sensitivity_simulation import (
    InputTrajectory,
    PlannedSimulation,
    SensitivityResult,
    SignalValues,
    evaluate_formula,
)
from dynident.design.signals import SignalConstraint
from dynident.solvers.slsqp import NlpEvaluation, SlsqpResult, minimize_slsqp

FIRST_POINTS = 50  # samples per record at which a constraint is asked for before its peaks are known


@dataclass(frozen=True, eq=False)
class ConstraintRows:
    """Rows of the constraint Jacobian that belong together: lower <= value <= upper, and how the user calls them."""

    label: str
    lower: float
    upper: float
    scale: float
    values: np.ndarray  # (rows,)
    derivatives: np.ndarray  # (rows, variables)


def first_constraint_points(constraints: Sequence[PathConstraint], samples: int) -> tuple[np.ndarray, ...]:
    """Samples at which each monitored constraint is asked for at first; those beside its peaks join when they are found."""
    some = np.unique(np.append(np.arange(0, samples, max(1, samples // FIRST_POINTS)), samples - 1))
    return tuple(np.array([samples - 1]) if own.terminal else some[0 if own.acts_at_start else 1:] for own in constraints
                 if own.input_rate is None)


@dataclass(frozen=True, eq=False)
class DesignNlp:
    """Variables: the coefficients of all planned records, each over its scale; one more (epigraph) for the worst case."""

    problem: DesignProblem
    simulation: PlannedSimulation
    constraints: tuple[PathConstraint, ...]
    points: tuple[np.ndarray, ...]  # per monitored constraint: the samples at which it is asked for
    cost_scale: float = 1.0  # brings the cost to the size of one

    @property
    def count(self) -> int:
        return self.problem.scale.size + int(self.problem.worst_case)

    @cached_property
    def columns(self) -> tuple[np.ndarray, ...]:
        """Per planned record: which unknowns its sensitivities belong to."""
        whole = self.simulation.model
        return tuple(self.problem.prior.unknown_columns(r, whole.initial, whole.free) for r in range(self.problem.records))

    @cached_property
    def signal_constraints(self) -> list[tuple[SignalConstraint, slice, Callable[[float, np.ndarray], SignalValues]]]:
        tau = self.simulation.inputs.tau
        return [(own, part, evaluate_formula(own.formula, part.stop - part.start, tau if own.everywhere else tau[-1:]))
                for own, part in self.simulation.inputs.signal_constraints()]

    @cached_property
    def monitored(self) -> list[PathConstraint]:
        """Constraints that a simulation has to follow."""
        return [own for own in self.constraints if own.input_rate is None]

    def evaluate(self, w: np.ndarray) -> NlpEvaluation:
        """Cost, constraints and their derivatives; raises where the simulation diverges."""
        problem, c = self.problem, self.problem.coefficients(w)
        values, gradients, rows = [], [], self._input_rows(c)
        for scenario in problem.scenarios:
            results = [self.simulation.run(own, *problem.prior.at(scenario, r)) for r, own in enumerate(c)]
            value, gradient = self._cost(results, c)
            values.append(self.cost_scale * value)
            gradients.append(self.cost_scale * gradient * problem.scale)
            rows += self._path_rows(results)
        jacobian = [own.derivatives * problem.scale / own.scale for own in rows]
        g = [own.values / own.scale for own in rows]
        if not problem.worst_case:
            return NlpEvaluation(float(np.mean(values)), np.mean(gradients, axis=0), np.concatenate([*g, np.zeros(0)]),
                         np.vstack(jacobian) if jacobian else np.zeros((0, self.count)))
        wide = [np.hstack([own, np.zeros((len(own), 1))]) for own in jacobian]
        epigraph = np.hstack([np.array(gradients), -np.ones((len(values), 1))])  # cost of a scenario <= last variable
        return NlpEvaluation(float(w[-1]), np.eye(self.count)[-1], np.concatenate([*g, np.array(values) - w[-1]]),
                     np.vstack([*wide, epigraph]))

    def scenario_costs(self, at: NlpEvaluation) -> np.ndarray:
        """Behind the last variable, where the worst case counts."""
        return at.constraints[-len(self.problem.scenarios):]

    @cached_property
    def bounds(self) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
        """Lower and upper ends of the rows that `evaluate` gives, and the label of each."""
        problem, some = self.problem, np.zeros((self.problem.records, self.simulation.inputs.count))
        if self.simulation.inputs.free_duration:
            some[:, -1] = self.simulation.inputs.reference_duration
        blocks = [(own.label, own.lower / own.scale, own.upper / own.scale, own.values.size) for own in self._input_rows(some)]
        blocks += [(own.text, own.lower / own.scale, own.upper / own.scale, where.size)
                   for own, where in zip(self.monitored, self.points, strict=True)] * (problem.records * len(problem.scenarios))
        if problem.worst_case:
            blocks.append(("", -np.inf, 0.0, len(problem.scenarios)))
        low, high, labels = ([each[k] for each in blocks for _ in range(each[3])] for k in (1, 2, 0))
        return np.array(low, float), np.array(high, float), tuple(str(label) for label in labels)

    def violations(self, at: NlpEvaluation) -> np.ndarray:
        """Of the constraints that are the user's, scaled; positive outside."""
        low, high, labels = self.bounds
        return np.maximum(at.constraints - high, low - at.constraints)[:len(labels) - self.problem.worst_case * len(
            self.problem.scenarios)]

    def solve(self, start: np.ndarray, max_iterations: int, evaluate: Callable[[np.ndarray], NlpEvaluation] | None = None
              ) -> SlsqpResult:
        """From variables at which the machine can be simulated; `evaluate` may watch the evaluations."""
        low, high = (np.tile(own, self.problem.records) for own in self.problem.coefficient_bounds)
        if self.problem.worst_case:
            low, high, start = np.append(low, -np.inf), np.append(high, np.inf), np.append(start, 0.0)
            start[-1] = float(np.max(self.scenario_costs(self.evaluate(start))))
        return minimize_slsqp(evaluate or self.evaluate, start, (low, high), self.bounds[:2], max_iterations)

    def _cost(self, results: Sequence[SensitivityResult], c: np.ndarray) -> tuple[float, np.ndarray]:
        inputs, problem = self.simulation.inputs, self.problem
        at = problem.criterion.evaluate(self._information_state(results, inputs.duration(c[0])))
        gradient = np.zeros((problem.records, inputs.count))
        for r, (own, columns) in enumerate(zip(results, self.columns, strict=True)):
            slopes = at.d_sensitivities[r] if problem.taken is None else at.d_sensitivities[r] * problem.taken[r][:, None, None]
            gradient[r] = (np.tensordot(slopes[:, :, columns], own.d_sensitivities, 3)
                           + np.tensordot(at.d_outputs[r], own.d_outputs, 2)
                           + np.tensordot(at.d_inputs[r], own.d_inputs, 2))
            if inputs.free_duration:
                gradient[r, -1] += at.d_sample_weight / inputs.reference_duration / problem.records
        return at.value, gradient.ravel()

    def _information_state(self, results: Sequence[SensitivityResult], duration: float) -> InformationState:
        prior, inputs = self.problem.prior, self.simulation.inputs
        sensitivities = [embed_sensitivities(own, columns, len(prior.names))
                         for own, columns in zip(results, self.columns, strict=True)]
        if self.problem.taken is not None:
            sensitivities = [S * mask[:, None, None] for S, mask in zip(sensitivities, self.problem.taken, strict=True)]
        return InformationState(
            time=inputs.tau * duration, outputs=[own.outputs for own in results], sensitivities=sensitivities,
            inputs=[own.inputs for own in results], weight=1 / prior.std, sample_weight=duration / inputs.reference_duration,
            prior_information=prior.fisher_information, null_space=prior.null_space, names=prior.names,
            output_names=prior.problem.model.outputs, scale=prior.scale, of_interest=self.problem.of_interest)

    def information_states(self, w: np.ndarray) -> list[InformationState]:
        """In every scenario."""
        problem, c = self.problem, self.problem.coefficients(w)
        return [self._information_state([self.simulation.run(own, *problem.prior.at(scenario, r), derivatives=False)
                                         for r, own in enumerate(c)], self.simulation.inputs.duration(c[0]))
                for scenario in problem.scenarios]

    def _path_rows(self, results: Sequence[SensitivityResult]) -> list[ConstraintRows]:
        return [ConstraintRows(limit.text, limit.lower, limit.upper, limit.scale, own.monitored[where, k],
                               self._of_record(own.d_monitored[where, k], r))
                for r, own in enumerate(results)
                for k, (limit, where) in enumerate(zip(self.monitored, self.points, strict=True))]

    def _input_rows(self, c: np.ndarray) -> list[ConstraintRows]:
        """Rates of inputs, and constraints of the signals themselves."""
        inputs, rows = self.simulation.inputs, []
        for r, own in enumerate(c):
            rows += [self._rate_rows(inputs, each, own, r) for each in self.constraints if each.input_rate is not None]
            for limit, part, function in self.signal_constraints:
                values, derivatives, stretch = function(inputs.duration(own), own[part])
                wide = np.zeros((values.size, inputs.count))
                wide[:, part] = derivatives
                if inputs.free_duration:
                    wide[:, -1] = stretch
                scale = max(abs(limit.lower), abs(limit.upper)) or 1.0
                rows.append(ConstraintRows(limit.name, limit.lower, limit.upper, scale, values, self._of_record(wide, r)))
        return rows

    def _rate_rows(self, inputs: InputTrajectory, limit: PathConstraint, c: np.ndarray, r: int) -> ConstraintRows:
        sampled = inputs.sample(c)
        i, step = int(limit.input_rate or 0), inputs.duration(c) / (inputs.samples - 1)
        rate = np.diff(sampled.values[:, i]) / step
        derivatives = np.zeros((rate.size, inputs.count))
        for place, (at, j) in enumerate(inputs.pairs):
            if at == i:
                derivatives[:, j] += np.diff(sampled.derivatives[:, place]) / step
        if inputs.free_duration:
            derivatives[:, -1] -= rate / inputs.duration(c)
        return ConstraintRows(limit.text, limit.lower, limit.upper, limit.scale, rate, self._of_record(derivatives, r))

    def _of_record(self, derivatives: np.ndarray, record: int) -> np.ndarray:
        """Columns of one record among the coefficients of all."""
        wide = np.zeros((len(derivatives), self.problem.records, self.simulation.inputs.count))
        wide[:, record] = derivatives
        return wide.reshape(len(derivatives), -1)


def embed_sensitivities(result: SensitivityResult, columns: np.ndarray, unknowns: int) -> np.ndarray:
    """(samples, outputs, unknowns): those of one record in the places of its unknowns among all."""
    S = np.zeros((*result.outputs.shape, unknowns))
    S[:, :, columns] = result.sensitivities
    return S
