"""Does the model also predict what it was not fitted to?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from dynident.estimate.estimate import Estimate
from dynident.estimate.validation import Validation
from dynident.report.charts import drawn
from dynident.report.number_format import percent
from dynident.report.result_table import fits
from dynident.report.sections.section import Section, filled
from dynident.report.signal_charts import points_per_curve, signal_chart, thinning_sentence, validated_record

TEMPLATE = """
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


def body(estimate: Estimate) -> Markup | None:
    if not estimate.validations:
        return None
    points = points_per_curve(estimate)
    outputs = dict.fromkeys(output for validation in estimate.validations for output in validation.fit)
    table = {output: [_share(fits(estimate), output), *(_share(v.fit, output) for v in estimate.validations)]
             for output in outputs}
    return filled(TEMPLATE, table=table, records=[_record(estimate, v, points) for v in estimate.validations])


def _share(fit: Mapping[str, float], output: str) -> str:
    return percent(fit[output]) if output in fit else "-"


def _record(estimate: Estimate, validation: Validation, points: int) -> dict[str, Any]:
    record = validated_record(estimate, validation)
    chart = signal_chart(record, estimate.noise_std, points)
    return {"name": record.name, "tests": validation.tests, "notes": validation.notes,
            "thinned": thinning_sentence(record, points),
            "chart": drawn(chart, f"{record.name}: measured and predicted {', '.join(record.measured)} over time")}


SECTION = Section("validation", "Validation", body)
