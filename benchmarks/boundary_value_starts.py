"""Starts: from how far do the boundary value method and its peers find the same minimum, and what does it cost?

The systems are those of `examples/18_flexible_rotor.py`: one mass with 101 nodes, two masses with 251. Every solver minimises
the functional (3.6) of the thesis with the thesis' weights, parameters included, from the same start points: the truth times a
random factor per parameter, even on a logarithmic scale over the number of decades that is said. The smoother and Ipopt solve
it on the grid; Davidenko, Newton and scipy's solve_bvp solve its boundary value problem. A success is a run that says so and
whose parameters are within 1 % of those that the same kind of solver finds from the truth; 'wrong' said success elsewhere.
"""

from __future__ import annotations

import runpy
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np
from scipy.integrate import solve_bvp
from timing import Line, Result, best, in_fresh_process, main, ratio_text, size, spoken

import dynident as di
from dynident.boundary.smoothing.optimality_bvp import BoundaryValueProblem
from dynident.boundary.smoothing.setup import setup_of
from dynident.boundary.smoothing.weak_constraint import WeakConstraintProblem
from dynident.codegen.batched import BatchedFunction
from dynident.integrators.explicit import RUNGE_KUTTA
from dynident.integrators.scheme import StepFunction
from dynident.linalg.condensing import CondensedProblem
from dynident.solvers.gauss_newton import GaussNewton

CHAPTER = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "18_flexible_rotor.py"))
SYSTEMS = {"one mass": CHAPTER["one_mass"], "two masses": CHAPTER["two_masses"]}
NODES = size({"one mass": 101, "two masses": 251}, {"one mass": 21})  # of the systems that are tried
SOLVERS = ("smoother", "davidenko", "newton", "ipopt", "solve_bvp")
LABELS = {"smoother": "default", "davidenko": "Davidenko", "newton": "damped Newton", "ipopt": "Ipopt, same functional",
          "solve_bvp": "scipy solve_bvp"}
STARTS, SEED = size(50, 1), 2024
WITHIN = 0.01  # relative; of the parameters
ENOUGH = size({2: 0.98, 4: 0.90}, {2: 0.98})  # share of successes by decades
LESS_THAN_IPOPT, LESS_THAN_SOLVE_BVP, MOST_GROWTH = 20.0, 15.0, 11.0
TIMED_PEERS = {"Ipopt, compiled functions": LESS_THAN_IPOPT, "Ipopt, CasADi's own machine": LESS_THAN_IPOPT,
               "solve_bvp, exact derivatives": LESS_THAN_SOLVE_BVP, "solve_bvp, its own differences": LESS_THAN_SOLVE_BVP}
TABLE_7_1 = size({"1": 23, "2": 38, "3": 64}, {"1": 23})
MOST_ITERATIONS = 1.1  # times Table 7.1's
LONGEST = size(250, 20)  # iterations of any solver
MOST_NODES = 3_000  # of solve_bvp
IPOPT = {"print_time": False, "error_on_fail": False,
         "ipopt": {"print_level": 0, "sb": "yes", "max_iter": LONGEST, "linear_solver": "mumps"}}
TIMED = size(16, 1)  # of the starts
TIMED_NODES = size(1_001, 21)  # 1 kHz as in the thesis
PASSES = size((101, 1_001), (11, 21))  # nodes
REPEATS = size(5, 1)  # of each timed run, on every side; the best counts, since other work on the machine only ever adds

Found = tuple[bool, np.ndarray]  # whether it says success, and the parameters


def starts(study: Any, decades: int) -> np.ndarray:
    """(STARTS, parameters)"""
    rng = np.random.default_rng(SEED)
    return np.array(list(study.truth.values())) * 10 ** rng.uniform(-decades / 2, decades / 2, (STARTS, len(study.truth)))


def ours(study: Any, solver: str) -> Callable[[np.ndarray], Found]:
    def find(start: np.ndarray) -> Found:
        try:
            estimate = study.fit(start, solver, max_iterations=LONGEST)
        except di.ProblemError:  # the model is not finite at the start
            return False, np.full(len(study.truth), np.nan)
        return estimate.converged, np.array([estimate.values[name] for name in study.truth])

    return find


