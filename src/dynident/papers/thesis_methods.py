"""Thesis, Chapters 3 to 5: the boundary value problem with full matrices, shooting, damped Newton, the mixed Euler scheme."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

import dynident as di
from dynident._util.progress import Tell
from dynident.boundary.smoothing.method import BoundaryValueMethod
from dynident.boundary.solve_bvp.davidenko import Davidenko, DavidenkoState, inner_loop
from dynident.boundary.solve_bvp.root_finding import FactoredSystem, RootProblem
from dynident.papers.flexible_rotor import one_mass
from dynident.papers.outcome import Outcome, compared

# (3.6) with full matrices, on x' = v, v' = -2 x - 0.4 v

MATRICES = {"W^-1": np.array([[0.04, 0.03], [0.03, 0.09]]), "V^-1": np.array([[0.0025, -0.003], [-0.003, 0.01]]),
            "R0^-1": np.array([[0.25, 0.2], [0.2, 0.36]])}
FIRST = np.array([1.0, 0.2])
STEP = 0.1  # of the time
SYSTEM = np.array([[0.0, 1.0], [-2.0, -0.4]])


def _full_problem(nodes: int) -> di.Problem:
    """A decaying oscillation, both states measured with errors that go together."""
    model = di.EquationModel(states={"x": "v", "v": "-k*x - 0.4*v"}, outputs={"position": "x", "speed": "v"})
    time, rng = STEP * np.arange(nodes), np.random.default_rng(0)
    clean = np.exp(-0.2 * time)[:, None] * np.column_stack([np.cos(1.4 * time), -1.4 * np.sin(1.4 * time)])
    seen = clean + rng.multivariate_normal([0, 0], MATRICES["V^-1"], nodes)
    std = np.sqrt(np.diag(MATRICES["V^-1"]))
    record = di.Experiment(time, outputs={"position": seen[:, 0], "speed": seen[:, 1]},
                           noise={"position": di.Gaussian(std[0]), "speed": di.Gaussian(std[1])})
    return di.Problem(model, [record], [di.Parameter("k", 2.0, free=False), di.InitialState("x", start=FIRST[0]),
                                        di.InitialState("v", start=FIRST[1])])


def _options(correlated: bool) -> dict[str, Any]:
    said: dict[str, Any] = {"substeps": 1}
    for of, names, matrix in zip(("process", "measurement", "initial"), (("x", "v"), ("position", "speed"), ("x", "v")),
                                 MATRICES.values(), strict=True):
        std = np.sqrt(np.diag(matrix))
        if of != "measurement":  # that of the record
            said[f"{of}_noise"] = dict(zip(names, map(float, std), strict=True))
        if correlated:
            said[f"{of}_correlation"] = {", ".join(names): float(matrix[0, 1] / (std[0] * std[1]))}
    return said


def _dense(problem: di.Problem) -> np.ndarray:
    """(nodes, 2): the smallest (3.6) of the discretised system by one dense least squares problem."""
    step = np.eye(2)
    for power in range(4, 0, -1):  # Runge-Kutta of a linear system
        step = np.eye(2) + SYSTEM * STEP @ step / power
    seen = np.column_stack([problem.experiments[0].outputs[name] for name in ("position", "speed")])
    roots = {name: np.linalg.cholesky(np.linalg.inv(matrix)).T for name, matrix in MATRICES.items()}
    count = len(seen)
    M, b = np.zeros((2 + 2 * count + 2 * (count - 1), 2 * count)), np.zeros(2 + 4 * count - 2)
    M[:2, :2], b[:2] = roots["R0^-1"], roots["R0^-1"] @ FIRST
    for k in range(count):
        M[2 + 2 * k:4 + 2 * k, 2 * k:2 * k + 2], b[2 + 2 * k:4 + 2 * k] = roots["V^-1"], roots["V^-1"] @ seen[k]
    for k in range(count - 1):
        row, U = 2 + 2 * count + 2 * k, roots["W^-1"] / np.sqrt(STEP)
        M[row:row + 2, 2 * k:2 * k + 2], M[row:row + 2, 2 * k + 2:2 * k + 4] = -U @ step, U
    return np.linalg.lstsq(M, b, rcond=None)[0].reshape(-1, 2)


def full_matrices(quick: bool, tell: Tell) -> Outcome:
    """(3.13) to (3.16) with full W, V and R0: smoother and Newton's root against a dense solution; the diagonals beside."""
    problem = _full_problem(31 if quick else 101)
    dense, found = _dense(problem), {}
    for name, options in {"smoother": _options(True), "root of (3.13)": {**_options(True), "refine": True},
                          "diagonals only": _options(False)}.items():
        tell(name)
        found[name] = _course(di.identify(problem, BoundaryValueMethod(**options), progress=False))
    std = _std(di.identify(problem, BoundaryValueMethod(**_options(True)), progress=False))
    off = {name: float(np.max(np.abs(values - dense) / std)) for name, values in found.items()}
    rows = [(t, *exact, *(v for values in found.values() for v in values[k])) for k, (t, exact) in enumerate(zip(
        problem.experiments[0].time, dense, strict=True))]
    return compared(
        off["smoother"] < 1e-6 and off["root of (3.13)"] < 0.1 < off["diagonals only"],
        "the functional (3.6) with full weights W, V and R0, smallest where (3.13) to (3.16) hold (no numbers printed)",
        f"states within {'1e-6' if off['smoother'] < 1e-6 else format(off['smoother'], '.1e')} standard deviations of a dense "
        f"least squares solution by the smoother, within {off['root of (3.13)']:.3f} by Newton's root of (3.13), whose errors "
        f"act all along; with the diagonals alone {off['diagonals only']:.1f} off",
        "the solutions differ", ("time", "x dense", "v dense", *(f"{s} {n}" for n in found for s in "xv")), rows,
        partial(_draw_full, rows), "both ways of solving it; all experiments of Chapter 7 have diagonal weights")


