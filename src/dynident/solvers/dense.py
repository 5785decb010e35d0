"""Dense: a smooth cost of a few variables under many inequalities, by Ipopt with exact first derivatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import casadi as ca
import numpy as np

from dynident.integrators.march import Diverged
from dynident.solvers.answer import Answer

TOLERANCE = 1e-7  # of the scaled problem
FEASIBLE = 1e-6  # of the scaled constraints
GOOD = ("Solve_Succeeded", "Solved_To_Acceptable_Level")
MEMORY = 40  # steps that the approximation of the second derivatives remembers


@dataclass(frozen=True, eq=False)
class Asked:
    """Value, gradient, constraints and their Jacobian at a point."""

    value: float
    gradient: np.ndarray  # (n,)
    constraints: np.ndarray  # (m,)
    jacobian: np.ndarray  # (m, n)


@dataclass(frozen=True, eq=False)
class DenseOutcome:
    """Where it ended: `converged` to an optimum, `feasible` within the constraints."""

    point: np.ndarray
    value: float
    excess: np.ndarray  # (m,) by how much each constraint is violated; 0 where it holds
    converged: bool
    status: str
    evaluations: int
    interrupted: bool

    @property
    def feasible(self) -> bool:
        return bool(np.max(self.excess, initial=0.0) <= FEASIBLE)


class _Run:
    """Keeps the last answer: a solver asks for its parts one by one."""

    def __init__(self, ask: Callable[[np.ndarray], Asked]):
        self.ask, self.evaluations = ask, 0
        self.at: np.ndarray | None = None
        self.wall: Diverged | None = None
        self.interrupted = False

    def __call__(self, x: np.ndarray) -> Asked:
        if self.at is None or not np.array_equal(self.at, x):
            if self.interrupted:
                raise KeyboardInterrupt
            self.last = self.ask(x)
            self.at, self.evaluations = x.copy(), self.evaluations + 1
        return self.last


def minimise(ask: Callable[[np.ndarray], Asked], start: np.ndarray, bounds: tuple[np.ndarray, np.ndarray],
             limits: tuple[np.ndarray, np.ndarray], iterations: int = 200) -> DenseOutcome:
    """Minimise from a start; a point at which `ask` raises Diverged is stepped back from."""
    run, dense = _Run(ask), ca.Sparsity.dense
    n, m = start.size, limits[0].size
    x, p = ("x", dense(n, 1)), ("p", dense(0, 1))
    f, g = ("f", dense(1, 1)), ("g", dense(m, 1))

    def values(w: np.ndarray, _: np.ndarray) -> list[np.ndarray]:
        at = run(w)
        return [np.array([at.value]), at.constraints]

    def gradient(w: np.ndarray, _: np.ndarray) -> list[np.ndarray]:
        return [np.array([run(w).value]), run(w).gradient]

    def jacobian(w: np.ndarray, _: np.ndarray) -> list[np.ndarray]:
        return [run(w).constraints, run(w).jacobian.ravel(order="F")]

    kept = [Answer("nlp", [x, p], [f, g], values, run),
            Answer("nlp_grad_f", [x, p], [f, ("grad_f_x", dense(n, 1))], gradient, run),
            Answer("nlp_jac_g", [x, p], [g, ("jac_g_x", dense(m, n))], jacobian, run)]
    options = {"grad_f": kept[1], "jac_g": kept[2], "no_nlp_grad": True, "calc_lam_p": False, "print_time": False,
               "error_on_fail": False, "ipopt": {
                   "print_level": 0, "sb": "yes", "max_iter": iterations, "tol": TOLERANCE, "acceptable_tol": 1e-5,
                   "acceptable_iter": 8, "constr_viol_tol": FEASIBLE, "hessian_approximation": "limited-memory",
                   "limited_memory_max_history": MEMORY, "mu_strategy": "adaptive", "bound_relax_factor": 0.0}}
    solver = ca.nlpsol("design", "ipopt", kept[0], options)
    try:
        found = solver(x0=np.clip(start, *bounds), lbx=bounds[0], ubx=bounds[1], lbg=limits[0], ubg=limits[1])
        w, status = np.asarray(found["x"]).ravel(), str(solver.stats().get("return_status", ""))
    except KeyboardInterrupt:
        run.interrupted, w, status = True, run.at if run.at is not None else start, "interrupted"
    if run.interrupted:
        raise KeyboardInterrupt
    w = np.clip(w, *bounds)
    at = run(w)
    excess = np.maximum(0.0, np.maximum(at.constraints - limits[1], limits[0] - at.constraints))
    return DenseOutcome(w, at.value, excess, status in GOOD, status, run.evaluations, run.interrupted)
