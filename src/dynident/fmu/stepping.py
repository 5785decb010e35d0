"""Stepping: lead an initialised instance along the samples of a record, in C where there is a compiler.

Co-Simulation takes communication steps and leaves the solver to the FMU; Model Exchange integrates the FMU's rates by our
own scheme, through state, time and step events. Derivatives follow the same steps by the FMU's directional derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynident.fmu.communication_steps import CommunicationSteps
from dynident.fmu.directional_python import differentiate_exchange
from dynident.fmu.instance import STATUS, FmuInstance, SimulationFailed
from dynident.fmu.model_exchange_python import simulate_exchange
from dynident.fmu.simulation_spec import FmuInputs, SimulationSpec, StepSettings
from dynident.fmu.stepping_compiled import (
    ASKED_TO_END,
    StepCall,
    StepFailure,
    differentiate_compiled,
    simulate_compiled,
    stepping_library,
)
from dynident.fmu.stepping_python import simulate_cosimulation
from dynident.fmu.value_references import DirectionalReferences, ValueReferences

DEEDS = {StepCall.SET: "setting the inputs", StepCall.GET: "reading the outputs", StepCall.STEP: "a step",
         StepCall.TIME: "setting time", StepCall.STATES: "setting the states", StepCall.RATES: "computing the rates",
         StepCall.INDICATORS: "computing the event indicators", StepCall.COMPLETED: "completing a step",
         StepCall.EVENT: "entering event mode", StepCall.DISCRETE: "iterating at an event",
         StepCall.CONTINUOUS: "leaving event mode", StepCall.DIRECTIONAL: "a directional derivative"}
REASONS = {StepCall.TERMINATED: "the FMU asked to end the simulation",
           StepCall.NEWTON: "the implicit step did not settle; use more sub-steps",
           StepCall.GAVE_UP: "the adaptive solver gave up",
           StepCall.EVENTFUL: "an event came, across which slopes are not known",
           StepCall.ENDLESS: "events follow each other without end", StepCall.MEMORY: "memory ran out"}


def communication_steps(inputs: FmuInputs, settings: StepSettings) -> CommunicationSteps:
    """Raises SimulationFailed where steps must be equal and cannot be."""
    steps = CommunicationSteps.of(inputs, settings)
    if steps is None:
        raise SimulationFailed("the samples lie on no grid of equal steps")
    return steps


def simulate_instance(instance: FmuInstance, references: ValueReferences, inputs: FmuInputs, settings: StepSettings,
                      outputs: np.ndarray) -> None:
    """Fill `outputs` (nodes, outputs); raises SimulationFailed."""
    steps = communication_steps(inputs, settings)
    compiled = None if settings.scheme == "cvodes" and settings.exchange else stepping_library()
    if compiled is not None:
        failure = simulate_compiled(compiled, instance, references, inputs, steps, settings, outputs)
    elif settings.exchange:
        failure = simulate_exchange(instance, references, inputs, settings, outputs)
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
    call = StepCall.TERMINATED if status == ASKED_TO_END else failure.call
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
