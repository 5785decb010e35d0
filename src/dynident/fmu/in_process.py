"""In process: one FMU in this process, simulated again and again with other values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynident.fmu.instance import FmuInstance, SimulationFailed
from dynident.fmu.simulation_spec import FmuInputs, SimulationSpec, StepSettings
from dynident.fmu.stepping import communication_steps, differentiate_instance, simulate_instance
from dynident.fmu.value_references import ReferenceGroup, ValueReferences

READ_BACK = {"Float32": 1e-6}  # relative: a value that was set and reads back within this has taken
READ_BACK_ELSE = 1e-9  # of all other types


class InProcessSimulator:
    """Keeps one instance; the first time that it is used again shows whether reset can be trusted."""

    def __init__(self, spec: SimulationSpec):
        self.spec = spec
        self.instance = FmuInstance(spec)
        self.written = self.instance.references(spec.written)
        self.constants = self.instance.references(list(spec.constants))
        self.constant_values = np.array(list(spec.constants.values()), float)
        self.inputs = self.instance.references(spec.inputs)
        self.outputs = {False: self.instance.references(spec.outputs),
                        True: self.instance.references([*spec.outputs, *spec.observed])}
        self.trusts_reset: bool | None = None if spec.reset else False
        self.runs = 0
        self.notes: list[str] = []

    def run(self, values: np.ndarray, inputs: FmuInputs, states: bool = False, directions: Sequence[int] = ()) -> np.ndarray:
        """Outputs, and behind them with `states` the observed states, or with `directions` their derivatives by what is
        written at these places, (nodes, outputs [+ states, or + columns x outputs])."""
        if directions:
            return self._simulate_once(values, inputs, False, directions=directions)
        if self.runs == 0:  # on a fresh instance, so there is nothing to doubt
            return self._simulate_once(values, inputs, states, check=True)
        if self.trusts_reset is None:
            return self._test_reset(values, inputs, states)
        return self._simulate_once(values, inputs, states)

    def messages(self) -> tuple[str, ...]:
        return self.instance.log()

    def close(self) -> None:
        self.instance.free()

    def _test_reset(self, values: np.ndarray, inputs: FmuInputs, states: bool) -> np.ndarray:
        """After a simulation with other values: a reset instance and a fresh one must agree in every bit."""
        after_reset: np.ndarray | None = None
        why = ""
        try:
            after_reset = self._simulate_once(values, inputs, states)
        except SimulationFailed as error:
            why = f" ({error})"
        self.instance.free()
        fresh = self._simulate_once(values, inputs, states)  # if this fails, it is the values that are bad
        self.trusts_reset = after_reset is not None and _identical(after_reset, fresh)
        if not self.trusts_reset:
            self.notes.append(f"{self.spec.file} does not repeat itself after a reset{why}: each simulation uses a "
                              "fresh instance.")
            if not _identical(fresh, self._simulate_once(values, inputs, states)):
                self.notes.append(f"{self.spec.file} gives different results from fresh instances at equal values; its "
                                  "noise enters the estimate.")
        return fresh

    def _simulate_once(self, values: np.ndarray, inputs: FmuInputs, states: bool, check: bool = False,
                       directions: Sequence[int] = ()) -> np.ndarray:
        self._make_fresh()
        try:
            self._initialize(values, inputs)
            if check:
                self._read_back(values, inputs.u_node[0])
            self.instance.leave_initialization()
            outputs = np.full((inputs.time.size, len(self.spec.outputs) + states * len(self.spec.observed)), np.nan)
            references = self._references(self.outputs[states], outputs.shape[1])
            if directions:
                along = differentiate_instance(self.instance, references, inputs, directions, outputs)
                outputs = np.hstack([outputs, along.reshape(inputs.time.size, -1)])
            else:
                simulate_instance(self.instance, references, inputs, StepSettings.of(self.spec, inputs), outputs)
            self.instance.terminate()
        except SimulationFailed:
            self.instance.free()  # an instance that has failed is not used again
            raise
        return outputs

    def _make_fresh(self) -> None:
        self.runs += 1
        if self.trusts_reset is False or self.runs % self.spec.renew == 0:
            self.instance.free()
        self.instance.reset()

    def _initialize(self, values: np.ndarray, inputs: FmuInputs) -> None:
        end = communication_steps(inputs, StepSettings.of(self.spec, inputs)).last_moment(inputs.time)
        before = [(s, self.constant_values) for s in self.constants] + [(s, values) for s in self.written]
        self.instance.initialize(float(inputs.time[0]), end, before)
        for group in self.inputs:
            self.instance.set(group, inputs.u_node[0])

    def _references(self, outputs: tuple[ReferenceGroup, ...], count: int) -> ValueReferences:
        p = self.spec
        return ValueReferences(self.inputs, outputs, len(p.inputs), count, p.states, p.indicators, p.needs_completed)

    def _read_back(self, values: np.ndarray, inputs: np.ndarray) -> None:
        """Read back once what was written, and say what did not take."""
        for groups, names, given in ((self.constants, tuple(self.spec.constants), self.constant_values),
                                     (self.written, self.spec.written, values),
                                     (self.inputs, self.spec.inputs, inputs)):
            back = np.full(len(names), np.nan)
            try:
                for group in groups:
                    self.instance.get(group, back)
            except SimulationFailed:
                self.notes.append(f"{self.spec.file} does not let {', '.join(names)} be read back; whether the values "
                                  "took is not known.")
                continue
            for name, value, got in zip(names, given, back, strict=True):
                close = READ_BACK.get(self.spec.variables[name].type, READ_BACK_ELSE)
                if not abs(got - value) <= close * max(abs(value), abs(got)):
                    self.notes.append(f"'{name}' was set to {value:.9g} but reads back as {got:.9g}; the FMU does not "
                                      "take it as given.")


def _identical(a: np.ndarray, b: np.ndarray) -> bool:
    return a.tobytes() == b.tobytes()
