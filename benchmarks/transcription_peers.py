"""Other tools: the pendulum and the servo axis by opty (with cyipopt), Pyomo and GEKKO, beside our full discretization.

The pendulum y'' = -p sin y is the example of the literature for local minima: p = 10, 50 s, 5,000 points, angle only.
The peers are not installed with dynident: `make bench` does so, or name a Python that has them in DYNIDENT_PEERS. Pyomo needs
the program `ipopt` on the path. Without them the table says so and compares nothing. GEKKO takes most of a minute for a
start and gets few of them; DYNIDENT_ALL_STARTS=1 gives it all.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from timing import Line, Result, in_fresh_process, main, of_peer, ratio_text, size, spoken

import dynident as di

FASTER = 5.0
SAME_COST = 1.001  # times the lowest cost that any tool found; the discretizations differ by less
STARTS = size(10, 1)
REPEATS = size(3, 1)  # of each start; the best counts, since other work on the machine only ever adds
SEED = 3
POINTS = size({"pendulum": 5_000, "servo": 2_001}, {"pendulum": 100, "servo": 101})
PEERS = {"opty": (STARTS, REPEATS), "pyomo": (STARTS, REPEATS),  # how many starts, how often each
         "gekko": (STARTS if os.environ.get("DYNIDENT_ALL_STARTS") else 2, 1)}
METHOD = di.full_discretization("trapezoid", substeps=1)


def pendulum() -> dict[str, Any]:
    """Data and random starts of the pendulum."""
    model = di.EquationModel(states={"angle": "rate", "rate": "-p*sin(angle)"}, outputs=["angle"])
    points = POINTS["pendulum"]
    times = np.linspace(0, 0.01 * points, points)
    clean = di.simulate(model, {"p": 10.0, "angle(0)": 1.0, "rate(0)": 0.0}, di.Experiment(times)).outputs["angle"]
    rng = np.random.default_rng(SEED)
    run = di.Experiment(times, outputs={"angle": clean + 0.01 * rng.standard_normal(times.size)},
                        noise={"angle": di.Gaussian(0.01)})
    return {"name": "pendulum", "model": model, "run": run, "bounds": {"p": (0.5, 50.0)},
            "starts": [{"p": float(rng.uniform(0.5, 50))} for _ in range(STARTS)]}


def servo() -> dict[str, Any]:
    """Data and random starts of the servo axis: 2,001 points at 1 kHz, a voltage that moves linearly between samples."""
    model = di.EquationModel(states={"q": "v", "v": "(35.15*u - Fv*v - Fc*tanh(v/0.02))/M"}, inputs=["u"],
                             outputs={"position": "q"})
    points = POINTS["servo"]
    times, rng = np.linspace(0, 1e-3 * (points - 1), points), np.random.default_rng(SEED)
    inputs = {"u": np.repeat(rng.uniform(-3, 3, 21), 100)[:times.size]}
    truth = {"M": 95.0, "Fv": 200.0, "Fc": 20.0, "q(0)": 0.0, "v(0)": 0.0}
    clean = di.simulate(model, truth, di.Experiment(times, inputs=inputs, hold="linear")).outputs["position"]
    run = di.Experiment(times, inputs=inputs, outputs={"position": clean + 1e-4 * rng.standard_normal(times.size)},
                        hold="linear", noise={"position": di.Gaussian(1e-4)})
    bounds = {"M": (10.0, 1000.0), "Fv": (10.0, 1000.0), "Fc": (1.0, 200.0)}
    return {"name": "servo", "model": model, "run": run, "bounds": bounds,
            "starts": [{n: float(np.exp(rng.uniform(*np.log(b)))) for n, b in bounds.items()} for _ in range(STARTS)]}


CASES = {"pendulum": pendulum, "servo": servo}


def problem_of(case: dict[str, Any], start: dict[str, float]) -> di.Problem:
    return di.Problem(case["model"], [case["run"]], [di.Parameter(n, start[n], *b) for n, b in case["bounds"].items()])


def ours(number: int) -> list[dict[str, float]]:
    """CPU seconds and sum of squares of each start by full discretization with the peers' scheme (trapezoid)."""
    case = CASES[list(CASES)[number]]()
    found = []
    _fitted(case, case["starts"][0])  # compiles
    for start in case["starts"]:
        seconds, costs = zip(*(_fitted(case, start) for _ in range(REPEATS)), strict=True)
        found.append({"seconds": min(seconds), "cost": costs[0]})
    return found


