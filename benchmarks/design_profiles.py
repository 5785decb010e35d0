"""Profiles of all unknowns of a servo axis: how many simulations do warm refits save beside cold fits?

The cold way fits the problem anew at every point of the same profiles, with the unknown held there, from the start values
of the problem file.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from timing import Line, Result, main, once, size, spoken

import dynident as di
from dynident.demo import copy_to

FEWER = 5.0
CURVES, POINTS = size((None, None), (1, 2))  # how many are done the cold way; None: all
SAME_RISE = 0.02  # of the sum of squares above the optimum: both ways must find the same profile


def cold(problem: di.Problem, name: str, value: float) -> tuple[int, float]:
    """Simulations and cost of one fit with an unknown held."""
    held = [replace(p, start=value, free=False, lower=-np.inf, upper=np.inf) if p.name == name else p
            for p in problem.parameters]
    found = di.identify(problem.replace(parameters=held), di.single_shooting(), progress=False)
    return found.counts["simulations"] + found.counts["jacobians"], found.cost


def run() -> Result:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file, *_ = copy_to(Path(folder, "axis"))
        problem = di.read_problem(file).problem
    estimate = di.identify(problem, di.single_shooting(), progress=False)
    warm_seconds, profile = once(lambda: di.profile(estimate))
    warm = sum(curve.simulations for curve in profile.curves.values())
    points, simulations, off, seconds = 0, 0, 0.0, 0.0
    for name, curve in list(profile.curves.items())[:CURVES]:
        for value, rise in list(zip(curve.values, curve.rise, strict=True))[:POINTS]:
            if rise == 0:
                continue
            took, (count, cost) = once(lambda name=name, value=value: cold(problem, name, float(value)))
            points, simulations, seconds = points + 1, simulations + count, seconds + took
            off = max(off, abs(cost - estimate.cost - rise) / max(rise, 1.0))
    ratio = simulations / warm
    return Result("Profiles of a servo axis", f"The demo's axis, {len(profile.curves)} unknowns, {points} points up to the "
                  "99 % threshold; simulations, with or without derivatives, and CPU time.",
                  [Line("dynident, warm refits", f"{warm} simulations, {spoken(warm_seconds)}"),
                   Line("cold fits at the same points", f"{simulations} simulations, {ratio:.3g} times ours; "
                        f"{spoken(seconds)}, {seconds / warm_seconds:.3g} times ours", f"at least {FEWER:g} times as many",
                        ratio >= FEWER),
                   Line("largest difference between both profiles", f"{off:.1e}", f"at most {SAME_RISE:g}", off <= SAME_RISE)])


if __name__ == "__main__":
    main(run)
