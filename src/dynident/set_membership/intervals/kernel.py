"""Interval kernels: the range of a function over a box, and the part of the box that can give wanted values (contractor).

Boxes are columns: `lo` and `hi` have shape (rows, boxes), the rows being the function's arguments stacked. An empty
interval is NaN at both ends. The rounding mode of the process is never changed.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
from enum import Enum
from importlib import resources
from typing import Protocol

import casadi
import numpy as np

from dynident.codegen.compiler import load_library
from dynident.errors import NotSupported
from dynident.set_membership.intervals.tape import Tape, build_tape

PARTS = ("arithmetic.c", "elementary.c", "backward.c", "tape.c", "fused_step.c")
SOUND_FLAGS = ("-O3", "-ffp-contract=off")  # the proof of the outward step counts roundings: none may be fused away
STRIP = 64  # boxes that are computed together; W in arithmetic.c


class Guarantee(Enum):
    """What an enclosure rests on."""

    RIGOROUS = "proved: every operation is rounded outward by a proved bound"
    LIBM_MARGIN = "libm with a margin: elementary functions are trusted to be within 4 units in the last place"


class IntervalKernel(Protocol):
    """A function over boxes; `evaluate` and `contract` never lose a value or a point."""

    tape: Tape
    guarantee: Guarantee

    def evaluate(self, lo: np.ndarray, hi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(outputs, boxes) ends of the range over each box."""
        ...

    def contract(self, lo: np.ndarray, hi: np.ndarray, want_lo: np.ndarray, want_hi: np.ndarray,
                 passes: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """The boxes without parts whose outputs cannot lie in the wanted intervals (HC4); NaN where nothing is left."""
        ...


def make_interval_kernel(function: casadi.Function, rigorous: bool = False) -> IntervalKernel:
    """The fastest kernel that this machine can have; `rigorous` asks for one that trusts no libm."""
    tape = build_tape(function)
    compiled = load_interval_library()
    if compiled is not None and (tape.is_rigorous or not rigorous):
        return CompiledIntervalKernel(tape, compiled)
    from dynident.set_membership.intervals.crival_backend import CrivalKernel

    return CrivalKernel(tape)


@functools.cache
def _source() -> str:
    folder = resources.files("dynident.set_membership.intervals")
    return "\n".join(folder.joinpath(part).read_text() for part in PARTS)


def load_interval_library() -> ctypes.CDLL | None:
    """All loops in C, compiled once; None without a compiler."""
    return load_library(f"interval {hashlib.sha256(_source().encode()).hexdigest()}", _source, SOUND_FLAGS)


class CompiledIntervalKernel:
    """The tape run in C over strips of boxes that stay in the first cache."""

    def __init__(self, tape: Tape, library: ctypes.CDLL):
        self.tape = tape
        self.guarantee = Guarantee.RIGOROUS if tape.is_rigorous else Guarantee.LIBM_MARGIN
        self.values = np.zeros((len(tape.instructions), 2, STRIP))  # room for one strip of every operation
        pointer, count = ctypes.c_void_p, ctypes.c_int64
        self._evaluate = library.dynident_interval_evaluate
        self._evaluate.argtypes = [pointer, count, pointer, pointer, count, pointer, pointer, count, count,
                                   pointer, pointer, pointer]
        self._evaluate.restype = None
        self._contract = library.dynident_interval_contract
        self._contract.argtypes = [pointer, count, pointer, pointer, count, pointer, pointer, count, count,
                                   pointer, pointer, count, pointer]
        self._contract.restype = None
        self._head = (tape.instructions.ctypes.data, len(tape.instructions), tape.constants.ctypes.data,
                      tape.roots.ctypes.data, tape.roots.size)

    def evaluate(self, lo: np.ndarray, hi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lo, hi = _checked_rows(lo, self.tape.rows), _checked_rows(hi, self.tape.rows)
        boxes = lo.shape[1]
        out = np.empty((2, self.tape.roots.size, boxes))
        self._evaluate(*self._head, lo.ctypes.data, hi.ctypes.data, boxes, boxes, out[0].ctypes.data,
                       out[1].ctypes.data, self.values.ctypes.data)
        return out[0], out[1]

    def contract(self, lo: np.ndarray, hi: np.ndarray, want_lo: np.ndarray, want_hi: np.ndarray,
                 passes: int = 1) -> tuple[np.ndarray, np.ndarray]:
        lo, hi = np.array(_checked_rows(lo, self.tape.rows)), np.array(_checked_rows(hi, self.tape.rows))
        boxes = lo.shape[1]
        wanted = [np.ascontiguousarray(np.broadcast_to(np.asarray(w, float), (self.tape.roots.size, boxes)))
                  for w in (want_lo, want_hi)]
        self._contract(*self._head, lo.ctypes.data, hi.ctypes.data, boxes, boxes, wanted[0].ctypes.data,
                       wanted[1].ctypes.data, passes, self.values.ctypes.data)
        return mark_empty_boxes(lo, hi)


def mark_empty_boxes(lo: np.ndarray, hi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A box with one empty side is empty."""
    gone = np.isnan(lo).any(axis=0)
    lo[:, gone] = np.nan
    hi[:, gone] = np.nan
    return lo, hi


def _checked_rows(values: np.ndarray, rows: int) -> np.ndarray:
    values = np.ascontiguousarray(values, dtype=float)
    if values.ndim != 2 or values.shape[0] != rows:
        raise NotSupported(f"an interval kernel of {rows} rows was given an array of shape {values.shape}.")
    return values
