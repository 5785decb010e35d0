"""Python stepping: stepping.c without a compiler; the same arithmetic in the same order and bits.

The calls that both interfaces make, and Co-Simulation.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass

import numpy as np

from dynident.fmu.instance import FmuInstance, SimulationFailed, flag, number, pointer, real
from dynident.fmu.simulation_spec import CommunicationSteps, FmuInputs, StepSettings, ValueReferences, past_end
from dynident.fmu.stepping_compiled import ASKED_TO_END, StepCall, StepFailure

ERROR = 3  # a status of FMI


class StepStopped(Exception):
    """A call that failed, or the end of what can be simulated."""

    def __init__(self, call: StepCall, status: int = 0):
        super().__init__(call, status)
        self.call, self.status = call, status


@dataclass(frozen=True, eq=False)
class InstanceCalls:
    """The calls of one simulation; functions have the names of those in stepping.c."""

    instance: FmuInstance
    references: ValueReferences
    inputs: FmuInputs

    def call(self, what: StepCall, name: str, *arguments: object, types: tuple = ()) -> None:
        status = self.instance.function(name, pointer, *types)(self.instance.handle, *arguments)
        if status > 1 or status < 0:
            raise StepStopped(what, status)

    def put(self, u: np.ndarray, at_event: bool = True) -> None:
        """Inputs; those that are set at events only are left as they are between events."""
        for group in self.references.inputs:
            if group.event_only and not at_event:
                continue
            try:
                self.instance.set(group, u)
            except SimulationFailed:
                raise StepStopped(StepCall.SET, ERROR) from None

    def observe(self, node: int, outputs: np.ndarray) -> None:
        if not self.inputs.output_mask[node]:
            return
        for group in self.references.outputs:
            try:
                self.instance.get(group, outputs[node])
            except SimulationFailed:
                raise StepStopped(StepCall.GET, ERROR) from None
        needed = self.inputs.finite_mask
        for i in np.flatnonzero(~np.isfinite(outputs[node])):
            if i >= needed.shape[1] or needed[node, i]:
                raise StepStopped(StepCall.NOT_FINITE, int(i))

    def input_at(self, interval: int, now: float) -> np.ndarray:
        c, k = self.inputs, interval
        fraction = (now - float(c.time[k])) / (float(c.time[k + 1]) - float(c.time[k]))
        return c.u_begin[k] + fraction * (c.u_end[k] - c.u_begin[k])

    def step(self, now: float, h: float) -> None:
        """One communication step."""
        if self.instance.version == 2:
            self.call(StepCall.STEP, "DoStep", now, h, 1, types=(real, real, number))
            return
        event, terminate, early, reached = flag(), flag(), flag(), real(now)
        flags = [ctypes.addressof(v) for v in (event, terminate, early, reached)]
        self.call(StepCall.STEP, "DoStep", now, h, 1, *flags, types=(real, real, flag, pointer, pointer, pointer, pointer))
        if terminate.value:
            raise StepStopped(StepCall.STEP, ASKED_TO_END)

    def step_to(self, now: float, end: float) -> float:
        """One communication step that ends there and not a rounding beyond."""
        h = end - now
        while now + h > end:
            h = math.nextafter(h, 0.0)
        self.step(now, h)
        return end


def simulate_cosimulation(instance: FmuInstance, references: ValueReferences, inputs: FmuInputs, steps: CommunicationSteps,
                          settings: StepSettings, outputs: np.ndarray) -> StepFailure | None:
    """Fill `outputs` (nodes, outputs); dynident_fmu_cosimulate of stepping.c."""
    calls, node, now = InstanceCalls(instance, references, inputs), 0, float(inputs.time[0])
    try:
        with np.errstate(all="ignore"):
            if steps.settle_first > 0:
                calls.put(inputs.u_node[0])
                now = calls.step_to(now, past_end(now, steps.settle_first))
            calls.observe(0, outputs)
            for node in range(1, inputs.time.size):
                now = _through_interval(calls, steps, settings, node - 1, now)
                calls.observe(node, outputs)
    except StepStopped as end:
        return StepFailure(node, end.call, end.status)
    return None


def _through_interval(calls: InstanceCalls, steps: CommunicationSteps, settings: StepSettings, k: int, now: float) -> float:
    """From one sample to the next, and by a settling step beyond; gives the time that was reached."""
    inputs = calls.inputs
    begin, end, count = float(inputs.time[k]), float(inputs.time[k + 1]), int(steps.counts[k])
    taken = int(np.sum(steps.counts[:k])) if steps.equal > 0 else 0
    h = steps.equal if steps.equal > 0 else (end - now) / count
    for j in range(count):
        last = j == count - 1
        calls.put(inputs.u_node[k + 1] if last and settings.input_at_end else calls.input_at(k, now + 0.5 * h))
        if steps.equal > 0:
            calls.step(now, h)
            now = float(inputs.time[0]) + (taken + j + 1) * h
        else:
            now = calls.step_to(now, end if last else now + h)
    if steps.settle > 0:
        calls.put(inputs.u_node[k + 1])
        now = calls.step_to(now, past_end(end, steps.settle * (end - begin)))
    return now
