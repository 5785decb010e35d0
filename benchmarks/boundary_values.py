"""Boundary values: what do solutions of published problems cost beside scipy's solve_bvp, and how does it grow?"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from itertools import pairwise
from os import cpu_count
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from scipy.sparse import csc_matrix
from scipy.sparse.linalg import splu
from timing import Line, Result, best, main, once, ratio_text, size, spoken

import dynident as di
from dynident.boundary.solve_bvp.block_elimination import BlockElimination
from dynident.boundary.solve_bvp.davidenko import Davidenko
from dynident.boundary.solve_bvp.mesh import steps_for
from dynident.boundary.solve_bvp.problem import LinearBoundaryConditions, Statement, forget_statements, trace_problem
from dynident.boundary.solve_bvp.systems import partition

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from boundary_problems import HARDER, PUBLISHED, Published, by_scipy, t33, thesis_linear

FEW, MANY = size((100, 1_000), (10, 20))
LINEAR = 11  # times the work at most for 10 times the nodes
THESIS = 46  # iterations of Sec. 6.3.1
AS_QUICK = (1e-3, 1e-6)  # tolerances at which we are to take no more than scipy
REPEATS = 3
TOLERANCES = size((1e-3, 1e-6, 1e-9), (1e-3,))
THREADED, THREAD_REPEATS = size(((1_000, 10_000, 50_000), 25), ((20,), 1))
PROBLEMS = size([*PUBLISHED, *HARDER], PUBLISHED[:1])


def solved(problem: Published, tolerance: float):
    return di.solve_bvp(problem.rate, problem.boundary, problem.interval, problem.guess,
                                   parameters=problem.parameters, tolerance=tolerance)


def solved_anew(problem: Published, tolerance: float):
    """With functions that were not seen before."""
    forget_statements()
    return solved(problem, tolerance)


def stated(problem: Published) -> Statement:
    guess = problem.guess(problem.interval[0]) if callable(problem.guess) else problem.guess
    return trace_problem(problem.rate, problem.boundary, len(guess), None, list(problem.parameters))


def newton_pass(problem: Published, integrator: str, nodes: int) -> Callable[[], object]:
    """Equations, Jacobian, its factors and one step."""
    statement = stated(problem)
    steps = steps_for(statement, integrator, None)
    time = np.linspace(*problem.interval, nodes + 1)
    system = steps.system(time, statement.ends, np.ones(len(statement.states)))
    z = steps.start(system, time, lambda t: np.array([problem.guess(each) for each in t], float), np.zeros(0))

    def call() -> object:
        linear = system.linearize(z)
        return linear.factors.solve(linear.value)

    return call


def growth_line(integrator: str) -> Line:
    few, many = (best(newton_pass(t33(1e-2), integrator, n)) for n in (FEW, MANY))
    return Line(f"a Newton pass, {integrator}, six states: {MANY:,} nodes against {FEW}",
                f"{many / few:.2f} times ({spoken(few)}, {spoken(many)})", f"at most {LINEAR}", many / few <= LINEAR)


def algebra_line() -> Line:
    """The same linear equations by a general sparse LU."""
    rng, n = np.random.default_rng(0), 6
    link = np.eye(n) + 0.05 * rng.normal(size=(MANY, n, n))
    begin, end = np.vstack([np.eye(n)[:3], np.zeros((3, n))]), np.vstack([np.zeros((3, n)), np.eye(n)[3:]])
    c, d = rng.normal(size=(MANY, n)), rng.normal(size=n)
    rows, columns, values = [], [], []
    for i in range(MANY):
        for block, place in ((link[i], i), (-np.eye(n), i + 1)):
            a, b = np.nonzero(block)
            rows += (i * n + a).tolist()
            columns += (place * n + b).tolist()
            values += block[a, b].tolist()
    for block, place in ((begin, 0), (end, MANY)):
        a, b = np.nonzero(block)
        rows += (MANY * n + a).tolist()
        columns += (place * n + b).tolist()
        values += block[a, b].tolist()
    matrix = csc_matrix((values, (rows, columns)))
    ours = best(lambda: BlockElimination(link, begin, end, np.zeros((n, 0))).solve(c, d))
    theirs = best(lambda: splu(matrix).solve(np.concatenate([c.ravel(), d])))
    return Line(f"linear equations of {MANY:,} segments, six states: SuperLU against the elimination along time",
                f"{ratio_text(theirs / ours)} times ({spoken(theirs)}, {spoken(ours)})")


def thread_line(nodes: int) -> Line:
    """All segments of a record with their derivatives, by the wall clock: one thread, and as many as there are processors."""
    problem = t33(1e-2)
    steps = steps_for(stated(problem), "runge_kutta", None)
    time = np.linspace(*problem.interval, nodes + 1)
    segments = steps.segments(time, steps.steps)
    begins = np.array([problem.guess(each) for each in time[:-1]], float)
    threads = cpu_count() or 1
    seconds = []
    for count in (1, threads):
        segments.slices = list(pairwise(np.linspace(0, nodes, count + 1).astype(int).tolist()))
        seconds.append(min(_wall(lambda: segments.run(begins, np.zeros(0), True)) for _ in range(THREAD_REPEATS)))
    one, many = seconds
    used = "used" if len(partition(steps.steps * np.arange(nodes + 1))) > 1 else "not used by default: too little work"
    return Line(f"{nodes:,} segments of {steps.steps} Runge-Kutta steps with derivatives, {threads} threads against one, clock",
                f"{one / many:.2f} times ({spoken(one)}, {spoken(many)}; {used})")


def _wall(call: Callable[[], object]) -> float:
    began = perf_counter()
    call()
    return perf_counter() - began


def thesis_line() -> Line:
    problem, time = thesis_linear(), np.linspace(0, 1, 401)
    steps = steps_for(stated(problem), "runge_kutta", None)
    system = steps.system(time, LinearBoundaryConditions([[1, 0], [0, 0]], [[0, 0], [0, 1]], [0, 2 * np.pi]), np.ones(2))
    root = Davidenko().solve(system, np.zeros(system.scale.size))
    return Line("Davidenko on the linear problem of the thesis", f"{root.iterations} iterations, {root.jacobians} Jacobians",
                f"at most {THESIS}", root.converged and root.iterations <= THESIS)


def peer_lines() -> list[Line]:
    """CPU of both on every problem that both solve, and how many each solves from the same guess."""
    lines = []
    for tolerance in TOLERANCES:
        ratios, anew, ours_found, theirs_found = [], [], 0, 0
        for problem in PROBLEMS:
            solved(problem, tolerance)  # compiles
            seconds, solution = quickest(functools.partial(solved, problem, tolerance), REPEATS)
            traced, _ = quickest(functools.partial(solved_anew, problem, tolerance), REPEATS)
            theirs, peer = quickest(functools.partial(attempted, problem, tolerance), REPEATS)
            ours_found += solution.converged
            theirs_found += peer
            if solution.converged and peer:
                ratios.append(theirs / seconds)
                anew.append(theirs / traced)
        spread = f"from {ratio_text(min(ratios))} to {ratio_text(max(ratios))}"
        mean_anew = float(np.exp(np.mean(np.log(anew))))
        mean, asked = float(np.exp(np.mean(np.log(ratios)))), tolerance in AS_QUICK
        lines.append(Line(f"CPU of scipy's solve_bvp against ours, {len(PROBLEMS)} published problems, tolerance {tolerance:g}",
                          f"{ratio_text(mean)} times in the geometric mean, {spread}; "
                          f"{ratio_text(mean_anew)} where our functions are traced each time; solved "
                          f"from the same guess: ours {ours_found}, scipy {theirs_found}",
                          "at least 1" if asked else "", mean >= 1 if asked else None))
    return lines


def quickest(call: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    return min((once(call) for _ in range(repeats)), key=lambda run: run[0])


def attempted(problem: Published, tolerance: float) -> bool:
    try:
        return bool(by_scipy(problem, tolerance).success)
    except (ValueError, FloatingPointError, np.linalg.LinAlgError):
        return False


def run() -> Result:
    return Result("Boundary values", "Problems and guesses of tests/boundary_problems.py; kernels are compiled before, and "
                  "each problem is solved once before it is timed, so that its model is known; what solving costs "
                  "whose functions are new, but for compiling, is said as well. scipy's "
                  "tolerance is one of the residual, ours one of the error of the solution.",
                  [growth_line("gauss_legendre"), growth_line("runge_kutta"), algebra_line(),
                   *(thread_line(nodes) for nodes in THREADED), thesis_line(), *peer_lines()])


if __name__ == "__main__":
    main(run)
