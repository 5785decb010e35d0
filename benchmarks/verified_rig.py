"""The drive train rig: how much tighter are the recursion and the batch than the published method, on the same data?

One driving cycle of 8 s (the whole of Fig. 6 has five and 40 s of standstill), the same cap on the number of boxes. And
the two-exponential problem of the literature.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from timing import Line, Result, main, once, spoken

import dynident as di

CAP = 200
BOUNDS = {"alpha": (-6.0, 0.0), "beta": (10.0, 1000.0), "T_Fs": (0.0, 0.3)}
TARGETS = {"recursive": 20.0, "batch": 80.0}
GOOD_HULL = {"p1": (0.328125, 0.777344), "p2": (0.150391, 0.533203)}
DATA = Path(__file__).parents[1] / "tests" / "data" / "two_exponential.csv"


def widths(problem: di.Problem, algorithm: str) -> tuple[float, dict[str, float]]:
    method = di.set_membership(algorithm=algorithm, cap=CAP, reset={"T_Fs": "speed"},
                               velocity_subdivisions=20 if algorithm == "paper" else 0)
    seconds, estimate = once(lambda: di.identify(problem, method, progress=False))
    return seconds, {name: float(np.diff(estimate.uncertainty.interval(name))[0]) for name in BOUNDS}


def two_exponentials() -> list[Line]:
    table = np.genfromtxt(DATA, delimiter=",", names=True)
    run_ = di.Experiment(time=np.append(0, table["t"]), initial={"x1": 1.0, "x2": 1.0},
                         outputs={"y": np.append(np.nan, 0.5 * (table["y_hi"] + table["y_lo"]))},
                         noise={"y": di.Bounded(np.append(1.0, 0.5 * (table["y_hi"] - table["y_lo"])))})
    model = di.EquationModel(states={"x1": "-p1*x1", "x2": "-p2*x2"}, outputs={"y": "20*x1 - 8*x2"})
    problem = di.Problem(model, [run_], [di.Parameter("p1", 0.5, 0, 1), di.Parameter("p2", 0.5, 0, 1)])
    seconds, estimate = once(lambda: di.identify(problem, di.set_membership(tolerance=0.005), progress=False))
    worst = max(float(np.diff(estimate.uncertainty.interval(n))[0]) / (b - a) for n, (a, b) in GOOD_HULL.items())
    return [Line("two exponentials: width of the hull / published hull", f"{worst:.3f}", "<= 1.02", worst <= 1.02),
            Line("two exponentials: CPU time", spoken(seconds))]


def run() -> Result:
    time, torque = di.library.driving_cycles(0.0, 8.0)
    rig = di.library.drive_train_record(time, torque)
    problem = di.Problem(di.library.drive_train(), [rig.experiment], [
        di.Parameter(name, 0.5 * (a + b), a, b) for name, (a, b) in BOUNDS.items()])
    paper_seconds, paper = widths(problem, "paper")
    lines = [Line("published method: CPU time", spoken(paper_seconds))]
    for algorithm, target in TARGETS.items():
        seconds, own = widths(problem, algorithm)
        for name in BOUNDS:
            ratio = paper[name] / own[name]
            lines.append(Line(f"{algorithm}: {name}, published width / own", f"{ratio:.0f}", f">= {target:g}",
                              ratio >= target))
        lines.append(Line(f"{algorithm}: CPU time / published", f"{seconds / paper_seconds:.2f}"))
    return Result("Verified identification", f"One driving cycle, 800 samples, at most {CAP} boxes.",
                  [*lines, *two_exponentials()])


if __name__ == "__main__":
    main(run)
