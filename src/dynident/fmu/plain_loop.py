"""Plain loop: fmu.c in Python, for machines without a compiler; the same arithmetic in the same order and bits."""

from __future__ import annotations

import ctypes
import math

import numpy as np

from dynident.fmu import loop
from dynident.fmu.cvodes import Cvodes
from dynident.fmu.library import Instance, SimulationFailed, flag, number, pointer, real, size
from dynident.fmu.loop import (
    ENDLESS,
    EXCHANGE,
    GAVE_UP,
    NEWTON,
    NOT_FINITE,
    STATE_NOT_FINITE,
    TERMINATED,
    Course,
    Manner,
    Ports,
)

SET, GET, STEP, TIME, STATES, RATES, INDICATORS, COMPLETED, EVENT, DISCRETE, CONTINUOUS = range(1, 12)
NEWTON_LIMIT, NEWTON_SMALL, MOST_EVENTS, MOST_DISCRETE, EVENT_CLOSE, MOST_HALVINGS = 25, 1e-10, 10000, 1000, 1e-12, 60
NEWTON_ENOUGH, NEWTON_SIZE, SEEN_MOVE = 1e-6, 1e-6, 2.2e-13


class _Info2(ctypes.Structure):
    _fields_ = [(n, number) for n in ("again", "terminate", "nominals", "values", "defined")] + [("next", real)]


class _Stop(Exception):
    def __init__(self, call: int, status: int = 0):
        self.call, self.status = call, status


