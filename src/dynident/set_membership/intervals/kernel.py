"""Interval kernels: inclusion functions and contractors.

An inclusion function bounds a function over a box, a contractor keeps the part of the box that can give wanted values.

A function's expression graph becomes a tape, a list of interval operations in the order in which they are computed; the one
compiled loop runs any tape. Boxes are columns: `lo` and `hi` have shape (rows, boxes), the rows being the function's
arguments stacked. An empty interval is NaN at both ends. The rounding mode of the process is never changed.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from importlib import resources
from typing import Protocol

import casadi
import numpy as np

from dynident.codegen.compiler import load_library
from dynident.codegen.expression_graph import Operation, operations
from dynident.errors import NotSupported

# in the order of the enum in tape.c
CODES = ("input", "const", "add", "sub", "mul", "div", "neg", "twice", "sq", "inv", "sqrt", "fabs", "sign", "min",
         "max", "lt", "le", "eq", "ne", "not", "and", "or", "where", "exp", "log", "sin", "cos", "tan", "asin", "acos",
         "atan", "atan2", "sinh", "cosh", "tanh", "pow", "copy")
CODE = {name: k for k, name in enumerate(CODES)}
RIGOROUS = frozenset(CODES[:CODES.index("exp")]) | {"copy"}  # arithmetic and square root: IEEE 754 says how they round
_OPERATIONS = {
    casadi.OP_ADD: "add", casadi.OP_SUB: "sub", casadi.OP_MUL: "mul", casadi.OP_DIV: "div", casadi.OP_NEG: "neg",
    casadi.OP_TWICE: "twice", casadi.OP_SQ: "sq", casadi.OP_INV: "inv", casadi.OP_SQRT: "sqrt",
    casadi.OP_FABS: "fabs", casadi.OP_SIGN: "sign", casadi.OP_FMIN: "min", casadi.OP_FMAX: "max", casadi.OP_LT: "lt",
    casadi.OP_LE: "le", casadi.OP_EQ: "eq", casadi.OP_NE: "ne", casadi.OP_NOT: "not", casadi.OP_AND: "and",
    casadi.OP_OR: "or", casadi.OP_EXP: "exp", casadi.OP_LOG: "log", casadi.OP_SIN: "sin", casadi.OP_COS: "cos",
    casadi.OP_TAN: "tan", casadi.OP_ASIN: "asin", casadi.OP_ACOS: "acos", casadi.OP_ATAN: "atan",
    casadi.OP_ATAN2: "atan2", casadi.OP_SINH: "sinh", casadi.OP_COSH: "cosh", casadi.OP_TANH: "tanh",
    casadi.OP_POW: "pow", casadi.OP_CONSTPOW: "pow", casadi.OP_ASSIGN: "copy"}
PARTS = ("arithmetic.c", "elementary.c", "backward.c", "tape.c", "fused_step.c")
SOUND_FLAGS = ("-O3", "-ffp-contract=off")  # the proof of the outward step counts roundings: none may be fused away
STRIP = 64  # boxes that are computed together; W in arithmetic.c


@dataclass(frozen=True, eq=False)
class Tape:
    """Operations in order; an input's first operand is its row among the stacked arguments of the function."""

    instructions: np.ndarray  # (length, 5) int32: code, three operands, whether it is required
    constants: np.ndarray
    roots: np.ndarray  # (outputs,) int32
    rows: int  # of the stacked arguments

    @property
    def operations(self) -> frozenset[str]:
        return frozenset(CODES[code] for code in self.instructions[:, 0])

    @property
    def is_rigorous(self) -> bool:
        return self.operations <= RIGOROUS


