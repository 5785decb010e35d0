"""Collocation defects interpreted: `collocation_defects.c` in CasADi's own machine, for computers without a C compiler."""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np

from dynident.errors import SimulationDiverged
from dynident.integrators.collocation_defects import CollocationDefects, room_for, stage_unknowns
from dynident.integrators.grid import Grid
from dynident.integrators.scheme import Explicit, Implicit
from dynident.integrators.step_functions import stage_functions
from dynident.models.equations import EquationModel


class InterpretedCollocator:
    """The stage functions mapped over the intervals in CasADi's own machine."""

    def __init__(self, model: EquationModel, integrator: Explicit | Implicit, free: tuple[int, ...]):
        self.sizes = (len(model.states), len(model.inputs), len(model.outputs), len(free))
        self.stages = stage_unknowns(model, integrator)
        self.functions = {f.name(): f for f in stage_functions(model, integrator, free)}

    def run(self, grid: Grid, states: np.ndarray, stages: np.ndarray, p: np.ndarray, sensitivities: bool,
            reuse: CollocationDefects | None = None) -> CollocationDefects:
        nx, _, ny, nf = self.sizes
        n = nx + nf
        out = room_for(grid.nodes, nx, ny, nf, self.stages, sensitivities, None)
        where = np.flatnonzero(grid.output_mask)
        if where.size:
            y, d = self.call("dyn_out_jac", [grid.time[where], states[where], grid.u_node[where], p], where.size)
            self.finite(y, grid, where)
            out.outputs[where] = y
            if out.jacobian is not None:
                out.jacobian[where] = d.reshape(-1, n, ny).swapaxes(1, 2)
        if grid.nodes > 1:
            self.intervals(grid, states, stages, p, out)
        return out

    def intervals(self, grid: Grid, states: np.ndarray, stages: np.ndarray, p: np.ndarray, out: CollocationDefects) -> None:
        nx, _, _, nf = self.sizes
        n, nz, count = nx + nf, self.stages, grid.nodes - 1
        begin = [grid.time[:-1], np.diff(grid.time), states[:-1]]
        inputs = [grid.u_begin, grid.u_end, p]
        if not nz:
            end, link = self.call("dyn_step_jac", [*begin, *inputs], count)
            link = link.reshape(count, n, nx).swapaxes(1, 2)
        else:
            G, _, end = self.call("dyn_imp", [*begin, stages, *inputs], count)
            Gz, Gq, nz_, nq = (m.reshape(count, -1, rows).swapaxes(1, 2) for m, rows in zip(
                self.call("dyn_imp_jac", [*begin, stages, *inputs], count), (nz, nz, nx, nx), strict=True))
            self.finite(G, grid, np.arange(1, count + 1))
            K = np.linalg.solve(Gz, np.concatenate([G[:, :, None], Gq], axis=2))
            out.correction[:] = -K[:, :, 0]
            end = end + (nz_ @ out.correction[:, :, None])[:, :, 0]
            link = nq - nz_ @ K[:, :, 1:]
            if out.stage is not None:
                out.stage[:] = -K[:, :, 1:]
        self.finite(end, grid, np.arange(1, count + 1))
        out.defect[:] = end - states[1:]
        if out.link is not None:
            out.link[:-1] = link

    def call(self, name: str, arguments: list[np.ndarray], count: int) -> list[np.ndarray]:
        """All results of a stage function for all columns, (count, ...); a matrix comes column by column."""
        f = self.functions[name]
        columns: list[Any] = [np.atleast_2d(a) if a.ndim == 1 and len(a) == count and f.size1_in(i) == 1 else
                   (a.T if a.ndim == 2 else np.tile(a[:, None], (1, count))) for i, a in enumerate(arguments)]
        columns = [ca.DM(f.size1_in(i), count) if f.size1_in(i) == 0 else c for i, c in enumerate(columns)]
        results = f.map(count).call(columns)
        return [np.asarray(r).reshape(f.size1_out(i), count, f.size2_out(i)).transpose(1, 2, 0).reshape(count, -1)
                for i, r in enumerate(results)]

    def finite(self, values: np.ndarray, grid: Grid, nodes: np.ndarray) -> None:
        bad = np.flatnonzero(~np.all(np.isfinite(values), axis=1))
        if bad.size:
            raise SimulationDiverged(float(grid.time[nodes[bad[0]]]), int(nodes[bad[0]]))
