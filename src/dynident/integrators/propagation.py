"""Propagation with forward sensitivities: run a model along a record, segment by segment, with exact sensitivities."""

from __future__ import annotations

import ctypes
import functools
import hashlib
from dataclasses import dataclass
from typing import Any, Protocol

import casadi as ca
import numpy as np

from dynident.codegen.c_source import QUICK, c_source, kernel_text
from dynident.codegen.compiler import load_library
from dynident.codegen.pointers import address, addresses
from dynident.errors import SimulationDiverged
from dynident.integrators.grid import Grid
from dynident.integrators.scheme import Adaptive, Implicit, Integrator
from dynident.integrators.step_functions import stage_functions
from dynident.models.equations import EquationModel
from dynident.problem.model import Model

FRONT, LOOPS = "elementary.c", ("propagate.c", "collocate.c")  # kernel texts before and behind the generated functions
NO_ROOT = "an implicit step has no solution within reach"


def divergence_error(model: Model, grid: Grid, node: int, states: np.ndarray, outputs: np.ndarray) -> SimulationDiverged:
    """What is not finite at a node, by name: the first such state, or else the first such output."""
    for kind, names, values in (("state", model.states, states), ("output", model.outputs, outputs)):
        for name, value in zip(names, values, strict=True):
            if not np.isfinite(value):
                return SimulationDiverged(float(grid.time[node]), node, what=f"{kind} '{name}' is no longer finite")
    return SimulationDiverged(float(grid.time[node]), node)


@dataclass(frozen=True, eq=False)
class Propagation:
    """What a march leaves behind. Sensitivities are with respect to (first state of the segment, free parameters)."""

    states: np.ndarray  # (nodes, states)
    outputs: np.ndarray  # (nodes, outputs); only rows that the grid wants are set
    jacobian: Any  # None without sensitivities; (nodes, outputs, states + free)
    end_states: np.ndarray  # (segments, states): where each segment ends
    end_jacobian: Any  # None without sensitivities; (segments, states, states + free)
    modes: np.ndarray | None = None  # (nodes,) int32: which mode holds from each node on; None where there is only one


def mode_names(model: Model, out: Propagation, offset: int = 0) -> np.ndarray | None:
    """Modes by name from a node on, as a trajectory holds them; None where the model has no modes."""
    return None if out.modes is None else np.asarray(getattr(model, "modes", ()), dtype=str)[out.modes[offset:]]


class Propagator(Protocol):
    """Runs one model with one scheme; `run` raises SimulationDiverged where a state or output stops being finite."""

    def run(self, grid: Grid, first: np.ndarray, nodes: np.ndarray, p: np.ndarray, sensitivities: bool,
            reuse: Propagation | None = None) -> Propagation: ...


def propagator_for(model: EquationModel, integrator: Integrator, free: tuple[int, ...]) -> Propagator:
    """The fastest march that this machine can have."""
    if model.hybrid:
        from dynident.integrators.events import event_propagator_for

        return event_propagator_for(model, integrator, free)
    if isinstance(integrator, Adaptive):
        from dynident.integrators.adaptive import AdaptivePropagator

        return AdaptivePropagator(model, integrator, free)
    compiled = _compiled(model.content_hash(), _PropagatorKey(model, integrator, free))
    if compiled is not None:
        return compiled
    from dynident.integrators.propagation_interpreted import InterpretedPropagator

    return InterpretedPropagator(model, integrator, free)


class _PropagatorKey:
    """Carries the arguments through the cache below without being part of its key beyond their content."""

    def __init__(self, model: EquationModel, integrator: Integrator, free: tuple[int, ...]):
        self.model, self.integrator, self.free = model, integrator, free
        self.key = f"{model.content_hash()} {integrator.name} {free}"

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _PropagatorKey) and other.key == self.key


@functools.lru_cache(maxsize=64)
def _compiled(_: str, recipe: _PropagatorKey) -> CompiledPropagator | None:
    ours = hashlib.sha256(kernel_text(FRONT, *LOOPS).encode()).hexdigest()
    library = load_library(f"march {ours} casadi {ca.__version__} {recipe.key}", lambda: _source(recipe), QUICK)  # type: ignore[attr-defined]
    return None if library is None else CompiledPropagator(recipe.model, recipe.free, library)


def _source(recipe: _PropagatorKey) -> str:
    model, integrator = recipe.model, recipe.integrator
    stages = integrator.stages * len(model.states) if isinstance(integrator, Implicit) else 0
    sizes = {"NX": len(model.states), "NU": len(model.inputs), "NP": len(model.parameters), "NF": len(recipe.free),
             "NY": len(model.outputs), "NZ": stages}
    defines = "\n".join(f"#define {name} {size}" for name, size in sizes.items())
    generated = c_source(stage_functions(model, integrator, recipe.free))
    return "\n".join([kernel_text(FRONT), generated, defines, kernel_text(*LOOPS)])


class CompiledPropagator:
    """The loop in C around the generated stage functions."""

    def __init__(self, model: EquationModel, free: tuple[int, ...], library: ctypes.CDLL):
        self.model = model
        self.sizes = (len(model.states), len(model.inputs), len(model.outputs), len(free))
        self.library = library
        self.call = library.dynident_march
        self.call.restype = ctypes.c_longlong
        self.call.argtypes = [ctypes.c_longlong, *[ctypes.c_void_p] * 9, ctypes.c_int, *[ctypes.c_void_p] * 5]

    def run(self, grid: Grid, first: np.ndarray, nodes: np.ndarray, p: np.ndarray, sensitivities: bool,
            reuse: Propagation | None = None) -> Propagation:
        out = allocate(grid, len(first) - 1, self.sizes, sensitivities, reuse)
        first = np.ascontiguousarray(first, dtype=np.int64)
        nodes = np.ascontiguousarray(nodes, dtype=float)
        p = np.ascontiguousarray(p, dtype=float)
        arrays = [first, grid.time, grid.substeps, grid.u_begin, grid.u_end, grid.u_node, p, nodes, grid.output_mask]
        results = [out.states, out.outputs, out.jacobian, out.end_states, out.end_jacobian]
        bad = self.call(len(first) - 1, *addresses(*arrays), int(sensitivities),
                        *[None if a is None else address(a) for a in results])
        if bad >= 0:
            raise divergence_error(self.model, grid, int(bad), out.states[bad], out.outputs[bad])
        if bad <= -2:
            node = int(-2 - bad)
            raise SimulationDiverged(float(grid.time[node]), node, what=NO_ROOT)
        return out


def allocate(grid: Grid, segments: int, sizes: tuple[int, int, int, int], sensitivities: bool,
          reuse: Propagation | None = None, modes: bool = False) -> Propagation:
    """Room for the results; that of an earlier march where it fits: fresh memory costs as much as a short march."""
    nx, _, ny, nf = sizes
    if (reuse is not None and reuse.states.shape == (grid.nodes, nx) and reuse.end_states.shape[0] == segments
            and (reuse.jacobian is not None) == sensitivities):
        return reuse
    return Propagation(np.empty((grid.nodes, nx)), np.full((grid.nodes, ny), np.nan),
                   np.zeros((grid.nodes, ny, nx + nf)) if sensitivities else None,
                   np.empty((segments, nx)), np.empty((segments, nx, nx + nf)) if sensitivities else None,
                   np.zeros(grid.nodes, np.int32) if modes else None)
