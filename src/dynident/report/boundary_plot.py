"""How does the solution of a boundary value problem look, and how did the solver get there?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynident.boundary.solve_bvp.result import BoundarySolution
from dynident.boundary.solve_bvp.root_finding import RootIteration
from dynident.report.plots import FITTED, MEASURED, SECOND, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PER_SEGMENT = 8  # points that are drawn
STATES_SHOWN = 6  # more than these would be too small to read


def boundary_figure(solution: BoundarySolution) -> Figure:
    """States over time with their nodes; below the length of the segments, and steps and residuals of every iteration."""
    import matplotlib.pyplot as plt

    shown = solution.names[:STATES_SHOWN]
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(len(shown) + 1, 1, figsize=(7.0, 1.6 * len(shown) + 2.2), sharex=True, squeeze=False)
        share = np.arange(PER_SEGMENT) / PER_SEGMENT
        time = np.append((solution.time[:-1, None] + share * np.diff(solution.time)[:, None]).ravel(), solution.time[-1])
        values = solution(time)
        for k, (axes, name) in enumerate(zip(grid[:-1, 0], shown, strict=True)):
            axes.plot(time, values[:, k], color=FITTED, lw=1.4)
            axes.plot(solution.time, solution.values[:, k], ".", color=MEASURED, ms=2.5)
            axes.set_ylabel(name.replace("$", r"\$"))
        grid[-1, 0].semilogy(solution.time[:-1], np.diff(solution.time), color=SECOND, lw=1, drawstyle="steps-post")
        grid[-1, 0].set(ylabel="segment", xlabel="time")
        if not solution.converged:
            figure.suptitle("NOT CONVERGED", color="white", fontweight="bold", backgroundcolor="#a3150c")
    return figure


def iterations_figure(pages: tuple[RootIteration, ...]) -> Figure:
    """Steps and residuals per iteration above, damping factors and steps in pseudo-time below; new Jacobians are marked."""
    import matplotlib.pyplot as plt

    with plt.rc_context(STYLE):
        figure, (above, below) = plt.subplots(2, 1, figsize=(6.4, 4.6), sharex=True)
        count = np.arange(1, len(pages) + 1)
        _line(above, count, [page.step for page in pages], SECOND, "step")
        _line(above, count, [page.residual for page in pages], FITTED, "residual")
        _line(below, count, [page.share for page in pages], FITTED, "share of the Newton step, or step in pseudo-time")
        fresh = [page.fresh for page in pages]
        below.plot(count[fresh], [page.share for page in pages if page.fresh], "o", color=SECOND, ms=4, label="new Jacobian")
        refused = [not page.accepted for page in pages]
        if any(refused):
            below.plot(count[refused], [page.share for page in pages if not page.accepted], "x", color=MEASURED, ms=5,
                       label="refused")
        below.set_xlabel("iteration")
        below.xaxis.get_major_locator().set_params(integer=True)
        for axes in (above, below):
            axes.legend(loc="best", fontsize=7)
    return figure


def _line(axes: Axes, count: np.ndarray, values: list[float], color: str, label: str) -> None:
    positive = np.array([value if value > 0 else np.nan for value in values])  # a logarithmic axis has no place for zero
    axes.plot(count, positive, ".-", color=color, ms=4, lw=1.2, label=label)
    axes.set_yscale("log")
