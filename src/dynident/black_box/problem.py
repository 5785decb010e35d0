"""Black-box problem: residuals by simulation, derivatives by differences; what was simulated is remembered."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynident.black_box.adaptive_pool import AdaptivePool
from dynident.black_box.derivative_check import DerivativeCheck, ModelDerivatives
from dynident.black_box.difference_steps import LARGEST_STEP, optimal_steps
from dynident.black_box.finite_differences import (
    DifferencePoint,
    FiniteDifference,
    NoFiniteNeighbour,
    Outputs,
    difference_columns,
    measure_noise,
)
from dynident.errors import SimulationDiverged
from dynident.integrators.grid import Grid
from dynident.integrators.propagation import Propagation
from dynident.linalg.finite_problem import (
    Evaluation,
    LinearizedProblem,
    ResidualIndex,
    ResidualJacobian,
    SegmentChain,
    UnknownMap,
    Variables,
)
from dynident.parallel.tasks import map_ordered
from dynident.problem.problem import Problem
from dynident.transcription.objective import Objective
from dynident.transcription.shooting import ExperimentData
from dynident.transcription.simulators import Simulator

REMEMBERED = 64  # simulations kept for who asks again: weights change, outputs do not
SMALLEST_MOVE = 1e-3  # a value that happens to be near 0 is moved as if it were this fraction of its scale at least, and
# one that does nothing by this fraction of the way between its bounds at most


@dataclass(frozen=True)
class SimulatorIntegrator:
    """What integrates inside of the box, by name."""

    name: str


@dataclass(frozen=True, eq=False)
class UnknownRange:
    """Where unknowns may go: bounds, typical size of a change (NaN: not known), and the way that is open to them."""

    lower: np.ndarray
    upper: np.ndarray
    scale: np.ndarray
    span: np.ndarray  # infinite where nothing is known of it


@dataclass(frozen=True, eq=False)
class DifferenceKnowledge:
    """What derivatives have shown so far about the simulation."""

    check: DerivativeCheck
    noise: float | None = None  # relative; measured before the first derivative
    influence: np.ndarray | None = None  # per unknown, from the last derivative


class EvaluationCache:
    """A model simulated on all records for values of the unknowns; remembers what it has simulated and learnt.

    The one thing here that changes: simulations cost more than anything else, so that a change of weights or a second fit
    repeats none. Columns of differences are simulated side by side where there is an executor, or where processes of this
    machine pay.
    """

    def __init__(self, problem: Problem, simulator: Simulator, executor: Executor | None = None,
                 pool: AdaptivePool | None = None):
        self.problem, self.simulator, self.executor = problem, simulator, executor
        self.pool = pool or AdaptivePool(simulator.own_process)
        self.model_derivatives = ModelDerivatives(problem, simulator)
        self.simulations = 0
        self.learnt = DifferenceKnowledge(self.model_derivatives.unchecked())
        self._outputs: OrderedDict[tuple[bytes, bytes], Outputs] = OrderedDict()
        self._jacobians: OrderedDict[tuple[bytes, bytes], Outputs] = OrderedDict()

    @property
    def notes(self) -> tuple[str, ...]:
        """What was found out about the model on the way."""
        return (*self.simulator.notes, *self.learnt.check.notes(self.problem.names), *self.pool.notes)

    def outputs(self, rows: Sequence[np.ndarray], grids: Sequence[Grid]) -> list[Outputs | SimulationDiverged]:
        """What the model does for each row of values: its outputs, or why there are none."""
        keys = [(row.tobytes(), self._steps(grids)) for row in rows]
        new = [i for i, key in enumerate(keys) if key not in self._outputs]
        jobs = [(e, *self.problem.values_in(rows[i], e)) for i in new for e in range(len(grids))]
        self.simulations += len(new)
        common = self.simulator, tuple(grids)
        if self.executor is None or len(jobs) < 2:
            done = self.pool.map(lambda job: _simulate(common, *job), jobs)
        else:
            done = list(map_ordered(_simulate, common, jobs, self.executor, self.simulator.thread_safe))
        found: dict[int, Outputs | SimulationDiverged] = {}
        for k, i in enumerate(new):
            own = done[k * len(grids):(k + 1) * len(grids)]
            bad = next((it for it in own if isinstance(it, SimulationDiverged)), None)
            found[i] = bad if bad is not None else tuple(it for it in own if not isinstance(it, SimulationDiverged))
            if bad is None:
                self._keep(self._outputs, keys[i], found[i])
        return [found[i] if i in found else self._outputs[key] for i, key in enumerate(keys)]

    def at(self, values: np.ndarray, grids: Sequence[Grid]) -> Outputs:
        found = self.outputs([values], grids)[0]
        if isinstance(found, SimulationDiverged):
            raise found
        return found

    def trajectories(self, values: np.ndarray, grids: Sequence[Grid]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Outputs and states per experiment; a model without states is not simulated again for them."""
        if not self.problem.model.states:
            return [(y, np.zeros((len(y), 0))) for y in self.at(values, grids)]
        self.simulations += 1
        found = [self.simulator.run(*self.problem.values_in(values, e), grid, True) for e, grid in enumerate(grids)]
        return [(outputs.copy(), states.copy()) for outputs, states in found]

    def jacobian(self, values: np.ndarray, grids: Sequence[Grid], records: Sequence[ExperimentData], allowed: UnknownRange
                 ) -> Outputs:
        """d outputs / d unknowns per experiment, (nodes, outputs, unknowns)."""
        key = (values.tobytes(), self._steps(grids))
        if key in self._jacobians:
            return self._jacobians[key]
        point = self._difference_point(values, grids, records, allowed)
        noise = self._measure_noise(point)
        own = self.model_derivatives.confirmed(self.learnt.check, values, grids)
        self.simulations += bool(own)
        differences = self._differences(point, noise, [i for i in range(values.size) if i not in own])
        check = self.model_derivatives.check(self.learnt.check, grids, point, noise, differences)
        columns = [own[i] if i in own else differences[i].derivative for i in range(values.size)]
        whole = max(point.length(point.base), np.finfo(float).tiny)
        influence = np.array([point.length(column) for column in columns]) * point.size / whole
        self.learnt = replace(self.learnt, check=check, influence=influence)
        made = tuple(np.ascontiguousarray(np.stack([c[e] for c in columns], axis=-1)) if columns else
                     np.zeros((*point.base[e].shape, 0)) for e in range(len(grids)))
        self._jacobians.clear()
        self._keep(self._jacobians, key, made)
        return made

    def recheck_derivatives(self, values: np.ndarray, grids: Sequence[Grid], records: Sequence[ExperimentData],
                            allowed: UnknownRange) -> bool:
        """Whether derivatives that the model gave itself are those of the simulation here, as they were before."""
        before = self.learnt.check
        if not before.confirmed:
            return True
        point = self._difference_point(values, grids, records, allowed)
        noise = self._measure_noise(point)
        differences = self._differences(point, noise, sorted(before.confirmed))
        check = self.model_derivatives.recheck(before, grids, point, noise, differences)
        self.learnt = replace(self.learnt, check=check)
        if check.wrong != before.wrong:
            self._jacobians.clear()
        return check.wrong == before.wrong

    def _difference_point(self, values: np.ndarray, grids: Sequence[Grid], records: Sequence[ExperimentData], allowed: UnknownRange
                          ) -> DifferencePoint:
        scale = np.where(np.isfinite(allowed.scale) & (allowed.scale > 0), allowed.scale,
                         np.where(values == 0, 1.0, np.abs(values)))
        size = np.maximum(np.abs(values), SMALLEST_MOVE * scale)
        longest = np.maximum(LARGEST_STEP * size, np.where(np.isfinite(allowed.span), SMALLEST_MOVE * allowed.span, 0.0))
        return DifferencePoint(values, self.at(values, grids), size, longest, allowed.lower, allowed.upper,
                               lambda rows: self.outputs(rows, grids), lambda outputs: _weighted(outputs, records))

    def _measure_noise(self, point: DifferencePoint) -> float:
        if self.learnt.noise is not None:
            return self.learnt.noise
        try:
            noise = measure_noise(point)
        except NoFiniteNeighbour as bad:
            listed = ", ".join(f"{n} = {v:.6g}" for n, v in zip(self.problem.names, bad.beside, strict=True))
            raise SimulationDiverged(np.nan, 0, what=f"the simulation is finite, but not close to them: at {listed}, {bad}") from None
        if point.length(point.base) > 0:  # the noise of nothing is measured again where there is something
            self.learnt = replace(self.learnt, noise=noise)
        return noise

    def _differences(self, point: DifferencePoint, noise: float, which: Sequence[int]) -> dict[int, FiniteDifference]:
        influence = np.ones(point.values.size) if self.learnt.influence is None else self.learnt.influence
        steps, both = optimal_steps(noise, influence)
        return difference_columns(point, noise, steps * point.size, both, which)

    def _steps(self, grids: Sequence[Grid]) -> bytes:
        return b"" if self.simulator.static else b"".join(g.substeps.tobytes() for g in grids)

    def _keep(self, memory: OrderedDict, key: tuple[bytes, bytes], value: object) -> None:
        memory[key] = value
        while len(memory) > REMEMBERED:
            memory.popitem(last=False)


