"""Peers: the two problems of transcription_peers.py, written for opty, Pyomo and GEKKO; run by a Python that has them.

    python peers.py opty|pyomo|gekko case.json     ->  a line RESULT {"build": seconds, "starts": [{seconds, cost, said}]}

All have the trapezoidal rule (opty: its midpoint rule) on the same grid, the same start values, bounds and first states,
and Ipopt with its own settings. Seconds are of CPU, of the processes that a tool starts too. What is done once whatever
the start is `build`: opty's and Pyomo's problem; GEKKO reads its model anew in each solve.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from typing import Any

import numpy as np
from timing import answer_as_peer

ITERATIONS = 500
SOLVED = (0, 1)  # Ipopt's word for its own tolerances, and for those that it calls acceptable
NEVER = 1e300  # cost of a start that ended without a solution; JSON has no infinity


def seconds() -> float:
    """CPU of this process and of those that it has started and seen end."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(own.ru_utime + own.ru_stime for own in spent)


def weighted(case: dict, angle: Any) -> float:
    """The sum of squares that all are judged by."""
    return float(np.sum(((np.asarray(angle, float) - np.array(case["y"])) / case["std"]) ** 2))


def by_opty(case: dict) -> dict[str, Any]:
    """Constraints by opty's midpoint rule, first derivatives by its generated C, Ipopt by cyipopt."""
    import sympy as sm
    import sympy.physics.mechanics as me
    from opty import Problem

    began = seconds()
    t = me.dynamicsymbols._t
    x, v = me.dynamicsymbols("x v")
    grid, y, guess = np.array(case["time"]), np.array(case["y"]), np.array(case["guess"])
    n, h = grid.size, float(grid[1] - grid[0])
    known, names = {}, list(case["bounds"])
    symbols = sm.symbols(names)
    if case["name"] == "pendulum":
        (p,) = symbols
        right = -p * sm.sin(x)
    else:
        mass, viscous, dry = symbols
        u = me.dynamicsymbols("u")
        known[u] = np.array(case["u"])
        right = (35.15 * u - viscous * v - dry * sm.tanh(v / 0.02)) / mass

    def cost(free: np.ndarray) -> float:
        return weighted(case, free[:n])

    def slope(free: np.ndarray) -> np.ndarray:
        gradient = np.zeros_like(free)
        gradient[:n] = 2 * (free[:n] - y) / case["std"] ** 2
        return gradient

    problem = Problem(cost, slope, sm.Matrix([v - x.diff(t), right - v.diff(t)]), (x, v), n, h, known_trajectory_map=known,
                      time_symbol=t, integration_method="midpoint",
                      bounds={s: tuple(case["bounds"][m]) for s, m in zip(symbols, names, strict=True)})
    problem.add_option("print_level", 0)
    problem.add_option("max_iter", ITERATIONS)
    order = [str(s) for s in problem.collocator.unknown_parameters]

    def solve(start: dict[str, float]) -> tuple[float, str]:
        solution, info = problem.solve(np.concatenate([*guess.T, [start[name] for name in order]]))
        return cost(solution) if info["status"] in SOLVED else NEVER, info["status_msg"].decode()

    return _timed(case, solve, seconds() - began)


