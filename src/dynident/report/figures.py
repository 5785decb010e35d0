"""How do the charts of an estimate look on paper: the same values as on the page, drawn by matplotlib?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dynident._util.progress import in_notebook
from dynident.errors import DynidentError
from dynident.estimate.estimate import Estimate
from dynident.report.charts import MAX_CURVE_POINTS, Chart, Curve, Panel, shown
from dynident.report.comparison import waterfall
from dynident.report.estimate_charts import convergence_chart, profile_chart, starts_chart
from dynident.report.signal_chart import fitted_records, signal_chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dynident.boundary.solve_bvp.result import BoundarySolution
    from dynident.boundary.solve_bvp.root_finding import RootIteration
    from dynident.design.plan import Plan
    from dynident.statistics.profile_likelihood import Profile
    from dynident.transcription.nlp_structure import NlpStructure

COLORS = {"measured": "#aab4ba", "fitted": "#0072b2", "residual": "#5f7886", "second": "#c65102", "input": "#7a6a2f",
          "violet": "#8a4f9e", "ink": "#1b2226", "line": "#dde2e4", "band": "#e6f0f6"}  # those of the page, in light
MEASURED, FITTED, SECOND = "#8a949a", COLORS["fitted"], COLORS["second"]
COLUMNS = 3  # experiments beside each other; more go into the next row
INCH = 80  # pixels of the page that an inch on paper holds
TITLE = 0.32  # inches above a panel
SHORT_TITLE = 26  # letters that leave room for a legend beside them
POINT = 0.75  # of a pixel
MARKERS = {"dot": "o", "ring": "o", "cross": "x", "thin cross": "x"}
STYLE: Any = {"axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": "#9aa4aa", "axes.grid": True,
         "grid.color": COLORS["line"], "grid.linewidth": 0.6, "axes.axisbelow": True, "text.color": COLORS["ink"],
         "axes.labelcolor": COLORS["ink"], "xtick.color": "#586269", "ytick.color": "#586269", "font.size": 9,
         "axes.titlesize": 9, "axes.titlelocation": "left", "legend.frameon": False, "figure.constrained_layout.use": True,
         "axes.formatter.useoffset": False, "axes.unicode_minus": True}


def chart_figure(charts: Sequence[Chart], titles: Sequence[str] = (), columns: int = COLUMNS, width: float = 0.0) -> Figure:
    """Charts beside each other as a matplotlib figure; more than `columns` go into the next row."""
    import matplotlib.pyplot as plt

    columns = max(1, min(len(charts), columns))
    rows = [charts[k:k + columns] for k in range(0, len(charts), columns)]
    deep = [max((len(chart.panels) for chart in row), default=1) for row in rows]
    heights = [max([18, *(c.panels[k].height for c in row if k < len(c.panels))]) / INCH + TITLE
               for row, depth in zip(rows, deep, strict=True) for k in range(depth)]
    with plt.rc_context(STYLE):
        figure = plt.figure(figsize=(width or 3.6 + 3.4 * columns, 0.6 + sum(heights)))
        grid = figure.subplots(len(heights), columns, squeeze=False, gridspec_kw={"height_ratios": heights})
        for axes in grid.flat:
            axes.set_visible(False)  # until something is drawn in it: the last row of charts may be short
        for number, chart in enumerate(charts):
            first = sum(deep[:number // columns])
            column = grid[first:first + len(chart.panels), number % columns]
            _draw_chart(list(column), chart, titles[number] if number < len(titles) else "")
        figure.align_ylabels()
    return figure


def _draw_chart(column: Sequence[Axes], chart: Chart, title: str) -> None:
    from matplotlib.ticker import MaxNLocator

    for place, (axes, panel) in enumerate(zip(column, map(shown, chart.panels), strict=True)):
        axes.set_visible(True)
        if place:
            axes.sharex(column[0])
        _draw_panel(axes, panel)
        for at in (*chart.breaks, *([] if panel.across_line is None else [panel.across_line])):
            axes.axvline(at, color=COLORS["ink"], lw=0.8, ls=":")
        last = place == len(column) - 1
        axes.tick_params(labelbottom=last)
        axes.set_xlabel(_literal(chart.across) if last else "")
        above = f"{title}: " if title and place == 0 else ""
        axes.set_title(_literal(above + panel.title))
    if column:
        column[0].set_xlim(*chart.reach())
        if chart.across == "iteration":
            column[-1].xaxis.set_major_locator(MaxNLocator(integer=True))


def _draw_panel(axes: Axes, panel: Panel) -> None:
    if panel.band is not None and np.isfinite(panel.band):
        axes.axhspan(-panel.band, panel.band, color=COLORS["band"], lw=0)
    if panel.across_band is not None:
        axes.axvspan(*panel.across_band, color=COLORS["band"], lw=0)
    for curve in panel.curves:
        _draw_curve(axes, curve)
    if panel.log:
        axes.set_yscale("log")
    if panel.bare:
        axes.set(ylim=(0, 1), yticks=[])
    if axes.get_legend_handles_labels()[1]:
        beside = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "ncols": 4, "borderaxespad": 0.1}  # of the title
        axes.legend(**(beside if len(panel.title) <= SHORT_TITLE else {"loc": "best"}), fontsize=8)


def _draw_curve(axes: Axes, curve: Curve) -> None:
    color, label = COLORS[curve.color], _literal(curve.name) if curve.legend and curve.name else None
    dash = "--" if curve.dashed else "-"
    if curve.look in ("bars", "boxes") and curve.x_end is not None:
        base = np.zeros(curve.y.size) if curve.y_end is None else curve.y_end
        axes.bar(curve.x, base - curve.y, curve.x_end - curve.x, curve.y, align="edge", color=color, label=label)
    elif curve.look == "area" and curve.y_end is not None:
        axes.fill_between(curve.x, curve.y, curve.y_end, color=color, lw=0, label=label)
    elif curve.symbols:
        for symbol in dict.fromkeys(curve.symbols):
            of = np.array([each == symbol for each in curve.symbols])
            axes.plot(curve.x[of], curve.y[of], MARKERS[symbol], color=color, ms=5, label=label,
                      mfc="none" if symbol == "ring" else color)
            label = None
    else:
        marker = "." if curve.look in ("dots", "dotted") else ""
        axes.plot(curve.x, curve.y, marker + ("" if curve.look == "dots" else dash), color=color, lw=curve.width * POINT,
                  ms=4 if curve.look == "dots" else 6, label=label,
                  drawstyle="steps-post" if curve.look == "steps" else "default")


def estimate_figure(estimate: Estimate, width: float = 0.0) -> Figure:
    """Per experiment and output: measured against fitted, residuals below; `width` in inches (automatic if 0)."""
    records = fitted_records(estimate)
    charts = [signal_chart(record, estimate.noise_std, MAX_CURVE_POINTS, inputs=False) for record in records]
    figure = chart_figure(charts, [record.name for record in records] if len(records) > 1 else [], width=width)
    _warn(figure, estimate)
    return _shown_once(figure)


def _shown_once(figure: Figure) -> Figure:
    """In a notebook what a cell returns is shown; pyplot would show every open figure a second time."""
    if in_notebook():
        from matplotlib import pyplot as plt

        plt.close(figure)
    return figure


def convergence_figure(estimate: Estimate) -> Figure:
    """Cost, step, violated matching conditions and parameters per iteration."""
    if not estimate.history:
        raise DynidentError("this estimate holds no history of iterations, so there is no convergence to draw.")
    figure = chart_figure([convergence_chart(estimate)])
    _warn(figure, estimate)
    return _shown_once(figure)


def _literal(text: str) -> str:
    return text.replace("$", r"\$")  # a name is text, not a formula


def _warn(figure: Figure, estimate: Estimate) -> None:
    if not estimate.converged:
        figure.suptitle("NOT CONVERGED", color="white", fontweight="bold", backgroundcolor="#a3150c")


PER_SEGMENT = 8  # points that are drawn
STATES_SHOWN = 6  # more than these would be too small to read


def boundary_figure(solution: BoundarySolution) -> Figure:
    """States over time with their nodes; below the length of the segments, and steps and residuals of every iteration."""
    import matplotlib.pyplot as plt

    names = solution.names[:STATES_SHOWN]
    with plt.rc_context(STYLE):
        figure, grid = plt.subplots(len(names) + 1, 1, figsize=(7.0, 1.6 * len(names) + 2.2), sharex=True, squeeze=False)
        share = np.arange(PER_SEGMENT) / PER_SEGMENT
        time = np.append((solution.time[:-1, None] + share * np.diff(solution.time)[:, None]).ravel(), solution.time[-1])
        values = solution(time)
        for k, (axes, name) in enumerate(zip(grid[:-1, 0], names, strict=True)):
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


def profile_figure(profile: Profile) -> Figure:
    """Above: rise of the sum of squares with the threshold and the linearised parabola; below: the path of partners."""
    return _shown_once(chart_figure([profile_chart(profile, name, "") for name in profile.curves]))


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
    if not estimate.starts:
        raise DynidentError("this estimate comes from one start; use multistart(...) to draw several.")
    steps = waterfall(estimate.starts)
    figure = chart_figure([starts_chart(steps)], [steps.sentence.rstrip(".")])
    return _shown_once(figure)
