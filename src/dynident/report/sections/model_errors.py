"""Where is the model wrong? And what became of parameters that may drift?"""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup

from dynident.estimate.estimate import Estimate
from dynident.estimate.smoothed import Smoothed, SmoothedRecord
from dynident.report.charts import Panel, curve, drawn, stacked, with_unit
from dynident.report.numbers import lone
from dynident.report.sections.section import Section, filled
from dynident.report.signals import TWO_SIDED_95

HEIGHT = 120  # pixels

TEMPLATE = """
<p class="hint">What the rates of the model lack at each time for the states to follow the record, with the band in which 95 %
lie if the model errs as its weights say. Noise without a pattern is what the weights allow; a pattern shows where the model
is wrong, and often what it lacks.</p>
{% for record in records %}
<article>{% if records | length > 1 %}<h3>{{ record.name }}</h3>{% endif %}{{ record.chart }}</article>
{% endfor %}
<div class="scroll"><table>
  <thead><tr><th>may err</th><th>weight</th><th>its part of the cost</th></tr></thead>
  <tbody>{% for row in shares %}
    <tr><th scope="row">{{ row.name }}</th><td class="number">{{ row.weight }}</td><td class="number">{{ row.cost }}</td></tr>
  {% endfor %}</tbody>
</table></div>
"""


def body(estimate: Estimate) -> Markup | None:
    smoothed = estimate.smoothed
    if smoothed is None or not smoothed.weights:
        return None
    units = {u.quantity: u.unit for u in estimate.problem.unknowns}
    records = [{"name": record.experiment, "chart": drawn(_chart(record, smoothed, units), (
        f"{record.experiment}: errors of the model over time"))} for record in smoothed.records]
    shares = [{"name": name, "weight": lone(smoothed.weights[name]), "cost": lone(cost)}
              for name, cost in smoothed.share_of_cost().items()]
    return filled(TEMPLATE, records=records, shares=shares)


def _chart(record: SmoothedRecord, smoothed: Smoothed, units: dict[str, str]) -> dict[str, Any]:
    gap = float(np.median(np.diff(record.time))) if record.time.size > 1 else 1.0
    panels = []
    for i, name in enumerate(record.names):
        if name in smoothed.weights:
            error = curve(record.time, record.model_error[:, i], name, "var(--residual)") | {"showlegend": False}
            panels.append(Panel(f"what the rate of {name} lacks", [error], HEIGHT,
                                TWO_SIDED_95 / np.sqrt(smoothed.weights[name] * gap)))
    for name in smoothed.drifting:
        i = record.names.index(name)
        value, reach = record.values[:, i], TWO_SIDED_95 * record.std[:, i]
        ends = [curve(record.time, value + side * reach, "95 %", "var(--second)") | {"showlegend": False}
                for side in (-1, 1) if np.all(np.isfinite(reach))]
        panels.append(Panel(with_unit(name, units.get(name, "")), [
            *ends, curve(record.time, value, name, "var(--fitted)") | {"showlegend": False}], HEIGHT))
    return stacked(panels, "time")


SECTION = Section("model-errors", "Where the model is wrong", body)
