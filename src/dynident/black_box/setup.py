"""Setup of a black box: the finite problem whose residuals come from simulations and whose Jacobian from differences."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dynident.black_box.evaluation_cache import EvaluationCache, UnknownRange
from dynident.black_box.finite_differences import SimulatedOutputs
from dynident.integrators.propagation import Propagation
from dynident.linalg.finite_problem import (
    Evaluation,
    FiniteProblem,
    LinearizedProblem,
    ResidualIndex,
    ResidualJacobian,
    SegmentChain,
    UnknownMap,
    Variables,
    Workspace,
)
from dynident.methods import noise_estimation
from dynident.methods.direct import constrained_solver
from dynident.methods.substeps import choose_substeps
from dynident.models.equations import EquationModel
from dynident.problem.problem import Problem
from dynident.solvers.levenberg_marquardt import FOR_CURVES, LevenbergMarquardt
from dynident.solvers.solver_result import Solver
from dynident.transcription.objective import Objective
from dynident.transcription.shooting import ExperimentData
from dynident.transcription.simulators import declared_names, simulator_for

if TYPE_CHECKING:
    from dynident.black_box.method import LeastSquares


class BlackBoxProblem:
    """The finite problem of a black box: no equalities, dense columns by differences.

    `start_values` takes the place of the start values of the problem.
    """

    jacobian_is_cheap = False
    notes = ()  # of all rounds together, at their end

    def __init__(self, problem: Problem, cache: EvaluationCache, substeps: int, std: Mapping[str, float],
                 loss: str = "squared", start_values: Sequence[float] | np.ndarray | None = None):
        self.problem, self.cache, self.substeps, self.loss, self.std = problem, cache, substeps, loss, std
        self.integrator = cache.integrator
        self.objective = Objective(problem, loss)
        self.start_values = self.objective.start_values if start_values is None else np.asarray(start_values, float)
        self.records = [ExperimentData(problem, e, 1, substeps, std) for e in range(len(problem.experiments))]
        self.grids = [r.grid for r in self.records]
        self.names, self.coordinates = self.objective.names, self.objective.coordinates
        self.residual_count = self.objective.residual_count(self.records)
        self.equality_count = 0
        self.rounding_cost = self.objective.rounding_cost(self.records)
        self.counts = {"simulations": 0, "jacobians": 0}
        self.node_step_norm = self.objective.node_step_norm

    def with_substeps(self, substeps: int) -> BlackBoxProblem:
        """The same problem with other steps between the samples."""
        return BlackBoxProblem(self.problem, self.cache, substeps, self.std, self.loss, self.start_values)

    def whole_records(self) -> BlackBoxProblem:
        """Itself: nothing is cut."""
        return self

    def with_bounds(self, lower: np.ndarray, upper: np.ndarray) -> BlackBoxProblem:
        """The same problem within other bounds, in solver coordinates; what was simulated serves both."""
        changed = copy.copy(self)
        changed.coordinates = replace(self.coordinates, lower=lower, upper=upper)
        return changed

    def with_data(self, outputs: Sequence[Mapping[str, np.ndarray]]) -> BlackBoxProblem:
        """The same problem with other measured values, by record and output; what was missing stays missing."""
        changed, names = copy.copy(self), self.problem.model.outputs
        changed.records = [record.with_outputs({names.index(name): y for name, y in own.items()})
                           for record, own in zip(self.records, outputs, strict=True)]
        return changed

    @property
    def simulation_noise(self) -> float:
        """Length of what the simulation's own noise adds to the weighted residuals."""
        size = float(np.sqrt(sum(np.sum((r.measured * r.weight) ** 2) for r in self.records)))
        return (self.cache.learnt.noise or 0.0) * size

    @property
    def jacobian_error(self) -> float:
        """Relative error of the columns that are differences, the largest."""
        return self.cache.learnt.column_error

    def start(self) -> Variables:
        return Variables(self.coordinates.coordinates(self.start_values), tuple(np.zeros((0, 0)) for _ in self.records))

    def run(self, point: Variables, sensitivities: bool) -> list[Propagation]:
        """States and outputs at a point; without sensitivities, which a black box has none of."""
        values, nothing = self.objective.values(point), np.zeros((0, 0))
        found = self._with_count(lambda: self.cache.trajectories(values, self.grids))
        return [Propagation(states, y, None, nothing, None) for y, states in found]

    def run_with_all_outputs(self, point: Variables) -> list[Propagation]:
        return self.run(point, False)  # a box that is simulated once more for its states gives outputs as it likes

    def from_states(self, unknowns: np.ndarray, times: list[np.ndarray], states: list[np.ndarray]) -> Variables:
        """A point from trajectories, of which the unknowns alone count: inside of the box nothing can be set."""
        return Variables(unknowns, self.start().nodes)

    def to_shooting(self, point: Variables) -> tuple[BlackBoxProblem, Variables]:
        """A simulation shoots, with one segment a record."""
        return self, point

    def transfer(self, point: Variables, before: BlackBoxProblem) -> Variables:
        """A point of the same problem with other weights or steps."""
        return point

    def _outputs(self, point: Variables) -> SimulatedOutputs:
        return self._with_count(lambda: self.cache.at(self.objective.values(point), self.grids))

    def _with_count(self, work: Callable[[], Any]) -> Any:
        before = self.cache.simulations
        try:
            return work()
        finally:
            self.counts["simulations"] += self.cache.simulations - before

    def _jacobian(self, point: Variables) -> SimulatedOutputs:
        values = self.objective.values(point)
        self.counts["jacobians"] += 1
        return self._with_count(lambda: self.cache.jacobian(values, self.grids, self.records, self._range(values)))

    def recheck_derivatives(self, point: Variables) -> bool:
        """Whether the model's own derivatives are right at this point, as they were before."""
        values = self.objective.values(point)
        return self._with_count(lambda: self.cache.recheck_derivatives(values, self.grids, self.records, self._range(values)))

    def _range(self, values: np.ndarray) -> UnknownRange:
        c = self.coordinates
        lower = np.where(c.log, np.exp(np.where(c.log, c.lower, 0.0)), c.lower)
        upper = np.where(c.log, np.exp(np.where(c.log, c.upper, 0.0)), c.upper)
        return UnknownRange(lower, upper, np.where(c.log, values, c.scale), np.where(c.log, np.inf, upper - lower))

    def _evaluation(self, point: Variables) -> tuple[Evaluation, list[np.ndarray]]:
        none = [np.zeros((0, 0))] * len(self.records)
        return self.objective.evaluation(point, self.records, self._outputs(point), none, none)

    def evaluate(self, point: Variables) -> Evaluation:
        return self._evaluation(point)[0]

    def plain_record(self) -> None:
        """Its simulation is not ours."""

    def linearize(self, point: Variables, workspace: Workspace | None = None, known: Evaluation | None = None
                  ) -> LinearizedProblem:
        jacobian = [np.where(r.weight[..., None] > 0, J, 0.0) if not np.all(np.isfinite(J)) else J  # not measured
                    for r, J in zip(self.records, self._jacobian(point), strict=True)]
        evaluation, factors = self._evaluation(point)
        n = len(self.names)
        residuals, no_states = evaluation.weighted_residuals, np.zeros((1, 0, n))
        weights = evaluation.weights or tuple(r.weight for r in self.records)
        chains = [SegmentChain(r.segment_starts, jacobian[e], weights[e] * factors[e], residuals[e], no_states,
                               np.zeros((0, 0))) for e, r in enumerate(self.records)]
        linear = self.objective.linear(point, evaluation, chains, workspace or Workspace())
        derivative = self.coordinates.derivative(point.unknowns)
        return replace(linear, unknown_maps=tuple(UnknownMap(np.arange(n), derivative) for _ in chains))

    def linearization(self, point: Variables) -> ResidualJacobian:
        """Residuals and their derivative in the user's units; squared loss."""
        jacobian, values = self._jacobian(point), self.objective.values(point)
        blocks, residuals, where = [], [], []
        for e, (record, outputs) in enumerate(zip(self.records, self._outputs(point), strict=True)):
            weighed = record.weighed(outputs)
            seen = record.weight > 0
            node, output = np.nonzero(seen)
            blocks.append(jacobian[e][seen] * weighed.weight[seen][:, None])
            residuals.append(weighed.residuals[seen])
            where.append(np.column_stack([np.full(node.size, e), output, node - record.grid.offset]))
        for i, known in self.objective.priors:
            blocks.append(np.eye(values.size)[i:i + 1] * known.derivative(values[i]))
            residuals.append(np.array([known.residual(values[i])]))
            where.append(np.array([[-1, -1, i]]))
        return ResidualJacobian.dense(values, np.concatenate(residuals), np.vstack(blocks), ResidualIndex(*np.vstack(where).T))


