"""Multistep propagation: all steps of a record at once for full discretization, or one after the other for a simulation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import casadi as ca
import numpy as np

from dynident.codegen.batched import BatchedFunction
from dynident.errors import NotSupported, SimulationDiverged
from dynident.integrators.collocation_defects import CollocationDefects, room_for
from dynident.integrators.grid import Grid
from dynident.integrators.multistep import step_ratios
from dynident.integrators.propagation import NO_ROOT, Propagation, allocate, divergence_error
from dynident.integrators.propagation_interpreted import MAX_STAGE_ITERATIONS, first_sensitivities
from dynident.integrators.scheme import Multistep
from dynident.integrators.step_functions import output_functions, symbol_kind, symbolic_step, symbols
from dynident.models.equations import EquationModel
from dynident.tolerances import STAGE_NEWTON_ROUNDING, STAGE_NEWTON_STEP


@dataclass(frozen=True, eq=False)
class MultistepGrid:
    """Per step of a record, what a two-step scheme asks for beside its own begin and end."""

    ratio: np.ndarray  # (steps, 1) of the step to the one before; 0: no past
    time_before: np.ndarray  # (steps, 1)
    u_before: np.ndarray  # (steps, inputs)

    @classmethod
    def of(cls, scheme: Multistep, grid: Grid) -> MultistepGrid:
        """Of a grid whose nodes are the steps."""
        back = np.maximum(np.arange(grid.nodes - 1) - 1, 0)
        return cls(step_ratios(scheme, grid.time, grid.u_begin, grid.u_end)[:, None], grid.time[back, None],
                   grid.u_begin[back])


def multistep_residual(model: EquationModel, scheme: Multistep, s: dict[str, ca.SX], end: ca.SX) -> ca.SX:
    """What is zero at the end of a step; `s` has beside the symbols of a step those of the past: x_before, t_before, u_before,
    and the ratio."""
    step = symbolic_step(model, scheme, s)
    rate_before = model.rate(s["t_before"], s["x_before"], s["u_before"], s["p"])
    return scheme.equation(step, s["ratio"], s["x_before"], rate_before, end)


def multistep_symbols(model: EquationModel) -> dict[str, ca.SX]:
    """Those of a step, and those of the past."""
    if symbol_kind(model) is not ca.SX:
        raise NotSupported(f"'{model.algebraic[0]}' is an algebraic variable that enters nonlinearly, which the multistep "
                           'schemes do not take. Use integrator="radau".')
    return {**symbols(model), "x_before": ca.SX.sym("x_before", len(model.states)), "t_before": ca.SX.sym("t_before"),
            "u_before": ca.SX.sym("u_before", len(model.inputs)), "ratio": ca.SX.sym("ratio")}


class MultistepSteps:
    """One model with one multistep scheme: its steps and outputs, and their derivatives, for many steps in one call."""

    def __init__(self, model: EquationModel, scheme: Multistep, free: tuple[int, ...]):
        self.model, self.scheme, self.free = model, scheme, free
        self.sizes = (len(model.states), len(model.inputs), len(model.outputs), len(free))
        self.functions = BatchedFunction(f"multistep {model.content_hash()} {scheme.name} {free}", self._made)

    def _made(self) -> list[ca.Function]:
        s, nx = multistep_symbols(self.model), len(self.model.states)
        end = ca.SX.sym("end", nx)
        G = multistep_residual(self.model, self.scheme, s, end)
        inputs = [s[k] for k in ("t", "h", "ratio", "t_before", "x_before", "x")] + [end] + [
            s[k] for k in ("u_before", "u0", "u1", "p")]
        by_end = ca.jacobian(G, end)
        by_rest = ca.jacobian(G, ca.vertcat(s["x"], s["x_before"], s["p"][list(self.free), 0]))
        return [ca.Function("dyn_end", inputs, [ca.densify(e) for e in ca.cse([G, by_end])]),
                ca.Function("dyn_end_jac", inputs, [ca.densify(e) for e in ca.cse([G, by_end, by_rest])]),
                *output_functions(self.model, s, self.free)]

    def solve(self, name: str, past: MultistepGrid, grid: Grid, before: np.ndarray, begin: np.ndarray, end: np.ndarray,
               p: np.ndarray, steps: slice = slice(None)) -> np.ndarray:
        """(steps, states, 1 + n): what Newton's method adds to the ends, and how these follow (begin, before, parameters)."""
        nx, time = self.sizes[0], grid.time
        count = len(range(*steps.indices(grid.nodes - 1)))
        G, *blocks = self.functions(name, [
            time[:-1, None][steps], np.diff(time)[steps, None], past.ratio[steps], past.time_before[steps], before, begin, end,
            past.u_before[steps], grid.u_begin[steps], grid.u_end[steps], p], count)
        by_end, *rest = (block.reshape(count, -1, nx).swapaxes(1, 2) for block in blocks)
        with np.errstate(invalid="ignore"):  # judged in the next line
            lost = ~np.all(np.isfinite(G), axis=1) | ~(np.abs(np.linalg.det(by_end)) > 0)
        if np.any(lost):
            node = range(*steps.indices(grid.nodes - 1))[int(np.argmax(lost))] + 1
            raise SimulationDiverged(float(time[node]), node)
        return -np.linalg.solve(by_end, np.concatenate([G[:, :, None], *rest], axis=2))

    def outputs(self, grid: Grid, states: np.ndarray, p: np.ndarray, sensitivities: bool
                ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Wanted nodes, outputs there, and their derivatives by state and free parameters."""
        nx, _, ny, nf = self.sizes
        where = np.flatnonzero(grid.output_mask)
        name = "dyn_out_jac" if sensitivities else "dyn_out"
        y, *d = self.functions(name, [grid.time[where, None], states[where], grid.u_node[where], p], where.size)
        bad = np.flatnonzero(~np.all(np.isfinite(y), axis=1))
        if bad.size:
            raise divergence_error(self.model, grid, int(where[bad[0]]), np.zeros(nx), y[bad[0]])
        slopes = d[0].reshape(-1, nx + nf, ny).swapaxes(1, 2) if d else np.zeros((where.size, ny, nx + nf))
        return where, y, slopes


class MultistepCollocator:
    """All steps at once. A node is the state and the state before it, so that the two-step scheme is a link of neighbours."""

    def __init__(self, model: EquationModel, scheme: Multistep, free: tuple[int, ...]):
        self.steps = MultistepSteps(model, scheme, free)

    def run(self, grid: Grid, states: np.ndarray, stages: np.ndarray, p: np.ndarray, sensitivities: bool,
            reuse: CollocationDefects | None = None) -> CollocationDefects:
        """`stages`: the state before that at each node but the first."""
        nx, _, ny, nf = self.steps.sizes
        before = np.vstack([states[:1], stages])
        out = room_for(grid.nodes, 2 * nx, ny, nf, 0, sensitivities, reuse)
        where, y, slopes = self.steps.outputs(grid, states, p, sensitivities)
        out.outputs[where] = y
        name = "dyn_end_jac" if sensitivities else "dyn_end"
        past = MultistepGrid.of(self.steps.scheme, grid)
        found = self.steps.solve(name, past, grid, before[:-1], states[:-1], states[1:], p)
        out.defect[:, :nx], out.defect[:, nx:] = found[:, :, 0], states[:-1] - stages
        if sensitivities:
            out.jacobian[where, :, :nx], out.jacobian[where, :, 2 * nx:] = slopes[:, :, :nx], slopes[:, :, nx:]
            out.link[:-1, :nx], out.link[:-1, nx:, :nx] = found[:, :, 1:], np.eye(nx)
        return out


class MultistepPropagator:
    """One step after the other; each segment begins without a past."""

    def __init__(self, model: EquationModel, scheme: Multistep, free: tuple[int, ...]):
        self.steps = MultistepSteps(model, scheme, free)

    def run(self, grid: Grid, first: np.ndarray, nodes: np.ndarray, p: np.ndarray, sensitivities: bool,
            reuse: Propagation | None = None) -> Propagation:
        nx, _, _, nf = self.steps.sizes
        out = allocate(grid, len(first) - 1, self.steps.sizes, sensitivities)
        fine, places = grid.with_substep_nodes()
        follows = np.zeros((grid.nodes, nx, nx + nf))  # d state / d (first state of the segment, free parameters)
        for i in range(len(first) - 1):
            begin, end = places[first[i]], places[first[i + 1]]
            part = replace(fine, time=fine.time[begin:end + 1], u_begin=fine.u_begin[begin:end], u_end=fine.u_end[begin:end],
                           u_node=fine.u_node[begin:end + 1], output_mask=fine.output_mask[begin:end + 1],
                           substeps=fine.substeps[begin:end])
            try:
                x, S = self._segment(part, nodes[i], p, first_sensitivities(grid, i, nx, nf) if sensitivities else None)
            except SimulationDiverged as bad:
                node = int(np.searchsorted(places, begin + bad.node))
                raise SimulationDiverged(float(grid.time[node]), node, what=bad.what) from None
            own = places[first[i]:first[i + 1] + 1] - begin
            out.states[first[i]:first[i + 1] + 1] = x[own]
            out.end_states[i] = x[-1]
            if sensitivities:
                follows[first[i]:first[i + 1] + 1] = S[own]
                out.end_jacobian[i] = S[-1]
        for i in range(1, len(first) - 1):  # where two segments meet, the later one holds
            out.states[first[i]] = nodes[i]
            follows[first[i]] = np.eye(nx, nx + nf)
        where, y, slopes = self.steps.outputs(grid, out.states, p, sensitivities)
        out.outputs[where] = y
        if sensitivities:
            out.jacobian[where] = slopes[:, :, :nx] @ follows[where]
            out.jacobian[where, :, nx:] += slopes[:, :, nx:]
        return out

    def _segment(self, grid: Grid, x0: np.ndarray, p: np.ndarray, first: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """States at all steps, and their derivatives where those of the first are given."""
        nx, past = self.steps.sizes[0], MultistepGrid.of(self.steps.scheme, grid)
        x = np.tile(x0, (grid.nodes, 1))
        S = np.zeros((grid.nodes, *(first.shape if first is not None else (nx, 0))))
        if first is not None:
            S[0] = first
        for k in range(grid.nodes - 1):
            x[k + 1] = self._end(grid, past, x, p, k)
            if first is not None:
                back = max(k - 1, 0)
                link = self.steps.solve("dyn_end_jac", past, grid, x[back][None], x[k][None], x[k + 1][None], p,
                                         slice(k, k + 1))[0, :, 1:]
                S[k + 1] = link[:, :nx] @ S[k] + link[:, nx:2 * nx] @ S[back]
                S[k + 1, :, nx:] += link[:, 2 * nx:]
        return x, S

    def _end(self, grid: Grid, past: MultistepGrid, x: np.ndarray, p: np.ndarray, k: int) -> np.ndarray:
        """The end of step k by Newton's method, begun where the line through the past leads."""
        back = max(k - 1, 0)
        end = x[k] + past.ratio[k] * (x[k] - x[back])
        begun = before = None
        converged = False
        for _ in range(MAX_STAGE_ITERATIONS):
            change = self.steps.solve("dyn_end", past, grid, x[back][None], x[k][None], end[None], p, slice(k, k + 1))[0, :, 0]
            end = end + change
            if converged:
                return end
            size = np.abs(change)
            begun = size if begun is None else begun
            small = size <= STAGE_NEWTON_ROUNDING * np.max(np.abs(end))
            noise = small & (size >= before / 2) if before is not None else False
            converged = bool(np.all((size <= STAGE_NEWTON_STEP * (np.abs(end) + begun)) | noise))
            before = size
        raise SimulationDiverged(float(grid.time[k + 1]), k + 1, what=NO_ROOT)