def smoothing_of(study: Any, start: np.ndarray) -> tuple[Any, WeakConstraintProblem]:
    method = di.boundary_value(**study.weights, measurements="continuous")
    setup = setup_of(method, study.problem(start))
    return setup, WeakConstraintProblem(setup.inner, method.make_integrator(), 1, {}, setup.weights)


def by_ipopt(study: Any, compiled: bool = True) -> Callable[[np.ndarray], Found]:
    """States at the nodes and model errors as variables, Runge-Kutta steps as equalities; exact Hessian."""
    setup, finite = smoothing_of(study, np.array(list(study.truth.values())))
    model, record, n = setup.inner.model, finite.records[0], len(setup.inner.model.states)
    grid, nodes = record.grid, record.grid.nodes
    t, h, x, u0, u1 = (ca.SX.sym(name, size) for name, size in (("t", 1), ("h", 1), ("x", n), ("u0", 1), ("u1", 1)))
    step = ca.Function("step", [t, h, x, u0, u1], [RUNGE_KUTTA.next_state(
        StepFunction(model.rate, t, h, x, u0, u1, ca.SX(0, 1)))]).map(nodes - 1)
    X, E = ca.MX.sym("X", n, nodes), ca.MX.sym("E", n, nodes - 1)
    gaps = np.diff(grid.time)
    W = np.array([setup.weights[name] for name in model.states])
    seen = [i for name in model.outputs for i in [model.states.index(_shown(study, name))]]
    first = X[:, 0]
    pull = sum((first[model.states.index(name)] / std) ** 2 for name, std in study.weights["initial_noise"].items())
    cost = ca.sumsqr(ca.DM(np.sqrt(W[:, None] / gaps)) * E) + pull + ca.sumsqr(
        ca.DM(record.weight.T) * (X[seen, :] - ca.DM(record.measured.T)))
    follows = step(grid.time[None, :-1], gaps[None], X[:, :-1], grid.u_begin.T, grid.u_end.T) + E - X[:, 1:]
    nlp = {"x": ca.veccat(X, E), "f": cost, "g": ca.vec(follows)}
    solver = ca.nlpsol("plain", "ipopt", nlp, IPOPT) if not compiled else _compiled_ipopt(nlp)

    def find(start: np.ndarray) -> Found:
        _, own = smoothing_of(study, start)
        guess = own.states(own.start(), 0).T
        errors = np.zeros((n, nodes - 1))
        began = time.process_time()
        answer = solver(x0=np.concatenate([guess.ravel("F"), errors.ravel()]), lbg=0, ubg=0)
        find.seconds = time.process_time() - began  # type: ignore[attr-defined]
        values = np.asarray(answer["x"]).ravel()[:n]
        return bool(solver.stats()["success"]), values[[model.states.index(name) for name in study.truth]]

    return find


def _shown(study: Any, output: str) -> str:
    """Outputs of these systems are single states."""
    return study.model.definition()["outputs"][output]


def _compiled_ipopt(nlp: dict[str, Any]) -> Any:
    """Ipopt with the functions of the problem compiled, as a patient user would."""
    folder = Path(tempfile.mkdtemp())
    ca.nlpsol("plain", "ipopt", nlp, IPOPT).generate_dependencies("nlp.c")
    shutil.move("nlp.c", folder / "nlp.c")
    library = folder / "nlp.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", str(folder / "nlp.c"), "-o", str(library), "-lm"], check=True)
    return ca.nlpsol("compiled", "ipopt", str(library), IPOPT)


