"""Arrival peers: the plants of arrival.py by what others would use.

scipy              least_squares over solve_ivp (LSODA), parameters and unknown first states, from the start
scipy multistart   the same from further starts, as long as the CPU lasts that automatic took for the same problem
compiled           least_squares with dynident's compiled simulation and exact derivatives, from further starts as long as that
                   CPU lasts: what a multistart reaches that pays nothing for an interpreter
opty               direct collocation (midpoint rule) by opty and Ipopt, from states that the record shows; run by the Python
                   that DYNIDENT_PEERS names. What it finds is polished by a shooting fit: its rule has an error of its own

    python arrival_peers.py opty case.json     the other side of the last one
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from timing import answer_as_peer, of_peer

SCIPY_SECONDS = 10.0  # CPU, after which a fit is taken as it stands
EVALUATIONS = 200
OPTY_ITERATIONS = 300
REFUSED = 1e3  # residual where a simulation fails: large, and finite, so that a search can go on
PEERS = ("scipy", "scipy multistart", "compiled", "opty")
BAD_STARTS = (ValueError, FloatingPointError, ZeroDivisionError, OverflowError)
Values = dict[str, float]


class OutOfTime(Exception):
    """The CPU that a peer may take is spent."""


def by_peer(peer: str, name: str, factor: int, start: int, given: bool, bounds: bool, equal: float
            ) -> tuple[Values | None, float]:
    """What a peer finds, and the CPU that it took; `equal` is what automatic took for the same problem."""
    if peer == "opty":
        return by_opty(name, factor, start, given, bounds)
    began = time.process_time()
    if peer == "compiled":
        found = by_compiled(name, factor, start, given, bounds, equal)
    else:
        found = by_scipy(name, factor, start, given, bounds, equal if peer == "scipy multistart" else 0.0)
    return found, time.process_time() - began


# searches by scipy


def searched(residuals: Callable[[np.ndarray], np.ndarray], jacobian: Any, starts: Iterator[np.ndarray], low: np.ndarray,
             high: np.ndarray, equal: float) -> np.ndarray | None:
    """The lowest point of all searches: the first to its end, others as long as the time lasts."""
    from scipy.optimize import least_squares

    began, best = time.process_time(), (np.inf, None)

    def watched(z: np.ndarray) -> np.ndarray:
        nonlocal best
        if time.process_time() - began > (SCIPY_SECONDS if first else equal):
            raise OutOfTime
        found = residuals(z)
        if (cost := float(found @ found)) < best[0]:
            best = cost, z.copy()
        return found

    first = True
    for z in starts:
        try:
            least_squares(watched, np.clip(z, low, high), jacobian, bounds=(low, high), x_scale="jac", max_nfev=EVALUATIONS)
        except OutOfTime:
            break
        except BAD_STARTS:
            pass
        first = False
        if time.process_time() - began >= equal:
            break
    return best[1]


def starting_values(name: str, factor: int, start: int) -> Iterator[Values]:
    """The start itself, then others that lie a factor around it."""
    import plants

    begin, rng = plants.start(name, factor, start), np.random.default_rng([7, start, factor])
    yield begin
    while True:
        yield {p: v * factor**a for (p, v), a in zip(begin.items(), rng.uniform(-1, 1, len(begin)), strict=True)}


def by_scipy(name: str, factor: int, start: int, given: bool, bounds: bool, equal: float) -> Values | None:
    """least_squares over solve_ivp, as one would write it."""
    import plants
    from scipy.integrate import solve_ivp

    it, run = plants.plant(name), plants.record(name, given)
    free = [s for s in it.states if s not in it.known]
    names = [*it.truth, *(f"{s}(0)" for s in free)]
    arguments = f"t, {', '.join([*it.states, *it.inputs, *it.truth])}"
    space = {**plants.NAMESPACE, **it.constants, "__builtins__": {}}
    rates = eval(f"lambda {arguments}: [{', '.join(it.states.values())}]", space)
    outputs = eval(f"lambda {arguments}: [{', '.join(it.outputs.values())}]", space)
    measured, last = [run.outputs[out] for out in it.outputs], it.time.size - 1
    held = list(np.array([np.zeros(it.time.size), *it.inputs.values()]).T[:, 1:].tolist())
    step = it.time[1] - it.time[0]

    def residuals(z: np.ndarray) -> np.ndarray:
        values = [float(v) for v in z[:len(it.truth)]]
        x0 = [z[len(it.truth) + free.index(s)] if s in free else it.initial[s] for s in it.states]
        ran = solve_ivp(lambda t, x: rates(t, *x, *held[min(max(int(t / step), 0), last)], *values), (it.time[0], it.time[-1]),
                        x0, "LSODA", it.time, rtol=1e-6, atol=1e-8, max_step=step if it.inputs else np.inf)
        if not ran.success or ran.y.shape[1] != it.time.size or not np.all(np.isfinite(ran.y)):
            return np.full(len(measured) * it.time.size, REFUSED)
        simulated = outputs(it.time, *ran.y, *it.inputs.values(), *values)
        return np.concatenate([(a - b) / np.std(b) for a, b in zip(simulated, measured, strict=True)])

    shown = {text: float(run.outputs[out][0]) for out, text in it.outputs.items()}  # states that are measured themselves
    first = [shown.get(s, 0.0) for s in free]
    starts = (np.array([*begin.values(), *first]) for begin in starting_values(name, factor, start))
    low, high = np.full(len(names), -np.inf), np.full(len(names), np.inf)
    for i, v in enumerate(it.truth.values() if bounds else ()):
        low[i], high[i] = sorted((v / plants.BOUND, v * plants.BOUND))
    best = searched(residuals, "2-point", starts, low, high, equal)
    return None if best is None else dict(zip(names, (float(v) for v in best), strict=True))


def by_compiled(name: str, factor: int, start: int, given: bool, bounds: bool, equal: float) -> Values | None:
    """least_squares with residuals and exact derivatives of dynident's single shooting, in the user's own coordinates."""
    import plants

    import dynident as di
    from dynident.errors import SimulationDiverged
    from dynident.linalg.finite_problem import Variables
    from dynident.methods.noise_estimation import initial_noise_std

    problem = plants.problem(name, factor, start, given, bounds)
    finite = di.single_shooting(integrator="runge_kutta").transcribe(problem, 4, initial_noise_std(problem))
    size = finite.residual_count

    def residuals(z: np.ndarray) -> np.ndarray:
        try:
            found = finite.linearization(Variables(z, finite.start().nodes)).residuals
        except SimulationDiverged:
            return np.full(size, REFUSED)
        return found if np.all(np.isfinite(found)) else np.full(size, REFUSED)

    def jacobian(z: np.ndarray) -> np.ndarray:
        try:
            found = finite.linearization(Variables(z, finite.start().nodes)).jacobian
        except SimulationDiverged:
            raise ValueError("no simulation") from None
        if not np.all(np.isfinite(found)):
            raise ValueError("no derivatives")
        return found

    begun = finite.start().unknowns
    places = [finite.names.index(p) for p in plants.plant(name).truth]

    def starts() -> Iterator[np.ndarray]:
        for begin in starting_values(name, factor, start):
            z = begun.copy()
            z[places] = list(begin.values())
            yield z

    best = searched(residuals, jacobian, starts(), finite.coordinates.lower, finite.coordinates.upper, equal)
    return None if best is None else dict(zip(finite.names, (float(v) for v in best), strict=True))


# collocation by opty


def by_opty(name: str, factor: int, start: int, given: bool, bounds: bool) -> tuple[Values | None, float]:
    """From states that the record shows; its values polished by single shooting, which is not counted as its CPU."""
    import plants

    import dynident as di

    it, problem = plants.plant(name), plants.problem(name, factor, start, given, bounds)
    finite = di.full_discretization("trapezoid", substeps=1).transcribe(problem, 1, plants.noise_std(name))
    limits = {p.name: (p.lower, p.upper) for p in problem.parameters} if bounds else {}
    case = {"states": dict(it.states), "outputs": dict(it.outputs), "constants": dict(it.constants), "time": it.time.tolist(),
            "inputs": {u: np.asarray(v).tolist() for u, v in it.inputs.items()}, "std": plants.noise_std(name),
            "measured": {out: np.asarray(y).tolist() for out, y in problem.experiments[0].outputs.items()},
            "start": plants.start(name, factor, start), "bounds": limits,
            "known": {s: it.initial[s] for s in it.known}, "guess": finite.states(finite.start(), 0).T.tolist()}
    answer = of_peer(Path(__file__), "opty", case)
    if isinstance(answer, str):
        if "No module" in answer:
            raise SystemExit(answer)
        return None, float("nan")  # it ended without an answer
    if not answer["values"] or not np.all(np.isfinite(list(answer["values"].values()))):
        return None, answer["seconds"]
    begun = [*(di.Parameter(p, answer["values"][p]) for p in it.truth),
             *(di.InitialState(s, start=answer["first"][s]) for s in it.states if s not in it.known)]
    try:
        found = di.identify(problem.replace(parameters=begun), di.single_shooting(), progress=False)
    except di.NotConverged as stopped:
        found = stopped.estimate
    except di.DynidentError:
        return None, answer["seconds"]
    return dict(found.values), answer["seconds"]


def opty_answer(case: dict[str, Any]) -> dict[str, Any]:
    """Run by a Python that has opty."""
    import sympy as sm
    import sympy.physics.mechanics as me
    from opty import Problem

    t = me.dynamicsymbols._t
    states = {s: me.dynamicsymbols(s) for s in case["states"]}
    inputs = {u: me.dynamicsymbols(u) for u in case["inputs"]}
    free = {p: sm.Symbol(p) for p in case["start"]}
    space = {**states, **inputs, **free, **case["constants"], "t": t, **{f: getattr(sm, f) for f in (
        "sin", "cos", "exp", "sqrt", "tanh", "pi", "log")}}
    rates = [eval(text, {"__builtins__": {}}, space) for text in case["states"].values()]
    grid = np.array(case["time"])
    n, h = grid.size, float(grid[1] - grid[0])
    shown = [eval(text, {"__builtins__": {}}, space) for text in case["outputs"].values()]
    arguments = [*states.values(), *free.values(), *inputs.values()]
    plain = [sm.Symbol(f"_{k}") for k in range(len(arguments))]
    shown = [sm.sympify(each).xreplace(dict(zip(arguments, plain, strict=True))) for each in shown]
    moving = [plain[k] for k in range(len(states) + len(free))]
    value = sm.lambdify(plain, shown)
    slopes = sm.lambdify(plain, [[sm.diff(each, z) for z in moving] for each in shown])
    known = {inputs[u]: np.array(v) for u, v in case["inputs"].items()}
    measured = [np.array(case["measured"][out]) / case["std"][out] for out in case["outputs"]]
    std = [case["std"][out] for out in case["outputs"]]

    def parts(z: np.ndarray) -> list[Any]:
        order = dict(zip(problem.collocator.unknown_parameters, z[n * len(states):], strict=True))
        return [*z[:n * len(states)].reshape(len(states), n), *(order[p] for p in free.values()), *known.values()]

    def cost(z: np.ndarray) -> float:
        return float(sum(np.sum((y / s - m) ** 2) for y, s, m in zip(value(*parts(z)), std, measured, strict=True)))

    def slope(z: np.ndarray) -> np.ndarray:
        here, gradient = parts(z), np.zeros_like(z)
        order = {p: n * len(states) + k for k, p in enumerate(problem.collocator.unknown_parameters)}
        for y, s, m, row in zip(value(*here), std, measured, slopes(*here), strict=True):
            pull = 2 * (y / s - m) / s
            for k, each in enumerate(row):
                along = pull * np.broadcast_to(np.asarray(each, float), (n,))
                if k < len(states):
                    gradient[k * n:(k + 1) * n] += along
                else:
                    gradient[order[list(free.values())[k - len(states)]]] += np.sum(along)
        return gradient

    fixed = [states[s].subs(t, float(grid[0])) - v for s, v in case["known"].items()]
    limits = {free[p]: tuple(b) for p, b in case["bounds"].items()}
    problem = Problem(cost, slope, sm.Matrix([r - x.diff(t) for x, r in zip(states.values(), rates, strict=True)]),
                      tuple(states.values()), n, h, known_trajectory_map=known, instance_constraints=tuple(fixed) or None,
                      time_symbol=t, integration_method="midpoint", bounds=limits or None)
    problem.add_option("print_level", 0)
    problem.add_option("max_iter", OPTY_ITERATIONS)
    order = [str(p) for p in problem.collocator.unknown_parameters]
    began = time.process_time()
    solution, _ = problem.solve(np.concatenate([*np.array(case["guess"]), [case["start"][p] for p in order]]))
    spent = time.process_time() - began
    return {"seconds": spent, "values": dict(zip(order, solution[n * len(states):].tolist(), strict=True)),
            "first": {s: float(solution[k * n]) for k, s in enumerate(states)}}


if __name__ == "__main__":
    answer_as_peer(lambda _peer, case: opty_answer(case))
