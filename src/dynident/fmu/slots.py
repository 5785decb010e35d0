"""Slots: where do named numbers stand behind the references of an FMU, and of which type are they?"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dynident.fmu.description import Variable

# codes of fmu.c and how numpy calls the same type
TYPE_CODES = {"Real": 0, "Float64": 0, "Float32": 1, "Int8": 2, "UInt8": 3, "Int16": 4, "UInt16": 5, "Integer": 6,
              "Int32": 6, "UInt32": 7, "Int64": 8, "UInt64": 9}
NUMPY = ("float64", "float32", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FUNCTION = {"Real": "Real", "Integer": "Integer", "Boolean": "Boolean", "Enumeration": "Integer"}  # of FMI 2.0


@dataclass(frozen=True, eq=False)
class Slots:
    """Numbers of one type: references, and for each value the column of our vector (-1: none of ours)."""

    function: str  # the end of the name of the getter and the setter: "Real", "Float64"
    code: int
    references: np.ndarray  # uint32
    column: np.ndarray  # int64
    base: np.ndarray  # float64: what is set where the column is -1
    buffer: np.ndarray

    def fill(self, values: np.ndarray) -> None:
        own = self.column >= 0
        full = self.base.copy()
        full[own] = values[self.column[own]]
        self.buffer[:] = np.rint(full) if self.code > 1 else full  # whole numbers: the nearest

    def spill(self, values: np.ndarray) -> None:
        own = self.column >= 0
        values[self.column[own]] = self.buffer[own]


def slots_for(variables: Sequence[Variable], version: int, everything: Mapping[str, Variable],
              constants: Mapping[str, float]) -> tuple[Slots, ...]:
    """Groups by type for a vector with one entry per variable; an array is always set and got as a whole, with elements
    that are none of ours at what `constants` holds for them, or else at their start values.

    What stands twice in the vector, such as a state that is also an output or an alias, comes in a group of its own.
    """
    groups: dict[tuple[str, int, int], dict[int, dict[int, int]]] = {}
    sizes = {v.reference: v.size for v in variables}
    met: Counter[tuple[str, int, int]] = Counter()
    for place, v in enumerate(variables):
        function, code = _kind(v, version)
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
        made.append(Slots(function, code, np.array(list(references), np.uint32), np.array(column, np.int64),
                          np.array(base, float), np.zeros(len(column), NUMPY[code])))
    return tuple(made)


def limits_of(v: Variable, version: int) -> tuple[float, float]:
    """The least and the largest number that the type of a variable can hold."""
    if v.type == "Boolean":
        return 0, 1
    kind = np.dtype(NUMPY[_kind(v, version)[1]])
    return (np.finfo(kind).min, np.finfo(kind).max) if kind.kind == "f" else (np.iinfo(kind).min, np.iinfo(kind).max)


def _kind(v: Variable, version: int) -> tuple[str, int]:
    if version == 2:
        return FUNCTION[v.type], 0 if v.type == "Real" else 6
    if v.type == "Boolean":
        return "Boolean", 3
    return ("Int64", 8) if v.type == "Enumeration" else (v.type, TYPE_CODES[v.type])


class CGroup(ctypes.Structure):
    """`Group` of fmu.c."""

    _fields_ = [("kind", ctypes.c_longlong), ("references", ctypes.c_longlong), ("values", ctypes.c_longlong),
                ("reference", ctypes.c_void_p), ("column", ctypes.c_void_p), ("base", ctypes.c_void_p),
                ("buffer", ctypes.c_void_p), ("call", ctypes.c_void_p)]


def c_groups(slots: Sequence[Slots], calls: Sequence[int]) -> ctypes.Array:
    array = (CGroup * max(1, len(slots)))()
    for group, s, call in zip(array, slots, calls, strict=False):
        group.kind, group.references, group.values = s.code, s.references.size, s.column.size
        group.reference, group.column = s.references.ctypes.data, s.column.ctypes.data
        group.base, group.buffer, group.call = s.base.ctypes.data, s.buffer.ctypes.data, call
    return array