def by_pyomo(case: dict) -> dict[str, Any]:
    """The trapezoidal rule as constraints; Pyomo writes them to a file that the program `ipopt` reads."""
    import pyomo.environ as pyo

    began = seconds()
    grid, y, guess = np.array(case["time"]), np.array(case["y"]), np.array(case["guess"])
    half, u = float(grid[1] - grid[0]) / 2, case["u"]
    model = pyo.ConcreteModel()
    model.at, model.steps = pyo.RangeSet(0, grid.size - 1), pyo.RangeSet(1, grid.size - 1)
    model.free = pyo.Var(list(case["bounds"]), bounds=lambda _, name: tuple(case["bounds"][name]))
    model.x, model.v = pyo.Var(model.at), pyo.Var(model.at)

    def rate(k: int) -> Any:
        if case["name"] == "pendulum":
            return -model.free["p"] * pyo.sin(model.x[k])
        pull = 35.15 * u[k] - model.free["Fv"] * model.v[k] - model.free["Fc"] * pyo.tanh(model.v[k] / 0.02)
        return pull / model.free["M"]

    model.position = pyo.Constraint(model.steps, rule=lambda m, k: m.x[k] == m.x[k - 1] + half * (m.v[k] + m.v[k - 1]))
    model.speed = pyo.Constraint(model.steps, rule=lambda m, k: m.v[k] == m.v[k - 1] + half * (rate(k) + rate(k - 1)))
    model.cost = pyo.Objective(expr=sum((model.x[k] - float(y[k])) ** 2 for k in model.at) / case["std"] ** 2)
    ipopt = pyo.SolverFactory("ipopt")
    ipopt.options["max_iter"] = ITERATIONS

    def solve(start: dict[str, float]) -> tuple[float, str]:
        for k in model.at:
            model.x[k].value, model.v[k].value = float(guess[k, 0]), float(guess[k, 1])
        for name, value in start.items():
            model.free[name].value = value
        said = str(ipopt.solve(model).solver.termination_condition)
        return weighted(case, [model.x[k].value for k in model.at]) if said == "optimal" else NEVER, said

    return _timed(case, solve, seconds() - began)


def by_gekko(case: dict) -> dict[str, Any]:
    """GEKKO's own Ipopt on the trapezoidal rule, which is its rule for two nodes (backward Euler) in shifted states.

    (x + h/2 f(x)) at k minus the same at k - 1 is h f(x_k) exactly where x follows the trapezoidal rule. Backward Euler
    itself damps the pendulum so that no p fits; with three nodes the points between two samples do not begin where the
    measurements say, and Ipopt ends in another optimum (p = 0.5 or 0.6). The equations are not asked for at the first
    point, which makes GEKKO's cost smaller by some 1e-4 of it.
    """
    from gekko import GEKKO

    grid, y, guess = np.array(case["time"]), np.array(case["y"]), np.array(case["guess"])
    half = float(grid[1] - grid[0]) / 2

    def solve(start: dict[str, float]) -> tuple[float, str]:
        m = GEKKO(remote=False)
        m.time = grid
        free = {name: m.FV(value=start[name], lb=low, ub=high) for name, (low, high) in case["bounds"].items()}
        for each in free.values():
            each.STATUS = 1
        measured, u = m.Param(value=y), m.Param(value=np.array(case["u"])) if case["u"] else None
        begun = _rate(case["name"], start, guess[:, 0], guess[:, 1], np.array(case["u"]), np)
        x, v, shifted_x, shifted_v = (m.Var(value=first, fixed_initial=False) for first in (
            guess[:, 0], guess[:, 1], guess[:, 0] + half * guess[:, 1], guess[:, 1] + half * begun))
        rate = _rate(case["name"], free, x, v, u, m)
        m.Equations([shifted_x == x + half * v, shifted_v == v + half * rate, shifted_x.dt() == v, shifted_v.dt() == rate])
        m.Minimize(((x - measured) / case["std"]) ** 2)
        m.options.IMODE, m.options.NODES, m.options.MAX_ITER, m.options.SOLVER = 5, 2, ITERATIONS, 3
        try:
            m.solve(disp=False)
            return weighted(case, x.value.value), "solved"
        except Exception as reason:
            return NEVER, str(reason).strip().splitlines()[0]
        finally:
            m.cleanup()

    return _timed(case, solve, 0.0)


def _rate(name: str, free: Any, x: Any, v: Any, u: Any, maths: Any) -> Any:
    if name == "pendulum":
        return -free["p"] * maths.sin(x)
    return (35.15 * u - free["Fv"] * v - free["Fc"] * maths.tanh(v / 0.02)) / free["M"]


def _timed(case: dict, solve: Callable[[dict[str, float]], tuple[float, str]], build: float) -> dict[str, Any]:
    results = []
    for start in case["starts"]:
        spent = []
        for _ in range(case.get("repeats", 1)):
            began = seconds()
            cost, said = solve(start)
            spent.append(seconds() - began)
        results.append({"seconds": min(spent), "cost": cost if np.isfinite(cost) else NEVER, "said": said})
    return {"build": build, "starts": results}


if __name__ == "__main__":
    tools = {"opty": by_opty, "pyomo": by_pyomo, "gekko": by_gekko}
    answer_as_peer(lambda peer, case: tools[peer](case))
