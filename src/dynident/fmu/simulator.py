"""Simulator: one FMU in this process, simulated again and again with other values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynident.fmu.library import Instance, SimulationFailed
from dynident.fmu.loop import Course, Manner, Ports, drive, last_moment
from dynident.fmu.plan import Plan
from dynident.fmu.slopes import drive_with_slopes

TOOK = {"Float32": 1e-6}  # relative: a value that was set and reads back within this has taken
TOOK_ELSE = 1e-9


class Simulator:
    """Keeps one instance; the first time that it is used again shows whether reset can be trusted."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.instance = Instance(plan)
        self.written = self.instance.slots(plan.written)
        self.constants = self.instance.slots(list(plan.constants))
        self.constant_values = np.array(list(plan.constants.values()), float)
        self.inputs = self.instance.slots(plan.inputs)
        self.outputs = {False: self.instance.slots(plan.outputs),
                        True: self.instance.slots([*plan.outputs, *plan.observed])}
        self.trusts_reset: bool | None = None if plan.reset else False
        self.runs = 0
        self.notes: list[str] = []

    def run(self, values: np.ndarray, course: Course, states: bool = False, slopes: Sequence[int] = ()) -> np.ndarray:
        """Outputs, and behind them with `states` the observed states, or with `slopes` their derivatives by what is
        written at these places, (nodes, outputs [+ states, or + columns x outputs])."""
        if slopes:
            return self._once(values, course, False, slopes=slopes)
        if self.runs == 0:  # on a fresh instance, so there is nothing to doubt
            return self._once(values, course, states, check=True)
        if self.trusts_reset is None:
            return self._try_reset(values, course, states)
        return self._once(values, course, states)

    def messages(self) -> tuple[str, ...]:
        return self.instance.log()

    def close(self) -> None:
        self.instance.free()

    def _try_reset(self, values: np.ndarray, course: Course, states: bool) -> np.ndarray:
        """After a simulation with other values: a reset instance and a fresh one must agree in every bit."""
        after_reset: np.ndarray | None = None
        why = ""
        try:
            after_reset = self._once(values, course, states)
        except SimulationFailed as error:
            why = f" ({error})"
        self.instance.free()
        fresh = self._once(values, course, states)  # if this fails, it is the values that are bad
        self.trusts_reset = after_reset is not None and _same(after_reset, fresh)
        if not self.trusts_reset:
            self.notes.append(f"{self.plan.file} does not repeat itself after a reset{why}: each simulation uses a "
                              "fresh instance.")
            if not _same(fresh, self._once(values, course, states)):
                self.notes.append(f"{self.plan.file} gives different results from fresh instances at equal values; its "
                                  "noise enters the estimate.")
        return fresh

    def _once(self, values: np.ndarray, course: Course, states: bool, check: bool = False, slopes: Sequence[int] = ()
              ) -> np.ndarray:
        self._fresh()
        try:
            self._begin(values, course)
            if check:
                self._check_written(values, course.u_node[0])
            self.instance.leave_initialization()
            slots = self.outputs[states]
            outputs = np.full((course.time.size, len(self.plan.outputs) + states * len(self.plan.observed)), np.nan)
            ports = self._ports(slots, outputs.shape[1])
            if slopes:
                along = drive_with_slopes(self.instance, ports, course, self.plan, slopes, outputs)
                outputs = np.hstack([outputs, along.reshape(course.time.size, -1)])
            else:
                drive(self.instance, ports, course, self._manner(course), outputs)
            self.instance.terminate()
        except SimulationFailed:
            self.instance.free()  # an instance that has failed is not used again
            raise
        return outputs

    def _fresh(self) -> None:
        self.runs += 1
        if self.trusts_reset is False or self.runs % self.plan.renew == 0:
            self.instance.free()
        self.instance.reset()

    def _begin(self, values: np.ndarray, course: Course) -> None:
        end = last_moment(course, self._manner(course))
        before = [(s, self.constant_values) for s in self.constants] + [(s, values) for s in self.written]
        self.instance.initialize(float(course.time[0]), end, before)
        for slots in self.inputs:
            self.instance.set(slots, course.u_node[0])

    def _ports(self, slots: tuple, count: int) -> Ports:
        p = self.plan
        return Ports(self.inputs, slots, len(p.inputs), count, p.states, p.indicators, p.needs_completed)

    def _manner(self, course: Course) -> Manner:
        p = self.plan
        if p.exchange:
            discrete = any(p.variables[n].variability == "discrete" for n in p.inputs)
            jumps = bool(np.any(course.u_end != course.u_node[1:]))
            return Manner(True, p.scheme, False, False, False, False, discrete or (p.indicators > 0 and jumps))
        if p.alignment == "feedthrough":
            return Manner(False, p.scheme, p.variable_steps, False, True, not p.variable_steps, False)
        return Manner(False, p.scheme, p.variable_steps, p.variable_steps, not p.variable_steps and p.feedthrough,
                      not p.variable_steps, False)

    def _check_written(self, values: np.ndarray, inputs: np.ndarray) -> None:
        """Read back once what was written, and say what did not take."""
        for slots_group, names, given in ((self.constants, tuple(self.plan.constants), self.constant_values),
                                          (self.written, self.plan.written, values),
                                          (self.inputs, self.plan.inputs, inputs)):
            back = np.full(len(names), np.nan)
            try:
                for slots in slots_group:
                    self.instance.get(slots, back)
            except SimulationFailed:
                self.notes.append(f"{self.plan.file} does not let {', '.join(names)} be read back; whether the values "
                                  "took is not known.")
                continue
            for name, wanted, got in zip(names, given, back, strict=True):
                close = TOOK.get(self.plan.variables[name].type, TOOK_ELSE)
                if not abs(got - wanted) <= close * max(abs(wanted), abs(got)):
                    self.notes.append(f"'{name}' was set to {wanted:.9g} but reads back as {got:.9g}; the FMU does not "
                                      "take it as given.")


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.tobytes() == b.tobytes()
