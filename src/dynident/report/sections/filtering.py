"""What did the filter know, and when? And was it right to be so sure?"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from markupsafe import Markup

from dynident.estimate.estimate import Estimate
from dynident.estimate.filter_result import FilterRecord, FilterResult
from dynident.report.charts import Panel, curve, drawn, stacked, with_unit
from dynident.report.number_format import format_number
from dynident.report.sections.section import Section, filled
from dynident.report.signal_charts import TWO_SIDED_95

HISTORY_HEIGHT, NIS_HEIGHT = 150, 110  # pixels
WINDOWS = 200  # over which the innovations are averaged for the picture

TEMPLATE = """
<p class="prose"><strong>{{ verdict }}</strong></p>
<ul class="prose">{% for test in tests %}<li>{{ "✓" if test.passed else "✗" }} {{ test.sentence }}</li>{% endfor %}</ul>
<p class="hint">Parameters over time with their 95 % interval; below, the squared innovations over their foreseen
variance, averaged over stretches of the record: 1 where the filter foresees its own errors.</p>
{% for record in records %}
<article>{% if records | length > 1 %}<h3>{{ record.name }}</h3>{% endif %}{{ record.chart }}</article>
{% endfor %}
<div class="scroll"><table>
  <thead><tr><th>assumed</th><th>initial standard deviation</th><th>process noise per {{ per }}</th><th></th></tr>
  </thead>
  <tbody>{% for row in levels %}
    <tr><th scope="row">{{ row.name }}</th><td class="number">{{ row.initial }}</td>
      <td class="number">{{ row.noise }}</td><td>{{ row.origin }}</td></tr>
  {% endfor %}</tbody>
</table></div>
"""


def body(estimate: Estimate) -> Markup | None:
    filtered = estimate.filtered
    if filtered is None:
        return None
    units = {u.quantity: u.unit for u in estimate.problem.unknowns if not u.initial}
    verdict = ("The innovations are as the filter foresaw them: its intervals can be relied on." if filtered.consistent
               else "The innovations are not as the filter foresaw them: its intervals cannot be relied on.")
    records = [{"name": record.experiment, "chart": drawn(_chart(record, filtered, units), (
        f"{record.experiment}: estimated parameters over time, and the size of the innovations"))}
        for record in filtered.records]
    return filled(TEMPLATE, verdict=verdict, tests=filtered.tests, records=records, per=filtered.process_noise_unit,
                  levels=_levels(filtered))


def _levels(filtered: FilterResult) -> list[dict[str, str]]:
    return [{"name": name, "initial": format_number(std), "noise": format_number(filtered.process_noise.get(name, 0.0)),
             "origin": "maximum likelihood" if name in filtered.estimated else ""}
            for name, std in filtered.initial_std.items()]


def _chart(record: FilterRecord, filtered: FilterResult, units: dict[str, str]) -> dict[str, Any]:
    panels = []
    for name in filtered.parameters:
        i = record.names.index(name)
        value, reach = record.values[:, i], TWO_SIDED_95 * record.std[:, i]
        ends = [curve(record.time, value + side * reach, "95 %", "var(--second)") | {"showlegend": False}
                for side in (-1, 1)]
        panels.append(Panel(with_unit(name, units.get(name, "")), [
            *ends, curve(record.time, value, name, "var(--fitted)") | {"showlegend": False}], HISTORY_HEIGHT))
    middle, size = _averaged(record)
    if size.size:
        panels.append(Panel("squared innovations over their variance", [
            curve(middle, size, "innovations", "var(--residual)") | {"showlegend": False}], NIS_HEIGHT, log=True))
    return stacked(panels, "time")


def _averaged(record: FilterRecord) -> tuple[np.ndarray, np.ndarray]:
    """Mean squared innovation per stretch of the record; stretches without a measurement are left out."""
    cuts = np.unique(np.linspace(0, len(record.time), min(WINDOWS, len(record.time)) + 1).astype(int))
    middle, size = [], []
    for begin, end in itertools.pairwise(cuts):
        part = record.whitened[begin:end]
        part = part[np.isfinite(part)]
        if part.size:
            middle.append(record.time[begin])
            size.append(max(float(np.mean(part**2)), 1e-12))  # a logarithmic axis has no place for zero
    return np.array(middle), np.array(size)


SECTION = Section("filtering", "What the filter knew", body)