def build_tape(function: casadi.Function) -> Tape:
    """The tape of a function of dense columns; a function without an interval form is refused by name."""
    steps, roots = operations(function)
    offsets = np.concatenate([[0], np.cumsum([function.nnz_in(k) for k in range(function.n_in())])])
    constants = [0.0]
    lines = [[CODE["const"], 0, 0, 0]]  # zero stands first: what a condition without `otherwise` falls back to
    for step in steps:
        if step.operation == casadi.OP_INPUT:
            lines.append([CODE["input"], int(offsets[step.element[0]]) + step.element[1], 0, 0])
        elif step.operation == casadi.OP_CONST:
            lines.append([CODE["const"], len(constants), 0, 0])
            constants.append(step.constant)
        else:
            lines.append(_instruction(step, steps))
    flat = [root + 1 for entries in roots for root in entries]
    required = _required(lines, flat)
    table = np.array([[*line, need] for line, need in zip(lines, required, strict=True)], np.int32).reshape(-1, 5)
    return Tape(np.ascontiguousarray(table), np.array(constants, float), np.array(flat, np.int32), int(offsets[-1]))


def _instruction(step: Operation, steps: list[Operation]) -> list[int]:
    operands = [*(k + 1 for k in step.arguments), 0, 0, 0][:3]
    branches = _select_operands(step, steps)
    if branches is not None:
        return [CODE["where"], *branches]
    if step.operation == casadi.OP_IF_ELSE_ZERO:
        return [CODE["where"], operands[0], operands[1], 0]
    if step.operation not in _OPERATIONS:
        raise NotSupported(f"the model uses {name_operation(step.operation)}, which has no interval form here. "
                           "Write it with the functions of dynident.maths.")
    name = _OPERATIONS[step.operation]
    if name == "mul" and operands[0] == operands[1]:
        name = "sq"
    return [CODE[name], *operands]


def _select_operands(step: Operation, steps: list[Operation]) -> tuple[int, int, int] | None:
    """CasADi writes where(c, a, b) as (a if c else 0) + (b if not c else 0), which would cost width; undo it."""
    if step.operation != casadi.OP_ADD:
        return None
    first, second = (steps[k] for k in step.arguments)
    if first.operation != casadi.OP_IF_ELSE_ZERO or second.operation != casadi.OP_IF_ELSE_ZERO:
        return None
    for then, otherwise in ((first, second), (second, first)):
        negated = steps[otherwise.arguments[0]]
        if negated.operation == casadi.OP_NOT and negated.arguments[0] == then.arguments[0]:
            return then.arguments[0] + 1, then.arguments[1] + 1, otherwise.arguments[1] + 1
    return None


def _required(lines: list[list[int]], roots: list[int]) -> list[int]:
    required = [0] * len(lines)
    ahead = list(roots)
    while ahead:
        k = ahead.pop()
        if required[k]:
            continue
        required[k] = 1
        code, *operands = lines[k]
        if code not in (CODE["input"], CODE["const"]):
            ahead += operands[:1] if code == CODE["where"] else operands[:_count_operands(code)]
    return required


_UNARY = frozenset(CODE[name] for name in (
    "neg", "twice", "sq", "inv", "sqrt", "fabs", "sign", "not", "exp", "log", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "copy"))


def _count_operands(code: int) -> int:
    return 1 if code in _UNARY else 2


def name_operation(operation: int) -> str:
    """CasADi's own name of an operation, for messages."""
    named = {getattr(casadi, name): name[3:].lower() for name in dir(casadi) if name.startswith("OP_")}
    return named.get(operation, f"operation {operation}")


class Guarantee(Enum):
    """What an enclosure rests on."""

    RIGOROUS = "proved: every operation is rounded outward by a proved bound"
    LIBM_MARGIN = "libm with a margin: elementary functions are trusted to be within 4 units in the last place"

    @classmethod
    def weakest(cls, used: Collection[Guarantee]) -> Guarantee:
        """What a result rests on that rests on all of these."""
        return cls.LIBM_MARGIN if cls.LIBM_MARGIN in used else cls.RIGOROUS


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
    from dynident.set_membership.intervals.tape_interpreted import CrivalKernel

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
