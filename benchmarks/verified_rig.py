"""The drive train rig: how much tighter are the recursion and the batch than the published method, on the same data?

The driving cycles of Fig. 6 without the 40 s of standstill before them, one run, the same cap on the number of boxes, the
published method with M = 50 and M_v = 20. Then the whole of Fig. 6 (three runs over 8,000 samples, 1,000 boxes). And the
two-exponential problem of the literature.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from timing import Line, Result, main, once, size, spoken

import dynident as di
from dynident.papers.drive_train import drive_train, drive_train_record, driving_cycles

MAX_BOXES, FIGURE_BOXES, RUNS = size((300, 1000, 3), (4, 4, 1))
CYCLES = size(40.0, 0.2)  # s: five of them
FIGURE_SIX = size((40.0, 80.0), (40.0, 40.2))  # s, of its record
WELL_UNDER_A_MINUTE = 45.0  # s of CPU time, for the whole of Fig. 6
SUBDIVISIONS = size({"subdivisions": 50, "velocity_subdivisions": 20}, {"subdivisions": 2, "velocity_subdivisions": 2})
TOLERANCE = size(0.005, 0.2)  # of the two exponentials
BOUNDS = {"alpha": (-6.0, 0.0), "beta": (10.0, 1000.0), "T_Fs": (0.0, 0.3)}
TARGETS = {"recursive": 20.0, "batch": 80.0}
GOOD_HULL = {"p1": (0.328125, 0.777344), "p2": (0.150391, 0.533203)}
DATA = Path(__file__).parents[1] / "tests" / "data" / "two_exponential.csv"


def rig_problem(start: float, end: float) -> di.Problem:
    rig = drive_train_record(*driving_cycles(start, end))
    return di.Problem(drive_train(), [rig.experiment], [
        di.Parameter(name, 0.5 * (a + b), a, b) for name, (a, b) in BOUNDS.items()])


def widths(problem: di.Problem, algorithm: str, max_boxes: int = MAX_BOXES, passes: int = 1) -> tuple[float, dict[str, float]]:
    paper = SUBDIVISIONS if algorithm == "paper" else {}
    method = di.set_membership(algorithm=algorithm, max_boxes=max_boxes, passes=passes, reset={"T_Fs": "speed"}, **paper)
    seconds, estimate = once(lambda: di.identify(problem, method, progress=False))
    return seconds, {name: float(np.diff(estimate.uncertainty.interval(name))[0]) for name in BOUNDS}


def two_exponentials() -> list[Line]:
    table = np.genfromtxt(DATA, delimiter=",", names=True)
    run_ = di.Experiment(time=np.append(0, table["t"]), initial={"x1": 1.0, "x2": 1.0},
                         outputs={"y": np.append(np.nan, 0.5 * (table["y_hi"] + table["y_lo"]))},
                         noise={"y": di.Bounded(np.append(1.0, 0.5 * (table["y_hi"] - table["y_lo"])))})
    model = di.EquationModel(states={"x1": "-p1*x1", "x2": "-p2*x2"}, outputs={"y": "20*x1 - 8*x2"})
    problem = di.Problem(model, [run_], [di.Parameter("p1", 0.5, 0, 1), di.Parameter("p2", 0.5, 0, 1)])
    seconds, estimate = once(lambda: di.identify(problem, di.set_membership(tolerance=TOLERANCE), progress=False))
    worst = max(float(np.diff(estimate.uncertainty.interval(n))[0]) / (b - a) for n, (a, b) in GOOD_HULL.items())
    return [Line("two exponentials: width of the hull / published hull", f"{worst:.3f}", "<= 1.02", worst <= 1.02),
            Line("two exponentials: CPU time", spoken(seconds))]


def against_the_paper() -> list[Line]:
    problem = rig_problem(0.0, CYCLES)
    paper_seconds, paper = widths(problem, "paper")
    lines = [Line("published method: widths of " + ", ".join(BOUNDS), ", ".join(f"{w:.3g}" for w in paper.values())),
             Line("published method: CPU time", spoken(paper_seconds))]
    for algorithm, target in TARGETS.items():
        seconds, own = widths(problem, algorithm)
        for name in BOUNDS:
            ratio = paper[name] / own[name]
            lines.append(Line(f"{algorithm}: {name}, published width / own ({own[name]:.2g})", f"{ratio:.0f}",
                              f">= {target:g}", ratio >= target))
        lines.append(Line(f"{algorithm}: CPU time / published", f"{seconds / paper_seconds:.2f}"))
    return lines


def figure_six() -> list[Line]:
    seconds, own = widths(rig_problem(*FIGURE_SIX), "recursive", FIGURE_BOXES, RUNS)
    return [Line(f"Fig. 6, {RUNS} runs, {FIGURE_BOXES:,} boxes: CPU time", spoken(seconds), f"<= {WELL_UNDER_A_MINUTE:g} s",
                 seconds <= WELL_UNDER_A_MINUTE),
            Line("Fig. 6: widths of " + ", ".join(BOUNDS), ", ".join(f"{w:.2g}" for w in own.values()))]


def run() -> Result:
    return Result("Verified identification", f"Five driving cycles, 4,000 samples, at most {MAX_BOXES} boxes; Fig. 6.",
                  [*against_the_paper(), *figure_six(), *two_exponentials()])


if __name__ == "__main__":
    main(run)
