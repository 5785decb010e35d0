"""Interpreted: the march in CasADi's own machine, for computers without a C compiler."""

from __future__ import annotations

import casadi as ca
import numpy as np

from dynident.integrators.grid import Grid
from dynident.integrators.march import Diverged, Marched, blank
from dynident.integrators.scheme import Explicit, Implicit
from dynident.integrators.stages import symbolic_step, symbols
from dynident.models.equations import EquationModel

CHUNK = 200  # steps per call; long enough to hide the call, short enough to build at once


class InterpretedMarch:
    """State and sensitivities advance together as one long vector, a chunk of steps per call."""

    def __init__(self, model: EquationModel, integrator: Explicit | Implicit, free: tuple[int, ...]):
        self.sizes = (len(model.states), len(model.inputs), len(model.outputs), len(free))
        self.model, self.integrator, self.free = model, integrator, free
        self.chunks: dict[bool, tuple[ca.Function, ca.Function]] = {}

    def run(self, grid: Grid, first: np.ndarray, nodes: np.ndarray, p: np.ndarray, sensitivities: bool,
            reuse: Marched | None = None) -> Marched:
        nx, _, _, nf = self.sizes
        if sensitivities not in self.chunks:
            self.chunks[sensitivities] = self._build(sensitivities)
        advance, observe = self.chunks[sensitivities]
        out = blank(grid, len(first) - 1, self.sizes, sensitivities)
        width = nx * (1 + (nx + nf) * sensitivities)
        history = np.empty((grid.nodes, width))  # at each node, of the segment that starts or runs there
        for i, (begin, end) in enumerate(zip(first[:-1], first[1:], strict=True)):
            whole = np.zeros(width)
            whole[:nx] = nodes[i]
            if sensitivities:
                whole[nx:] = np.eye(nx, nx + nf).ravel(order="F")
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

    def _segment(self, advance: ca.Function, grid: Grid, begin: int, end: int, whole: np.ndarray,
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
            filled = np.zeros((CHUNK, columns.shape[1]))  # a step of length zero changes nothing
            filled[:, :] = part[-1]
            filled[:, 1] = 0
            filled[:len(part)] = part
            try:
                states = np.asarray(advance(whole, filled.T, p)).T[:len(part)]
            except RuntimeError:  # the implicit equations of a step have no root within reach
                node = int(interval[k])
                raise Diverged(float(grid.time[node]), node) from None
            if not np.all(np.isfinite(states[:, :self.sizes[0]])):
                bad = int(np.flatnonzero(~np.all(np.isfinite(states), axis=1))[0])
                node = int(interval[k + bad]) + 1
                raise Diverged(float(grid.time[node]), node)
            after[k:k + len(part)] = states
            whole = states[-1]
        return after[np.cumsum(counts) - 1]

    def _observe(self, observe: ca.Function, grid: Grid, history: np.ndarray, p: np.ndarray, out: Marched) -> None:
        nx, nu, ny, nf = self.sizes
        where = np.flatnonzero(grid.wanted)
        columns = np.column_stack([grid.time, grid.u_node, history])[where]
        for k in range(0, where.size, CHUNK):
            part = columns[k:k + CHUNK]
            filled = np.tile(part[-1], (CHUNK, 1))
            filled[:len(part)] = part
            values = np.asarray(observe(filled.T, np.tile(p[:, None], (1, CHUNK)))).T[:len(part)]
            rows = where[k:k + CHUNK]
            bad = np.flatnonzero(~np.all(np.isfinite(values[:, :ny]), axis=1))
            if bad.size:
                raise Diverged(float(grid.time[rows[bad[0]]]), int(rows[bad[0]]))
            out.outputs[rows] = values[:, :ny]
            if out.jacobian is not None:
                out.jacobian[rows] = values[:, ny:].reshape((-1, nx + nf, ny)).transpose(0, 2, 1)

    def _build(self, sensitivities: bool) -> tuple[ca.Function, ca.Function]:
        nx, nu, ny, nf = self.sizes
        s = symbols(self.model)
        q = ca.vertcat(s["x"], s["p"][list(self.free)])
        S = ca.SX.sym("S", nx, nx + nf) if sensitivities else ca.SX(nx, 0)
        whole = ca.vertcat(s["x"], ca.vec(S))
        column = ca.vertcat(s["t"], s["h"], s["u0"], s["u1"])
        y = self.model.output(s["t"], s["x"], s["u0"], s["p"])
        seen = y
        if sensitivities:
            d = ca.jacobian(y, q)
            seen = ca.vertcat(y, ca.vec(ca.densify(d[:, :nx] @ S + _beside(ny, nx, d[:, nx:]))))
        observe = ca.Function("observe", [ca.vertcat(s["t"], s["u0"], whole), s["p"]], [ca.densify(seen)])
        if isinstance(self.integrator, Explicit):
            nxt = self.integrator.next_state(symbolic_step(self.model, self.integrator, s))
            step = ca.Function("step", [whole, column, s["p"]], [self._whole(nxt, q, S, sensitivities)])
        else:
            step = self._implicit_step(s, q, S, whole, column, sensitivities)
        return _accumulated(step), observe.map(CHUNK)

    def _whole(self, nxt: ca.SX, q: ca.SX, S: ca.SX, sensitivities: bool) -> ca.SX:
        nx = self.sizes[0]
        if not sensitivities:
            return ca.densify(nxt)
        phi = ca.jacobian(nxt, q)
        return ca.vertcat(ca.densify(nxt), ca.vec(ca.densify(phi[:, :nx] @ S + _beside(nx, nx, phi[:, nx:]))))

    def _implicit_step(self, s: dict, q: ca.SX, S: ca.SX, whole: ca.SX, column: ca.SX,
                       sensitivities: bool) -> ca.Function:
        nx, _, _, nf = self.sizes
        scheme = self.integrator
        assert isinstance(scheme, Implicit)
        z = ca.SX.sym("z", scheme.stages * nx)
        symbolic = symbolic_step(self.model, scheme, s)
        G, nxt = scheme.equations(symbolic, z), scheme.next_state(symbolic, z)
        root = ca.rootfinder("root", "newton", ca.Function("G", [z, s["x"], column, s["p"]], [G]),
                             {"abstol": 1e-13, "max_iter": 30})
        parts = ca.Function("parts", [z, s["x"], column, s["p"]], [
            nxt, *[ca.densify(m) for m in (ca.jacobian(G, z), ca.jacobian(G, q), ca.jacobian(nxt, z),
                                           ca.jacobian(nxt, q))]])
        W, C, P = ca.MX.sym("whole", whole.numel()), ca.MX.sym("c", column.numel()), ca.MX.sym("p", s["p"].numel())
        x = W[:nx]
        found = root(ca.repmat(x, scheme.stages, 1), x, C, P)
        after, Gz, Gq, nz, nq = parts(found, x, C, P)
        if not sensitivities:
            return ca.Function("step", [W, C, P], [after])
        phi = nq - nz @ ca.solve(Gz, Gq)
        before = ca.reshape(W[nx:], nx, nx + nf)
        moved = phi[:, :nx] @ before + ca.horzcat(ca.MX.zeros(nx, nx), phi[:, nx:])
        return ca.Function("step", [W, C, P], [ca.vertcat(after, ca.vec(moved))])


def _beside(rows: int, zeros: int, right: ca.SX) -> ca.SX:
    return ca.horzcat(ca.SX.zeros(rows, zeros), right)


def _accumulated(step: ca.Function) -> ca.Function:
    """(state, columns of CHUNK steps, p) -> the states after each step."""
    folded = step.mapaccum("advance", CHUNK)
    W = ca.MX.sym("w", step.size1_in(0))
    C = ca.MX.sym("c", step.size1_in(1), CHUNK)
    P = ca.MX.sym("p", step.size1_in(2))
    return ca.Function("advance", [W, C, P], [folded(W, C, ca.repmat(P, 1, CHUNK))])