def _course(estimate: di.Estimate) -> np.ndarray:
    assert estimate.smoothed is not None
    return estimate.smoothed.records[0].values


def _std(estimate: di.Estimate) -> np.ndarray:
    assert estimate.smoothed is not None
    return estimate.smoothed.records[0].std


def _draw_full(rows: list[tuple[Any, ...]], figure: Any) -> None:
    table, axes = np.array(rows), figure.subplots(2, 1, sharex=True)
    for axis, name, first in ((axes[0], "x", 1), (axes[1], "v", 2)):
        for column, label in ((first, "dense"), (first + 2, "smoother"), (first + 4, "root"), (first + 6, "diagonals only")):
            axis.plot(table[:, 0], table[:, column], lw=4 if label == "dense" else 1, color="0.8" if label == "dense" else None,
                      label=label)
        axis.set_ylabel(name)
    axes[0].legend(frameon=False)
    axes[1].set_xlabel("time (s)")


# Chapter 4

SEGMENTS = (1, 2, 5, 10, 20, 50, 100)


def shooting(quick: bool, tell: Tell) -> Outcome:
    """One mass by number of shooting points, damped Newton and Davidenko; one segment is single shooting."""
    study, rows = one_mass(), []
    for start in "1" if quick else "123":
        for solver in ("newton", "davidenko"):
            for count in SEGMENTS:
                tell(f"start {start}, {solver}, {count} segments")
                e = study.fit(study.starts[start], solver, shooting_points=count)
                close = e.converged and all(abs(e.values[n] / v - 1) < 0.05 for n, v in study.truth.items())
                rows.append((start, solver, count, e.converged, close, e.counts["iterations"], str(e.status)))
    few = {solver: [c for c in SEGMENTS if all(r[4] for r in rows if r[1] == solver and r[2] >= c)]
           for solver in ("newton", "davidenko")}
    enough = {solver: min(found, default=0) for solver, found in few.items()}
    single = [r for r in rows if r[2] == 1]
    return compared(
        not any(r[4] for r in single) and all(enough.values()),
        "single shooting accumulates errors and leaves Newton's domain of convergence; so do too few shooting points for "
        "motions that oscillate (Secs. 4.3.1 and 5.1)",
        f"one segment: {sum(r[4] for r in single)} of {len(single)} fits come to the truth; all do from "
        + " and ".join(f"{count} segments on by {solver}" for solver, count in enough.items()),
        "the number of shooting points does not decide as described",
        ("start", "solver", "segments", "converged", "truth found", "iterations", "status"), rows,
        partial(_draw_shooting, rows),
        f"on the one mass of Sec. 7.2, from {'start 1' if quick else 'starts 1 to 3'}")


