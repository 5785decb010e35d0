"""Model Exchange in Python: model_exchange.c without a compiler; the same arithmetic in the same order and bits.

A loop leads from one frozen state to the next; functions have the names of those in C. The adaptive scheme "cvodes",
which checks the fixed steps, is here alone.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dynident.errors import NotSupported
from dynident.fmu.instance import FmuInstance, flag, number, pointer, real, size
from dynident.fmu.simulation_spec import FmuInputs, StepSettings, ValueReferences
from dynident.fmu.stepping_compiled import EXCHANGE_FUNCTIONS, StepCall, StepFailure
from dynident.fmu.stepping_interpreted import InstanceCalls, StepStopped
from dynident.tolerances import CVODE_TOLERANCE, FMU_EVENT_TIME, FMU_NEWTON_STALLED, FMU_NEWTON_STEP

# as in model_exchange.c, where each has its reason
MAX_NEWTON_ITERATIONS, MAX_EVENTS, MAX_EVENT_ITERATIONS, MAX_BISECTIONS = 25, 10000, 1000, 60
NEWTON_SIZE, MIN_DIFFERENCE = 1e-6, 2.2e-13  # of a state's unit, and of a state: as in model_exchange.c
MIN_NOMINAL = 1e-3  # of a state in the absolute tolerance; the FMU's nominal values are often 1 whatever the state is
MAX_CVODE_STEPS = 100_000  # inside of one step of the loop
Rates = Callable[[float, np.ndarray], np.ndarray]


class _EventInfo2(ctypes.Structure):
    """fmi2EventInfo."""

    _fields_ = [(n, number) for n in ("again", "terminate", "nominals", "values", "defined")] + [("next", real)]


class CvodeSolver:
    """CVODE to a relative tolerance, from a state at a time to the state a step later.

    `rates` raises what it likes where the model fails.

    A handle of a solver in C, which calls back for states and rates: it is made at the first step.
    """

    def __init__(self, tolerance: float) -> None:
        self.tolerance = tolerance
        self.rates: Rates = lambda _, x: x
        self.x, self.time = np.zeros(0), 0.0
        self.failure: Exception | None = None
        self.solver: Any = None

    def step(self, rates: Rates, now: float, h: float, x: np.ndarray) -> np.ndarray | None:
        """None where the solver gave up."""
        self.rates, self.x, self.failure = rates, x.copy(), None
        if self.solver is None:
            self.solver = self._create(now)
        self.solver.reset(now)
        try:
            self.solver.step(now, now + h)
        except RuntimeError:
            if self.failure is None:
                return None
        if self.failure is not None:
            raise self.failure
        return self.x.copy()

    def _create(self, now: float) -> Any:
        try:
            from fmpy.sundials import CVodeSolver
        except Exception as error:  # the library may be missing for this platform
            raise NotSupported(f"integrator = \"cvodes\" needs the SUNDIALS library of FMPy, which cannot be loaded here: "
                               f"{error}. Use \"radau\".") from error
        return CVodeSolver(nx=self.x.size, nz=0, get_x=self._get, set_x=self._set, get_dx=self._get_rates,
                           get_z=lambda *_: 0, get_nominals=self._nominals, set_time=self._set_time, input=None,
                           startTime=now, relativeTolerance=self.tolerance, maxNumSteps=MAX_CVODE_STEPS)

    def _view(self, data: Any, count: int) -> np.ndarray:
        return np.ctypeslib.as_array(ctypes.cast(data, ctypes.POINTER(ctypes.c_double)), (count,))

    def _get(self, data: Any, count: int) -> None:
        self._view(data, count)[:] = self.x

    def _set(self, data: Any, count: int) -> None:
        self.x[:] = self._view(data, count)

    def _nominals(self, data: Any, count: int) -> None:
        self._view(data, count)[:] = np.maximum(np.abs(self.x), MIN_NOMINAL)

    def _set_time(self, now: float) -> None:
        self.time = now

    def _get_rates(self, data: Any, count: int) -> None:
        try:
            self._view(data, count)[:] = self.rates(self.time, self.x.copy())
        except Exception as error:  # must not pass through the solver's C code
            self.failure = self.failure or error
            self._view(data, count)[:] = np.nan


@dataclass(frozen=True, eq=False)
class ExchangeState:
    """Between two steps: continuous states, event indicators, and when the next time event comes."""

    x: np.ndarray
    indicators: np.ndarray
    next_event: float  # infinite where none is announced


@dataclass(frozen=True, eq=False)
class ModelExchange:
    """One simulation by Model Exchange."""

    calls: InstanceCalls
    settings: StepSettings
    adaptive: CvodeSolver = field(default_factory=lambda: CvodeSolver(CVODE_TOLERANCE))

    # calls of FMI

    def array(self, what: StepCall, name: str, values: np.ndarray) -> None:
        self.calls.call(what, name, values.ctypes.data, values.size, types=(pointer, size))

    def place(self, interval: int | None, now: float, x: np.ndarray) -> None:
        """Time and states into the FMU, and the inputs of that moment where an interval is named."""
        self.calls.call(StepCall.TIME, "SetTime", now, types=(real,))
        if x.size:
            self.array(StepCall.STATES, "SetContinuousStates", x)
        if interval is not None and self.calls.references.input_count:
            self.calls.put(self.calls.input_at(interval, now), at_event=False)

    def rates(self, k: int, now: float, x: np.ndarray) -> np.ndarray:
        self.place(k, now, x)
        dx = np.zeros_like(x)
        if x.size:
            self.array(StepCall.RATES, EXCHANGE_FUNCTIONS[self.calls.instance.version][3], dx)
        return dx

    def discrete(self) -> tuple[bool, bool, bool, bool, float]:
        """Once more?, end?, states changed?, is there a next event?, its time."""
        if self.calls.instance.version == 2:
            info = _EventInfo2()
            self.calls.call(StepCall.DISCRETE, "NewDiscreteStates", ctypes.addressof(info), types=(pointer,))
            return bool(info.again), bool(info.terminate), bool(info.values), bool(info.defined), info.next
        flags = [flag() for _ in range(5)]
        following = real()
        self.calls.call(StepCall.DISCRETE, "UpdateDiscreteStates",
                        *[ctypes.addressof(v) for v in (*flags, following)],  # type: ignore[arg-type]
                        types=(pointer,) * 6)
        again, terminate, _, values, defined = (bool(v.value) for v in flags)
        return again, terminate, values, defined, following.value

    def completed_step(self) -> bool:
        """Whether the FMU asks for an event after a step."""
        kind = number if self.calls.instance.version == 2 else flag
        event, terminate = kind(), kind()
        self.calls.call(StepCall.COMPLETED, "CompletedIntegratorStep", 1, ctypes.addressof(event),
                        ctypes.addressof(terminate), types=(kind, pointer, pointer))
        if terminate.value:
            raise StepStopped(StepCall.TERMINATED)
        return bool(event.value)

    # events

    def initial_state(self, first_states: np.ndarray | None = None) -> ExchangeState:
        """The FMU has left initialisation and stands in event mode; with other states than those of initialisation."""
        sizes = self.calls.references
        empty = ExchangeState(np.zeros(sizes.states), np.zeros(sizes.indicators), math.inf)
        state = self.handle_event(empty, False, None)
        if first_states is None or not sizes.states:
            return state
        state = replace(state, x=first_states.copy())
        self.array(StepCall.STATES, "SetContinuousStates", state.x)
        return self.handle_event(state, True, None) if sizes.indicators else state

    def handle_event(self, state: ExchangeState, enter: bool, u: np.ndarray | None) -> ExchangeState:
        """Event mode: iterate, leave, and read back what has changed."""
        if enter:
            self.calls.call(StepCall.EVENT, "EnterEventMode")
        if u is not None and self.calls.references.input_count:
            self.calls.put(u)
        again, changed, defined, following, count = True, False, False, 0.0, 0
        while again:
            again, terminate, values, defined, following = self.discrete()
            changed = changed or values
            count += 1
            if terminate:
                raise StepStopped(StepCall.TERMINATED)
            if count > MAX_EVENT_ITERATIONS:
                raise StepStopped(StepCall.ENDLESS)
        self.calls.call(StepCall.CONTINUOUS, "EnterContinuousTimeMode")
        x, indicators = state.x.copy(), np.zeros(state.indicators.size)
        if x.size and (changed or not enter):
            self.array(StepCall.STATES, "GetContinuousStates", x)
        if indicators.size:
            self.array(StepCall.INDICATORS, "GetEventIndicators", indicators)
        return ExchangeState(x, indicators, following if defined else math.inf)

    def attempt(self, state: ExchangeState, k: int, now: float, h: float) -> ExchangeState:
        """One step of the scheme, and the event indicators at its end."""
        x, indicators = state.x, np.zeros(state.indicators.size)
        if x.size:
            x = self.step(lambda at, of: self.rates(k, at, of), now, h, x)
        if not np.all(np.isfinite(x)):
            raise StepStopped(StepCall.STATE_NOT_FINITE, int(np.flatnonzero(~np.isfinite(x))[0]))
        if indicators.size or self.calls.references.needs_completed or state.next_event < math.inf:
            self.place(k, now + h, x)
            if indicators.size:
                self.array(StepCall.INDICATORS, "GetEventIndicators", indicators)
        return replace(state, x=x, indicators=indicators)

    def step(self, rates: Rates, now: float, h: float, x: np.ndarray) -> np.ndarray:
        if self.settings.scheme != "cvodes":
            return (radau if self.settings.scheme == "radau" else runge_kutta)(rates, now, h, x)
        found = self.adaptive.step(rates, now, h, x)
        if found is None:
            raise StepStopped(StepCall.GAVE_UP)
        return found

    def locate(self, state: ExchangeState, k: int, now: float, h: float) -> tuple[ExchangeState, float]:
        """Just behind the zero crossing of an event indicator within a step, by bisection."""
        low, high = 0.0, h
        for _ in range(MAX_BISECTIONS):
            if not high - low > FMU_EVENT_TIME * h:
                break
            middle = 0.5 * (low + high)
            low, high = (low, middle) if event_crossed(state, self.attempt(state, k, now, middle)) else (middle, high)
        return self.attempt(state, k, now, high), high

    def advance(self, state: ExchangeState, k: int, now: float, end: float) -> ExchangeState:
        """From `now` to `end` inside of interval k, through whatever events lie between."""
        events = 0
        while now < end:
            event, stop = state.next_event <= end, max(min(state.next_event, end), now)
            if stop > now:
                following = self.attempt(state, k, now, stop - now)
                if event_crossed(state, following):
                    following, high = self.locate(state, k, now, stop - now)
                    stop, event = now + high, True
                state = following
            now = stop
            step_event = self.completed_step() if self.calls.references.needs_completed else False
            if event or step_event:
                self.calls.call(StepCall.TIME, "SetTime", now, types=(real,))
                state = self.handle_event(state, True, None)
                events += 1
                if events > MAX_EVENTS:
                    raise StepStopped(StepCall.ENDLESS)
        return state

    def sample(self, state: ExchangeState, node: int, outputs: np.ndarray) -> ExchangeState:
        """The sample itself: its own input, by an event where the input may jump, then the outputs."""
        inputs = self.calls.inputs
        self.place(None, float(inputs.time[node]), state.x)
        if self.settings.input_events and node:
            state = self.handle_event(state, True, inputs.u_node[node])
        elif self.calls.references.input_count:
            self.calls.put(inputs.u_node[node], at_event=False)
        self.calls.observe(node, outputs)
        return state

    def through_interval(self, state: ExchangeState, k: int) -> ExchangeState:
        begin, end, count = (float(v) for v in (*self.calls.inputs.time[k:k + 2], self.calls.inputs.substeps[k]))
        h = (end - begin) / count
        for j in range(int(count)):
            if state.x.size or state.indicators.size or state.next_event < math.inf:
                state = self.advance(state, k, begin + j * h, end if j == count - 1 else begin + (j + 1) * h)
        return state


def event_crossed(before: ExchangeState, after: ExchangeState) -> bool:
    return bool(np.any((before.indicators > 0) != (after.indicators > 0)))


def simulate_exchange(instance: FmuInstance, references: ValueReferences, inputs: FmuInputs, settings: StepSettings,
                      outputs: np.ndarray, first_states: np.ndarray | None = None) -> StepFailure | None:
    """Fill `outputs` (nodes, outputs); dynident_fmu_exchange of model_exchange.c."""
    solver = CvodeSolver(instance.spec.scheme_tolerance)
    loop, node = ModelExchange(InstanceCalls(instance, references, inputs), settings, solver), 0
    try:
        with np.errstate(all="ignore"):
            state = loop.sample(loop.initial_state(first_states), 0, outputs)
            for node in range(1, inputs.time.size):
                state = loop.sample(loop.through_interval(state, node - 1), node, outputs)
    except StepStopped as end:
        return StepFailure(node, end.call, end.status)
    return None


def runge_kutta(rates: Rates, now: float, h: float, x: np.ndarray) -> np.ndarray:
    k1 = rates(now, x)
    k2 = rates(now + 0.5 * h, x + (0.5 * h) * k1)
    k3 = rates(now + 0.5 * h, x + (0.5 * h) * k2)
    k4 = rates(now + h, x + h * k3)
    return x + (h / 6.0) * ((k1 + k4) + 2.0 * (k2 + k3))


def radau(rates: Rates, now: float, h: float, x: np.ndarray) -> np.ndarray:
    """Radau IIA of order 3; Newton's method with the Jacobian of differences at the begin of the step."""
    n = x.size
    f0, J, s = rates(now, x), np.zeros((n, n)), x.copy()
    for j in range(n):
        s[j] = x[j] + max(1.5e-8 * max(abs(x[j]), 1e-5), MIN_DIFFERENCE * abs(h * f0[j]))
        J[:, j] = (rates(now, s) - f0) / (s[j] - x[j])
        s[j] = x[j]
    hj, one = h * J, np.eye(n)
    A = np.block([[one - (5.0 / 12.0) * hj, (1.0 / 12.0) * hj], [-0.75 * hj, one - 0.25 * hj]])
    z, before, twice = np.zeros(2 * n), math.inf, np.abs(np.concatenate([x, x]))
    for _ in range(MAX_NEWTON_ITERATIONS):
        g1, g2 = rates(now + h / 3.0, x + z[:n]), rates(now + h, x + z[n:])
        b = np.concatenate([h * ((5.0 / 12.0) * g1 - (1.0 / 12.0) * g2) - z[:n],
                            h * (0.75 * g1 + 0.25 * g2) - z[n:]])
        if not np.all(np.isfinite(b)) or not solve(A.copy(), b):
            raise StepStopped(StepCall.NEWTON)
        z = z + b
        change = float(np.max(np.abs(b) / (NEWTON_SIZE + (twice + np.abs(z)))))
        if change < FMU_NEWTON_STEP or (change < FMU_NEWTON_STALLED and change >= before):
            return x + z[n:]
        before = change
    raise StepStopped(StepCall.NEWTON)


def solve(A: np.ndarray, b: np.ndarray) -> bool:
    """A z = b by elimination with row exchange; b becomes z. False if A is singular."""
    n = len(b)
    for k in range(n):
        pivot = k + int(np.argmax(np.abs(A[k:, k])))
        if not abs(A[pivot, k]) > 0:
            return False
        if pivot != k:
            A[[k, pivot], k:] = A[[pivot, k], k:]
            b[k], b[pivot] = b[pivot], b[k]
        factor = A[k + 1:, k] / A[k, k]
        A[k + 1:, k + 1:] -= factor[:, None] * A[k, k + 1:]
        b[k + 1:] -= factor * b[k]
    for i in range(n - 1, -1, -1):
        s = b[i]
        for j in range(i + 1, n):
            s -= A[i, j] * b[j]
        b[i] = s / A[i, i]
    return True