def by_solve_bvp(study: Any, exact: bool = True) -> Callable[[np.ndarray], Found]:
    """The Hamiltonian problem with compiled rates, and derivatives that are exact or scipy's own differences."""
    truth = np.array(list(study.truth.values()))
    setup, finite = smoothing_of(study, truth)
    problem = BoundaryValueProblem(setup, finite, False)
    model, grid, n = problem.model, problem.segments.grid, 2 * problem.n
    a = [ca.SX.sym(name, size) for name, size in (("t", 1), ("x", n), ("u", len(model.inputs)), ("p", problem.p.size))]
    rate = model.rate(*a)
    mapped = BatchedFunction(f"peer {model.content_hash()}", lambda: [
        ca.Function("dyn_peer", a, [ca.densify(rate), ca.densify(ca.jacobian(rate, a[1]))])])

    def asked(x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
        inputs = np.column_stack([np.interp(x, grid.time, column) for column in grid.u_node.T])
        return mapped("dyn_peer", [x[:, None], np.ascontiguousarray(y.T), inputs, problem.p], x.size)

    ends = problem.system.ends

    def find(start: np.ndarray) -> Found:
        own_setup, own = smoothing_of(study, start)
        guess = BoundaryValueProblem(own_setup, own, False).nodes(own.start())
        derivatives = {"fun_jac": lambda x, y: asked(x, y)[1].reshape(x.size, n, n).transpose(2, 1, 0),
                       "bc_jac": lambda begin, end: (ends.at_begin, ends.at_end)} if exact else {}
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            answer = solve_bvp(lambda x, y: asked(x, y)[0].T, lambda begin, end: ends.value(begin, end, np.zeros(0)),
                               grid.time, guess.T, max_nodes=MOST_NODES, **derivatives)
        find.seconds = time.process_time() - began  # type: ignore[attr-defined]
        values = dict(zip(problem.model.model.states, answer.sol(grid.time[0]), strict=False))
        return bool(answer.success), np.array([values[name] for name in study.truth])

    return find


def peer(study: Any, solver: str) -> Callable[[np.ndarray], Found]:
    return by_ipopt(study) if solver == "ipopt" else by_solve_bvp(study) if solver == "solve_bvp" else ours(study, solver)


def tried(system: int, solver: int, decades: int) -> dict[str, Any]:
    """Successes, wrong successes and CPU seconds of each start, in a process of its own."""
    name = list(NODES)[system]
    study = SYSTEMS[name](NODES[name])
    find = peer(study, SOLVERS[solver])
    truth = np.array(list(study.truth.values()))
    sure, reference = find(truth)  # compiles, too
    right, wrong, seconds = [], 0, []
    for start in starts(study, decades):
        began = time.process_time()
        said, values = find(start)
        seconds.append(time.process_time() - began)
        close = bool(np.all(np.abs(values - reference) <= WITHIN * np.abs(reference)))
        right.append(said and close)
        wrong += said and not close
    return {"sure": sure, "right": right, "wrong": int(wrong), "seconds": seconds}


def alone(study: Any) -> Callable[[np.ndarray], Found]:
    """The smoother's own solver without what a fit does before and behind it, as Ipopt is timed."""
    def find(start: np.ndarray) -> Found:
        method = di.boundary_value(**study.weights, measurements="continuous")
        setup = setup_of(method, study.problem(start))
        finite = WeakConstraintProblem(setup.logarithmic(), method.make_integrator(), 1, {}, setup.weights)
        point = finite.start()
        began = time.process_time()
        outcome = GaussNewton(LONGEST).solve(finite, point)
        find.seconds = time.process_time() - began  # type: ignore[attr-defined]
        values = dict(zip(finite.names, finite.coordinates.values(outcome.point.unknowns), strict=True))
        return outcome.converged, np.array([values[f"{name}(0)"] for name in study.truth])

    return find


def timed(which: int) -> dict[str, Any]:
    """CPU seconds (the best of several) and success from the first starts over two decades, two masses, 1,001 nodes."""
    study = SYSTEMS["two masses"](TIMED_NODES)
    find = (alone, ours_default, by_ipopt, lambda study: by_ipopt(study, False), by_solve_bvp,
            lambda study: by_solve_bvp(study, False))[which](study)
    _, reference = find(np.array(list(study.truth.values())))
    right, seconds = [], []
    for start in starts(study, 2)[:TIMED]:
        best_of = []
        for _ in range(REPEATS):
            began = time.process_time()
            said, values = find(start)
            best_of.append(getattr(find, "seconds", time.process_time() - began))
        seconds.append(min(best_of))
        right.append(bool(said and np.all(np.abs(values - reference) <= WITHIN * np.abs(reference))))
    return {"right": right, "seconds": seconds}


def ours_default(study: Any) -> Callable[[np.ndarray], Found]:
    return ours(study, "smoother")


def table_7_1() -> dict[str, list[int]]:
    """Iterations and Jacobians of Davidenko from the starts of (7.6), on a record without noise as the thesis'."""
    study = CHAPTER["one_mass"](std=1e-6)
    found = {}
    for number in TABLE_7_1:
        estimate = study.fit(study.starts[number], "davidenko")
        found[number] = [int(estimate.converged), estimate.counts["iterations"], estimate.counts["jacobians"]]
    return found


def one_pass(nodes: int) -> float:
    """CPU seconds of one Gauss-Newton step of the smoother: linearise, eliminate, step."""
    study = SYSTEMS["two masses"](nodes)
    _, finite = smoothing_of(study, np.array(list(study.truth.values())))
    point = finite.start()

    def call() -> object:
        reduced = CondensedProblem(finite.linearize(point))
        return reduced.expand(reduced.rows.solve())

    return best(call, repeats=5)


def run() -> Result:
    lines = []
    for s, system in enumerate(NODES):
        for decades, enough in ENOUGH.items():
            for k, solver in enumerate(SOLVERS):
                found = in_fresh_process(__file__, "--tried", s, k, decades)
                right = sum(found["right"])
                promised = solver == "smoother"
                each = spoken(float(np.mean(found["seconds"])))
                lines.append(Line(f"{system}, {decades} decades: {LABELS[solver]}",
                                  f"{right} of {STARTS}, {found['wrong']} wrong, {each} each",
                                  f">= {enough:.0%}" if promised else "",
                                  right >= enough * STARTS and not found["wrong"] if promised else None))
    solver, fit, *peers = (in_fresh_process(__file__, "--timed", which) for which in range(2 + len(TIMED_PEERS)))
    for (name, least), peer in zip(TIMED_PEERS.items(), peers, strict=True):
        ratio = cheaper(peer, solver)
        everywhere = float(np.mean(peer["seconds"]) / np.mean(solver["seconds"]))
        lines.append(Line(f"two masses, {TIMED_NODES:,} nodes: CPU of the solver against {name}",
                          f"{ratio_text(ratio)} times less ({ratio_text(everywhere)} with failures; "
                          f"{ratio_text(cheaper(peer, fit))} for the whole fit)",
                          f">= {least:g}", bool(ratio >= least)))
    for number, (converged, iterations, jacobians) in in_fresh_process(__file__, "--table_7_1").items():
        most = MOST_ITERATIONS * TABLE_7_1[number]
        lines.append(Line(f"Davidenko, start {number} of (7.6)", f"{iterations} iterations, {jacobians} Jacobians",
                          f"<= {most:.0f} iterations", bool(converged and iterations <= most)))
    few, many = (in_fresh_process(__file__, "--one_pass", nodes) for nodes in PASSES)
    lines.append(Line("one step of the smoother, {1:,} against {0:,} nodes".format(*PASSES), f"{many / few:.3g} times",
                      f"<= {MOST_GROWTH:g}", bool(many / few <= MOST_GROWTH)))
    remark = (f"{STARTS} starts (seed {SEED}); CPU times in the upper part are of whole fits and whole calls. Ratios are over "
              f"those of {TIMED} starts from which both succeed, and 'with failures' over all, since a failure has to be "
              "paid for too.")
    return Result("Boundary value starts", __doc__.split("\n\n")[1].replace("\n", " "), lines, [remark])


def cheaper(theirs: dict[str, Any], own: dict[str, Any]) -> float:
    both = np.array(theirs["right"]) & np.array(own["right"])
    if not np.any(both):
        return float("nan")
    return float(np.mean(np.array(theirs["seconds"])[both]) / np.mean(np.array(own["seconds"])[both]))


if __name__ == "__main__":
    main(run, tried=tried, timed=timed, table_7_1=table_7_1, one_pass=one_pass)
