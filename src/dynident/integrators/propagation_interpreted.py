"""Interpreted: the march in CasADi's own machine, for computers without a C compiler."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import casadi as ca
import numpy as np

from dynident.errors import SimulationDiverged
from dynident.integrators.grid import Grid
from dynident.integrators.propagation import NO_ROOT, Propagation, allocate, divergence_error
from dynident.integrators.scheme import Explicit, Implicit
from dynident.integrators.step_functions import stage_functions, symbol_kind, symbolic_step, symbols, unknowns_jacobian
from dynident.models.equations import EquationModel
from dynident.tolerances import STAGE_NEWTON_ROUNDING, STAGE_NEWTON_STEP

MAX_STAGE_ITERATIONS = 25  # as in implicit_stages.c
CHUNK = 200  # steps per call; long enough to hide the call, short enough to build at once

# (state and sensitivities, columns (t, h, inputs at both ends) of some steps, p) -> the same after each step;
# fewer than asked for where a step has no solution
Advance = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


class InterpretedPropagator:
    """State and sensitivities advance together as one long vector, a chunk of steps per call."""

    def __init__(self, model: EquationModel, integrator: Explicit | Implicit, free: tuple[int, ...]):
        self.sizes = (len(model.states), len(model.inputs), len(model.outputs), len(free))
        self.model, self.integrator, self.free = model, integrator, free
        self.chunks: dict[bool, tuple[Advance, ca.Function]] = {}

    def run(self, grid: Grid, first: np.ndarray, nodes: np.ndarray, p: np.ndarray, sensitivities: bool,
            reuse: Propagation | None = None) -> Propagation:
        nx, _, _, nf = self.sizes
        if sensitivities not in self.chunks:
            self.chunks[sensitivities] = self._build(sensitivities)
        advance, observe = self.chunks[sensitivities]
        out = allocate(grid, len(first) - 1, self.sizes, sensitivities)
        width = nx * (1 + (nx + nf) * sensitivities)
        history = np.empty((grid.nodes, width))  # at each node, of the segment that starts or runs there
        for i, (begin, end) in enumerate(itertools.pairwise(first)):
            whole = np.zeros(width)
            whole[:nx] = nodes[i]
            if sensitivities:
                whole[nx:] = first_sensitivities(grid, i, nx, nf).ravel(order="F")
            history[begin] = whole
            ends = self._segment(advance, grid, int(begin), int(end), whole, p)
            history[begin + 1:end] = ends[:-1]
            last = ends[-1] if len(ends) else whole
            if i == len(first) - 2:
                history[end] = last
            out.end_states[i] = last[:nx]
            if sensitivities:
                out.end_jacobian[i] = last[nx:].reshape((nx, nx + nf), order="F")
        out.states[:] = history[:, :nx]
        self._observe(observe, grid, history, p, out)
        return out

    def _segment(self, advance: Advance, grid: Grid, begin: int, end: int, whole: np.ndarray,
                 p: np.ndarray) -> np.ndarray:
        """The long vector at the end of each interval of the segment."""
        counts = grid.substeps[begin:end]
        interval = np.repeat(np.arange(begin, end), counts)
        within = np.arange(interval.size) - np.repeat(np.cumsum(counts) - counts, counts)
        h = np.diff(grid.time)[interval] / grid.substeps[interval]
        slope = (grid.u_end - grid.u_begin)[interval] / grid.substeps[interval][:, None]
        u0 = grid.u_begin[interval] + within[:, None] * slope
        columns = np.column_stack([grid.time[interval] + within * h, h, u0, u0 + slope])
        after = np.empty((interval.size, whole.size))
        for k in range(0, interval.size, CHUNK):
            part = columns[k:k + CHUNK]
            states = advance(whole, part, p)
            if len(states) < len(part):
                node = int(interval[k + len(states)]) + 1
                raise SimulationDiverged(float(grid.time[node]), node, what=NO_ROOT)
            bad = np.flatnonzero(~np.all(np.isfinite(states[:, :self.sizes[0]]), axis=1))
            if bad.size:
                raise divergence_error(self.model, grid, int(interval[k + bad[0]]) + 1, states[bad[0], :self.sizes[0]],
                               np.zeros(self.sizes[2]))
            after[k:k + len(part)] = states
            whole = states[-1]
        return after[np.cumsum(counts) - 1]

    def _observe(self, observe: ca.Function, grid: Grid, history: np.ndarray, p: np.ndarray, out: Propagation) -> None:
        nx, _, ny, nf = self.sizes
        where = np.flatnonzero(grid.output_mask)
        columns = np.column_stack([grid.time, grid.u_node, history])[where]
        for k in range(0, where.size, CHUNK):
            part = columns[k:k + CHUNK]
            filled = np.tile(part[-1], (CHUNK, 1))
            filled[:len(part)] = part
            values = np.asarray(observe(filled.T, np.tile(p[:, None], (1, CHUNK)))).T[:len(part)]
            rows = where[k:k + CHUNK]
            bad = np.flatnonzero(~np.all(np.isfinite(values[:, :ny]), axis=1))
            if bad.size:
                raise divergence_error(self.model, grid, int(rows[bad[0]]), np.zeros(nx), values[bad[0], :ny])
            out.outputs[rows] = values[:, :ny]
            if out.jacobian is not None:
                out.jacobian[rows] = values[:, ny:].reshape((-1, nx + nf, ny)).transpose(0, 2, 1)

    def _build(self, sensitivities: bool) -> tuple[Advance, ca.Function]:
        nx, _, ny, nf = self.sizes
        s = symbols(self.model)
        kind = symbol_kind(self.model)
        S = kind.sym("S", nx, nx + nf) if sensitivities else kind(nx, 0)
        whole = ca.vertcat(s["x"], ca.vec(S))
        column = ca.vertcat(s["t"], s["h"], s["u0"], s["u1"])
        y = self.model.output(s["t"], s["x"], s["u0"], s["p"])
        seen = y
        if sensitivities:
            d = unknowns_jacobian(y, s, self.free)
            seen = ca.vertcat(y, ca.vec(ca.densify(d[:, :nx] @ S + _beside(ny, nx, d[:, nx:]))))
        observe = ca.Function("observe", [ca.vertcat(s["t"], s["u0"], whole), s["p"]], [ca.densify(seen)])
        if isinstance(self.integrator, Implicit):
            return _Implicit(self.model, self.integrator, self.free, sensitivities), observe.map(CHUNK)
        nxt = self.integrator.next_state(symbolic_step(self.model, self.integrator, s))
        step = ca.Function("step", [whole, column, s["p"]], [self._whole(nxt, s, S, sensitivities)])
        return _Accumulated(step), observe.map(CHUNK)

    def _whole(self, nxt: ca.SX, s: dict[str, ca.SX], S: ca.SX, sensitivities: bool) -> ca.SX:
        nx = self.sizes[0]
        if not sensitivities:
            return ca.densify(nxt)
        phi = unknowns_jacobian(nxt, s, self.free)
        return ca.vertcat(ca.densify(nxt), ca.vec(ca.densify(phi[:, :nx] @ S + _beside(nx, nx, phi[:, nx:]))))


def first_sensitivities(grid: Grid, segment: int, nx: int, nf: int) -> np.ndarray:
    """Derivatives at the begin of a segment; in the first one, by the states alone that are unknown there."""
    whole = np.eye(nx, nx + nf)
    if segment == 0 and grid.unknown_first is not None:
        whole[:, np.setdiff1d(np.arange(nx), grid.unknown_first)] = 0
    return whole


def _beside(rows: int, zeros: int, right: ca.SX) -> ca.SX:
    return ca.horzcat(type(right).zeros(rows, zeros), right)


class _Accumulated:
    """Explicit steps, a chunk of them in one call of CasADi's machine."""

    def __init__(self, step: ca.Function):
        folded = step.mapaccum("advance", CHUNK)
        W = ca.MX.sym("w", step.size1_in(0))
        C = ca.MX.sym("c", step.size1_in(1), CHUNK)
        P = ca.MX.sym("p", step.size1_in(2))
        self.call = ca.Function("advance", [W, C, P], [folded(W, C, ca.repmat(P, 1, CHUNK))])

    def __call__(self, whole: np.ndarray, columns: np.ndarray, p: np.ndarray) -> np.ndarray:
        filled = np.tile(columns[-1], (CHUNK, 1))
        filled[:, 1] = 0  # a step of length zero changes nothing
        filled[:len(columns)] = columns
        return np.asarray(self.call(whole, filled.T, p)).T[:len(columns)]