def _draw_shooting(rows: list[tuple[Any, ...]], figure: Any) -> None:
    axis = figure.subplots()
    for k, solver in enumerate(("newton", "davidenko")):
        mine = [r for r in rows if r[1] == solver]
        for found, mark, word in ((True, "o", "found"), (False, "x", "not found")):
            here = [r for r in mine if r[4] is found]
            axis.semilogx([r[2] * (1 + 0.08 * k) for r in here], [r[5] for r in here], mark, label=f"{solver}: {word}")
    axis.set(xlabel="segments (1: single shooting)", ylabel="iterations")
    axis.legend(frameon=False)


def damped_newton(quick: bool, tell: Tell) -> Outcome:
    """(4.37) to (4.40), the norm of F, beside the natural test and the undamped method, from the starts of Table 7.1."""
    study, rows = one_mass(), []
    ways: dict[str, dict[str, Any]] = {"norm of F (4.40)": {"test": "residual"}, "natural test": {},
                                       "undamped": {"insist": 1.0}}
    for number, start in study.starts.items():
        for name, options in ways.items():
            tell(f"start {number}, {name}")
            e = study.fit(start, "newton", solver_options=options)
            close = e.converged and all(abs(e.values[n] / v - 1) < 0.05 for n, v in study.truth.items())
            rows.append((number, name, e.converged, close, e.counts["iterations"]))
    right = {name: sum(r[3] for r in rows if r[1] == name) for name in ways}
    slope = _descent()
    return compared(
        abs(slope + 2) < 1e-6 and right["norm of F (4.40)"] >= right["undamped"],
        "(4.39b): the slope of G = |F|^2 along the Newton step is -2 G; steps are shortened until (4.40) holds",
        f"slope {slope:.6f} G; truth found from {len(study.starts)} starts: "
        + ", ".join(f"{name} {count}" for name, count in right.items()),
        "damping by the norm of F finds fewer roots than no damping",
        ("start", "test", "converged", "truth found", "iterations"), rows, partial(_draw_damped, rows),
        "the slope; on the one mass of Sec. 7.2, with a segment a sample")


class _Cubic:
    """F(x) = x + x^3 - 3 in two coupled unknowns: small enough to look at."""

    scale = np.ones(2)

    def value(self, z: np.ndarray) -> np.ndarray:
        return np.array([z[0] + z[0] ** 3 - z[1], z[1] + z[0] * z[1] - 3.0])

    def jacobian(self, z: np.ndarray) -> np.ndarray:
        return np.array([[1 + 3 * z[0] ** 2, -1.0], [z[1], 1 + z[0]]])

    def linearize(self, z: np.ndarray) -> FactoredSystem:
        return FactoredSystem(self.value(z), _Dense(self.jacobian(z)))


class _Dense:
    """Factors of a small matrix."""

    def __init__(self, matrix: np.ndarray):
        self.matrix = matrix

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        return np.linalg.solve(self.matrix, rhs)


def _descent() -> float:
    """d|F|^2/dlambda over |F|^2 along a Newton step, by differences."""
    system, z, t = _Cubic(), np.array([2.0, 0.5]), 1e-6
    step = -np.linalg.solve(system.jacobian(z), system.value(z))
    ahead, behind, here = (float(np.sum(system.value(z + s * step) ** 2)) for s in (t, -t, 0.0))
    return (ahead - behind) / (2 * t) / here


