"""Simulation spec: which FMU is simulated, by which interface and steps, and where its numbers stand (value references).

Plain data, so that it can be sent to the process in which the FMU runs. In Co-Simulation, an FMU that takes steps of one
length only gets the longest that meets all samples. Any other gets the sub-steps of the record, and behind each sample a
settling step: so short that no state moves, with the input of the sample itself, so that outputs which follow inputs at
once belong to it.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dynident.fmu.description import FmuVariable
from dynident.tolerances import CVODE_TOLERANCE, GRID_TOLERANCE

SCHEMES = ("runge_kutta", "radau", "cvodes")  # integrators of Model Exchange; the last one is not in C
ALIGNMENTS = ("sampled", "feedthrough")
SETTLING_STEP = 1e-6  # of a sampling interval: the step that takes over the input of the sample itself
MAX_PARTS = 1000  # of the shortest interval; and as many steps per interval in the mean
TRIED_INTERVALS = 50  # on which a step length is tried before all are
# codes of stepping.c and how numpy calls the same type
TYPE_CODES = {"Real": 0, "Float64": 0, "Float32": 1, "Int8": 2, "UInt8": 3, "Int16": 4, "UInt16": 5, "Integer": 6,
              "Int32": 6, "UInt32": 7, "Int64": 8, "UInt64": 9}
NUMPY_TYPES = ("float64", "float32", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FMI2_FUNCTIONS = {"Real": "Real", "Integer": "Integer", "Boolean": "Boolean", "Enumeration": "Integer"}  # of FMI 2.0


class FmuInputs(Protocol):
    """The samples of a record and how inputs move between them; `Grid` of the integrators is one."""

    time: np.ndarray  # (nodes,)
    substeps: np.ndarray  # (nodes - 1,) int32
    u_begin: np.ndarray  # (nodes - 1, inputs) at the begin of each interval
    u_end: np.ndarray  # at its end; inputs move linearly in between
    u_node: np.ndarray  # (nodes, inputs) at the samples themselves
    output_mask: np.ndarray  # (nodes,) uint8: outputs are read here
    finite_mask: np.ndarray  # (nodes, outputs) uint8: outputs that must be finite; of no columns: all


@dataclass(frozen=True)
class SimulationSpec:
    """Which FMU, through which interface, and which of its variables are set and read."""

    file: str  # its name, for messages
    folder: str  # where it is unpacked
    library: str  # inside of the folder
    identifier: str  # of the interface; source code may put it before the names of its functions
    version: int
    token: str
    tolerance: float  # relative, that the FMU is told: of a solver inside that adapts its steps
    exchange: bool  # Model Exchange; else Co-Simulation
    states: int
    indicators: int
    needs_completed: bool
    variable_steps: bool
    feedthrough: bool  # an output may depend directly on an input
    alignment: str  # "sampled", or "feedthrough" where the FMU holds no dynamics
    scheme: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    observed: tuple[str, ...]  # states that are read on request
    written: tuple[str, ...]  # what is given a value before each simulation
    constants: Mapping[str, float]  # set once and for all
    texts: Mapping[str, str]  # likewise
    variables: Mapping[str, FmuVariable]
    state_places: tuple[int, ...] = ()  # of the continuous states in `written`, where Model Exchange is to begin with them
    state_references: tuple[int, ...] = ()
    rate_references: tuple[int, ...] = ()
    scheme_tolerance: float = CVODE_TOLERANCE  # relative, of the adaptive integrator of Model Exchange
    differentiable: bool = False  # directional derivatives can give those of a simulation
    reset: bool = True  # one instance is used again by reset; False: a fresh one for each simulation
    renew: int = 1000  # simulations after which an instance is replaced; slow leaks stay small


@dataclass(frozen=True, eq=False)
class StepSettings:
    """How an instance is led from sample to sample."""

    exchange: bool
    scheme: str  # of Model Exchange
    settle_first: bool = False  # Co-Simulation: a settling step at the first sample
    settle: bool = False  # Co-Simulation: a settling step with the input of each sample, where outputs may follow it at once
    input_at_end: bool = False  # Co-Simulation: the last sub-step has the input of the sample at its end
    equal: bool = False  # Co-Simulation: every communication step of the same length
    input_events: bool = False  # Model Exchange: inputs may jump at samples

    @classmethod
    def of(cls, spec: SimulationSpec, inputs: FmuInputs) -> StepSettings:
        if spec.exchange:
            discrete = any(spec.variables[n].event_only for n in spec.inputs)
            jumps = bool(np.any(inputs.u_end != inputs.u_node[1:]))
            return cls(True, spec.scheme, input_events=discrete or (jumps and not spec.differentiable))
        any_length, feedthrough = spec.variable_steps, spec.alignment == "feedthrough"
        return cls(False, spec.scheme, settle_first=any_length, settle=any_length and not feedthrough and spec.feedthrough,
                   input_at_end=feedthrough or (not any_length and spec.feedthrough), equal=not any_length)


@dataclass(frozen=True, eq=False)
class EqualSteps:
    """The longest step that meets all samples, and how many of them lie in each interval."""

    length: float
    counts: np.ndarray  # (nodes - 1,)

    def subdivided(self, per_step: int) -> np.ndarray:
        """Steps in each interval when each is divided again."""
        return (self.counts * per_step).astype(np.int32)


def equal_steps(time: np.ndarray) -> EqualSteps | None:
    """None where no step of sane length meets all samples."""
    return _equal_steps(np.ascontiguousarray(time, float).tobytes())


@functools.lru_cache(maxsize=64)
def _equal_steps(data: bytes) -> EqualSteps | None:
    time = np.frombuffer(data)
    gaps = np.diff(time)
    if not gaps.size:
        return EqualSteps(0.0, np.zeros(0))
    shortest = np.unique(gaps)[:TRIED_INTERVALS]
    for parts in range(1, MAX_PARTS + 1):
        ratio = shortest * (parts / shortest[0])
        if np.max(np.abs(ratio - np.rint(ratio))) > 4 * GRID_TOLERANCE:  # two ends, and as much for the shortest itself
            continue
        counts = np.rint(gaps * (parts / shortest[0]))
        reached = np.cumsum(counts)
        length = float(time[-1] - time[0]) / float(reached[-1])
        if np.max(np.abs(time[1:] - time[0] - length * reached)) <= GRID_TOLERANCE * length:
            return EqualSteps(length, counts) if reached[-1] <= MAX_PARTS * gaps.size else None
    return None


def steps_per_interval(time: np.ndarray, substeps: np.ndarray) -> int:
    """How many steps were asked for in an interval of median length; the others follow from it by their length."""
    gaps = np.diff(time)
    longest = int(np.argmax(gaps))
    return max(1, int(substeps[longest] * np.median(gaps) / gaps[longest] * (1 + 1e-6)))


@dataclass(frozen=True, eq=False)
class CommunicationSteps:
    """Steps in each interval, and the lengths of those that the samples do not give."""

    counts: np.ndarray  # (nodes - 1,) int32
    settle_first: float  # seconds: of the settling step at the first sample, 0 for none
    settle: float  # of an interval: the settling step behind its end, 0 for none
    equal: float  # seconds: of every step where they must be equal, else 0

    @classmethod
    def of(cls, inputs: FmuInputs, settings: StepSettings) -> CommunicationSteps | None:
        """None where steps must be equal and no length meets all samples."""
        time, counts, equal = inputs.time, inputs.substeps, 0.0
        if settings.equal and time.size > 1:
            found = equal_steps(time)
            if found is None:
                return None
            counts = found.subdivided(steps_per_interval(time, inputs.substeps))
            equal = float(time[-1] - time[0]) / int(np.sum(counts))
        interval = float(time[1] - time[0]) if time.size > 1 else 1.0
        return cls(counts, SETTLING_STEP * interval if settings.settle_first else 0.0,
                   SETTLING_STEP if settings.settle else 0.0, equal)

    def last_moment(self, time: np.ndarray) -> float | None:
        """The time that no step goes beyond; None where there is one sample only."""
        if time.size < 2:
            return None
        begin, end = float(time[0]), float(time[-1])
        if self.equal:
            return max(end, begin + (int(np.sum(self.counts)) - 1) * self.equal + self.equal)
        return past_end(end, self.settle * (end - float(time[-2]))) if self.settle else end


def past_end(now: float, h: float) -> float:
    """The end of a step of about this length that does go on: a time may be so large that adding it changes nothing."""
    return now + h if now + h > now else math.nextafter(now, math.inf)


@dataclass(frozen=True, eq=False)
class ReferenceGroup:
    """Numbers of one type: their value references, and for each value the column of our vector (-1: none of ours)."""

    function: str  # the end of the name of the getter and the setter: "Real", "Float64"
    code: int
    references: np.ndarray  # uint32
    column: np.ndarray  # int64
    base: np.ndarray  # float64: what is set where the column is -1
    buffer: np.ndarray  # of the type itself, where the FMU reads and writes
    event_only: bool = False  # inputs that Model Exchange may set in event mode alone

    def to_buffer(self, values: np.ndarray) -> None:
        own = self.column >= 0
        full = self.base.copy()
        full[own] = values[self.column[own]]
        self.buffer[:] = np.rint(full) if self.code > 1 else full  # whole numbers: the nearest

    def from_buffer(self, values: np.ndarray) -> None:
        own = self.column >= 0
        values[self.column[own]] = self.buffer[own]


@dataclass(frozen=True, eq=False)
class ValueReferences:
    """Where inputs go in and outputs come out, and the sizes of the model."""

    inputs: tuple[ReferenceGroup, ...]
    outputs: tuple[ReferenceGroup, ...]
    input_count: int
    output_count: int
    states: int
    indicators: int
    needs_completed: bool


@dataclass(frozen=True, eq=False)
class DirectionalReferences:
    """Of what and by what directional derivatives are asked: value references, and per column of what it is by."""

    states: np.ndarray  # uint32
    rates: np.ndarray  # uint32, in the order of the states
    outputs: np.ndarray  # uint32
    by: np.ndarray  # uint32, per column
    initial: np.ndarray  # int64, per column: the state whose initial value it is, -1 for a parameter


def group_references(variables: Sequence[FmuVariable], version: int, everything: Mapping[str, FmuVariable],
                     constants: Mapping[str, float]) -> tuple[ReferenceGroup, ...]:
    """Groups by type for a vector with one entry per variable; an array is always set and got as a whole, with elements
    that are none of ours at what `constants` holds for them, or else at their start values.

    What stands twice in the vector, such as a state that is also an output or an alias, comes in a group of its own.
    """
    groups: dict[tuple[str, int, int, bool], dict[int, dict[int, int]]] = {}
    sizes = {v.reference: v.size for v in variables}
    met: Counter[tuple[str, int, int]] = Counter()
    for place, v in enumerate(variables):
        function, code = _access_function(v, version)
        number = (function, v.reference, v.element)
        groups.setdefault((function, code, met[number], v.event_only), {}).setdefault(v.reference, {})[v.element] = place
        met[number] += 1
    starts: dict[int, dict[int, float]] = {}
    if any(size > 1 for size in sizes.values()):
        for v in everything.values():
            if v.reference in sizes and v.start is not None:
                starts.setdefault(v.reference, {})[v.element] = v.start
        for name, value in constants.items():
            starts.setdefault(everything[name].reference, {})[everything[name].element] = value
    made = []
    for (function, code, _, event_only), references in groups.items():
        column, base = [], []
        for reference, places in references.items():
            for element in range(sizes[reference]):
                column.append(places.get(element, -1))
                base.append(starts.get(reference, {}).get(element, 0.0))
        made.append(ReferenceGroup(function, code, np.array(list(references), np.uint32), np.array(column, np.int64),
                                   np.array(base, float), np.zeros(len(column), NUMPY_TYPES[code]), event_only))
    return tuple(made)


def type_limits(v: FmuVariable, version: int) -> tuple[float, float]:
    """The least and the largest number that the type of a variable can hold."""
    if v.type == "Boolean":
        return 0, 1
    kind = np.dtype(NUMPY_TYPES[_access_function(v, version)[1]])
    return (np.finfo(kind).min, np.finfo(kind).max) if kind.kind == "f" else (np.iinfo(kind).min, np.iinfo(kind).max)


def _access_function(v: FmuVariable, version: int) -> tuple[str, int]:
    if version == 2:
        return FMI2_FUNCTIONS[v.type], 0 if v.type == "Real" else 6
    if v.type == "Boolean":
        return "Boolean", 3
    return ("Int64", 8) if v.type == "Enumeration" else (v.type, TYPE_CODES[v.type])