class PlainLoop:
    """One simulation; the functions have the names of those in fmu.c and fmu_model_exchange.c."""

    def __init__(self, instance: Instance, ports: Ports, course: Course, steps: np.ndarray, manner: Manner):
        self.instance, self.ports, self.course, self.steps, self.manner = instance, ports, course, steps, manner
        self.node = self.k = 0
        self.next_event = math.inf
        self.x = np.zeros(ports.states)
        self.z0, self.z1 = np.zeros(ports.indicators), np.zeros(ports.indicators)
        self.adaptive = Cvodes(self.rates, ports.states)
        self.schemes = {"runge_kutta": self.runge_kutta, "radau": self.radau, "cvodes": self.cvodes}

    def run(self, outputs: np.ndarray) -> tuple[int, int, int] | None:
        try:
            with np.errstate(all="ignore"):
                if self.manner.exchange:
                    self.exchange(outputs)
                else:
                    self.cosimulate(outputs)
        except _Stop as stop:
            return self.node, stop.call, stop.status
        return None

    def call(self, what: int, name: str, *arguments: object, types: tuple = ()) -> None:
        status = self.instance.function(name, pointer, *types)(self.instance.handle, *arguments)
        if status > 1 or status < 0:
            raise _Stop(what, status)

    def put(self, u: np.ndarray) -> None:
        for slots in self.ports.inputs:
            try:
                self.instance.set(slots, u)
            except SimulationFailed:
                raise _Stop(SET, 3) from None

    def observe(self, k: int, outputs: np.ndarray) -> None:
        if not self.course.wanted[k]:
            return
        for slots in self.ports.outputs:
            try:
                self.instance.get(slots, outputs[k])
            except SimulationFailed:
                raise _Stop(GET, 3) from None
        needed = self.course.needed
        for i in np.flatnonzero(~np.isfinite(outputs[k])):
            if i >= needed.shape[1] or needed[k, i]:
                raise _Stop(NOT_FINITE, int(i))

    def input_at(self, now: float) -> np.ndarray:
        c, k = self.course, self.k
        share = (now - float(c.time[k])) / (float(c.time[k + 1]) - float(c.time[k]))
        return c.u_begin[k] + share * (c.u_end[k] - c.u_begin[k])

    # Co-Simulation

    def step(self, now: float, h: float) -> None:
        if self.instance.version == 2:
            self.call(STEP, "DoStep", now, h, 1, types=(real, real, number))
            return
        event, terminate, early, reached = flag(), flag(), flag(), real(now)
        flags = [ctypes.addressof(v) for v in (event, terminate, early, reached)]
        self.call(STEP, "DoStep", now, h, 1, *flags, types=(real, real, flag, pointer, pointer, pointer, pointer))
        if terminate.value:
            raise _Stop(STEP, loop.ASKED_TO_END)

    def step_to(self, now: float, end: float) -> float:
        h = end - now
        while now + h > end:
            h = math.nextafter(h, 0.0)
        self.step(now, h)
        return end

    def cosimulate(self, outputs: np.ndarray) -> None:
        c, m = self.course, self.manner
        first, tiny, even = loop.lengths(c, m)
        time = [float(t) for t in c.time]
        now, taken = time[0], 0
        if first > 0:
            self.put(c.u_node[0])
            now = self.step_to(now, loop.beyond(now, first))
        self.observe(0, outputs)
        for k in range(len(time) - 1):
            self.k, self.node = k, k + 1
            end = time[k + 1]
            count = int(self.steps[k])
            h = even if even > 0 else (end - now) / count
            for j in range(count):
                last = j == count - 1
                self.put(c.u_node[k + 1] if last and m.at_node else self.input_at(now + 0.5 * h))
                if even > 0:
                    self.step(now, h)
                    taken += 1
                    now = time[0] + taken * h
                else:
                    now = self.step_to(now, end if last else now + h)
            if tiny > 0:
                self.put(c.u_node[k + 1])
                now = self.step_to(now, loop.beyond(end, tiny * (end - time[k])))
            self.observe(k + 1, outputs)

    # Model Exchange

    def array(self, what: int, name: str, values: np.ndarray) -> None:
        self.call(what, name, values.ctypes.data, values.size, types=(pointer, size))

    def rates(self, now: float, x: np.ndarray) -> np.ndarray:
        names = EXCHANGE[self.instance.version]
        self.call(TIME, "SetTime", now, types=(real,))
        dx = np.zeros_like(x)
        if x.size:
            self.array(STATES, "SetContinuousStates", x)
        if self.ports.input_count:
            self.put(self.input_at(now))
        if x.size:
            self.array(RATES, names[3], dx)
        return dx

    def runge_kutta(self, now: float, h: float, x: np.ndarray) -> np.ndarray:
        k1 = self.rates(now, x)
        k2 = self.rates(now + 0.5 * h, x + (0.5 * h) * k1)
        k3 = self.rates(now + 0.5 * h, x + (0.5 * h) * k2)
        k4 = self.rates(now + h, x + h * k3)
        return x + (h / 6.0) * ((k1 + k4) + 2.0 * (k2 + k3))

    def radau(self, now: float, h: float, x: np.ndarray) -> np.ndarray:
        n = x.size
        f0, J, s = self.rates(now, x), np.zeros((n, n)), x.copy()
        for j in range(n):
            s[j] = x[j] + max(1.5e-8 * max(abs(x[j]), 1e-5), SEEN_MOVE * abs(h * f0[j]))
            J[:, j] = (self.rates(now, s) - f0) / (s[j] - x[j])
            s[j] = x[j]
        hj, one = h * J, np.eye(n)
        A = np.block([[one - (5.0 / 12.0) * hj, (1.0 / 12.0) * hj], [-0.75 * hj, one - 0.25 * hj]])
        z, before, twice = np.zeros(2 * n), math.inf, np.abs(np.concatenate([x, x]))
        for _ in range(NEWTON_LIMIT):
            g1, g2 = self.rates(now + h / 3.0, x + z[:n]), self.rates(now + h, x + z[n:])
            b = np.concatenate([h * ((5.0 / 12.0) * g1 - (1.0 / 12.0) * g2) - z[:n],
                                h * (0.75 * g1 + 0.25 * g2) - z[n:]])
            if not np.all(np.isfinite(b)) or not solve(A.copy(), b):
                raise _Stop(NEWTON)
            z = z + b
            change = float(np.max(np.abs(b) / (NEWTON_SIZE + (twice + np.abs(z)))))
            if change < NEWTON_SMALL or (change < NEWTON_ENOUGH and change >= before):
                return x + z[n:]
            before = change
        raise _Stop(NEWTON)

    def cvodes(self, now: float, h: float, x: np.ndarray) -> np.ndarray:
        found = self.adaptive.step(now, h, x)
        if found is None:
            raise _Stop(GAVE_UP)
        return found

    def handle_event(self, enter: bool, u: np.ndarray | None) -> None:
        names = EXCHANGE[self.instance.version]
        if enter:
            self.call(EVENT, "EnterEventMode")
        if u is not None and self.ports.input_count:
            self.put(u)
        again, changed, defined, following, count = True, False, False, 0.0, 0
        while again:
            again, terminate, values, defined, following = self.discrete()
            changed = changed or values
            count += 1
            if terminate:
                raise _Stop(TERMINATED)
            if count > MOST_DISCRETE:
                raise _Stop(ENDLESS)
        self.call(CONTINUOUS, "EnterContinuousTimeMode")
        self.next_event = following if defined else math.inf
        if self.x.size and (changed or not enter):
            self.array(STATES, names[2], self.x)
        if self.z0.size:
            self.array(INDICATORS, names[4], self.z0)

    def discrete(self) -> tuple[bool, bool, bool, bool, float]:
        if self.instance.version == 2:
            info = _Info2()
            self.call(DISCRETE, "NewDiscreteStates", ctypes.addressof(info), types=(pointer,))
            return bool(info.again), bool(info.terminate), bool(info.values), bool(info.defined), info.next
        flags = [flag() for _ in range(5)]
        following = real()
        self.call(DISCRETE, "UpdateDiscreteStates", *[ctypes.addressof(v) for v in (*flags, following)],  # type: ignore[arg-type]
                  types=(pointer,) * 6)
        again, terminate, _, values, defined = (bool(v.value) for v in flags)
        return again, terminate, values, defined, following.value

    def completed(self) -> bool:
        kind = number if self.instance.version == 2 else flag
        event, terminate = kind(), kind()
        self.call(COMPLETED, "CompletedIntegratorStep", 1, ctypes.addressof(event), ctypes.addressof(terminate),
                  types=(kind, pointer, pointer))
        if terminate.value:
            raise _Stop(TERMINATED)
        return bool(event.value)

    def attempt(self, now: float, h: float) -> np.ndarray:
        x = self.x
        if x.size:
            x = self.schemes[self.manner.scheme](now, h, x)
        if not np.all(np.isfinite(x)):
            raise _Stop(STATE_NOT_FINITE, int(np.flatnonzero(~np.isfinite(x))[0]))
        if self.z0.size or self.ports.needs_completed or self.next_event < math.inf:
            self.call(TIME, "SetTime", now + h, types=(real,))
            if x.size:
                self.array(STATES, "SetContinuousStates", x)
            if self.ports.input_count:
                self.put(self.input_at(now + h))
            if self.z0.size:
                self.array(INDICATORS, "GetEventIndicators", self.z1)
        return x

    def crossed(self) -> bool:
        return bool(np.any((self.z0 > 0) != (self.z1 > 0)))

    def advance(self, now: float, end: float) -> None:
        events = 0
        while now < end:
            stop = min(self.next_event, end)
            event, stop = self.next_event <= end, max(stop, now)
            if stop > now:
                h = stop - now
                x = self.attempt(now, h)
                if self.crossed():
                    x, high = self.locate(now, h)
                    stop, event = now + high, True
                self.x = x
                self.z0[:] = self.z1
            now = stop
            step_event = self.completed() if self.ports.needs_completed else False
            if event or step_event:
                self.call(TIME, "SetTime", now, types=(real,))
                self.handle_event(True, None)
                events += 1
                if events > MOST_EVENTS:
                    raise _Stop(ENDLESS)

    def locate(self, now: float, h: float) -> tuple[np.ndarray, float]:
        low, high = 0.0, h
        for _ in range(MOST_HALVINGS):
            if not high - low > EVENT_CLOSE * h:
                break
            middle = 0.5 * (low + high)
            self.attempt(now, middle)
            low, high = (low, middle) if self.crossed() else (middle, high)
        return self.attempt(now, high), high

    def sample(self, k: int, outputs: np.ndarray) -> None:
        self.node = k
        self.call(TIME, "SetTime", float(self.course.time[k]), types=(real,))
        if self.x.size:
            self.array(STATES, "SetContinuousStates", self.x)
        if self.manner.input_events and k:
            self.handle_event(True, self.course.u_node[k])
        elif self.ports.input_count:
            self.put(self.course.u_node[k])
        self.observe(k, outputs)

    def exchange(self, outputs: np.ndarray) -> None:
        time = [float(t) for t in self.course.time]
        self.handle_event(False, None)
        self.sample(0, outputs)
        for k in range(len(time) - 1):
            self.k, self.node = k, k + 1
            count = int(self.steps[k])
            h = (time[k + 1] - time[k]) / count
            for j in range(count):
                if self.x.size or self.z0.size or self.next_event < math.inf:
                    self.advance(time[k] + j * h, time[k + 1] if j == count - 1 else time[k] + (j + 1) * h)
            self.sample(k + 1, outputs)


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
