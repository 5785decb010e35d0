"""Loop: drive an initialised instance along the samples of a record, in C where there is a compiler."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dynident.fmu.equal_steps import equal_steps, per_interval
from dynident.fmu.library import Instance, SimulationFailed
from dynident.fmu.loop_kernel import kernel
from dynident.fmu.slots import Slots, c_groups

TINY = 1e-6  # of a sampling interval: the step that takes over the input of the sample itself
CALLS = ("", "setting the inputs", "reading the outputs", "a step", "setting time", "setting the states",
         "computing the rates", "computing the event indicators", "completing a step", "entering event mode",
         "iterating at an event", "leaving event mode")
TERMINATED, NEWTON, NOT_FINITE, STATE_NOT_FINITE, ENDLESS, MEMORY, GAVE_UP, EVENTFUL, SLOPES = range(12, 21)
ASKED_TO_END = -1  # in the place of a status: a step of FMI 3.0 asks for the end beside its status
SCHEMES = ("runge_kutta", "radau", "cvodes")  # the last one is not in C


class Course(Protocol):
    """The samples of a record and how inputs move between them; `Grid` of the integrators is one."""

    time: np.ndarray
    substeps: np.ndarray
    u_begin: np.ndarray
    u_end: np.ndarray
    u_node: np.ndarray
    wanted: np.ndarray
    needed: np.ndarray  # (nodes, outputs) uint8: outputs that must be finite; of no columns: all


@dataclass(frozen=True, eq=False)
class Manner:
    """How the instance is to be driven."""

    exchange: bool
    scheme: str  # of Model Exchange
    first: bool  # Co-Simulation: a tiny step at the first sample
    tiny: bool  # Co-Simulation: a tiny step with the input of each sample
    at_node: bool  # Co-Simulation: the last sub-step has the input of the sample at its end
    even: bool  # Co-Simulation: every step of the same length
    input_events: bool  # Model Exchange: inputs may jump at samples


@dataclass(frozen=True, eq=False)
class Ports:
    """Where inputs go in and outputs come out, and the sizes of the model."""

    inputs: tuple[Slots, ...]
    outputs: tuple[Slots, ...]
    input_count: int
    output_count: int
    states: int
    indicators: int
    needs_completed: bool


class _Fmu(ctypes.Structure):
    _fields_ = [("instance", ctypes.c_void_p), *[(n, ctypes.c_longlong) for n in (
        "version", "states", "indicators", "input_groups", "output_groups", "inputs", "outputs", "needs_completed")],
        *[(n, ctypes.c_void_p) for n in (
            "input", "output", "do_step", "set_time", "set_states", "get_states", "get_rates", "get_indicators",
            "completed", "enter_event", "discrete", "enter_continuous")]]


class _Course(ctypes.Structure):
    _fields_ = [("nodes", ctypes.c_longlong), *[(n, ctypes.c_void_p) for n in (
        "time", "substeps", "u_begin", "u_end", "u_node", "wanted")],
        ("needed_columns", ctypes.c_longlong), ("needed", ctypes.c_void_p)]


def steps_of(course: Course, manner: Manner) -> np.ndarray:
    """Steps in each interval: those of the course, unless all must be equal; raises SimulationFailed where none can."""
    if not manner.even or course.time.size < 2:
        return course.substeps
    found = equal_steps(course.time)
    if found is None:
        raise SimulationFailed("the samples lie on no grid of equal steps")
    return found.parted(per_interval(course.time, course.substeps))


def lengths(course: Course, manner: Manner) -> tuple[float, float, float]:
    """Length of the first tiny step, share of the others, length of every step where they must be equal."""
    interval = float(course.time[1] - course.time[0]) if course.time.size > 1 else 1.0
    whole = float(course.time[-1] - course.time[0])
    even = whole / int(np.sum(steps_of(course, manner))) if manner.even and course.time.size > 1 else 0.0
    return TINY * interval if manner.first else 0.0, TINY if manner.tiny else 0.0, even


def beyond(now: float, h: float) -> float:
    """The end of a step of about this length that does go on: a time may be so large that adding it changes nothing."""
    return now + h if now + h > now else math.nextafter(now, math.inf)


def last_moment(course: Course, manner: Manner) -> float | None:
    """The time that no step goes beyond; None where there is no course of time."""
    if course.time.size < 2:
        return None
    begin, end = float(course.time[0]), float(course.time[-1])
    _, tiny, even = lengths(course, manner)
    if even:
        count = int(np.sum(steps_of(course, manner)))
        return max(end, begin + (count - 1) * even + even)
    return beyond(end, tiny * (end - float(course.time[-2]))) if tiny else end


EXCHANGE = {2: ("SetTime", "SetContinuousStates", "GetContinuousStates", "GetDerivatives", "GetEventIndicators",
                "CompletedIntegratorStep", "EnterEventMode", "NewDiscreteStates", "EnterContinuousTimeMode"),
            3: ("SetTime", "SetContinuousStates", "GetContinuousStates", "GetContinuousStateDerivatives",
                "GetEventIndicators", "CompletedIntegratorStep", "EnterEventMode", "UpdateDiscreteStates",
                "EnterContinuousTimeMode")}


def drive(instance: Instance, ports: Ports, course: Course, manner: Manner, outputs: np.ndarray) -> None:
    """Fill `outputs` (nodes, outputs); raises SimulationFailed."""
    steps = steps_of(course, manner)
    compiled = None if manner.scheme == "cvodes" and manner.exchange else kernel()
    if compiled is None:
        from dynident.fmu.plain_loop import PlainLoop

        failure = PlainLoop(instance, ports, course, steps, manner).run(outputs)
    else:
        failure = _compiled(compiled, instance, ports, course, steps, manner, outputs)
    if failure is not None:
        raise failed(instance, course, *failure)


def _compiled(compiled: ctypes.CDLL, instance: Instance, ports: Ports, course: Course, steps: np.ndarray, manner: Manner,
              outputs: np.ndarray) -> tuple[int, int, int] | None:
    fmu, path, _alive = for_c(instance, ports, course, steps, manner.exchange)
    bad = np.zeros(3, np.int64)
    if manner.exchange:
        good = compiled.dynident_fmu_exchange(
            ctypes.addressof(fmu), ctypes.addressof(path), SCHEMES.index(manner.scheme), int(manner.input_events),
            outputs.ctypes.data, bad.ctypes.data)
    else:
        first, tiny, even = lengths(course, manner)
        good = compiled.dynident_fmu_cosimulate(ctypes.addressof(fmu), ctypes.addressof(path), first, tiny,
                                                int(manner.at_node), even, outputs.ctypes.data, bad.ctypes.data)
    return None if good else (int(bad[0]), int(bad[1]), int(bad[2]))


def for_c(instance: Instance, ports: Ports, course: Course, steps: np.ndarray, exchange: bool
          ) -> tuple[_Fmu, _Course, list]:
    """Instance and course as the structures of fmu.c, and what must live as long as they do."""
    groups = [c_groups(slots, [instance.address(f"{verb}{s.function}") for s in slots])
              for verb, slots in (("Set", ports.inputs), ("Get", ports.outputs))]
    fmu = _Fmu(instance.handle, instance.version, ports.states, ports.indicators, len(ports.inputs), len(ports.outputs),
               ports.input_count, ports.output_count, int(ports.needs_completed), *map(ctypes.addressof, groups))
    if exchange:
        for field, name in zip([f[0] for f in _Fmu._fields_[12:]], EXCHANGE[instance.version], strict=True):
            setattr(fmu, field, instance.address(name))
    else:
        fmu.do_step = instance.address("DoStep")
    arrays = [course.time, steps, course.u_begin, course.u_end, course.u_node, course.wanted]
    path = _Course(course.time.size, *[a.ctypes.data for a in arrays], course.needed.shape[1], course.needed.ctypes.data)
    return fmu, path, [groups, arrays, course.needed]


def failed(instance: Instance, course: Course, node: int, call: int, status: int) -> SimulationFailed:
    from dynident.fmu.library import STATUS

    time = float(course.time[node])
    named = {TERMINATED: "the FMU asked to end the simulation", NOT_FINITE: _not_finite(instance, status),
             STATE_NOT_FINITE: f"{_state(instance, status)} is no longer finite",
             NEWTON: "the implicit step did not settle; use more sub-steps", GAVE_UP: "the adaptive solver gave up",
             EVENTFUL: "an event came, across which slopes are not known",
             ENDLESS: "events follow each other without end", MEMORY: "memory ran out"}
    call = TERMINATED if status == ASKED_TO_END else call
    said = STATUS[status] if 0 <= status < len(STATUS) else str(status)
    doing = "a directional derivative" if call == SLOPES else CALLS[call] if call < len(CALLS) else ""
    why = named.get(call) or f"{doing} returned '{said}'"
    return SimulationFailed(f"the simulation of {instance.plan.file} failed at t = {time:g}: {why}."
                            f"{instance.last_message()}", time)


def _not_finite(instance: Instance, column: int) -> str:
    names = (*instance.plan.outputs, *instance.plan.observed)
    kind = "output" if column < len(instance.plan.outputs) else "state"
    return f"{kind} '{names[column]}' is not finite" if 0 <= column < len(names) else ""


def _state(instance: Instance, place: int) -> str:
    """A state by its name, where it has one that is known here; there may be one more place, of all derivatives."""
    references = instance.plan.state_references
    if not 0 <= place < len(references):
        return "a state or a derivative"
    names = [n for n, v in instance.plan.variables.items() if v.reference == references[place] and v.size == 1]
    return f"state '{names[0]}'" if names else f"state number {place + 1}"