def _draw_damped(rows: list[tuple[Any, ...]], figure: Any) -> None:
    axis = figure.subplots()
    for k, name in enumerate(dict.fromkeys(r[1] for r in rows)):
        mine = [r for r in rows if r[1] == name]
        bars = axis.bar(np.arange(len(mine)) + 0.25 * k, [r[4] for r in mine], 0.23, label=name)
        for bar, row in zip(bars, mine, strict=True):
            bar.set_hatch("" if row[3] else "//")
    axis.set_xticks(np.arange(len(mine)) + 0.25, [f"start {r[0]}" for r in mine])
    axis.set_ylabel("iterations (hatched: truth not found)")
    axis.legend(frameon=False)


# Chapter 5


class _Linear(_Cubic):
    """F(x) = x, the test equation (5.3) with lambda = -1."""

    def value(self, z: np.ndarray) -> np.ndarray:
        return z

    def jacobian(self, z: np.ndarray) -> np.ndarray:
        return np.eye(2)


def _mixed_step(system: _Cubic, z: np.ndarray, h: float, inner_steps: int) -> np.ndarray:
    """One step of the mixed Euler scheme (5.6), its inner loop (5.12) so many times."""
    linear = system.linearize(z)
    chosen = Davidenko(absolute=1e-14, relative=0.0, inner_steps=inner_steps)
    state = DavidenkoState(z=z, asked=z, h=h, switch=0.0, value=linear.value, flow=-linear.factors.solve(linear.value),
                           factors=linear.factors)
    return inner_loop(RootProblem(chosen, system, None), state).z


def mixed_euler(quick: bool, tell: Tell) -> Outcome:
    """(5.6) to (5.12): order one against F(x(T)) = exp(-T) F(x(0)); the first inner step; the step that is stable."""
    start, end = np.array([2.0, 0.5]), 1.0
    errors = []
    for steps in (8, 16, 32, 64):
        z = start
        for _ in range(steps):
            z = _mixed_step(_Cubic(), z, end / steps, 40)
        goal = np.exp(-end) * _Cubic().value(start)
        errors.append(float(np.linalg.norm(np.linalg.solve(_Cubic().jacobian(z), _Cubic().value(z) - goal))))
    order = float(np.log2(errors[-2] / errors[-1]))
    h, system = 0.7, _Cubic()
    first = _mixed_step(system, start, h, 1) - start
    damped = -h / (1 + h) * np.linalg.solve(system.jacobian(start), system.value(start))
    off = float(np.max(np.abs(first - damped)))
    one = np.ones(2)  # of y' = -y, explicit and mixed:
    long = {step: (float(np.max(np.abs(one - step * one))), float(np.max(np.abs(_mixed_step(_Linear(), one, step, 40)))))
            for step in (1.0, 2.0, 3.0, 10.0)}
    rows = [("order", order, 1.0), ("first inner step against h/(1 + h) of Newton's", off, 0.0),
            *((f"growth of an error over a step of {s:g}: explicit, mixed", *both) for s, both in long.items())]
    return compared(
        abs(order - 1) < 0.1 and off < 1e-12 and all(mixed < 1 for _, mixed in long.values()),
        "consistent of order one; the first inner step is the damped Newton step with h/(1 + h) (5.11); next to no "
        "restriction on the step, where explicit Euler needs h <= 2 (5.4)",
        f"order {order:.2f}; the first inner step is that damped step to {'rounding' if off < 1e-12 else format(off, '.0e')}; "
        "over a step of 3 an error grows by " + " by explicit and ".join(f"{g:.2f}" for g in long[3.0]) + " by mixed Euler",
        "the scheme has another order or another first step", ("what", "ours", "theirs or beside"), rows,
        partial(_draw_mixed, errors))


def _draw_mixed(errors: list[float], figure: Any) -> None:
    axis = figure.subplots()
    steps = np.array([8, 16, 32, 64])
    axis.loglog(steps, errors, "o-", label="error at T = 1")
    axis.loglog(steps, [errors[0] * 8 / s for s in steps], "k:", label="order one")
    axis.set(xlabel="steps of the artificial time", ylabel="distance")
    axis.legend(frameon=False)
    assert all(b < a for a, b in pairwise(errors))
