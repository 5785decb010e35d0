"""Evaluation cache: simulations of a black box and their derivatives, each made once, on as many processes as pay."""

from __future__ import annotations

import math
import multiprocessing
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dynident._util.operating_system import available_cores
from dynident.black_box.derivative_check import DerivativeCheck, ModelDerivatives
from dynident.black_box.finite_differences import (
    MAX_STEP,
    DifferencePoint,
    FiniteDifference,
    NoFiniteNeighbour,
    SimulatedOutputs,
    difference_columns,
    measure_noise,
    optimal_steps,
)
from dynident.errors import SimulationDiverged
from dynident.integrators.grid import Grid
from dynident.parallel.tasks import map_ordered
from dynident.problem.problem import Problem
from dynident.transcription.shooting import ExperimentData
from dynident.transcription.simulators import Simulator, SimulatorIntegrator

CACHED_SIMULATIONS = 64  # simulations kept for who asks again: weights change, outputs do not
MIN_RELATIVE_SIZE = 1e-3  # a value that happens to be near 0 is moved as if it were this fraction of its scale at least, and
PROCESS_START = 0.5  # seconds until another process has loaded the code and is ready, on a slow machine
REPEATS = 5  # how often a set of columns is asked for again; a fit takes that many iterations at least


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
    column_error: float = 0.0  # relative, of the worst column by differences that was seen


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
        self._outputs: OrderedDict[tuple[bytes, bytes], SimulatedOutputs] = OrderedDict()
        self._jacobians: OrderedDict[tuple[bytes, bytes], SimulatedOutputs] = OrderedDict()

    @property
    def integrator(self) -> SimulatorIntegrator:
        return SimulatorIntegrator(self.simulator.integrator, self.simulator.hidden_solver)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was found out about the model on the way."""
        return (*self.simulator.notes, *self.learnt.check.notes(self.problem.names), *self.pool.notes)

    def outputs(self, rows: Sequence[np.ndarray], grids: Sequence[Grid]) -> list[SimulatedOutputs | SimulationDiverged]:
        """What the model does for each row of values: its outputs, or why there are none."""
        keys = [(row.tobytes(), self._steps(grids)) for row in rows]
        new = [i for i, key in enumerate(keys) if key not in self._outputs]
        jobs = [(e, *self.problem.parameters_and_initial_state(rows[i], e)) for i in new for e in range(len(grids))]
        self.simulations += len(new)
        common = self.simulator, tuple(grids)
        if self.executor is None or len(jobs) < 2:
            done = self.pool.map(lambda job: _simulate(common, *job), jobs)
        else:
            done = list(map_ordered(_simulate, common, jobs, self.executor, self.simulator.thread_safe))
        found: dict[int, SimulatedOutputs | SimulationDiverged] = {  # now, since what is new may push them out
            i: self._outputs[key] for i, key in enumerate(keys) if key in self._outputs}
        for k, i in enumerate(new):
            own = done[k * len(grids):(k + 1) * len(grids)]
            bad = next((it for it in own if isinstance(it, SimulationDiverged)), None)
            found[i] = bad if bad is not None else tuple(it for it in own if not isinstance(it, SimulationDiverged))
            if bad is None:
                self._keep(self._outputs, keys[i], found[i])
        return [found[i] for i in range(len(keys))]

    def at(self, values: np.ndarray, grids: Sequence[Grid]) -> SimulatedOutputs:
        found = self.outputs([values], grids)[0]
        if isinstance(found, SimulationDiverged):
            raise found
        return found

    def trajectories(self, values: np.ndarray, grids: Sequence[Grid]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Outputs and states per experiment; a model without states is not simulated again for them."""
        if not self.problem.model.states:
            return [(y, np.zeros((len(y), 0))) for y in self.at(values, grids)]
        self.simulations += 1
        found = [self.simulator.run(*self.problem.parameters_and_initial_state(values, e), grid, True)
                 for e, grid in enumerate(grids)]
        return [(grid.through_filters(outputs.copy()), states.copy())
                for grid, (outputs, states) in zip(grids, found, strict=True)]

    def jacobian(self, values: np.ndarray, grids: Sequence[Grid], records: Sequence[ExperimentData], allowed: UnknownRange
                 ) -> SimulatedOutputs:
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
        errors = [(c.noise + c.truncation) / c.length for c in differences.values() if c.seen]
        self.learnt = replace(self.learnt, check=check, influence=influence, column_error=max(errors, default=0.0))
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

    def _difference_point(self, values: np.ndarray, grids: Sequence[Grid], records: Sequence[ExperimentData],
                          allowed: UnknownRange) -> DifferencePoint:
        scale = np.where(np.isfinite(allowed.scale) & (allowed.scale > 0), allowed.scale,
                         np.where(values == 0, 1.0, np.abs(values)))
        size = np.maximum(np.abs(values), MIN_RELATIVE_SIZE * scale)
        longest = np.maximum(MAX_STEP * size, np.where(np.isfinite(allowed.span), MIN_RELATIVE_SIZE * allowed.span, 0.0))
        return DifferencePoint(values, self.at(values, grids), size, longest, allowed.lower, allowed.upper,
                               lambda rows: self.outputs(rows, grids), lambda outputs: _weighted(outputs, records))

    def _measure_noise(self, point: DifferencePoint) -> float:
        if self.learnt.noise is not None:
            return self.learnt.noise
        try:
            noise = measure_noise(point)
        except NoFiniteNeighbour as bad:
            listed = ", ".join(f"{n} = {v:.6g}" for n, v in zip(self.problem.names, bad.beside, strict=True))
            what = f"the simulation is finite, but not close to them: at {listed}, {bad}"
            raise SimulationDiverged(np.nan, 0, what=what) from None
        if point.length(point.base) > 0:  # the noise of nothing is measured again where there is something
            self.learnt = replace(self.learnt, noise=noise)
        return noise

    def _differences(self, point: DifferencePoint, noise: float, which: Sequence[int]) -> dict[int, FiniteDifference]:
        influence = np.ones(point.values.size) if self.learnt.influence is None else self.learnt.influence
        static = not self.problem.model.states  # whose simulations cost nothing
        steps, both = optimal_steps(noise, influence, two_sided=static)
        return difference_columns(point, noise, steps * point.size, both, which)

    def _steps(self, grids: Sequence[Grid]) -> bytes:
        return b"" if self.simulator.static else b"".join(g.substeps.tobytes() for g in grids)

    def _keep(self, memory: OrderedDict, key: tuple[bytes, bytes], value: object) -> None:
        memory[key] = value
        while len(memory) > CACHED_SIMULATIONS:
            memory.popitem(last=False)


