"""NLP: shooting and full discretization as sparse programs, by Ipopt through CasADi."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import casadi as ca
import numpy as np

from dynident._util.blas_threads import single_thread
from dynident.errors import NotSupported, ProblemError, SimulationDiverged
from dynident.linalg.finite_problem import Evaluation, FiniteProblem, Variables
from dynident.solvers.gauss_newton import is_optimum
from dynident.solvers.solver_result import IterationLog, SolverResult, Watch, iterations_in_words
from dynident.status import Status, StatusCode
from dynident.tolerances import NLP_ACTIVE_BOUND, NLP_FEASIBILITY, NLP_TOLERANCE
from dynident.transcription.full_discretization import FullDiscretization
from dynident.transcription.nonlinear_program import NonlinearProgram, SparsityPattern
from dynident.transcription.shooting import Shooting
from dynident.transcription.shooting_program import ShootingProgram

HESSIANS = ("exact", "gauss_newton", "limited_memory")
GOOD = {"Solve_Succeeded"}
OUT_OF_ITERATIONS = "Maximum_Iterations_Exceeded"  # of Ipopt and of SQP
UNSURE = {"Search_Direction_Becomes_Too_Small", "Solved_To_Acceptable_Level"}  # at an optimum to rounding, or stuck


@dataclass(frozen=True)
class Ipopt:
    """Interior point method; `hessian`: "exact", "gauss_newton" or "limited_memory"."""

    max_iterations: int = 500
    hessian: str = "exact"

    @property
    def name(self) -> str:
        return f"Ipopt with {self.hessian.replace('_', ' ')} Hessian"

    def solve(self, finite: FiniteProblem, point: Variables, watch: Watch | None = None) -> SolverResult:
        options: dict[str, Any] = {"ipopt": {
            "print_level": 0, "sb": "yes", "max_iter": self.max_iterations, "tol": NLP_TOLERANCE,
            "constr_viol_tol": NLP_FEASIBILITY, "acceptable_iter": 0, "bound_relax_factor": 0.0, "honor_original_bounds": "yes",
            "mu_strategy": "adaptive"}}
        if self.hessian == "limited_memory":
            options["ipopt"]["hessian_approximation"] = "limited-memory"
        return _NlpSolve(finite, point, watch, self.hessian).go(options)


Program: TypeAlias = NonlinearProgram | ShootingProgram


def program_of(finite: Any) -> Program:
    """The sparse program of a finite problem that was made by shooting or by full discretization."""
    if isinstance(finite, FullDiscretization):
        return NonlinearProgram(finite)
    if isinstance(finite, Shooting):
        return ShootingProgram(finite)
    raise NotSupported("Ipopt and SQP take the sparse programs of shooting and of full_discretization(); for a black box "
                       "use solver=\"levenberg_marquardt\".")


class CasadiCallback(ca.Callback):
    """A function of CasADi's that asks one of ours; an exception is kept, and the solver sees NaN."""

    def __init__(self, name: str, inputs: Sequence[tuple[str, ca.Sparsity]], outputs: Sequence[tuple[str, ca.Sparsity]],
                 ask: Callable[..., list[np.ndarray]], run: Any):
        super().__init__()
        self.inputs, self.outputs, self.ask, self.run = inputs, outputs, ask, run
        self.construct(name, {})

    def get_n_in(self) -> int:
        return len(self.inputs)

    def get_n_out(self) -> int:
        return len(self.outputs)

    def get_name_in(self, i: int) -> str:
        return self.inputs[i][0]

    def get_name_out(self, i: int) -> str:
        return self.outputs[i][0]

    def get_sparsity_in(self, i: int) -> ca.Sparsity:
        return self.inputs[i][1]

    def get_sparsity_out(self, i: int) -> ca.Sparsity:
        return self.outputs[i][1]

    def eval(self, arguments: Sequence[ca.DM]) -> list[ca.DM]:
        try:
            answers = self.ask(*[np.asarray(a).ravel() for a in arguments])
        except SimulationDiverged as wall:
            self.run.wall = wall
            answers = [np.full(s.nnz(), np.nan) for _, s in self.outputs]
        except KeyboardInterrupt:
            self.run.interrupted = True
            answers = [np.full(s.nnz(), np.nan) for _, s in self.outputs]
        return [ca.DM(s, np.asarray(a, float).ravel()) for a, (_, s) in zip(answers, self.outputs, strict=True)]


