"""Full discretization: what does an iteration cost by the structured Gauss-Newton method and by Ipopt, and how does it grow?

The robot of the direct-methods paper: 4 states, 23 unknowns, all states measured, explicit Euler between samples of 2 ms
(as in the study that set the targets), and the trapezoidal rule for the longest record.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from robot import robot_problem
from timing import Line, Result, best, growth, in_fresh_process, main, once, peak_bytes, size, spoken

from dynident.integrators import integrator_named
from dynident.linalg.condensing import CondensedProblem
from dynident.solvers.gauss_newton import GaussNewton
from dynident.solvers.nlp import Ipopt
from dynident.transcription.full_discretization import FullDiscretization

USUAL, LARGE, LARGEST = size((3_001, 30_001, 300_001), (31, 61, 91))  # grid points
SIZES = size((300, 3_000, 30_000, 300_000), (30, 60))  # steps
FROM = size(3_000, 30)  # steps; below, what does not grow prevails
LESS_THAN_IPOPT = 10.0
SET_UP_LIMIT = 1.0  # CPU seconds at 30,001 points
MEMORY_LIMIT = 6 * 2**30
LINEAR = 1.1  # exponent of the growth; what does not grow makes it smaller
ROUNDS = size(8, 1)


def finite_of(samples: int, scheme: str = "euler") -> FullDiscretization:
    return FullDiscretization(robot_problem(samples), integrator_named(scheme), 1, {})


def per_iteration() -> dict[str, float]:
    """CPU seconds of one iteration on the same problem, all solvers from the same start."""
    found = {}
    for name, solver in (("gauss_newton", GaussNewton(ROUNDS)), ("ipopt_gauss_newton", Ipopt(ROUNDS, "gauss_newton")),
                         ("ipopt_exact", Ipopt(ROUNDS, "exact"))):
        finite = finite_of(USUAL)
        start = finite.start()
        solver.solve(finite, start)  # compiles
        seconds, outcome = once(lambda solver=solver, finite=finite, start=start: solver.solve(finite, start))
        found[name] = seconds / max(1, len(outcome.history) - 1)
    return found


def grown(samples: int) -> dict[str, Any]:
    """Set-up, one linearisation with its reduction, and memory, in a process of its own."""
    problem = robot_problem(samples)
    before = peak_bytes()
    scheme = integrator_named("euler")
    set_up, finite = once(lambda: FullDiscretization(problem, scheme, 1, {}))
    start_up, start = once(finite.start)
    iteration = best(lambda: CondensedProblem(finite.linearize(start)), repeats=3)
    return {"set_up": set_up + start_up, "iteration": iteration, "memory": peak_bytes() - before}


def solved(samples: int) -> dict[str, Any]:
    """The longest record, to the end."""
    finite = finite_of(samples, "trapezoid")
    seconds, outcome = once(lambda: GaussNewton(100).solve(finite, finite.start()))
    return {"converged": outcome.converged, "seconds": seconds, "iterations": len(outcome.history) - 1,
            "memory": peak_bytes(), "reason": outcome.reason}


def run() -> Result:
    each = in_fresh_process(__file__, "--per_iteration")
    sizes = {n: in_fresh_process(__file__, "--grown", n + 1) for n in SIZES}
    longest = in_fresh_process(__file__, "--solved", LARGEST)
    ours = each["gauss_newton"]
    lines = [Line("structured Gauss-Newton, one iteration", spoken(ours))]
    for name, label in (("ipopt_gauss_newton", "Ipopt, Gauss-Newton Hessian"), ("ipopt_exact", "Ipopt, exact Hessian")):
        ratio = each[name] / ours
        lines.append(Line(f"{label}, one iteration", f"{spoken(each[name])}, {ratio:.1f} times ours",
                          f">= {LESS_THAN_IPOPT:g} times", ratio >= LESS_THAN_IPOPT))
    set_up = sizes[LARGE - 1]["set_up"]
    lines.append(Line(f"set-up at {LARGE:,} points", spoken(set_up), f"<= {SET_UP_LIMIT:g} s", set_up <= SET_UP_LIMIT))
    lines.append(Line(f"{LARGEST:,} points, trapezoid, solved", f"{longest['iterations']} iterations, "
                      f"{spoken(longest['seconds'])}, {longest['memory'] / 2**30:.2f} GiB", "converged, <= 6 GiB",
                      longest["converged"] and longest["memory"] <= MEMORY_LIMIT))
    for what in ("set_up", "iteration", "memory"):
        used = {n: s[what] for n, s in sizes.items() if n >= FROM or what == "iteration"}
        slope = growth(list(used), list(used.values()))
        lines.append(Line(f"growth of {what.replace('_', '-')} with the grid", f"slope {slope:.2f}",
                          f"<= {LINEAR}", bool(slope <= LINEAR)))
    return Result("Full discretization", f"The two-link robot, {USUAL:,} grid points unless said, explicit Euler; CPU time.",
                  lines, [f"Set-up and memory are compared from {FROM:,} points on; below, what does not grow prevails: "
                          + ", ".join(f"{n:,} points {spoken(s['set_up'])} and {s['memory'] / 2**20:.0f} MiB"
                                      for n, s in sizes.items()) + ".", _said(longest)])


def _said(longest: dict[str, Any]) -> str:
    return f"The longest record: {'converged' if longest['converged'] else 'stopped'} {longest['reason']}."


if __name__ == "__main__":
    np.seterr(over="ignore")
    main(run, per_iteration=per_iteration, grown=grown, solved=solved)
