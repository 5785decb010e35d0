"""Stride: many tapes of one step run together over boxes, without leaving C in between.

What a stride computes is said in stride.c; which functions it needs, in `Programs`. It answers for the boxes that no
guard concerns, and names the others.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np

from dynident.set_membership.intervals.arithmetic import Ends
from dynident.set_membership.intervals.kernel import STRIP, CompiledKernel, IntervalKernel, library


class Fate(IntEnum):
    """What became of a box; in the order of the enum in stride.c."""

    ALIVE = 0
    DEAD = 1
    OPEN = 2  # a guard may be met, or the rate is not smooth: left as it was


@dataclass(frozen=True, eq=False)
class Programs:
    """The functions of one mode, all of the same rows; None where there is no condition. In the order of stride.c."""

    goes_on_at_start: IntervalKernel | None
    picard: IntervalKernel
    goes_on_meanwhile: IntervalKernel | None
    rises: IntervalKernel | None
    smooth: IntervalKernel | None  # positive where the Taylor step may be taken
    jacobian: IntervalKernel
    remainder: IntervalKernel
    whole: IntervalKernel
    closed: IntervalKernel
    goes_on_at_end: IntervalKernel | None
    output: IntervalKernel
    polynomial: Sequence[IntervalKernel]

    def in_order(self) -> list[IntervalKernel | None]:
        return [*(getattr(self, f.name) for f in fields(self)[:-1]), *self.polynomial]


class _Program(ctypes.Structure):
    _fields_ = [("tape", ctypes.c_void_p), ("constants", ctypes.c_void_p), ("roots", ctypes.c_void_p),
                ("length", ctypes.c_int64), ("outputs", ctypes.c_int64)]


class _Stride(ctypes.Structure):
    _fields_ = [("programs", ctypes.c_void_p),
                *((name, ctypes.c_int64) for name in ("states", "parameters", "rows", "passed", "still", "begun",
                                                      "measured", "backward")),
                *((name, ctypes.c_void_p) for name in ("step_lo", "step_hi", "next_lo", "next_hi", "seen_lo", "seen_hi",
                                                       "rows_", "other", "ends", "slopes", "want", "values"))]


@dataclass(frozen=True, eq=False)
class Seen:
    """A step and the sample at its end: rows behind the unknowns for both, and what was measured."""

    step: np.ndarray  # (2, rows); those of the unknowns are not read
    sample: np.ndarray  # (2, rows)
    measured: np.ndarray | None  # (2, outputs), or nothing


class Stride:
    """One mode's step, compiled."""

    def __init__(self, programs: Programs, states: int, parameters: int, rows: int, passed: int, still: bool):
        kernels = programs.in_order()
        self._kept = kernels  # their arrays are pointed at
        self._table = (_Program * len(kernels))(*(_entry(k) for k in kernels))
        longest = max(len(k.tape.instructions) for k in kernels if isinstance(k, CompiledKernel))
        most = max([states, *(k.tape.roots.size for k in kernels if isinstance(k, CompiledKernel))])
        sizes = {"rows_": rows, "other": rows, "ends": states, "slopes": states * (states + parameters), "want": most,
                 "values": longest}
        self._room = {name: np.zeros((max(size, 1), 2, STRIP)) for name, size in sizes.items()}
        self._stride = _Stride(programs=ctypes.addressof(self._table), states=states, parameters=parameters, rows=rows,
                               passed=passed, still=still, **{n: room.ctypes.data for n, room in self._room.items()})
        loaded = library()
        assert loaded is not None
        self._run = loaded.dynident_interval_stride
        self._run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
        self._run.restype = None

    def run(self, lo: np.ndarray, hi: np.ndarray, seen: Seen, backward: bool, begun: bool) -> tuple[Ends, np.ndarray]:
        """The boxes at the sample, (unknowns, boxes), and the fate of each.

        `backward`: the measurement narrows the parameters too. `begun`: no guard is positive at the start.
        """
        lo, hi = np.array(lo, float, order="C"), np.array(hi, float, order="C")
        fate = np.zeros(lo.shape[1], np.int8)
        s = self._stride
        s.step_lo, s.step_hi = seen.step[0].ctypes.data, seen.step[1].ctypes.data
        s.next_lo, s.next_hi = seen.sample[0].ctypes.data, seen.sample[1].ctypes.data
        s.measured, s.backward, s.begun = seen.measured is not None, backward, begun
        if seen.measured is not None:
            s.seen_lo, s.seen_hi = seen.measured[0].ctypes.data, seen.measured[1].ctypes.data
        self._run(ctypes.addressof(s), lo.ctypes.data, hi.ctypes.data, lo.shape[1], fate.ctypes.data)
        return (lo, hi), fate


def stride_of(programs: Programs, states: int, parameters: int, rows: int, passed: int, still: bool) -> Stride | None:
    """A compiled stride, or None where one of its functions is not compiled."""
    if not all(k is None or isinstance(k, CompiledKernel) for k in programs.in_order()):
        return None
    return Stride(programs, states, parameters, rows, passed, still)


def _entry(kernel: IntervalKernel | None) -> _Program:
    if kernel is None:
        return _Program(None, None, None, 0, 0)
    assert isinstance(kernel, CompiledKernel)
    tape = kernel.tape
    return _Program(tape.instructions.ctypes.data, tape.constants.ctypes.data, tape.roots.ctypes.data,
                    len(tape.instructions), tape.roots.size)
