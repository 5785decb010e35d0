"""Other tools: the pendulum and the servo axis by opty (with cyipopt) and by GEKKO, beside our full discretization.

The pendulum y'' = -p sin y is the example of the literature for local minima: p = 10, 50 s, 5,000 points, angle only.
The peers are not installed with dynident. `pip install opty cyipopt gekko` into this environment, or name another Python
that has them in DYNIDENT_PEERS; without them the table says so and compares nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from timing import Line, Result, in_fresh_process, main, spoken

import dynident as di

FASTER = 5.0
SAME_COST = 1.01  # within 1 % of the lowest cost that any tool found
STARTS = 3
SEED = 3
PEERS = ("opty", "gekko")


def pendulum() -> dict[str, Any]:
    """Data and random starts of the pendulum."""
    model = di.EquationModel(states={"angle": "rate", "rate": "-p*sin(angle)"}, outputs=["angle"])
    time = np.linspace(0, 50, 5_000)
    clean = di.simulate(model, {"p": 10.0, "angle(0)": 1.0, "rate(0)": 0.0}, di.Experiment(time)).outputs["angle"]
    rng = np.random.default_rng(SEED)
    return {"name": "pendulum", "model": model, "time": time, "inputs": {}, "std": 0.01,
            "y": clean + 0.01 * rng.standard_normal(time.size), "bounds": {"p": (0.5, 50.0)},
            "starts": [{"p": float(rng.uniform(0.5, 50))} for _ in range(STARTS)], "output": "angle"}


def servo() -> dict[str, Any]:
    """Data and random starts of the servo axis: 2,001 points at 1 kHz, a voltage that moves linearly between samples."""
    model = di.EquationModel(states={"q": "v", "v": "(35.15*u - Fv*v - Fc*tanh(v/0.02))/M"}, inputs=["u"],
                             outputs={"position": "q"})
    time, rng = np.linspace(0, 2, 2_001), np.random.default_rng(SEED)
    u = np.repeat(rng.uniform(-3, 3, 21), 100)[:time.size]
    truth = {"M": 95.0, "Fv": 200.0, "Fc": 20.0, "q(0)": 0.0, "v(0)": 0.0}
    clean = di.simulate(model, truth, di.Experiment(time, inputs={"u": u}, hold="linear")).outputs["position"]
    bounds = {"M": (10.0, 1000.0), "Fv": (10.0, 1000.0), "Fc": (1.0, 200.0)}
    starts = [{n: float(np.exp(rng.uniform(*np.log(b)))) for n, b in bounds.items()} for _ in range(STARTS)]
    return {"name": "servo", "model": model, "time": time, "inputs": {"u": u}, "std": 1e-4,
            "y": clean + 1e-4 * rng.standard_normal(time.size), "bounds": bounds, "starts": starts, "output": "position"}


CASES = {"pendulum": pendulum, "servo": servo}


def ours(number: int) -> list[dict[str, float]]:
    """CPU seconds and sum of squares of each start by full discretization with the peers' scheme (trapezoid)."""
    import time as clock

    case = CASES[list(CASES)[number]]()
    run = di.Experiment(case["time"], inputs=case["inputs"], outputs={case["output"]: case["y"]},
                        hold="linear", noise={case["output"]: di.Gaussian(case["std"])})
    found = []
    for start in [case["starts"][0], *case["starts"]]:  # the first compiles
        parameters = [di.Parameter(n, start[n], *b) for n, b in case["bounds"].items()]
        began = clock.process_time()
        try:
            estimate = di.identify(di.Problem(case["model"], [run], parameters), di.full_discretization(
                "trapezoid", steps_per_sample=1), progress=False)
            cost = estimate.cost
        except di.NotConverged:
            cost = float("inf")
        found.append({"seconds": clock.process_time() - began, "cost": cost})
    return found[1:]


def of_peer(peer: str, case: dict[str, Any]) -> list[dict[str, float]] | str:
    """The same by a peer, in its own Python; a sentence where it cannot be had."""
    python = os.environ.get("DYNIDENT_PEERS", sys.executable)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "case.json")
        data.write_text(json.dumps({"name": case["name"], "time": case["time"].tolist(), "y": case["y"].tolist(),
                                    "u": [float(v) for v in case["inputs"].get("u", [])], "bounds": case["bounds"],
                                    "starts": case["starts"], "std": case["std"]}))
        run = subprocess.run([python, str(Path(__file__).with_name("peers.py")), peer, str(data)], capture_output=True,
                             text=True, check=False, cwd=folder)
    lines = [line for line in run.stdout.splitlines() if line.startswith("RESULT ")]
    if run.returncode or not lines:
        said = (run.stderr.strip().splitlines() or ["no answer"])[-1]
        return f"{peer} could not be run ({said})"
    return json.loads(lines[-1][len("RESULT "):])


def run() -> Result:
    lines, remarks = [], []
    for number, (name, make) in enumerate(CASES.items()):
        case = make()
        results = {"dynident": in_fresh_process(__file__, "--ours", number)}
        for peer in PEERS:
            answer = of_peer(peer, case)
            if isinstance(answer, str):
                remarks.append(f"{name}: {answer}.")
            else:
                results[peer] = answer
        lowest = min(r["cost"] for found in results.values() for r in found)
        own = _median(results["dynident"], lowest)
        for tool, found in results.items():
            reached = sum(r["cost"] <= SAME_COST * lowest for r in found)
            took = _median(found, lowest)
            text = f"{reached} of {len(found)} starts"
            text += f", {spoken(took)} each" if np.isfinite(took) else ""
            if tool == "dynident" or not np.isfinite(took):
                lines.append(Line(f"{name}, {tool}: reaches the lowest cost", text))
            else:
                lines.append(Line(f"{name}, {tool}: reaches the lowest cost", f"{text}, {took / own:.0f} times ours",
                                  f">= {FASTER:g} times", took / own >= FASTER))
    return Result("Beside other transcription tools", "Trapezoidal rule on the same grid, same random starts, states "
                  "started from the measurements; CPU time of a start that reaches the lowest cost, median, ours with "
                  "intervals, which the others do not give.", lines, remarks)


def _median(found: list[dict[str, float]], lowest: float) -> float:
    good = [r["seconds"] for r in found if r["cost"] <= SAME_COST * lowest]
    return float(np.median(good)) if good else float("nan")


if __name__ == "__main__":
    main(run, ours=ours)
