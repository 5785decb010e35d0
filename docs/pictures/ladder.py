"""Draws the picture of one run of the ladder: two oscillators of which only the sum is measured.

    python docs/pictures/ladder.py          writes docs/_static/ladder.svg
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

import dynident as di

matplotlib.use("svg")
import matplotlib.pyplot as plt

TARGET = Path(__file__).parents[1] / "_static" / "ladder.svg"


def problem() -> di.Problem:
    time = np.linspace(0, 10, 301)
    measured = np.cos(2 * time) + 0.5 * np.sin(5 * time) + 0.02 * np.random.default_rng(0).standard_normal(time.size)
    model = di.EquationModel(states={"x": "v", "v": "-a*x", "y": "w", "w": "-b*y"}, outputs={"sum": "x + y"})
    run = di.Experiment(time, outputs={"sum": measured}, noise={"sum": di.Gaussian(0.02)})
    return di.Problem(model, [run], [di.Parameter("a", start=40.0), di.Parameter("b", start=0.3)])


def draw() -> None:
    asked = problem()
    plain, whole = (fitted(asked, method) for method in (di.multiple_shooting(), di.automatic()))
    plt.rcParams.update({"svg.hashsalt": "dynident", "font.size": 9})  # the same file from the same run
    figure, (signals, costs) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained", width_ratios=[3, 2])
    run = asked.experiments[0]
    signals.plot(run.time, run.outputs["sum"], ".", ms=2, color="0.6", label="measured")
    for label, estimate, color in (("plain fit", plain, "tab:red"), (f"the ladder ({whole.arrived_by})", whole, "tab:blue")):
        signals.plot(run.time, estimate.trajectories[0].outputs["sum"], lw=1, color=color, label=label)
    signals.set(xlabel="time, s", ylabel="sum")
    signals.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    spent = np.cumsum([row.jacobians for row in whole.stages])
    best = np.array([row.best_cost for row in whole.stages])
    costs.semilogy(spent, best, "o-", color="tab:blue", drawstyle="steps-post")
    for row, x, y in zip(whole.stages, spent, best, strict=True):
        costs.annotate(row.stage, (x, y), xytext=(4, 4), textcoords="offset points")
    costs.axhline(asked.measured_values, color="0.6", lw=1, ls="--")
    costs.set(xlabel="simulations with sensitivities", ylabel="chi-square of the best end",
              xlim=(0, 1.25 * spent[-1]))
    figure.savefig(TARGET, metadata={"Date": None})


def fitted(asked: di.Problem, method: object) -> di.Estimate:
    try:
        return di.identify(asked, method, progress=False)
    except di.NotConverged as stopped:
        assert stopped.estimate is not None
        return stopped.estimate


if __name__ == "__main__":
    draw()
