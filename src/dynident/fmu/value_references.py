"""Value references: where do named numbers stand in an FMU, and of which type are they?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dynident.fmu.description import FmuVariable

# codes of stepping.c and how numpy calls the same type
TYPE_CODES = {"Real": 0, "Float64": 0, "Float32": 1, "Int8": 2, "UInt8": 3, "Int16": 4, "UInt16": 5, "Integer": 6,
              "Int32": 6, "UInt32": 7, "Int64": 8, "UInt64": 9}
NUMPY_TYPES = ("float64", "float32", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FMI2_FUNCTIONS = {"Real": "Real", "Integer": "Integer", "Boolean": "Boolean", "Enumeration": "Integer"}  # of FMI 2.0


@dataclass(frozen=True, eq=False)
class ReferenceGroup:
    """Numbers of one type: their value references, and for each value the column of our vector (-1: none of ours)."""

    function: str  # the end of the name of the getter and the setter: "Real", "Float64"
    code: int
    references: np.ndarray  # uint32
    column: np.ndarray  # int64
    base: np.ndarray  # float64: what is set where the column is -1
    buffer: np.ndarray  # of the type itself, where the FMU reads and writes

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
    groups: dict[tuple[str, int, int], dict[int, dict[int, int]]] = {}
    sizes = {v.reference: v.size for v in variables}
    met: Counter[tuple[str, int, int]] = Counter()
    for place, v in enumerate(variables):
        function, code = _access_function(v, version)
        number = (function, v.reference, v.element)
        groups.setdefault((function, code, met[number]), {}).setdefault(v.reference, {})[v.element] = place
        met[number] += 1
    starts: dict[int, dict[int, float]] = {}
    if any(size > 1 for size in sizes.values()):
        for v in everything.values():
            if v.reference in sizes and v.start is not None:
                starts.setdefault(v.reference, {})[v.element] = v.start
        for name, value in constants.items():
            starts.setdefault(everything[name].reference, {})[everything[name].element] = value
    made = []
    for (function, code, _), references in groups.items():
        column, base = [], []
        for reference, places in references.items():
            for element in range(sizes[reference]):
                column.append(places.get(element, -1))
                base.append(starts.get(reference, {}).get(element, 0.0))
        made.append(ReferenceGroup(function, code, np.array(list(references), np.uint32), np.array(column, np.int64),
                                   np.array(base, float), np.zeros(len(column), NUMPY_TYPES[code])))
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