def _simulate(common: tuple[Simulator, tuple[Grid, ...]], e: int, p: np.ndarray, x0: np.ndarray) -> np.ndarray | SimulationDiverged:
    simulator, grids = common
    try:
        return simulator.run(p, x0, grids[e])[0].copy()
    except SimulationDiverged as bad:
        return bad


def _weighted(outputs: Outputs, records: Sequence[ExperimentData]) -> np.ndarray:
    return np.concatenate([y[r.weight > 0] * r.weight[r.weight > 0] for y, r in zip(outputs, records, strict=True)])


class BlackBoxProblem:
    """The finite problem of a black box: no equalities, dense columns by differences.

    `start_values` takes the place of the start values of the problem.
    """

    cheap_slopes = False

    def __init__(self, problem: Problem, cache: EvaluationCache, substeps: int, std: Mapping[str, float],
                 loss: str = "squared", start_values: Sequence[float] | None = None):
        self.problem, self.cache, self.substeps, self.loss = problem, cache, substeps, loss
        self.integrator = SimulatorIntegrator(cache.simulator.integrator)
        self.frame = Objective(problem, loss)
        self.start_values = self.frame.start_values if start_values is None else np.asarray(start_values, float)
        self.records = [ExperimentData(problem, e, 1, substeps, std) for e in range(len(problem.experiments))]
        self.grids = [r.grid for r in self.records]
        self.names, self.coordinates = self.frame.names, self.frame.coordinates
        self.residual_count = self.frame.residual_count(self.records)
        self.equality_count = 0
        self.floor = self.frame.floor(self.records)
        self.counts = {"simulations": 0, "jacobians": 0}
        self.node_norm = self.frame.node_norm

    @property
    def noise(self) -> float:
        """Length of what the simulation's own noise adds to the weighted residuals."""
        size = float(np.sqrt(sum(np.sum((r.measured * r.weight) ** 2) for r in self.records)))
        return (self.cache.learnt.noise or 0.0) * size

    def start(self) -> Variables:
        return Variables(self.coordinates.coordinates(self.start_values), tuple(np.zeros((0, 0)) for _ in self.records))

    def run(self, point: Variables, sensitivities: bool) -> list[Propagation]:
        """States and outputs at a point; without sensitivities, which a black box has none of."""
        values, nothing = self.frame.values(point), np.zeros((0, 0))
        found = self._counted(lambda: self.cache.trajectories(values, self.grids))
        return [Propagation(states, y, None, nothing, None) for y, states in found]

    def run_everywhere(self, point: Variables) -> list[Propagation]:
        return self.run(point, False)  # a box that is simulated once more for its states gives outputs as it likes

    def to_shooting(self, point: Variables) -> tuple[BlackBoxProblem, Variables]:
        """A simulation shoots, with one segment a record."""
        return self, point

    def transfer(self, point: Variables, before: BlackBoxProblem) -> Variables:
        """A point of the same problem with other weights or steps."""
        return point

    def _outputs(self, point: Variables) -> Outputs:
        return self._counted(lambda: self.cache.at(self.frame.values(point), self.grids))

    def _counted(self, work: Callable[[], Any]) -> Any:
        before = self.cache.simulations
        try:
            return work()
        finally:
            self.counts["simulations"] += self.cache.simulations - before

    def _jacobian(self, point: Variables) -> Outputs:
        values = self.frame.values(point)
        self.counts["jacobians"] += 1
        return self._counted(lambda: self.cache.jacobian(values, self.grids, self.records, self._range(values)))

    def recheck_derivatives(self, point: Variables) -> bool:
        """Whether the model's own derivatives are right at this point, as they were before."""
        values = self.frame.values(point)
        return self._counted(lambda: self.cache.recheck_derivatives(values, self.grids, self.records, self._range(values)))

    def _range(self, values: np.ndarray) -> UnknownRange:
        c = self.coordinates
        lower = np.where(c.log, np.exp(np.where(c.log, c.lower, 0.0)), c.lower)
        upper = np.where(c.log, np.exp(np.where(c.log, c.upper, 0.0)), c.upper)
        return UnknownRange(lower, upper, np.where(c.log, values, c.scale), np.where(c.log, np.inf, upper - lower))

    def _evaluation(self, point: Variables) -> tuple[Evaluation, list[np.ndarray]]:
        none = [np.zeros((0, 0))] * len(self.records)
        return self.frame.evaluation(point, self.records, self._outputs(point), none, none)

    def evaluate(self, point: Variables) -> Evaluation:
        return self._evaluation(point)[0]

    def linearize(self, point: Variables) -> LinearizedProblem:
        jacobian = [np.where(r.weight[..., None] > 0, J, 0.0) if not np.all(np.isfinite(J)) else J  # not measured
                    for r, J in zip(self.records, self._jacobian(point), strict=True)]
        evaluation, factors = self._evaluation(point)
        n = len(self.names)
        chains = [SegmentChain(r.first, jacobian[e], r.weight * factors[e], evaluation.rhs[e], np.zeros((1, 0, n)),
                        np.zeros((0, 0))) for e, r in enumerate(self.records)]
        linear = self.frame.linear(point, evaluation, chains)
        slope = self.coordinates.slope(point.unknowns)
        return LinearizedProblem(evaluation, n, tuple(chains), tuple(UnknownMap(np.arange(n), slope) for _ in chains), linear.priors)

    def linearization(self, point: Variables) -> ResidualJacobian:
        """Residuals and their derivative in the user's units; squared loss."""
        jacobian, values = self._jacobian(point), self.frame.values(point)
        blocks, residuals, where = [], [], []
        for e, (record, outputs) in enumerate(zip(self.records, self._outputs(point), strict=True)):
            seen = record.weight > 0
            node, output = np.nonzero(seen)
            blocks.append(jacobian[e][seen] * record.weight[seen][:, None])
            residuals.append(record.residuals(outputs)[seen])
            where.append(np.column_stack([np.full(node.size, e), output, node - record.grid.offset]))
        for i, known in self.frame.priors:
            blocks.append(np.eye(values.size)[i:i + 1] / known.std)
            residuals.append(np.array([(values[i] - known.mean) / known.std]))
            where.append(np.array([[-1, -1, i]]))
        return ResidualJacobian(values, np.concatenate(residuals), np.vstack(blocks), ResidualIndex(*np.vstack(where).T))
