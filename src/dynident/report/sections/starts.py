"""Where did the other starts end?"""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from dynident.estimate.estimate import Estimate
from dynident.methods.ranking import best_of
from dynident.report.charts import Panel, drawn, numbers, stacked
from dynident.report.sections.section import Section, filled
from dynident.report.waterfall import waterfall

HEIGHT = 220  # pixels

TEMPLATE = """<p>{{ sentence }}</p>{% if counted %}<p class="hint">The noise of each end is its own, so costs are counted from
the best: its cost, plus twice what the log-likelihood is lower by.</p>{% endif %}{{ chart }}"""


def body(estimate: Estimate) -> Markup | None:
    if best_of(estimate.starts) is None:  # one start, or a method without a cost
        return None
    steps = waterfall(estimate.starts)
    traces = []
    for name, color, shown in (("converged", "var(--fitted)", steps.converged), ("not converged", "var(--measured)",
                                                                                 ~steps.converged)):
        if np.any(shown):
            traces.append({"type": "scatter", "mode": "markers", "name": name, "x": numbers(steps.rank[shown]),
                           "y": [float(v) for v in steps.cost[shown]], "marker": {"color": color, "size": 7}})
    chart = drawn(stacked([Panel("cost", traces, HEIGHT, log=bool(np.all(steps.cost > 0)))], "start, best first"),
                  "Cost at the end of each start, from the lowest to the highest")
    counted = any(start.criterion != start.cost for start in estimate.starts if np.isfinite(start.criterion))
    return filled(TEMPLATE, sentence=steps.sentence, counted=counted, chart=chart)


SECTION = Section("starts", "Starts", body)
