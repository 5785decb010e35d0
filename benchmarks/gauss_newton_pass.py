"""One Gauss-Newton pass: how much does general code cost beside code written for the one problem, and beside peers?

The pass: simulate with the derivatives of all outputs with respect to all unknowns, and reduce them to the least
squares problem of the next step.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import casadi as ca
import numpy as np
from robot import rate_in_plain_python, robot_problem
from scipy.integrate import solve_ivp
from timing import Line, Result, best, in_fresh_process, main, once, ratio_text, size, spoken

import dynident as di
from dynident.codegen.c_source import QUICK, c_source, kernel_text
from dynident.codegen.compiler import load_library
from dynident.integrators import integrator_named
from dynident.integrators.step_functions import stage_functions
from dynident.linalg.condensing import CondensedProblem
from dynident.linalg.finite_problem import Workspace
from dynident.transcription.shooting import Shooting

SAMPLES = size((301, 10_001), (31,))
RUNGE_KUTTA = integrator_named("runge_kutta")
SLOWER_THAN_C, FASTER_THAN_MACHINE, FASTER_THAN_LSODA = 1.25, 10.0, 500.0
AGREE = 1e-8  # relative, between ways with the same scheme; LSODA with differences agrees to its own tolerances only


def finite_problem(problem: di.Problem) -> Shooting:
    return Shooting(problem, RUNGE_KUTTA, [1], 1, {})


def ours(problem: di.Problem) -> tuple[Callable[[], CondensedProblem], np.ndarray]:
    """The pass, at a point that it has not seen, and the gradient that it found."""
    finite = finite_problem(problem)
    point = finite.start()
    workspace = Workspace()  # as a solver without nodes has it
    condensed = CondensedProblem(finite.linearize(point))
    return (lambda: CondensedProblem(finite.linearize(replace(point), workspace)),
            condensed.rows.gradient(np.zeros(len(problem.names))))


def start(problem: di.Problem) -> tuple[np.ndarray, np.ndarray]:
    """Initial state and parameters at which all ways are compared."""
    finite = finite_problem(problem)
    values = finite.coordinates.values(finite.start().unknowns)
    p, x0 = problem.parameters_and_initial_state(values, 0)
    return x0, p


def arrays(problem: di.Problem) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Time, inputs and measurements of the one record, samples by rows."""
    record = problem.experiments[0]
    return (np.asarray(record.time), np.column_stack([record.inputs[n] for n in problem.model.inputs]),
            np.column_stack([record.outputs[n] for n in problem.model.outputs]))


def hand_written(problem: di.Problem) -> tuple[Callable[[], float], np.ndarray]:
    """The loop of hand_loop.c around the same generated functions, by the same compiler with the same flags."""
    model = problem.model
    loop = Path(__file__).with_name("hand_loop.c").read_text()
    sizes = {"NX": len(model.states), "NU": len(model.inputs), "NP": len(model.parameters), "NY": len(model.outputs)}
    defines = "".join(f"#define {name} {size}\n" for name, size in sizes.items())
    functions = stage_functions(model, RUNGE_KUTTA, tuple(range(len(model.parameters))))
    front = kernel_text("elementary.c")
    library = load_library(f"hand loop {model.content_hash()} {front} {loop}",
                           lambda: front + c_source(functions) + defines + loop, QUICK)
    if library is None:
        raise RuntimeError("this benchmark needs a C compiler")
    library.hand_pass.restype = ctypes.c_double
    (time, u, measured), (x0, p) = arrays(problem), start(problem)
    weight = np.full_like(measured, 1 / problem.experiments[0].noise[model.outputs[0]].std)
    unknowns = len(x0) + len(p)
    A, g = np.empty((unknowns, unknowns)), np.empty(unknowns)
    held = [np.ascontiguousarray(a) for a in (time, u, p, x0, measured, weight, A, g)]
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in held]
    library.hand_pass(len(time), *pointers)
    gradient = np.concatenate([g[len(x0):], g[:len(x0)]])  # parameters first, as in problem.names

    def call(_: list[np.ndarray] = held) -> float:  # keeps the arrays alive
        return library.hand_pass(len(time), *pointers)

    return call, gradient


