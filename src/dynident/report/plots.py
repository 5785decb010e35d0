"""How do the signals of an estimate look on paper?"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dynident.errors import DynidentError
from dynident.estimate.estimate import Estimate
from dynident.report.charts import DOTS_UP_TO, with_unit
from dynident.report.downsampling import kept_samples
from dynident.report.signal_charts import TWO_SIDED_95, SignalRecord, fitted_records, mode_strips

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
        mismatch = np.array([entry.mismatch for entry in estimate.history])
        for name, color, length in (("scaled step", SECOND, step), ("violated matching", MEASURED, mismatch)):
            if np.any(length > 0):
                shown = np.where(length > 0, length, np.nan)  # a logarithmic axis has no place for zero
                below.plot(count, shown, "o-", color=color, ms=4, lw=1.4, label=name)
                below.set_yscale("log")
                below.legend(loc="lower left")
        below.set_xlabel("iteration")
        below.xaxis.get_major_locator().set_params(integer=True)
        _warn(figure, estimate)
    return figure


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