@dataclass(frozen=True, eq=False)
class BlackBoxTranscription:
    """One way to fit a problem: its options, what has been simulated so far, and from where to begin."""

    method: LeastSquares
    problem: Problem
    cache: EvaluationCache
    start_values: tuple[float, ...] | None = None  # None: those of the problem

    @classmethod
    def of(cls, method: LeastSquares, problem: Problem, executor: Executor | None = None) -> BlackBoxTranscription:
        simulator = simulator_for(problem.model, method.integrator, declared_names(problem))
        return cls(method, problem, EvaluationCache(problem, simulator, executor))

    def with_start(self, values: np.ndarray) -> BlackBoxTranscription:
        return replace(self, start_values=tuple(float(v) for v in values))

    @property
    def loss(self) -> str:
        return self.method.loss

    @property
    def max_iterations(self) -> int:
        return self.method.max_iterations

    @property
    def substeps(self) -> int | str:
        return self.method.substeps

    @property
    def chooses_integrator(self) -> bool:
        return self.method.chooses_integrator

    def make_integrator(self) -> Any:
        return self.cache.integrator

    def transcribe(self, problem: Problem, substeps: int, noise_std: Mapping[str, float]) -> BlackBoxProblem:
        return BlackBoxProblem(problem, self.cache, substeps, noise_std, self.loss, self.start_values)

    def transcribe_by_shooting(self, problem: Problem, substeps: int, noise_std: Mapping[str, float]) -> BlackBoxProblem:
        return self.transcribe(problem, substeps, noise_std)

    def make_solver(self, finite: FiniteProblem) -> Solver:
        if self.problem.constraints:
            return constrained_solver(self.problem, finite, self.method.max_iterations)
        static = isinstance(self.problem.model, EquationModel) and not self.problem.model.states  # simulations cost nothing
        return LevenbergMarquardt(max_iterations=self.method.max_iterations, **(FOR_CURVES if static else {}))

    def advice(self, problem: Problem) -> list[str]:
        stiff = self.cache.simulator.stiff_alternative
        return [*([f"try {stiff} if the model is stiff"] if stiff else []),
                "search between the bounds first with least_squares(global_search=1000)"]

    def at_start(self) -> BlackBoxProblem:
        """The finite problem with the steps that its start asks for; raises SimulationDiverged."""
        noise_std, substeps = noise_estimation.initial_noise_std(self.problem), self.substeps
        if substeps == "auto":
            substeps, _ = choose_substeps(lambda n: self.transcribe_by_shooting(self.problem, n, noise_std))
        return self.transcribe(self.problem, int(substeps), noise_std)