def mapaccum(problem: di.Problem) -> Callable[[], np.ndarray]:
    """CasADi's own way: fold the step over the samples and ask for the Jacobian of the whole, in its own machine."""
    model = problem.model
    functions = {f.name(): f for f in stage_functions(model, RUNGE_KUTTA, ())}
    (time, u, _), (x0, p) = arrays(problem), start(problem)
    n, q = len(time), ca.MX.sym("q", len(x0) + len(p))
    first, parameters = q[:len(x0)], q[len(x0):]
    t, h, x, u0, u1, par = (ca.MX.sym(f"v{i}", size) for i, size in
                            enumerate((1, 1, len(x0), u.shape[1], u.shape[1], len(p))))
    step = ca.Function("advance", [x, ca.vertcat(t, h, u0, u1), par],
                       [functions["dyn_step"](t, h, x, u0, u1, par)]).mapaccum(n - 1)
    columns = np.column_stack([time[:-1], np.diff(time), u[:-1], u[1:]]).T
    states = ca.horzcat(first, step(first, columns, ca.repmat(parameters, 1, n - 1)))
    outputs = functions["dyn_out"].map(n)(time[None], states, u.T, ca.repmat(parameters, 1, n))
    function = ca.Function("residuals", [q], [outputs, ca.jacobian(ca.vec(outputs), q)])
    at = np.concatenate([x0, p])
    return lambda: function(at)


def casadi_c(problem: di.Problem) -> tuple[Callable[[], object], Callable[[], object]]:
    """CasADi's own C of the whole pass: the step with its derivative folded over the samples, by the same compiler and flags.

    States and sensitivities of all samples come out (the second function, alone); the reduction to a triangle is NumPy's, as a
    user would write it (the first has both).
    """
    model = problem.model
    functions = {f.name(): f for f in stage_functions(model, RUNGE_KUTTA, ())}
    (time, u, measured), (x0, p) = arrays(problem), start(problem)
    nx, q, n = len(x0), len(x0) + len(p), len(time)
    x, S, v, par = ca.SX.sym("x", nx), ca.SX.sym("S", nx, q), ca.SX.sym("v", 2 + 2 * u.shape[1]), ca.SX.sym("p", len(p))
    u0, u1 = ca.vertsplit(v[2:], u.shape[1])
    after = functions["dyn_step"](v[0], v[1], x, u0, u1, par)
    chained = ca.jtimes(after, x, S) + ca.horzcat(ca.SX(nx, nx), ca.jacobian(after, par))
    step = ca.Function("folded_step", [ca.horzcat(x, S), v, par], [ca.densify(ca.horzcat(after, chained))])
    given = [ca.MX.sym("first", nx, q + 1), ca.MX.sym("columns", 2 + 2 * u.shape[1], n - 1), ca.MX.sym("many", len(p), n - 1)]
    whole = ca.Function("dyn_folded", given, [step.mapaccum(n - 1)(*given)])
    key = f"casadi fold {model.content_hash()} {n} {ca.__version__}"
    library = load_library(key, lambda: c_source([whole]), QUICK)
    assert library is not None
    call = ca.external("dyn_folded", library._name)
    columns = np.column_stack([time[:-1], np.diff(time), u[:-1], u[1:]]).T
    first, many = np.hstack([x0[:, None], np.eye(nx, q)]), np.tile(p[:, None], n - 1)
    weight = 1 / problem.experiments[0].noise[model.outputs[0]].std

    def run() -> object:
        found = np.asarray(call(first, columns, many)).reshape(nx, n - 1, q + 1).swapaxes(0, 1)
        rows = weight * np.vstack([first[None], found])  # all states are measured
        rows[:, :, 0] -= weight * measured
        return np.linalg.qr(np.roll(rows.reshape(-1, q + 1), -1, axis=1), mode="r")

    return run, lambda: call(first, columns, many)


