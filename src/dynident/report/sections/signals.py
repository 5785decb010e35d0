"""Does the model follow the measurements?"""

from __future__ import annotations

from markupsafe import Markup

from dynident.estimate.estimate import Estimate
from dynident.report.charts import drawn
from dynident.report.sections.section import Section, filled
from dynident.report.signal_charts import fitted_records, points_per_curve, signal_chart, thinning_sentence

TEMPLATE = """
<p class="hint">Drag across a chart to zoom, double-click to return. Shaded: where 95 % of the residuals belong if the
noise is as stated.</p>
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


def body(estimate: Estimate) -> Markup:
    points = points_per_curve(estimate)
    return filled(TEMPLATE, records=[
        {"name": record.name, "thinned": thinning_sentence(record, points),
         "chart": drawn(signal_chart(record, estimate.noise_std, points),
                        f"{record.name}: measured and fitted {', '.join(record.measured)} over time")}
        for record in fitted_records(estimate)])


SECTION = Section("signals", "Signals", body)
