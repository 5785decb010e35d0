"""Propagation with forward sensitivities: run a model along a record, segment by segment, with exact sensitivities.

They are the derivatives of the steps themselves (internal numerical differentiation, Bock), not a second integration of the
sensitivity equations: values and derivatives belong together to the last digit. Those by the first state of a segment are its
transition matrix (fundamental matrix, Wronskian; over a whole period the monodromy matrix).
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
from typing import Any, Protocol

import casadi as ca
import numpy as np

from dynident._util.frozen import frozen
from dynident.codegen.c_source import flags_by_size, kernel_text
from dynident.codegen.compiler import load_library, remembered
from dynident.codegen.pointers import KeepsPointers, address
from dynident.errors import NotSupported, SimulationDiverged
from dynident.integrators.grid import Grid
from dynident.integrators.implicit import RADAU
from dynident.integrators.rate_functions import ALGEBRAIC_TEXT, SPARSE_TEXT, STEP_TEXTS, step_source
from dynident.integrators.scheme import Adaptive, AnyIntegrator, Explicit, Integrator, Multistep
from dynident.models.algebraic import no_solution
from dynident.models.equations import EquationModel
from dynident.problem.model import Model

FRONT = "elementary.c"  # the text before the generated functions, and those behind them
LOOPS = "integrators/propagation.c", "integrators/collocation_defects.c"
ADAPTIVE_LOOPS = "integrators/radau5.c", "integrators/propagation.c"
TEXTS = FRONT, "sparse_algebra.c", SPARSE_TEXT, ALGEBRAIC_TEXT, *STEP_TEXTS, *LOOPS, *ADAPTIVE_LOOPS
PRINTED = 7  # raised with every change of what Python prints between them, so that kept libraries are made anew
LOST = -2**62  # what the loops return below it: 2**63 less than the node at which the algebraic variables were lost
NO_ROOT = "an implicit step has no solution within reach"
NO_WAY = "the integrator cannot meet its tolerance"


def divergence_error(model: Model, grid: Grid, node: int, states: np.ndarray, outputs: np.ndarray) -> SimulationDiverged:
    """What is not finite at a node, by name: the first such state, or else the first such output."""
    for kind, names, values in (("state", model.states, states), ("output", model.outputs, outputs)):
        for name, value in zip(names, values, strict=True):
            if not np.isfinite(value):
                return SimulationDiverged(float(grid.time[node]), node, what=f"{kind} '{name}' is no longer finite")
    return SimulationDiverged(float(grid.time[node]), node)


@frozen
class Propagation(KeepsPointers):
    """What a march leaves behind. Sensitivities are with respect to (first state of the segment, free parameters)."""

    states: np.ndarray  # (nodes, states)
    outputs: np.ndarray  # (nodes, outputs); only rows that the grid wants are set
    jacobian: Any  # None without sensitivities; (nodes, outputs, states + free)
    end_states: np.ndarray  # (segments, states): where each segment ends
    end_jacobian: Any  # None without sensitivities; (segments, states, states + free)
    modes: np.ndarray | None = None  # (nodes,) int32: which mode holds from each node on; None where there is only one

    @functools.cached_property
    def pointers(self) -> list[int | None]:
        """Where all but the modes stand in memory: the same room is written to many times."""
        arrays = self.states, self.outputs, self.jacobian, self.end_states, self.end_jacobian
        return [None if array is None else address(array) for array in arrays]


def mode_names(model: Model, out: Propagation, offset: int = 0) -> np.ndarray | None:
    """Modes by name from a node on, as a trajectory holds them; None where the model has no modes."""
    return None if out.modes is None else np.asarray(model.modes, dtype=str)[out.modes[offset:]]


class Propagator(Protocol):
    """Runs one model with one scheme; `run` raises SimulationDiverged where a state or output stops being finite."""

    def run(self, grid: Grid, first: np.ndarray, nodes: np.ndarray, p: np.ndarray, sensitivities: bool,
            reuse: Propagation | None = None) -> Propagation: ...


def propagator_for(model: EquationModel, integrator: AnyIntegrator, free: tuple[int, ...], derivatives: bool = True
                   ) -> Propagator:
    """The fastest march that this machine can have; without `derivatives`, one that is made for simulations alone."""
    if isinstance(integrator, Explicit) and integrator.linearly_implicit:
        raise NotSupported(f"'{integrator.name}' is a step of filters. Simulate stiff models by radau5.")
    if model.hybrid and not isinstance(integrator, Multistep):
        from dynident.integrators.events import event_propagator_for

        return event_propagator_for(model, integrator, free)
    if model.delays:
        from dynident.integrators.delayed_propagation import DelayedPropagator

        return DelayedPropagator(model, integrator, free, derivatives)
    if model.sample_time is not None:
        from dynident.integrators.discrete_propagation import DiscretePropagator

        return DiscretePropagator(model, free, derivatives)
    if isinstance(integrator, Multistep):
        from dynident.integrators.multistep_propagation import MultistepPropagator

        return MultistepPropagator(model, integrator, free)
    if isinstance(integrator, Adaptive) and integrator.plugin:
        from dynident.integrators.adaptive import AdaptivePropagator

        return AdaptivePropagator(model, integrator, free)
    recipe = PropagatorKey(model, integrator, free)
    library = _compiled(recipe, derivatives)
    if library is not None:
        return CompiledPropagator(recipe, library, derivatives)
    if isinstance(integrator, Adaptive):
        from dynident.integrators.radau5_interpreted import InterpretedRadau5

        return InterpretedRadau5(model, integrator, free)
    from dynident.integrators.propagation_interpreted import InterpretedPropagator

    return InterpretedPropagator(model, integrator, free)


class PropagatorKey:
    """A model, a scheme and the free parameters; equal where their content is."""

    def __init__(self, model: EquationModel, integrator: Integrator, free: tuple[int, ...]):
        self.model, self.integrator, self.free = model, integrator, free
        self.key = f"{model.content_hash()} {integrator.name} {free}"
        self.sizes = (len(model.states), len(model.inputs), len(model.outputs), len(free))

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PropagatorKey) and other.key == self.key


@remembered(maxsize=64)
def _compiled(recipe: PropagatorKey, derivatives: bool) -> ctypes.CDLL | None:
    """The compiled loop; one that only simulates does not depend on what is free."""
    free = recipe.free if derivatives else ()
    ours = hashlib.sha256(kernel_text(*TEXTS).encode()).hexdigest()
    key = f"march {ours} {PRINTED} casadi {ca.__version__} {recipe.model.content_hash()} {recipe.integrator.name}"  # type: ignore[attr-defined]

    def source() -> str:
        integrator = recipe.integrator
        if not isinstance(integrator, Adaptive):
            step = step_source(recipe.model, integrator, free, derivatives)
            return "\n".join([kernel_text(FRONT), "#define ADAPTIVE 0", step, kernel_text(*LOOPS)])
        chosen = f"#define ADAPTIVE 1\n#define RELATIVE_TOLERANCE {integrator.relative_tolerance!r}"
        step = step_source(recipe.model, RADAU, free, derivatives, sparse=True)
        return "\n".join([kernel_text(FRONT), chosen, step, kernel_text(*ADAPTIVE_LOOPS)])

    return load_library(f"{key} {free} {derivatives}", source, flags_by_size)


class CompiledPropagator:
    """The loop in C around the generated rate."""

    def __init__(self, recipe: PropagatorKey, library: ctypes.CDLL, derivatives: bool):
        self.recipe, self.sizes, self.derivatives = recipe, recipe.sizes, derivatives
        self.library, self.call = library, _march_of(library)

    @functools.cached_property
    def march_address(self) -> int:
        """For other compiled loops that run a record."""
        return int(ctypes.cast(self.call, ctypes.c_void_p).value or 0)

    def run(self, grid: Grid, first: np.ndarray, nodes: np.ndarray, p: np.ndarray, sensitivities: bool,
            reuse: Propagation | None = None) -> Propagation:
        if sensitivities and not self.derivatives:
            whole = propagator_for(self.recipe.model, self.recipe.integrator, self.recipe.free)
            return whole.run(grid, first, nodes, p, sensitivities, reuse)
        out = allocate(grid, len(first) - 1, self.sizes, sensitivities, reuse)
        first = np.ascontiguousarray(first, dtype=np.int64)
        nodes = np.ascontiguousarray(nodes, dtype=float)
        p = np.ascontiguousarray(p, dtype=float)
        time, substeps, u_begin, u_end, u_node, mask, unknown = grid.pointers
        count = -1 if grid.unknown_first is None else len(grid.unknown_first)
        bad = self.call(len(first) - 1, address(first), time, substeps, u_begin, u_end, u_node, address(p), address(nodes),
                        mask, count, unknown, sensitivities, *out.pointers)
        if bad >= 0:
            raise divergence_error(self.recipe.model, grid, int(bad), out.states[bad], out.outputs[bad])
        if bad < LOST:
            raise no_solution(self.recipe.model.algebraic, grid.time, int(bad) + 2**63)
        if bad <= -2:
            node, adaptive = int(-2 - bad), isinstance(self.recipe.integrator, Adaptive)
            raise SimulationDiverged(float(grid.time[node]), node, what=NO_WAY if adaptive else NO_ROOT)
        return out


def _march_of(library: ctypes.CDLL) -> Any:
    call = library.dynident_march
    call.restype = ctypes.c_longlong
    call.argtypes = [ctypes.c_longlong, *[ctypes.c_void_p] * 9, ctypes.c_int, ctypes.c_void_p, ctypes.c_int,
                     *[ctypes.c_void_p] * 5]
    return call


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
