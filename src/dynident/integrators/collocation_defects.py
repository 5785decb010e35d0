"""Collocate: all intervals of a record at once, where the states at the nodes are unknowns themselves."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dynident.codegen.pointers import address, addresses
from dynident.errors import SimulationDiverged
from dynident.integrators.grid import Grid
from dynident.integrators.propagation import LOST, CompiledPropagator, propagator_for
from dynident.integrators.scheme import Explicit, Implicit, Multistep
from dynident.models.algebraic import no_solution
from dynident.models.equations import EquationModel


@dataclass(frozen=True, eq=False)
class CollocationDefects:
    """Outputs at the nodes, and how the end of each interval follows its begin. n = states + free parameters."""

    outputs: np.ndarray  # (nodes, outputs); only rows that the grid wants are set
    jacobian: Any  # None without sensitivities; (nodes, outputs, n)
    defect: np.ndarray  # (nodes - 1, states): end of an interval, its stages corrected, minus the state that stands there
    link: Any  # None without sensitivities; (nodes, states, n); the last is not used
    correction: np.ndarray  # (nodes - 1, stage unknowns): what the stages must change at fixed state and parameters
    stage: Any  # None without sensitivities; (nodes - 1, stage unknowns, n): how they follow state and parameters

    @functools.cached_property
    def pointers(self) -> list[int | None]:
        """Where the arrays stand in memory; they are filled again and again."""
        arrays = self.outputs, self.jacobian, self.defect, self.link, self.correction, self.stage
        return [None if a is None else address(a) for a in arrays]


class Collocator(Protocol):
    """One model with one scheme; `run` raises SimulationDiverged where something is not finite."""

    def run(self, grid: Grid, states: np.ndarray, stages: np.ndarray, p: np.ndarray, sensitivities: bool,
            reuse: CollocationDefects | None = None) -> CollocationDefects: ...


def collocator_for(model: EquationModel, integrator: Explicit | Implicit | Multistep, free: tuple[int, ...]) -> Collocator:
    """The fastest that this machine can have; compiled, it is the same library as the march."""
    if isinstance(integrator, Multistep):
        from dynident.integrators.multistep_propagation import MultistepCollocator

        return MultistepCollocator(model, integrator, free)
    march = propagator_for(model, integrator, free)
    if isinstance(march, CompiledPropagator):
        return CompiledCollocator(march, stage_unknowns(model, integrator))
    from dynident.integrators.collocation_defects_interpreted import InterpretedCollocator

    return InterpretedCollocator(model, integrator, free)


def stage_unknowns(model: EquationModel, integrator: Explicit | Implicit | Multistep) -> int:
    return integrator.stages * len(model.states) if isinstance(integrator, Implicit) else 0


def room_for(nodes: int, nx: int, ny: int, nf: int, nz: int, sensitivities: bool, reuse: CollocationDefects | None
             ) -> CollocationDefects:
    """Arrays to write into; those of another point where they fit."""
    if (reuse is not None and reuse.outputs.shape[0] == nodes and (reuse.jacobian is not None) == sensitivities):
        return reuse
    n, s = nx + nf, sensitivities
    return CollocationDefects(np.full((nodes, ny), np.nan), np.zeros((nodes, ny, n)) if s else None,
                      np.empty((nodes - 1, nx)), np.zeros((nodes, nx, n)) if s else None,
                      np.empty((nodes - 1, nz)), np.empty((nodes - 1, nz, n)) if s else None)


class CompiledCollocator:
    """The loop in C around the generated stage functions."""

    def __init__(self, march: CompiledPropagator, stages: int):
        self.model, self.sizes, self.stages = march.recipe.model, march.sizes, stages
        self.call = march.library.dynident_collocate
        self.call.restype = ctypes.c_longlong
        self.call.argtypes = [ctypes.c_longlong, *[ctypes.c_void_p] * 8, ctypes.c_int, *[ctypes.c_void_p] * 6]

    def run(self, grid: Grid, states: np.ndarray, stages: np.ndarray, p: np.ndarray, sensitivities: bool,
            reuse: CollocationDefects | None = None) -> CollocationDefects:
        nx, _, ny, nf = self.sizes
        out = room_for(grid.nodes, nx, ny, nf, self.stages, sensitivities, reuse)
        arrays = np.ascontiguousarray(p, dtype=float), np.ascontiguousarray(states), np.ascontiguousarray(stages)
        time, _, u_begin, u_end, u_node, mask, _ = grid.pointers
        bad = self.call(grid.nodes, time, u_begin, u_end, u_node, *addresses(*arrays), mask, int(sensitivities), *out.pointers)
        if bad < LOST:
            raise no_solution(self.model.algebraic, grid.time, int(bad) + 2**63)
        if bad >= 0:
            raise SimulationDiverged(float(grid.time[bad]), int(bad))
        return out
