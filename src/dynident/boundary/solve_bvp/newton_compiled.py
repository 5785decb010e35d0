"""Newton on a small mesh, compiled: one call from its start to its end, where `newton.py` takes some twenty per step.

On meshes of some dozen segments nearly all of the time would go into Python around small arrays. The twin beside it is
Newton's method for any system; it also takes over where something is not usual (a number that is not finite or equations that
are singular at a Jacobian), and says why in words. A call is short enough for Ctrl-C to wait for its end.
"""

from __future__ import annotations

import ctypes
import hashlib
from typing import Any

import numpy as np

from dynident.boundary.solve_bvp.block_elimination import BlockElimination, lapack_pointer
from dynident.boundary.solve_bvp.newton import DampedNewton
from dynident.boundary.solve_bvp.problem import SymbolicBoundaryConditions
from dynident.boundary.solve_bvp.root_finding import TOO_SHORT, FactoredSystem, RootIteration, RootResult, RootState
from dynident.boundary.solve_bvp.systems import CollocationFactors, CollocationSystem, ShootingFactors
from dynident.codegen.c_source import kernel_text
from dynident.codegen.compiler import load_library, remembered
from dynident.codegen.pointers import address
from dynident.integrators.collocation_defects import CompiledCollocator
from dynident.status import Status, StatusCode
from dynident.tolerances import (
    BLOCK_PIVOT,
    BVP_EQUATION_ROUNDING,
    BVP_EXACT_RESIDUAL,
    BVP_HIDDEN_STEP,
    BVP_ROUNDING_STEP,
    HELD_DIRECTION,
    SUFFICIENT_REDUCTION,
)

MAX_COMPILED_UNKNOWNS = 6_000  # unknowns of a mesh; from there on the work itself takes most of the time, and Ctrl-C would wait
FOUND, FOUND_IN_ROUNDING, EXHAUSTED, STUCK = range(4)  # of newton.c; whatever else is for the twin

POINTERS = ("run", "ends", "svd", "lu", "solve", "time", "u_begin", "u_end", "u_node", "wanted", "outputs", "slopes", "sizes",
            "scale", "used", "ends_at", "conditions", "conditions_by", "z", "value", "rounding", "link", "stage", "kept",
            "row_size", "small", "growth", "pivots", "pages")


class NewtonCall(ctypes.Structure):
    """`Newton` of newton.c, field by field."""

    _fields_ = [("segments", ctypes.c_longlong),
                *[(name, ctypes.c_int) for name in ("states", "parameters", "stages", "free", "regular", "by_residual",
                                                    "iterations")],
                *[(name, ctypes.c_double) for name in ("tolerance", "shortest", "insist", "block_pivot", "held",
                                                       "equation_rounding", "exact", "hidden", "rounding_step", "reduction")],
                *[(name, ctypes.c_void_p) for name in POINTERS],
                *[(name, ctypes.c_longlong) for name in ("turns", "jacobians", "evaluations")]]


def compiled_newton(options: DampedNewton, system: Any, z: np.ndarray) -> RootResult | None:
    """As `options.solve(system, z)`; None where that has to do it."""
    if not (isinstance(system, CollocationSystem) and isinstance(system.collocator, CompiledCollocator)
            and isinstance(system.ends, SymbolicBoundaryConditions) and options.test in ("natural", "residual")
            and system.scale.size <= MAX_COMPILED_UNKNOWNS and (library := _library()) is not None):
        return None
    room = NewtonRoom(system, options.max_iterations, np.array(z, dtype=float))
    call = room.call(options)
    try:
        end = library.dynident_newton(ctypes.byref(call))
    except KeyboardInterrupt:  # the call is over: Python answers behind it
        return RootState(z=room.z, asked=room.z, pages=room.iterations(call)).ended(
            Status.of(StatusCode.INTERRUPTED), True).result
    if end not in (FOUND, FOUND_IN_ROUNDING, EXHAUSTED, STUCK):
        return None
    state = RootState(z=room.z, asked=room.z, linear=room.linear(), pages=room.iterations(call), jacobians=call.jacobians,
                      evaluations=call.evaluations)
    if end == EXHAUSTED:
        return state.exhausted(options.max_iterations).result
    if end == STUCK:
        return state.stopped(False, options.no_step_helps, TOO_SHORT).result
    return state.found(options.hidden_by_rounding if end == FOUND_IN_ROUNDING else "").result


