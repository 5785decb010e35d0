"""Simulator of an FMU: what a problem asks of it, by as many instances as threads ask, and an end to repeated crashes."""

from __future__ import annotations

import functools
import json
import math
import threading
import weakref
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dynident.errors import ProblemError, SimulationDiverged, SimulatorLost
from dynident.fmu.in_process import InProcessSimulator
from dynident.fmu.instance import MAX_MESSAGES, SimulationFailed
from dynident.fmu.process import IsolatedSimulator
from dynident.fmu.simulation_spec import ALIGNMENTS, FmuInputs, SimulationSpec, equal_steps
from dynident.models.isolated_call import MAX_CRASHES
from dynident.tolerances import FMU_NEWTON_STEP, FMU_TIGHTEST_TOLERANCE

if TYPE_CHECKING:
    from dynident.fmu.model import FmuModel

MAX_QUOTED_MESSAGES = 3  # messages of an FMU in a report; its log keeps them all
FIXED_STEP_NOISE = 1e-15  # relative, of fixed steps without an iteration
TIGHTER_RUN = 0.1  # of a tolerance, to see whether it matters


class FmuSimulator:
    """Simulations of one FMU for values of what is `written`; instances and processes are shared through a pool and end
    with it."""

    def __init__(self, model: FmuModel, written: tuple[str, ...], restarts: bool = False):
        self.model, self.written, self.restarts = model, written, restarts
        spec = model.simulation_spec(written, restarts)
        self.pool = SimulatorPool(spec, model.options["trusted"], model.options["time_limit"])
        self._finalizer = weakref.finalize(self, self.pool.close)

    def run(self, values: np.ndarray, inputs: FmuInputs, states: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Outputs (nodes, outputs) and, on request, states (nodes, states); of rows of values (rows, ...) one behind the
        other. Raises SimulationFailed."""
        both = self.pool.run(np.ascontiguousarray(values, dtype=float), inputs, states)
        count = len(self.model.outputs)
        return both[..., :count], both[..., count:]

    def derivatives(self, values: np.ndarray, inputs: FmuInputs, columns: Sequence[int]) -> np.ndarray:
        """Derivatives of the outputs by what is written at these places, (nodes, outputs, columns), by the FMU's own
        directional derivatives; raises SimulationFailed."""
        both = self.pool.run(np.ascontiguousarray(values, dtype=float), inputs, False, tuple(columns))
        count = len(self.model.outputs)
        return both[:, count:].reshape(len(both), len(columns), count).transpose(0, 2, 1)

    @property
    def spec(self) -> SimulationSpec:
        return self.pool.spec

    @property
    def log(self) -> tuple[str, ...]:
        """What the FMU said so far, warnings and worse, each message once."""
        return tuple(self.pool.log)

    @property
    def notes(self) -> tuple[str, ...]:
        quoted = [f"{self.model.path.name} says: {text.strip()}" for text in self.log[:MAX_QUOTED_MESSAGES]]
        left = len(self.log) - MAX_QUOTED_MESSAGES
        more = [f"{self.model.path.name} says {left} more."] if left > 0 else []
        return (*self.model.notes, *dict.fromkeys(self.pool.notes), *quoted, *more)

    def __reduce__(self) -> tuple:
        return FmuSimulator, (self.model, self.written, self.restarts)


class FmuRecordSimulator:
    """An FMU along records of a problem; only what the problem declares is set, the rest keeps the FMU's own values."""

    adaptive = False
    thread_safe = True  # each thread has an instance of its own

    def __init__(self, model: FmuModel, declared: Iterable[str], keeps_tolerance: bool | None = None, restarts: bool = False):
        """`restarts`: it begins with any state at any time."""
        self.model, self.declared, self.static, self.restarts = model, tuple(declared), model.static, restarts
        given = model.options["tolerance"] is not None
        self.keeps_tolerance = given if keeps_tolerance is None else keeps_tolerance
        exchange, integrator = model.kind == "model_exchange", model.options["integrator"]
        self.own_process, self.hidden_solver = not model.options["trusted"], not exchange
        self.integrator = integrator if exchange else "the FMU's own solver"
        self.stiff_alternative = f'FmuModel("{model.path.name}", integrator="radau")' if (
            exchange and integrator == "runge_kutta" and model.description.states) else ""
        self.equal_steps = not exchange and not model.description.interfaces[model.kind].variable_steps
        named = {*self.declared, *(model.states if restarts else ())}
        self.parameters = np.array([i for i, n in enumerate(model.parameters) if n in named], dtype=int)
        self.initials = np.array([i for i, n in enumerate(model.states) if n in named], dtype=int)
        self.simulator = model.simulator([*(model.parameters[i] for i in self.parameters),
                                          *(model.states[i] for i in self.initials)], restarts)

    @property
    def noise(self) -> float:
        """Relative error that comes and goes with the values: what is left by the solver, or the rounding of fixed steps."""
        if self.hidden_solver:
            return self.model.tolerance
        left = {"radau": FMU_NEWTON_STEP, "cvodes": self.simulator.spec.scheme_tolerance}
        return left.get(self.integrator, FIXED_STEP_NOISE)

    @property
    def notes(self) -> tuple[str, ...]:
        return self.simulator.notes

    @property
    def has_derivatives(self) -> bool:
        return self.simulator.spec.differentiable

    def run(self, p: np.ndarray, x0: np.ndarray, grid: Any, states: bool = False) -> tuple[np.ndarray, np.ndarray]:
        if self.equal_steps and equal_steps(grid.time) is None:
            raise ProblemError(self._unequal_samples(grid.time))
        try:
            return self.simulator.run(self._written(p, x0), grid, states)
        except SimulationFailed as error:
            raise _diverged(error) from None

    def run_rows(self, p: np.ndarray, x0: np.ndarray, grid: Any) -> tuple[np.ndarray, np.ndarray]:
        """Outputs (rows, nodes, outputs) and states for rows of parameters and of first states."""
        return self.run(p.T, x0.T, grid, True)

    def derivatives(self, p: np.ndarray, x0: np.ndarray, grid: Any, by_parameters: np.ndarray, by_initials: np.ndarray
                    ) -> np.ndarray:
        places = [*np.searchsorted(self.parameters, by_parameters),
                  *(self.parameters.size + np.searchsorted(self.initials, by_initials))]
        if not places:
            return np.zeros((grid.nodes, len(self.model.outputs), 0))
        try:
            return self.simulator.derivatives(self._written(p, x0), grid, [int(i) for i in places])
        except SimulationFailed as error:
            raise _diverged(error) from None

    def with_tighter_tolerance(self) -> FmuRecordSimulator | None:
        tighter = TIGHTER_RUN * self.model.tolerance
        if not self.hidden_solver or tighter < FMU_TIGHTEST_TOLERANCE:
            return None
        return FmuRecordSimulator(self.model.with_options(tolerance=tighter), self.declared, self.keeps_tolerance,
                                  self.restarts)

    def with_visible_solver(self) -> FmuRecordSimulator | None:
        d = self.model.description
        if not self.hidden_solver or "model_exchange" not in d.interfaces or "model_exchange" in d.missing:
            return None
        return FmuRecordSimulator(self.model.with_options(kind="model_exchange", alignment=ALIGNMENTS[0]), self.declared,
                                  restarts=self.restarts)

    def modes(self, p: np.ndarray, x0: np.ndarray, grid: Any) -> np.ndarray | None:
        return None

    def _written(self, p: np.ndarray, x0: np.ndarray) -> np.ndarray:
        return np.concatenate([p[self.parameters], x0[self.initials]]).T

    def _unequal_samples(self, time: np.ndarray) -> str:
        gaps, others = np.diff(time), [k.replace("_", " ") for k in self.model.description.interfaces if k != self.model.kind]
        way = f"use its {' or '.join(others)}" if others else "export it so that it takes steps of any length"
        return (f"{self.model.path.name} takes steps of one length only, and there is none that meets all samples, whose "
                f"distances are {np.min(gaps):g} to {np.max(gaps):g}. Bring the record to equal distances, or {way}.")

    def __reduce__(self) -> tuple:
        return _same_simulator, (json.dumps(self.model.identity()), self.declared, self.restarts)


@functools.lru_cache(maxsize=8)  # a process opens the same FMU once
def _same_simulator(identity: str, declared: tuple[str, ...], restarts: bool) -> FmuRecordSimulator:
    from dynident.fmu.model import same_model

    return FmuRecordSimulator(same_model(*json.loads(identity)), declared, restarts=restarts)


def _diverged(error: SimulationFailed) -> SimulationDiverged:
    """In the FMU's words, which name the time; who tells it goes on with words of their own."""
    return SimulationDiverged(math.nan, 0, what=str(error).rstrip("."), lost=error.crash)


class FmuBroken(SimulatorLost):
    """The FMU cannot be loaded, or crashed or hung again and again; there is no use in going on."""


class SimulatorPool:
    """Idle simulators are kept; a trusted FMU runs in this process, one simulation at a time."""

    def __init__(self, spec: SimulationSpec, trusted: bool, limit: float):
        self.spec, self.trusted, self.limit = spec, trusted, limit
        self.idle: list[InProcessSimulator | IsolatedSimulator] = []
        self.lock, self.alone = threading.Lock(), threading.Lock()
        self.crashes: dict[bytes, str] = {}
        self.notes: list[str] = []
        self.log: dict[str, None] = {}  # what the FMU said, warnings and worse, each once

    def run(self, values: np.ndarray, inputs: FmuInputs, states: bool, directions: Sequence[int] = ()) -> np.ndarray:
        if self.trusted:
            with self.alone:
                return self._run(values, inputs, states, directions)
        return self._run(values, inputs, states, directions)

    def _run(self, values: np.ndarray, inputs: FmuInputs, states: bool, directions: Sequence[int]) -> np.ndarray:
        with self.lock:
            simulator = self.idle.pop() if self.idle else None
        try:
            if simulator is None:
                simulator = InProcessSimulator(self.spec) if self.trusted else IsolatedSimulator(self.spec, self.limit)
            return simulator.run(values, inputs, states, directions)
        except SimulationFailed as error:
            if error.crash:
                self._count(values, str(error))
            if error.useless:
                raise FmuBroken(str(error)) from None
            raise
        finally:
            if simulator is not None:
                self._put_back(simulator)

    def _put_back(self, simulator: InProcessSimulator | IsolatedSimulator) -> None:
        with self.lock:
            self.notes += [n for n in simulator.notes if n not in self.notes]
            simulator.notes = []
            for message in simulator.messages()[:MAX_MESSAGES - len(self.log)]:
                self.log.setdefault(message)
            self.idle.append(simulator)

    def _count(self, values: np.ndarray, sentence: str) -> None:
        with self.lock:
            self.crashes[values.tobytes()] = sentence
            if len(self.crashes) >= MAX_CRASHES:
                raise FmuBroken(f"{self.spec.file} failed at {len(self.crashes)} different points and was given up: "
                                f"{sentence}")

    def close(self) -> None:
        with self.lock:
            idle, self.idle = self.idle, []
        for simulator in idle:
            simulator.release()
