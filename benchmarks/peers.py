"""Peers: the two problems of transcription_peers.py, written for opty and for GEKKO; run by a Python that has them.

    python peers.py opty|gekko case.json     ->  a line RESULT [{seconds, cost}, ...]
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np


def by_opty(case: dict) -> list[dict[str, float]]:
    """opty writes the trapezoid-like midpoint rule as constraints for Ipopt (cyipopt); exact first derivatives."""
    import sympy as sm
    import sympy.physics.mechanics as me
    from opty import Problem, create_objective_function  # noqa: F401  the second is part of opty's usual imports

    t = me.dynamicsymbols._t
    x, v = me.dynamicsymbols("x v")
    grid, y = np.array(case["time"]), np.array(case["y"])
    n, h = grid.size, grid[1] - grid[0]
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
    equations = sm.Matrix([v - x.diff(t), right - v.diff(t)])

    def cost(free):
        return float(np.sum((free[:n] - y) ** 2) / case["std"] ** 2)

    def slope(free):
        gradient = np.zeros_like(free)
        gradient[:n] = 2 * (free[:n] - y) / case["std"] ** 2
        return gradient

    results = []
    for start in case["starts"]:
        began = time.process_time()
        problem = Problem(cost, slope, equations, (x, v), n, h, known_trajectory_map=known, time_symbol=t,
                          integration_method="midpoint",
                          bounds={s: tuple(case["bounds"][m]) for s, m in zip(symbols, names, strict=True)})
        problem.add_option("print_level", 0)
        problem.add_option("max_iter", 500)
        guess = np.concatenate([y, np.gradient(y, h), [start[str(s)] for s in problem.collocator.unknown_parameters]])
        solution, info = problem.solve(guess)
        results.append({"seconds": time.process_time() - began, "cost": cost(solution) if info["status"] == 0 else np.inf})
    return results


def by_gekko(case: dict) -> list[dict[str, float]]:
    """GEKKO discretizes by collocation with 3 nodes per interval (2 are backward Euler) and calls its own Ipopt."""
    from gekko import GEKKO

    grid, y = np.array(case["time"]), np.array(case["y"])
    results = []
    for start in case["starts"]:
        began, wall = time.process_time(), time.perf_counter()
        m = GEKKO(remote=False)
        m.time = grid
        free = {}
        for name, (low, high) in case["bounds"].items():
            free[name] = m.FV(value=start[name], lb=low, ub=high)
            free[name].STATUS = 1
        x, v = m.Var(value=y, fixed_initial=False), m.Var(value=np.gradient(y, grid), fixed_initial=False)
        measured = m.Param(value=y)
        m.Equation(x.dt() == v)
        if case["name"] == "pendulum":
            m.Equation(v.dt() == -free["p"] * m.sin(x))
        else:
            u = m.Param(value=np.array(case["u"]))
            m.Equation(free["M"] * v.dt() == 35.15 * u - free["Fv"] * v - free["Fc"] * m.tanh(v / 0.02))
        m.Minimize(((x - measured) / case["std"]) ** 2)
        m.options.IMODE, m.options.NODES, m.options.MAX_ITER, m.options.SOLVER = 5, 3, 500, 3
        try:
            m.solve(disp=False)
            cost = float(np.sum(((np.array(x.value) - y) / case["std"]) ** 2))
        except Exception:
            cost = np.inf
        own = time.process_time() - began
        results.append({"seconds": max(own, time.perf_counter() - wall), "cost": cost})  # the solver is another process
        m.cleanup()
    return results


if __name__ == "__main__":
    made = {"opty": by_opty, "gekko": by_gekko}[sys.argv[1]](json.loads(Path(sys.argv[2]).read_text()))
    print("RESULT " + json.dumps(made).replace("Infinity", "1e300"))