class NewtonRoom:
    """The arrays of a call, most of them in one piece of memory."""

    def __init__(self, system: CollocationSystem, iterations: int, z: np.ndarray):
        self.system, self.z = system, z
        count, n, m = system.count, system.states, system.parameter_sizes.size
        nx, _, ny, nf = system.collocator.sizes  # type: ignore[attr-defined]  # it is the compiled one
        inner, ends, width = len(system.points) * n, 2 * n + m, n + m
        self.ends = system.ends.both_again()  # type: ignore[attr-defined]  # they are the symbolic ones
        self.shape = count, n, m, nf, inner
        lengths = {"outputs": (count + 1) * ny, "slopes": (count + 1) * ny * (nx + nf), "value": z.size, "rounding": z.size,
                   "link": (count + 1) * n * width, "stage": count * inner * width,
                   "kept": max(count - 1, 1) * (2 * n * (3 * n + m) + 2 * n), "row_size": ends, "small": ends * ends,
                   "growth": count, "pages": 3 * iterations}
        self.memory, begin = np.empty(sum(lengths.values())), 0
        self.parts: dict[str, np.ndarray] = {}
        for name, length in lengths.items():
            self.parts[name] = self.memory[begin:begin + length]
            begin += length
        self.pivots, self.used = np.empty(ends, dtype=np.intc), np.array(system.free, dtype=np.int64)
        self.sizes = np.concatenate([system.sizes, system.parameter_sizes])

    def call(self, options: DampedNewton) -> NewtonCall:
        system, (count, n, m, nf, inner) = self.system, self.shape
        time, _, u_begin, u_end, u_node, mask, _ = system.grid.pointers
        collocate = ctypes.cast(system.collocator.call, ctypes.c_void_p).value  # type: ignore[attr-defined]
        start, item = address(self.memory), self.memory.itemsize
        places, begin = {}, 0
        for name, part in self.parts.items():
            places[name] = start + begin * item
            begin += part.size
        return NewtonCall(
            segments=count, states=n, parameters=m, stages=inner, free=nf, regular=system.regular,
            by_residual=options.test == "residual", iterations=options.max_iterations, tolerance=options.tolerance,
            shortest=options.shortest, insist=options.insist, block_pivot=BLOCK_PIVOT, held=HELD_DIRECTION,
            equation_rounding=BVP_EQUATION_ROUNDING, exact=BVP_EXACT_RESIDUAL,
            hidden=BVP_HIDDEN_STEP * np.finfo(float).eps, rounding_step=BVP_ROUNDING_STEP, reduction=SUFFICIENT_REDUCTION,
            run=collocate, ends=ctypes.cast(self.ends.as_c, ctypes.c_void_p), svd=lapack_pointer("dgesdd"),
            lu=lapack_pointer("dgetrf"), solve=lapack_pointer("dgetrs"),
            time=time, u_begin=u_begin, u_end=u_end, u_node=u_node, wanted=mask,
            sizes=address(self.sizes), scale=address(system.scale), used=address(self.used),
            ends_at=address(self.ends.argument), conditions=address(self.ends.results[0]),
            conditions_by=address(self.ends.results[1]), z=address(self.z), pivots=address(self.pivots), **places)

    def linear(self) -> FactoredSystem:
        """The last linearisation, as that of `CollocationSystem`."""
        count, n, m, _, inner = self.shape
        small = self.parts["small"].reshape(2 * n + m, 2 * n + m).T
        elimination = BlockElimination.of_factors(self.parts["kept"], count, small, self.pivots, self.parts["row_size"], n)
        factors = ShootingFactors(elimination, self.system.sizes, self.system.parameter_sizes, self.parts["growth"])
        stage = self.parts["stage"].reshape(count, inner, n + m)
        return FactoredSystem(self.parts["value"], CollocationFactors(factors, stage), self.parts["rounding"])

    def iterations(self, call: NewtonCall) -> tuple[RootIteration, ...]:
        rows = self.parts["pages"][:3 * call.turns].reshape(-1, 3).tolist()
        return tuple(RootIteration(k + 1, "newton", share, step, residual, True)
                     for k, (share, step, residual) in enumerate(rows))


@remembered()
def _library() -> ctypes.CDLL | None:
    text = kernel_text("boundary/solve_bvp/block_elimination.c", "boundary/solve_bvp/newton.c")
    library = load_library(f"newton {hashlib.sha256(text.encode()).hexdigest()}", lambda: text)
    if library is not None:
        library.dynident_newton.argtypes, library.dynident_newton.restype = [ctypes.c_void_p], ctypes.c_int
    return library