class _Implicit:
    """Implicit steps by Newton's method, one by one: CasADi's own root finder floods the screen where it fails."""

    def __init__(self, model: EquationModel, scheme: Implicit, free: tuple[int, ...], sensitivities: bool):
        named = {f.name(): f for f in stage_functions(model, scheme, free)}
        self.equations, self.derivatives = named["dyn_imp"], named["dyn_imp_jac"]
        self.nx, self.nu, self.stages = len(model.states), len(model.inputs), scheme.stages
        self.sensitivities = sensitivities

    def __call__(self, whole: np.ndarray, columns: np.ndarray, p: np.ndarray) -> np.ndarray:
        nx, nu = self.nx, self.nu
        after = np.empty((len(columns), whole.size))
        for k, column in enumerate(columns):
            x, arguments = whole[:nx], (column[2:2 + nu], column[2 + nu:], p)
            z = self.root(column[0], column[1], x, arguments)
            if z is None:
                return after[:k]
            after[k, :nx] = np.asarray(self.equations(column[0], column[1], x, z, *arguments)[2]).ravel()
            if self.sensitivities:
                Gz, Gq, nz, nq = (np.asarray(m) for m in self.derivatives(column[0], column[1], x, z, *arguments))
                phi = nq - nz @ np.linalg.solve(Gz, Gq)
                moved = phi[:, :nx] @ whole[nx:].reshape((nx, -1), order="F")
                moved[:, nx:] += phi[:, nx:]
                after[k, nx:] = moved.ravel(order="F")
            whole = after[k]
        return after

    def root(self, t: float, h: float, x: np.ndarray, arguments: tuple[np.ndarray, ...]) -> np.ndarray | None:
        """The stages of one step, or None where Newton's method does not settle; the criterion is that of propagation.c."""
        z = np.tile(x, self.stages)
        begun = before = None
        converged = False
        for _ in range(MAX_STAGE_ITERATIONS):
            G, Gz, _ = (np.asarray(m) for m in self.equations(t, h, x, z, *arguments))
            if not (np.all(np.isfinite(G)) and np.all(np.isfinite(Gz))):
                return None
            try:
                correction = np.linalg.solve(Gz, G.ravel())
            except np.linalg.LinAlgError:
                return None
            z = z - correction
            if converged:
                return z
            size = np.abs(correction)
            begun = size if begun is None else begun
            noise = (size >= before / 2) & (size <= STAGE_NEWTON_ROUNDING * np.max(np.abs(z))) if before is not None else False
            converged = bool(np.all((size <= STAGE_NEWTON_STEP * (np.abs(z) + begun)) | noise))
            before = size
        return z if converged else None