def _simulate(common: tuple[Simulator, tuple[Grid, ...]], e: int, p: np.ndarray, x0: np.ndarray
              ) -> np.ndarray | SimulationDiverged:
    simulator, grids = common
    try:
        return grids[e].through_filters(simulator.run(p, x0, grids[e])[0].copy())
    except SimulationDiverged as bad:
        return bad


def _weighted(outputs: SimulatedOutputs, records: Sequence[ExperimentData]) -> np.ndarray:
    return np.concatenate([y[r.weight > 0] * r.weight[r.weight > 0] for y, r in zip(outputs, records, strict=True)])


class AdaptivePool:
    """Runs tasks one after the other until it is known how long one takes, then on as many processes as pay.

    `seconds` is what one task is known to take; without it, the shortest so far.
    """

    def __init__(self, own_process: bool, processes: int | None = None, seconds: float = math.inf):
        alone = multiprocessing.parent_process() is None  # a worker among others takes no more than its own core
        self.own_process, self.most = own_process, processes or (available_cores() if alone else 1)
        self.seconds = seconds  # of one task
        self.begun = False  # the first task starts a process, and says nothing about those after it
        self.used = 1  # processes
        self._threads: ThreadPoolExecutor | None = None

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        """Results in the order of the tasks."""
        done: list[Any] = []
        while len(done) < len(tasks):
            waiting = tasks[len(done):]
            if self.processes_for(len(waiting)) > 1:
                return done + self._run_threads(function, waiting)
            began = time.perf_counter()
            done.append(function(waiting[0]))
            if self.begun:
                self.seconds = min(self.seconds, time.perf_counter() - began)
            self.begun = True
        return done

    def processes_for(self, tasks: int) -> int:
        """How many processes shorten this set of tasks, counting that others like it follow."""
        together = min(self.most, tasks)
        if not self.own_process or together < 2 or not math.isfinite(self.seconds):
            return 1
        if self._threads is not None:
            return together
        saved = self.seconds * (tasks - math.ceil(tasks / together)) * REPEATS
        return together if saved > PROCESS_START else 1

    def _run_threads(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self.most, "simulation")
        self.used = max(self.used, min(self.most, len(tasks)))
        return list(self._threads.map(function, tasks))

    @property
    def notes(self) -> tuple[str, ...]:
        return (f"Simulations ran on {self.used} processes side by side, since one takes {self.seconds:.2g} s.",
                ) if self.used > 1 else ()
