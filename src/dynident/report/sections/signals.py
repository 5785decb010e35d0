"""Does the model follow the measurements that it was fitted to, and others?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from dynident.estimate.estimate import Estimate, Validation
from dynident.report.charts import drawn, fitted_records, points_per_curve, signal_chart, thinning_sentence, validated_record
from dynident.report.html_document import Section, filled
from dynident.report.result_table import fits, percent

SIGNALS_TEMPLATE = """
<p class="hint">Drag across a chart to zoom, double-click to return.
{%- if sized %} Shaded: where 95 % of the residuals belong if the noise is as stated.{% endif %}</p>
{% if records | length > 1 %}
<nav class="records" aria-label="Experiments">
  {% for record in records %}
  <a href="#record-{{ loop.index }}">{{ record.name }}</a>
  {% endfor %}
</nav>
{% endif %}
{% for record in records %}
<article id="record-{{ loop.index }}">
  {% if records | length > 1 %}
  <h3>{{ record.name }}</h3>
  {% endif %}
  {% if record.thinned %}
  <p class="hint">{{ record.thinned }}</p>
  {% endif %}
  {{ record.chart }}
</article>
{% endfor %}
"""
VALIDATION_TEMPLATE = """
<div class="scroll"><table>
  <thead><tr><th>fit of</th><th>fitted records</th>
    {% for record in records %}
    <th>{{ record.name }}</th>
    {% endfor %}
  </tr></thead>
  <tbody>
    {% for output, shares in table.items() %}
    <tr><th scope="row">{{ output }}</th>{% for share in shares %}<td class="number">{{ share }}</td>{% endfor %}</tr>
    {% endfor %}
  </tbody>
</table></div>
{% for record in records %}
<article>
  <h3>{{ record.name }}</h3>
  <ul class="tests">
    {% for test in record.tests %}
    <li class="{{ 'passed' if test.passed else 'missed' }}"><b>{{ 'ok' if test.passed else 'fails' }}</b>
      {{ test.sentence }}</li>
    {% endfor %}
  </ul>
  {% for note in record.notes %}
  <p class="hint">{{ note }}</p>
  {% endfor %}
  {% if record.thinned %}
  <p class="hint">{{ record.thinned }}</p>
  {% endif %}
  {{ record.chart }}
</article>
{% endfor %}
"""


def signals(estimate: Estimate) -> Markup:
    points = points_per_curve(estimate)
    return filled(SIGNALS_TEMPLATE, sized=bool(estimate.noise_std), records=[
        {"name": record.name, "thinned": thinning_sentence(record, points),
         "chart": drawn(signal_chart(record, estimate.noise_std, points),
                        f"{record.name}: measured and fitted {', '.join(record.measured)} over time")}
        for record in fitted_records(estimate)])


SIGNALS = Section("signals", "Signals", signals)


def validation(estimate: Estimate) -> Markup | None:
    if not estimate.validations:
        return None
    points = points_per_curve(estimate)
    outputs = dict.fromkeys(output for validation in estimate.validations for output in validation.fit)
    table = {output: [_share(fits(estimate), output), *(_share(v.fit, output) for v in estimate.validations)]
             for output in outputs}
    return filled(VALIDATION_TEMPLATE, table=table, records=[_validated(estimate, v, points) for v in estimate.validations])


def _share(fit: Mapping[str, float], output: str) -> str:
    return percent(fit[output]) if output in fit else "-"


def _validated(estimate: Estimate, validation: Validation, points: int) -> dict[str, Any]:
    record = validated_record(estimate, validation)
    chart = signal_chart(record, estimate.noise_std, points)
    return {"name": record.name, "tests": validation.tests, "notes": (*validation.notes, *validation.ahead_sentences),
            "thinned": thinning_sentence(record, points),
            "chart": drawn(chart, f"{record.name}: measured and predicted {', '.join(record.measured)} over time")}


VALIDATION = Section("validation", "Validation", validation)
