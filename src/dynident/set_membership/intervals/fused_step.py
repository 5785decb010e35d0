"""Fused step: the tapes of one step run together over boxes, without leaving C in between.

What it computes is said in fused_step.c; which functions it needs, in `StepPrograms`. It answers for the boxes that no
guard concerns, and names the others. Its interpreted twin is `flows.hybrid_step.HybridStep` with `compiled=False`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from dynident.set_membership.intervals.arithmetic import Interval
from dynident.set_membership.intervals.kernel import STRIP, CompiledIntervalKernel, IntervalKernel, load_interval_library


class BoxStatus(IntEnum):
    """What became of a box; in the order of the enum in fused_step.c."""

    ALIVE = 0
    EMPTY = 1
    UNDECIDED = 2  # a guard may be met, or the rate is not smooth: left as it was


@dataclass(frozen=True, eq=False)
class StepPrograms:
    """The functions of one mode, all of the same rows; None where there is no condition. In the order of fused_step.c."""

    stays_at_start: IntervalKernel | None
    picard: IntervalKernel
    stays_during: IntervalKernel | None
    guard_rates: IntervalKernel | None
    smooth: IntervalKernel | None  # positive where the Taylor step may be taken
    jacobian: IntervalKernel
    remainder: IntervalKernel
    natural: IntervalKernel
    with_remainder: IntervalKernel
    stays_at_end: IntervalKernel | None
    output: IntervalKernel
    polynomial: Sequence[IntervalKernel]

    def as_list(self) -> list[IntervalKernel | None]:
        *single, polynomial = vars(self).values()
        return [*single, *polynomial]


@dataclass(frozen=True)
class StepShape:
    """How many rows of which kind a box has."""

    states: int
    parameters: int
    rows: int
    enclosure: int  # the row at which the a priori enclosure begins
    at_rest: bool  # the rate is zero


@dataclass(frozen=True, eq=False)
class StepRows:
    """A step and the sample at its end: rows behind the unknowns for both, and what was measured."""

    step: np.ndarray  # (2, rows); those of the unknowns are not read
    sample: np.ndarray  # (2, rows)
    measured: np.ndarray | None  # (2, outputs), or nothing


class _ProgramStruct(ctypes.Structure):
    _fields_ = [("tape", ctypes.c_void_p), ("constants", ctypes.c_void_p), ("roots", ctypes.c_void_p),
                ("length", ctypes.c_int64), ("outputs", ctypes.c_int64)]


class _FusedStepStruct(ctypes.Structure):
    _fields_ = [("programs", ctypes.c_void_p),
                *((name, ctypes.c_int64) for name in ("states", "parameters", "rows", "enclosure", "at_rest",
                                                      "guards_checked", "measured", "backward")),
                *((name, ctypes.c_void_p) for name in ("step_lo", "step_hi", "next_lo", "next_hi", "seen_lo", "seen_hi",
                                                       "rows_", "other", "ends", "slopes", "want", "values"))]


class FusedStep:
    """One mode's step, compiled; it has a workspace for one thread."""

    def __init__(self, kernels: Sequence[CompiledIntervalKernel | None], shape: StepShape):
        self._kernels = tuple(kernels)  # their arrays are pointed at
        self._table = (_ProgramStruct * len(kernels))(*(_program_struct(k) for k in kernels))
        tapes = [k.tape for k in kernels if k is not None]
        sizes = {"rows_": shape.rows, "other": shape.rows, "ends": shape.states,
                 "slopes": shape.states * (shape.states + shape.parameters),
                 "want": max([shape.states, *(tape.roots.size for tape in tapes)]),
                 "values": max(len(tape.instructions) for tape in tapes)}
        self._workspace = {name: np.zeros((max(size, 1), 2, STRIP)) for name, size in sizes.items()}
        self._struct = _FusedStepStruct(
            programs=ctypes.addressof(self._table), **vars(shape),
            **{name: array.ctypes.data for name, array in self._workspace.items()})  # without what a call gives
        loaded = load_interval_library()
        assert loaded is not None
        self._run = loaded.dynident_interval_fused_step
        self._run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
        self._run.restype = None

    def run(self, lo: np.ndarray, hi: np.ndarray, given: StepRows, backward: bool, guards_checked: bool
            ) -> tuple[Interval, np.ndarray]:
        """The boxes at the sample, (unknowns, boxes), and the status of each.

        `backward`: the measurement contracts the parameters too. `guards_checked`: none is positive at the start.
        """
        lo, hi = np.array(lo, float, order="C"), np.array(hi, float, order="C")
        status = np.zeros(lo.shape[1], np.int8)
        struct = _FusedStepStruct.from_buffer_copy(self._struct)
        struct.guards_checked, struct.backward, struct.measured = guards_checked, backward, given.measured is not None
        struct.step_lo, struct.step_hi = given.step[0].ctypes.data, given.step[1].ctypes.data
        struct.next_lo, struct.next_hi = given.sample[0].ctypes.data, given.sample[1].ctypes.data
        if given.measured is not None:
            struct.seen_lo, struct.seen_hi = given.measured[0].ctypes.data, given.measured[1].ctypes.data
        self._run(ctypes.addressof(struct), lo.ctypes.data, hi.ctypes.data, lo.shape[1], status.ctypes.data)
        return (lo, hi), status


def make_fused_step(programs: StepPrograms, shape: StepShape) -> FusedStep | None:
    """A compiled step, or None where one of its functions is not compiled."""
    compiled = [k for k in programs.as_list() if k is None or isinstance(k, CompiledIntervalKernel)]
    return FusedStep(compiled, shape) if len(compiled) == len(programs.as_list()) else None


def _program_struct(kernel: CompiledIntervalKernel | None) -> _ProgramStruct:
    if kernel is None:
        return _ProgramStruct(None, None, None, 0, 0)
    tape = kernel.tape
    return _ProgramStruct(tape.instructions.ctypes.data, tape.constants.ctypes.data, tape.roots.ctypes.data,
                          len(tape.instructions), tape.roots.size)
