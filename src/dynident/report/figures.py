"""How do the signals of an estimate look on paper?"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dynident._util.progress import in_notebook
from dynident.errors import DynidentError
from dynident.estimate.estimate import Estimate
from dynident.report.charts import DOTS_UP_TO, TWO_SIDED_95, SignalRecord, fitted_records, kept_samples, mode_strips, with_unit
from dynident.report.comparison import waterfall
from dynident.statistics.uncertainty import LEVEL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dynident.boundary.solve_bvp.result import BoundarySolution
    from dynident.boundary.solve_bvp.root_finding import RootIteration
    from dynident.design.plan import Plan
    from dynident.statistics.profile_likelihood import Profile
    from dynident.transcription.nlp_structure import NlpStructure

MEASURED, FITTED, RESIDUAL, SECOND, INK, LINE = "#8a949a", "#0072b2", "#5f7886", "#c65102", "#1b2226", "#dde2e4"
MODES = ("#8a949a", "#0072b2", "#c65102", "#7a6a2f", "#5f7886")  # bands behind the curves, one colour per mode
COLUMNS = 3  # experiments beside each other; more go into the next row
STYLE: Any = {"axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#9aa4aa", "axes.grid": True,
         "grid.color": LINE, "grid.linewidth": 0.6, "axes.axisbelow": True, "text.color": INK, "axes.labelcolor": INK,
         "xtick.color": "#586269", "ytick.color": "#586269", "font.size": 9, "axes.titlesize": 10,
         "axes.titlelocation": "left", "legend.frameon": False, "figure.constrained_layout.use": True,
         "axes.formatter.useoffset": False, "axes.unicode_minus": True}


def estimate_figure(estimate: Estimate, width: float = 0.0) -> Figure:
    """Per experiment and output: measured against fitted, residuals below; `width` in inches (automatic if 0)."""
    import matplotlib.pyplot as plt

    records = fitted_records(estimate)
    measured = {name for record in records for name in record.measured}
    outputs = [name for name in estimate.problem.model.outputs if name in measured]
    columns = min(len(records), COLUMNS)
    blocks = -(-len(records) // columns)
    size = (width or 3.6 + 3.4 * columns, 0.6 + 2.7 * blocks * len(outputs))
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=size)
        grid = figure.subplots(2 * blocks * len(outputs), columns, squeeze=False,
                               gridspec_kw={"height_ratios": [3, 1] * (blocks * len(outputs))})
        for axes in grid.flat:
            axes.set_visible(False)  # until something is drawn in it: the last row of experiments may be short
        for number, record in enumerate(records):
            first = 2 * len(outputs) * (number // columns)
            shown = [output for output in outputs if output in record.measured]
            for place, output in enumerate(shown):
                above, below = grid[first + 2 * place: first + 2 * place + 2, number % columns]
                above.sharex(grid[first, number % columns])
                below.sharex(above)
                _signal(above, below, record, output, estimate.noise_std)
                last = place == len(shown) - 1
                below.tick_params(labelbottom=last)
                below.set_xlabel(_literal(with_unit("time", record.units.get("time", ""))) if last else "")
            grid[first, number % columns].set_title(_literal(record.name) if len(records) > 1 else "")
        above_title = (0, 1.0 if len(records) == 1 else 1.1)
        grid[0, 0].legend(loc="lower left", bbox_to_anchor=above_title, ncols=5, borderaxespad=0.2)
        figure.align_ylabels()
        _warn(figure, estimate)
    return _shown_once(figure)


def _shown_once(figure: Figure) -> Figure:
    """In a notebook what a cell returns is shown; pyplot would show every open figure a second time."""
    if in_notebook():
        from matplotlib import pyplot as plt

        plt.close(figure)
    return figure


def convergence_figure(estimate: Estimate) -> Figure:
    """Cost, step and violated matching conditions per iteration."""
    import matplotlib.pyplot as plt

    if not estimate.history:
        raise DynidentError("this estimate holds no history of iterations, so there is no convergence to draw.")
    count = [entry.number for entry in estimate.history]
    cost = np.array([entry.cost for entry in estimate.history])
    with plt.rc_context(STYLE):
        figure, (above, below) = plt.subplots(2, 1, figsize=(6.4, 4.6), sharex=True)
        above.plot(count, cost, "o-", color=FITTED, ms=4, lw=1.4)
        above.set(ylabel="cost", yscale="log" if np.all(cost > 0) else "linear")
        step = np.array([entry.step for entry in estimate.history])
        max_defect = np.array([entry.max_defect for entry in estimate.history])
        for name, color, length in (("scaled step", SECOND, step), ("max defect", MEASURED, max_defect)):
            if np.any(length > 0):
                shown = np.where(length > 0, length, np.nan)  # a logarithmic axis has no place for zero
                below.plot(count, shown, "o-", color=color, ms=4, lw=1.4, label=name)
                below.set_yscale("log")
                below.legend(loc="lower left")
        below.set_xlabel("iteration")
        below.xaxis.get_major_locator().set_params(integer=True)
        _warn(figure, estimate)
    return _shown_once(figure)


def _signal(above: Axes, below: Axes, record: SignalRecord, output: str, noise_std: Mapping[str, float]) -> None:
    above.set_visible(True)
    below.set_visible(True)
    for (mode, holds), color in zip(mode_strips(record).items(), itertools.cycle(MODES)):
        turns = np.flatnonzero(np.diff(holds, prepend=0.0, append=0.0))  # on, off, on, off, ...
        begins, ends = record.time[turns[::2]], record.time[np.minimum(turns[1::2], record.time.size - 1)]
        above.broken_barh(list(zip(begins, ends - begins, strict=True)), (0, 1), transform=above.get_xaxis_transform(),
                          color=color, alpha=0.12, lw=0, label=_literal(mode))
    _curve(above, record.time, record.measured[output], MEASURED, True, label="measured")
    _curve(above, record.time, record.modelled[output], FITTED, False, label=record.word)
    _curve(below, record.time, record.residuals[output], RESIDUAL, True)
    if output in noise_std:
        reach = TWO_SIDED_95 * noise_std[output]
        below.axhspan(-reach, reach, color=FITTED, alpha=0.1, lw=0)
    above.set_ylabel(_literal(with_unit(output, record.units.get(output, ""))))
    below.set_ylabel("residual")
    above.tick_params(labelbottom=False)
    for axes in (above, below):
        axes.margins(x=0.01)


def _curve(axes: Axes, x: np.ndarray, y: np.ndarray, color: str, dots: bool, **more: Any) -> None:
    kept = kept_samples(y)
    if dots and np.size(y) <= DOTS_UP_TO:
        axes.plot(x[kept], y[kept], ".", color=color, ms=3, **more)
    else:
        axes.plot(x[kept], y[kept], "-", color=color, lw=0.7 if dots else 1.5, **more)


def _literal(text: str) -> str:
    return text.replace("$", r"\$")  # a name is text, not a formula


def _warn(figure: Figure, estimate: Estimate) -> None:
    if not estimate.converged:
        figure.suptitle("NOT CONVERGED", color="white", fontweight="bold", backgroundcolor="#a3150c")


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
    return _shown_once(figure)


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
    return _shown_once(figure)


def _line(axes: Axes, count: np.ndarray, values: list[float], color: str, label: str) -> None:
    positive = np.array([value if value > 0 else np.nan for value in values])  # a logarithmic axis has no place for zero
    axes.plot(count, positive, ".-", color=color, ms=4, lw=1.2, label=label)
    axes.set_yscale("log")


if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plan_figure(plan: Plan) -> Figure:
    """Per record: inputs above, expected states below, over time."""
    import matplotlib.pyplot as plt

    rows = [*plan.records[0].inputs, *plan.records[0].states]
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(len(rows), len(plan.records), sharex="col", squeeze=False,
                                    figsize=(1 + 4.2 * len(plan.records), 0.6 + 1.6 * len(rows)))
        for column, record in zip(grid.T, plan.records, strict=True):
            for axes, name in zip(column, rows, strict=True):
                given = name in record.inputs
                style = {"drawstyle": "steps-post"} if given and record.hold[name] == "zero" else {}
                axes.plot(record.time, record.inputs[name] if given else record.states[name],
                          color=SECOND if given else FITTED, lw=1.4, **style)
                axes.set_ylabel(name.replace("$", r"\$"))
            column[0].set_title(record.name.replace("$", r"\$"))
            column[-1].set_xlabel("time")
    return _shown_once(figure)


if TYPE_CHECKING:
    from matplotlib.figure import Figure


def profile_figure(profile: Profile) -> Figure:
    """Above: rise of the sum of squares with the threshold and the linearised parabola; below: the path of partners."""
    import matplotlib.pyplot as plt

    with plt.rc_context(STYLE):
        columns = len(profile.curves)
        figure, grid = plt.subplots(2, columns, figsize=(0.6 + 3.0 * columns, 4.6), sharex="col", squeeze=False)
        for (name, curve), (above, below) in zip(profile.curves.items(), grid.T, strict=True):
            i = profile.names.index(name)
            limit = profile.threshold_root(name, LEVEL) ** 2
            above.plot(curve.values, curve.rise, "o-", color=FITTED, ms=3, lw=1.4)
            if np.isfinite(limit):
                above.axhline(limit, color=SECOND, lw=1, ls="--")
            std = profile.base.std(name)
            if np.isfinite(std) and std > 0:
                fine = np.linspace(curve.values[0], curve.values[-1], 200)
                parabola = ((fine - profile.estimated[i]) / std) ** 2
                inside = parabola <= 1.5 * max(float(np.max(curve.rise)), limit if np.isfinite(limit) else 0.0)
                above.plot(fine[inside], parabola[inside], color=MEASURED, lw=1, zorder=1)
            above.set_title(name.replace("$", r"\$"))
            for partner in profile.partners(name)[:3]:
                j = profile.names.index(partner)
                change = (curve.path[:, j] - profile.estimated[j]) / (abs(profile.estimated[j]) or 1.0)
                below.plot(curve.values, change, ".-", ms=3, lw=1, label=partner)
            if below.lines:
                below.legend(fontsize=7)
            below.set_xlabel(name.replace("$", r"\$"))
        grid[0, 0].set_ylabel("rise of the sum of squares")
        grid[1, 0].set_ylabel("others, relative change")
    return _shown_once(figure)


if TYPE_CHECKING:
    from matplotlib.figure import Figure


def spy_figure(sizes: NlpStructure) -> Figure:
    """Constraint Jacobian and Hessian (upper triangle) side by side, with their relative densities."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 4.5), layout="constrained")
    for axis, matrix, title in ((axes[0], sizes.jacobian, f"Dg, density {sizes.density_jacobian:.2g}"),
                                (axes[1], sizes.hessian, f"DH, density {sizes.density_hessian:.2g}")):
        dots = max(0.3, min(4.0, 300 / max(matrix.shape)))
        axis.spy(matrix, markersize=dots, color="C0")
        axis.set_title(title)
        axis.set_xlabel(f"{matrix.shape[1]} variables, {matrix.nnz} nonzeros")
        axis.set_aspect("auto")
    return _shown_once(figure)


def waterfall_figure(estimate: Estimate) -> Figure:
    """The costs of all starts as a matplotlib figure."""
    import matplotlib.pyplot as plt

    if not estimate.starts:
        raise DynidentError("this estimate comes from one start; use multistart(...) to draw several.")
    steps = waterfall(estimate.starts)
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    axes.plot(steps.rank, steps.cost, color="0.8", lw=1, zorder=0)
    for name, marker, shown in (("converged", "o", steps.converged), ("not converged", "x", ~steps.converged)):
        axes.plot(steps.rank[shown], steps.cost[shown], marker, ms=5, label=name)
    axes.set(xlabel="start, best first", ylabel="cost", yscale="log" if np.all(steps.cost > 0) else "linear",
             title=steps.sentence)
    axes.legend(frameon=False)
    return _shown_once(figure)