def lsoda_simulation(problem: di.Problem, held: bool) -> Callable[[], np.ndarray]:
    """One simulation as one writes it with scipy; finite differences take one more per unknown."""
    (time, u, _), (x0, p) = arrays(problem), start(problem)
    values = dict(zip(problem.model.parameters, p, strict=True))
    first, second, step = u[:, 0].tolist(), u[:, 1].tolist(), float(time[1])

    def rate(t: float, x: np.ndarray) -> list[float]:
        k = min(int(t / step), len(first) - 2)
        share = 0.0 if held else t / step - k
        current = (first[k] + share * (first[k + 1] - first[k]), second[k] + share * (second[k + 1] - second[k]))
        return rate_in_plain_python(x, current, values)

    def simulate() -> np.ndarray:
        return solve_ivp(rate, (0, time[-1]), x0, method="LSODA", t_eval=time, rtol=1e-6, atol=1e-8).y.T

    return simulate


def measure(samples: int) -> list[Line]:
    problem = robot_problem(samples)
    call, gradient = ours(problem)
    loop, reference = hand_written(problem)
    if not np.allclose(gradient, reference, rtol=AGREE, atol=AGREE * np.max(np.abs(reference))):
        raise RuntimeError("the hand-written loop and dynident do not compute the same gradient")
    mine, hand = best(call), best(loop)
    generated, fold = (best(call) for call in casadi_c(problem))
    interpreted = in_fresh_process(__file__, "--machine", samples, environment={"DYNIDENT_CC": "none"})
    build, jacobian = once(lambda: mapaccum(problem))
    folded = best(jacobian, repeats=2)
    simulations = 1 + len(problem.names)
    smooth = simulations * best(lsoda_simulation(problem, held=False), repeats=2)
    held = simulations * once(lsoda_simulation(problem, held=True))[0]
    ratio = mine / hand

    def line(what: str, seconds: float, least: float | None = None) -> Line:
        times = seconds / mine
        return Line(f"{samples} samples: {what}", f"{spoken(seconds)}, {ratio_text(times)} times ours",
                    f"at least {least:g} times" if least else "", None if least is None else times >= least)

    return [Line(f"{samples} samples: dynident", f"{spoken(mine)}, {ratio:.2f} times the loop by hand",
                 f"at most {SLOWER_THAN_C:g} times", ratio <= SLOWER_THAN_C),
            line("C loop by hand (normal equations)", hand),
            line("CasADi's C of the step folded with its derivative, by the same compiler and flags, no reduction", fold),
            line("the same and NumPy's QR", generated),
            line("CasADi's own machine (no compiler)", interpreted, FASTER_THAN_MACHINE),
            line(f"CasADi mapaccum and its Jacobian (built in {spoken(build)})", folded),
            line(f"scipy LSODA, {simulations} simulations, currents linear between samples", smooth, FASTER_THAN_LSODA),
            line(f"scipy LSODA, {simulations} simulations, currents held between samples", held, FASTER_THAN_LSODA)]


def machine(samples: int) -> float:
    """Seconds of our pass in this process; the caller takes the compiler away."""
    return best(ours(robot_problem(samples))[0], repeats=3)


def run() -> Result:
    lines = [line for samples in SAMPLES for line in measure(samples)]
    return Result("One Gauss-Newton pass", "Two-link robot, 4 states all measured, 23 unknowns, Runge-Kutta 4; CPU time "
                  "of one simulation with all sensitivities and its reduction to a triangle.", lines,
                  ["The loop by hand adds up normal equations; dynident makes an orthogonal triangle, which takes twice "
                   "the arithmetic and keeps twice the digits. LSODA (tolerance 1e-6) is timed for one simulation, and "
                   "the time multiplied by their number; all others have currents that are linear between samples."])


if __name__ == "__main__":
    main(run, machine=machine)
