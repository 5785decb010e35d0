"""How does a planned experiment look?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynident.design.plan import Plan
from dynident.report.plots import FITTED, SECOND, STYLE

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
    return figure
