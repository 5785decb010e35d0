"""Where is the model wrong? And what became of parameters that may drift?"""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup

from dynident.estimate.estimate import Estimate
from dynident.estimate.smoother_result import SmootherRecord, SmootherResult
from dynident.report.charts import Panel, curve, drawn, shaded, stacked
from dynident.report.number_format import format_number
from dynident.report.sections.section import Section, filled
from dynident.report.sections.unmeasured_states import course
from dynident.report.signal_charts import TWO_SIDED_95

HEIGHT = 120  # pixels

TEMPLATE = """
<p class="hint">What the rates of the model lack at each time for the states to follow the record.
{% if sized %}
Shaded: where 95 % of it lie if the model errs as its weights say. That is less than the errors themselves, of which the record
shows a part only; smoothing makes waves of them. What leaves the band shows where the model is wrong, and often what it lacks.
{% else %}
The weights are a choice here and no variances, so that no band can be drawn. A pattern shows where the model is wrong, and
often what it lacks.
{% endif %}</p>
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
    shares = [{"name": name, "weight": format_number(smoothed.weights[name]), "cost": format_number(cost)}
              for name, cost in smoothed.share_of_cost().items()]
    sized = any(np.isfinite(record.error_std).any() for record in smoothed.records)
    return filled(TEMPLATE, records=records, shares=shares, sized=sized)


def _chart(record: SmootherRecord, smoothed: SmootherResult, units: dict[str, str]) -> dict[str, Any]:
    panels = []
    for i, name in enumerate(record.names):
        if name in smoothed.weights:
            reach = TWO_SIDED_95 * record.error_std[:, i]
            panels.append(Panel(f"what the rate of {name} lacks", [
                *shaded(record.time, -reach, reach, "95 %"),
                curve(record.time, record.model_error[:, i], name, "var(--residual)", showlegend=False)], HEIGHT))
    panels += [course(record, name, units.get(name, ""), HEIGHT) for name in smoothed.drifting]
    return stacked(panels, "time")


SECTION = Section("model-errors", "Where the model is wrong", body)