def _fitted(case: dict[str, Any], start: dict[str, float]) -> tuple[float, float]:
    """CPU seconds and sum of squares of one fit."""
    began = time.process_time()
    try:
        cost = di.identify(problem_of(case, start), METHOD, progress=False).cost
    except di.NotConverged:
        cost = float("inf")
    return time.process_time() - began, cost


def data_of(case: dict[str, Any], starts: int, repeats: int) -> dict[str, Any]:
    """A case as plain numbers, for others."""
    run, (output,) = case["run"], case["model"].outputs
    finite = METHOD.transcribe(problem_of(case, case["starts"][0]), 1, {})
    return {"name": case["name"], "time": run.time.tolist(), "y": run.outputs[output].tolist(),
            "u": [float(v) for v in run.inputs.get("u", [])], "guess": finite.states(finite.start(), 0).tolist(),
            "bounds": case["bounds"], "starts": case["starts"][:starts], "repeats": repeats, "std": run.noise[output].std}


def run() -> Result:
    lines, remarks = [], []
    for number, (name, make) in enumerate(CASES.items()):
        case = make()
        results = {"dynident": in_fresh_process(__file__, "--ours", number)}
        for peer, how_many in PEERS.items():
            answer = of_peer(Path(__file__).with_name("peers.py"), peer, data_of(case, *how_many))
            if isinstance(answer, str):
                remarks.append(f"{name}: {answer}.")
                continue
            results[peer] = answer["starts"]
            if answer["build"]:
                remarks.append(f"{name}: {peer} takes {spoken(answer['build'])} more to build the problem, once.")
            said = {r["said"] for r in answer["starts"] if r["cost"] > SAME_COST * min(o["cost"] for o in results["dynident"])}
            remarks += [f"{name}: where {peer} does not reach the cost, it says: {words}" for words in sorted(said)]
        lines += compared(name, results)
    return Result("Beside other transcription tools", "Trapezoidal rule (opty: its midpoint rule) on the same grid, the same "
                  "random starts and bounds, states started from the measurements as ours are. CPU time of a start that "
                  "reaches the lowest cost, the best of three (GEKKO: one), median over the starts: ours from the statement "
                  "of the problem to the intervals, which the others do not give; theirs without building the problem, "
                  "except GEKKO, which reads it anew in each solve. Nobody's compiling.", lines, remarks)


def compared(name: str, results: dict[str, list[dict[str, float]]]) -> list[Line]:
    lowest = min(r["cost"] for found in results.values() for r in found)
    took = {tool: [r["seconds"] for r in found if r["cost"] <= SAME_COST * lowest] for tool, found in results.items()}
    lines = []
    for tool, found in results.items():
        what, text = f"{name}, {tool}: starts that reach the lowest cost", f"{len(took[tool])} of {len(found)}"
        if not took[tool]:
            lines.append(Line(what, text))
            continue
        text += f", {spoken(float(np.median(took[tool])))} each"
        if tool == "dynident" or not took["dynident"]:
            lines.append(Line(what, text))
            continue
        ratio = float(np.median(took[tool]) / np.median(took["dynident"]))
        lines.append(Line(what, f"{text}, {ratio_text(ratio)} times ours", f">= {FASTER:g} times", ratio >= FASTER))
    return lines


if __name__ == "__main__":
    main(run, ours=ours)
