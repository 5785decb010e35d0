"""In process: one FMU in this process, simulated again and again with other values, in C where there is a compiler.

Co-Simulation takes communication steps and leaves the solver to the FMU; Model Exchange integrates the FMU's rates by our
own scheme, through state, time and step events. Derivatives follow the same steps by the FMU's directional derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynident.fmu.directional_interpreted import differentiate_exchange
from dynident.fmu.instance import STATUS, FmuInstance, SimulationFailed
from dynident.fmu.model_exchange_interpreted import simulate_exchange
from dynident.fmu.simulation_spec import (
    CommunicationSteps,
    DirectionalReferences,
    FmuInputs,
    ReferenceGroup,
    SimulationSpec,
    StepSettings,
    ValueReferences,
)
from dynident.fmu.stepping_compiled import (
    ASKED_TO_END,
    StepCall,
    StepFailure,
    differentiate_compiled,
    simulate_compiled,
    stepping_library,
)
from dynident.fmu.stepping_interpreted import simulate_cosimulation

READ_BACK = {"Float32": 1e-6}  # relative: a value that was set and reads back within this has taken
READ_BACK_ELSE = 1e-9  # of all other types
DEEDS = {StepCall.SET: "setting the inputs", StepCall.GET: "reading the outputs", StepCall.STEP: "a step",
         StepCall.TIME: "setting time", StepCall.STATES: "setting the states", StepCall.RATES: "computing the rates",
         StepCall.INDICATORS: "computing the event indicators", StepCall.COMPLETED: "completing a step",
         StepCall.EVENT: "entering event mode", StepCall.DISCRETE: "iterating at an event",
         StepCall.CONTINUOUS: "leaving event mode", StepCall.DIRECTIONAL: "a directional derivative"}
REASONS = {StepCall.TERMINATED: "the FMU asked to end the simulation",
           StepCall.NEWTON: "the implicit step did not converge; use more sub-steps",
           StepCall.GAVE_UP: "the adaptive solver gave up",
           StepCall.EVENTFUL: "an event came, across which derivatives are not known",
           StepCall.ENDLESS: "events follow each other without end", StepCall.MEMORY: "memory ran out"}


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
        written at these places, (nodes, outputs [+ states, or + columns x outputs]); of rows of values one after another,
        (rows, ...)."""
        if values.ndim > 1:
            return np.stack([self.run(row, inputs, states, directions) for row in values])
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

    def release(self) -> None:
        self.close()

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
                simulate_instance(self.instance, references, inputs, StepSettings.of(self.spec, inputs), outputs,
                                  np.ascontiguousarray(values[list(places)]) if (places := self.spec.state_places) else None)
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


def communication_steps(inputs: FmuInputs, settings: StepSettings) -> CommunicationSteps:
    """Raises SimulationFailed where steps must be equal and cannot be."""
    steps = CommunicationSteps.of(inputs, settings)
    if steps is None:
        raise SimulationFailed("the samples lie on no grid of equal steps")
    return steps


def simulate_instance(instance: FmuInstance, references: ValueReferences, inputs: FmuInputs, settings: StepSettings,
                      outputs: np.ndarray, first_states: np.ndarray | None = None) -> None:
    """Fill `outputs` (nodes, outputs), by Model Exchange from `first_states` where given; raises SimulationFailed."""
    steps = communication_steps(inputs, settings)
    compiled = None if settings.scheme == "cvodes" and settings.exchange else stepping_library()
    if compiled is not None:
        failure = simulate_compiled(compiled, instance, references, inputs, steps, settings, outputs, first_states)
    elif settings.exchange:
        failure = simulate_exchange(instance, references, inputs, settings, outputs, first_states)
    else:
        failure = simulate_cosimulation(instance, references, inputs, steps, settings, outputs)
    if failure is not None:
        raise to_exception(instance, inputs, failure)


def differentiate_instance(instance: FmuInstance, references: ValueReferences, inputs: FmuInputs, columns: Sequence[int],
                           outputs: np.ndarray) -> np.ndarray:
    """Fill `outputs` (nodes, outputs) and give their derivatives (nodes, columns, outputs) by what is written at these
    places, from the FMU's directional derivatives; raises SimulationFailed."""
    directions = directions_of(instance.spec, columns)
    derivatives = np.full((inputs.time.size, len(columns), len(instance.spec.outputs)), np.nan)
    compiled = stepping_library()
    if compiled is None:
        failure = differentiate_exchange(instance, references, inputs, directions, outputs, derivatives)
    else:
        failure = differentiate_compiled(compiled, instance, references, inputs, directions, outputs, derivatives)
    if failure is not None:
        raise to_exception(instance, inputs, failure)
    return derivatives


def directions_of(spec: SimulationSpec, columns: Sequence[int]) -> DirectionalReferences:
    if not spec.differentiable:
        raise SimulationFailed(f"{spec.file} gives no derivatives here.")
    by = np.array([spec.variables[spec.written[i]].reference for i in columns], np.uint32)
    places = {reference: i for i, reference in enumerate(spec.state_references)}
    return DirectionalReferences(np.array(spec.state_references, np.uint32), np.array(spec.rate_references, np.uint32),
                      np.array([spec.variables[n].reference for n in spec.outputs], np.uint32), by,
                      np.array([places.get(int(r), -1) for r in by], np.int64))


def to_exception(instance: FmuInstance, inputs: FmuInputs, failure: StepFailure) -> SimulationFailed:
    time, status = float(inputs.time[failure.node]), failure.status
    over = status == ASKED_TO_END or (failure.call == StepCall.STEP and instance.asked_to_end(status))
    call = StepCall.TERMINATED if over else failure.call
    if call == StepCall.NOT_FINITE:
        why = _output_sentence(instance, status)
    elif call == StepCall.STATE_NOT_FINITE:
        why = f"{_state_name(instance, status)} is no longer finite"
    else:
        word = STATUS[status] if 0 <= status < len(STATUS) else str(status)
        why = REASONS.get(call) or f"{DEEDS[call]} returned '{word}'"
    return SimulationFailed(f"the simulation of {instance.spec.file} failed at t = {time:g}: {why}."
                            f"{instance.last_message()}", time)


def _output_sentence(instance: FmuInstance, column: int) -> str:
    names = (*instance.spec.outputs, *instance.spec.observed)
    kind = "output" if column < len(instance.spec.outputs) else "state"
    return f"{kind} '{names[column]}' is not finite" if 0 <= column < len(names) else ""


def _state_name(instance: FmuInstance, place: int) -> str:
    """A state by its name, where it has one that is known here; there may be one more place, of all derivatives."""
    references = instance.spec.state_references
    if not 0 <= place < len(references):
        return "a state or a derivative"
    names = [n for n, v in instance.spec.variables.items() if v.reference == references[place] and v.size == 1]
    return f"state '{names[0]}'" if names else f"state number {place + 1}"
