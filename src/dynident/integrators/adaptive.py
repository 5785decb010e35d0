"""Adaptive: CVODES (SUNDIALS, through CasADi; variable step and order), one call per interval between samples."""

from __future__ import annotations

import casadi as ca
import numpy as np

from dynident.errors import SimulationDiverged
from dynident.integrators.grid import Grid
from dynident.integrators.propagation import NO_WAY, Propagation, allocate, divergence_error
from dynident.integrators.scheme import Adaptive
from dynident.integrators.step_functions import symbol_kind, symbols, unknowns_jacobian
from dynident.models.equations import EquationModel
from dynident.tolerances import CVODES_ABSOLUTE, CVODES_RELATIVE, RADAU_TOLERANCE

MAX_ADAPTIVE_STEPS = 20_000  # per interval; more means that the model blows up or the tolerance cannot be met

CVODES = Adaptive("cvodes", "cvodes", CVODES_RELATIVE,
                  summary="chooses its own steps; hundreds of times slower where inputs jump")
RADAU5 = Adaptive("radau5", "", RADAU_TOLERANCE, summary="Radau IIA of order 5 that chooses its own steps; for stiff models")


class AdaptivePropagator:
    """Forward sensitivities by the integrator itself; between samples time runs from 0 to 1."""

    def __init__(self, model: EquationModel, integrator: Adaptive, free: tuple[int, ...]):
        self.sizes = (len(model.states), len(model.inputs), len(model.outputs), len(free))
        nx, _, _, nf = self.sizes
        self.model, self.free = model, list(free)
        s = symbols(model)
        kind = symbol_kind(model)
        tau = kind.sym("tau")
        u = s["u0"] + tau * (s["u1"] - s["u0"])
        held = ca.vertcat(s["t"], s["h"], s["u0"], s["u1"], s["p"])  # everything that needs no derivative
        f = kind.sym("free", nf)
        p = kind(s["p"])
        for place, index in enumerate(free):
            p[index] = f[place]
        rate = s["h"] * model.rate(s["t"] + tau * s["h"], s["x"], u, p)
        dae = {"x": s["x"], "p": f, "u": held, "t": tau, "ode": rate}
        options = {"reltol": CVODES_RELATIVE, "abstol": CVODES_ABSOLUTE, "max_num_steps": MAX_ADAPTIVE_STEPS,
                   "disable_internal_warnings": True, "show_eval_warnings": False}
        self.plain = ca.integrator("march", integrator.plugin, dae, 0, 1, options)
        self.sensitive = _with_directions(self.plain, nx + nf)
        y = model.output(s["t"], s["x"], s["u0"], s["p"])
        self.observe = ca.Function("observe", [s["t"], s["x"], s["u0"], s["p"]],
                                   [ca.densify(y), ca.densify(unknowns_jacobian(y, s, free))])

    def run(self, grid: Grid, first: np.ndarray, nodes: np.ndarray, p: np.ndarray, sensitivities: bool,
            reuse: Propagation | None = None) -> Propagation:
        nx, _, _, nf = self.sizes
        out = allocate(grid, len(first) - 1, self.sizes, sensitivities)
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
        nx, _, _, nf = self.sizes
        h = grid.time[k + 1] - grid.time[k]
        held = np.concatenate([[grid.time[k], h], grid.u_begin[k], grid.u_end[k], p])
        f = p[self.free]
        try:
            if sensitivities:
                beside = {"p": np.eye(nf, nx + nf, nx), "u": np.zeros((held.size, nx + nf))}
                whole = np.asarray(self.sensitive(x0=np.column_stack([x, S]), p=np.column_stack([f, beside["p"]]),
                                                  u=np.column_stack([held, beside["u"]]))["xf"])
                after, S = whole[:, 0], whole[:, 1:]
            else:
                after = np.asarray(self.plain(x0=x, p=f, u=held)["xf"]).ravel()
        except RuntimeError:
            raise SimulationDiverged(float(grid.time[k + 1]), k + 1, what=NO_WAY) from None
        if not np.all(np.isfinite(after)):
            raise divergence_error(self.model, grid, k + 1, after, np.zeros(self.sizes[2]))
        return after, S

    def _look(self, grid: Grid, k: int, x: np.ndarray, S: np.ndarray, p: np.ndarray, out: Propagation) -> None:
        nx = self.sizes[0]
        out.states[k] = x
        if not grid.output_mask[k]:
            return
        y, d = (np.asarray(v) for v in self.observe(grid.time[k], x, grid.u_node[k], p))
        if not np.all(np.isfinite(y)):
            raise divergence_error(self.model, grid, k, x, y.ravel())
        out.outputs[k] = y.ravel()
        if out.jacobian is not None:
            out.jacobian[k] = d[:, :nx] @ S
            out.jacobian[k][:, nx:] += d[:, nx:]


def _with_directions(integrator: ca.Function, directions: int) -> ca.Function:
    """The integrator of the state beside its derivative in some directions, side by side as columns.

    CasADi makes it for `forward`, inside a wrapper that prints every argument where an integration fails.
    """
    inside = integrator.forward(directions).find_functions()
    return next(f for f in inside if f.class_name() == integrator.class_name() and f.size2_in("x0") == 1 + directions)
