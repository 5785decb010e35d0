"""Adaptive: the march by an integrator that chooses its own steps, one call per interval between samples."""

from __future__ import annotations

import casadi as ca
import numpy as np

from dynident.integrators.grid import Grid
from dynident.integrators.march import Diverged, Marched, blank
from dynident.integrators.scheme import Adaptive
from dynident.integrators.stages import symbols
from dynident.models.equations import EquationModel

RELATIVE_TOLERANCE = 1e-9
ABSOLUTE_TOLERANCE = 1e-11
MOST_STEPS = 20_000  # per interval; more means that the model blows up or the tolerance cannot be met


class AdaptiveMarch:
    """Forward sensitivities by the integrator itself; between samples time runs from 0 to 1."""

    def __init__(self, model: EquationModel, integrator: Adaptive, free: tuple[int, ...]):
        nx, nu, ny, nf = self.sizes = (len(model.states), len(model.inputs), len(model.outputs), len(free))
        self.free = list(free)
        s = symbols(model)
        tau = ca.SX.sym("tau")
        u = s["u0"] + tau * (s["u1"] - s["u0"])
        held = ca.vertcat(s["t"], s["h"], s["u0"], s["u1"], s["p"])  # everything that needs no derivative
        f = ca.SX.sym("free", nf)
        p = ca.SX(s["p"])
        for place, index in enumerate(free):
            p[index] = f[place]
        dae = {"x": s["x"], "p": f, "u": held, "t": tau, "ode": s["h"] * model.rate(s["t"] + tau * s["h"], s["x"], u, p)}
        options = {"reltol": RELATIVE_TOLERANCE, "abstol": ABSOLUTE_TOLERANCE, "max_num_steps": MOST_STEPS,
                   "disable_internal_warnings": True, "show_eval_warnings": False}
        self.plain = ca.integrator("march", integrator.plugin, dae, 0, 1, options)
        self.sensitive = self.plain.factory("march_jac", ["x0", "p", "u"], ["xf", "jac:xf:x0", "jac:xf:p"])
        y = model.output(s["t"], s["x"], s["u0"], s["p"])
        q = ca.vertcat(s["x"], s["p"][self.free])
        self.observe = ca.Function("observe", [s["t"], s["x"], s["u0"], s["p"]],
                                   [ca.densify(y), ca.densify(ca.jacobian(y, q))])

    def run(self, grid: Grid, first: np.ndarray, nodes: np.ndarray, p: np.ndarray, sensitivities: bool,
            reuse: Marched | None = None) -> Marched:
        nx, _, _, nf = self.sizes
        out = blank(grid, len(first) - 1, self.sizes, sensitivities)
        for i in range(len(first) - 1):
            x, S = np.array(nodes[i], float), np.eye(nx, nx + nf)
            for k in range(int(first[i]), int(first[i + 1])):
                self._look(grid, k, x, S, p, out)
                x, S = self._interval(grid, k, x, S, p, sensitivities)
            out.end_states[i] = x
            if out.end_jacobian is not None:
                out.end_jacobian[i] = S
        self._look(grid, grid.nodes - 1, x, S, p, out)
        return out

    def _interval(self, grid: Grid, k: int, x: np.ndarray, S: np.ndarray, p: np.ndarray, sensitivities: bool
                  ) -> tuple[np.ndarray, np.ndarray]:
        nx = self.sizes[0]
        h = grid.time[k + 1] - grid.time[k]
        held = np.concatenate([[grid.time[k], h], grid.u_begin[k], grid.u_end[k], p])
        try:
            if sensitivities:
                after, by_x, by_p = self.sensitive(x, p[self.free], held)
                S = np.asarray(by_x) @ S + np.hstack([np.zeros((nx, nx)), np.asarray(by_p).reshape(nx, -1)])
            else:
                after = self.plain(x0=x, p=p[self.free], u=held)["xf"]
        except RuntimeError:
            raise Diverged(float(grid.time[k + 1]), k + 1) from None
        after = np.asarray(after).ravel()
        if not np.all(np.isfinite(after)):
            raise Diverged(float(grid.time[k + 1]), k + 1)
        return after, S

    def _look(self, grid: Grid, k: int, x: np.ndarray, S: np.ndarray, p: np.ndarray, out: Marched) -> None:
        nx = self.sizes[0]
        out.states[k] = x
        if not grid.wanted[k]:
            return
        y, d = (np.asarray(v) for v in self.observe(grid.time[k], x, grid.u_node[k], p))
        if not np.all(np.isfinite(y)):
            raise Diverged(float(grid.time[k]), k)
        out.outputs[k] = y.ravel()
        if out.jacobian is not None:
            out.jacobian[k] = d[:, :nx] @ S
            out.jacobian[k][:, nx:] += d[:, nx:]