class _NlpSolve:
    """One solve: the program as CasADi functions, a diary, and what was learnt on the way."""

    def __init__(self, finite: FiniteProblem, point: Variables, watch: Watch | None, hessian: str):
        if hessian not in HESSIANS:
            raise ProblemError(f"There is no Hessian '{hessian}'; use one of {', '.join(HESSIANS)}.")
        self.program = program_of(finite)
        self.finite, self.start, self.exact = self.program.finite, point, hessian == "exact"
        self.log = IterationLog(finite.coordinates.values, watch)
        self.wall: SimulationDiverged | None = None
        self.interrupted = False
        self.last: np.ndarray | None = None  # iterate
        self.memory: tuple[np.ndarray, Any] | None = None  # a point and its first derivatives

    def go(self, options: dict[str, Any]) -> SolverResult:
        program, dense = self.program, ca.Sparsity.dense
        n, m = program.size, program.matching + program.between.count
        x, p, f, g = ("x", dense(n, 1)), ("p", dense(0, 1)), ("f", dense(1, 1)), ("g", dense(m, 1))
        jacobian, curvature = _sparsity(program.jacobian_pattern), _sparsity(program.hessian_pattern)  # its upper triangle
        callbacks = [
            CasadiCallback("nlp", [x, p], [f, g], lambda w, _: [np.atleast_1d(v) for v in program.values(w)], self),
            CasadiCallback("nlp_grad_f", [x, p], [f, ("grad_f_x", dense(n, 1))], lambda w, _: self.asked(w)[:2], self),
            CasadiCallback("nlp_jac_g", [x, p], [g, ("jac_g_x", jacobian)], lambda w, _: self.asked(w)[2:], self),
            CasadiCallback("nlp_hess_l", [x, p, ("lam_f", dense(1, 1)), ("lam_g", dense(m, 1))],
                    [("triu_hess_gamma_x_x", curvature)],
                    lambda w, _, lf, lg: [program.second(w, float(lf[0]), lg, self.exact)], self)]
        given: dict[str, Any] = {
            "hess_lag": callbacks[3], "no_nlp_grad": True, "calc_lam_p": False, "print_time": False,
            "show_eval_warnings": False, "error_on_fail": False, "iteration_callback": self.watcher(n, m),
            "iteration_callback_ignore_errors": False, "grad_f": callbacks[1], "jac_g": callbacks[2]}
        solver = ca.nlpsol("fit", "ipopt", callbacks[0], {**given, **options})
        lower, upper, low, high = program.bounds()
        w0 = np.clip(program.variables(self.start), lower, upper)
        try:
            with single_thread(look_again=True):  # the BLAS that came with Ipopt
                answer = solver(x0=w0, lbx=lower, ubx=upper, lbg=low * program.row_scale, ubg=high * program.row_scale)
            w, stats = np.asarray(answer["x"]).ravel(), solver.stats()
        except KeyboardInterrupt:
            self.interrupted, w, stats = True, self.last if self.last is not None else w0, {"return_status": "interrupted"}
        return self.outcome(np.clip(w, lower, upper), stats, lower, upper)

    def asked(self, w: np.ndarray) -> list[np.ndarray]:
        """Objective, gradient, constraints, Jacobian; a solver asks for them one by one at the same point."""
        if self.memory is None or not np.array_equal(self.memory[0], w):
            self.memory = (w.copy(), self.program.first(w))
            self.finite.counts["jacobians"] += 1
        f, gradient, g, jacobian = self.memory[1]
        return [np.array([f]), gradient, g, jacobian]

    def watcher(self, n: int, m: int) -> ca.Callback:
        run = self

        class Watcher(ca.Callback):
            """Called by the solver after each iteration; answering 1 stops it."""

            def __init__(self) -> None:
                super().__init__()
                self.construct("watch", {})

            def get_n_in(self) -> int:
                return ca.nlpsol_n_out()

            def get_n_out(self) -> int:
                return 1

            def get_sparsity_in(self, i: int) -> ca.Sparsity:
                sizes = {"x": n, "f": 1, "g": m, "lam_x": n, "lam_g": m, "lam_p": 0}
                return ca.Sparsity.dense(sizes[ca.nlpsol_out(i)], 1)

            def eval(self, arguments: Sequence[ca.DM]) -> list[ca.DM]:
                try:
                    run.note(np.asarray(arguments[0]).ravel(), float(arguments[1]), np.asarray(arguments[2]).ravel())
                except KeyboardInterrupt:
                    run.interrupted = True
                return [ca.DM(1 if run.interrupted else 0)]

        self.watching = Watcher()  # CasADi keeps no reference of its own
        return self.watching

    def note(self, w: np.ndarray, objective: float, g: np.ndarray) -> None:
        step = 0.0 if self.last is None else float(np.max(np.abs(w - self.last)))
        self.last = w.copy()
        self.log.add(self.program.point(w).unknowns, objective / self.program.factor, step,
                       float(np.max(np.abs(g[:self.program.matching]), initial=0.0)))

    def outcome(self, w: np.ndarray, stats: dict[str, Any], lower: np.ndarray, upper: np.ndarray) -> SolverResult:
        status, (w, evaluation) = str(stats.get("return_status", "")), self.last_finite(w)
        point, n = self.program.point(w), self.program.unknowns
        at_lower, at_upper = w[:n] - lower[:n] <= NLP_ACTIVE_BOUND, upper[:n] - w[:n] <= NLP_ACTIVE_BOUND
        active_bounds = np.where(at_lower, -1, np.where(at_upper, 1, 0))
        snapped = np.where(active_bounds < 0, lower[:n] * self.program.scale[:n],
                           np.where(active_bounds > 0, upper[:n] * self.program.scale[:n], point.unknowns))
        point = Variables(snapped, point.nodes)
        iterations = max(len(self.log.iterations) - 1, 0)  # the first entry is the start
        if self.interrupted:
            stopped = Status.of(StatusCode.INTERRUPTED)
            return SolverResult(point, evaluation, False, stopped, tuple(self.log.iterations), active_bounds, True)
        converged = (status in GOOD and bool(stats.get("success"))) or (
            status in UNSURE and not self.finite.problem.constraints and is_optimum(self.finite, point))
        spent = iterations_in_words(iterations)
        reason = Status.of(StatusCode.CONVERGED, spent=spent) if converged else self.why(status, spent)
        return SolverResult(point, evaluation, converged, reason, tuple(self.log.iterations), active_bounds)

    def last_finite(self, w: np.ndarray) -> tuple[np.ndarray, Evaluation]:
        """The end, or where the model cannot be computed there, the last iterate at which it can; at the worst the start."""
        for candidate in (w, self.last):
            try:
                if candidate is not None:
                    return candidate, self.finite.evaluate(self.program.point(candidate))
            except SimulationDiverged as wall:
                self.wall = wall
        return self.program.variables(self.start), self.finite.evaluate(self.start)

    def why(self, status: str, spent: str) -> Status:
        beyond = f"; on the way {self.wall}" if self.wall else ""
        if "Infeasible" in status:
            names = ", ".join(f"'{c.text}'" for c in self.finite.problem.constraints)
            listed = f" Constraints: {names}." if names else ""
            return Status.of(StatusCode.INFEASIBLE_CONSTRAINTS, why=f" ({status}){beyond}.{listed}")
        if status == OUT_OF_ITERATIONS:
            return Status.of(StatusCode.ITERATION_LIMIT, spent=spent)
        return Status.of(StatusCode.SOLVER_FAILED, spent=spent, said=status, beyond=beyond)


def _sparsity(pattern: SparsityPattern) -> ca.Sparsity:
    """CasADi's structure; the pattern stands column by column already."""
    rows, columns = pattern.shape
    colind = np.concatenate([[0], np.cumsum(np.bincount(pattern.columns, minlength=columns))])
    return ca.Sparsity(rows, columns, colind.tolist(), pattern.rows.tolist())
