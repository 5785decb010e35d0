"""Which values were found, and how well is each known?"""

from __future__ import annotations

from markupsafe import Markup

from dynident.estimate.estimate import Estimate
from dynident.report.number_format import aligned, format_number, percent
from dynident.report.result_table import fits, interval_heading, noise_levels, result_rows
from dynident.report.sections.section import Section, filled

TEMPLATE = """
<dl class="facts">
  {% for name, (number, aside) in facts.items() %}
  <div><dt>{{ name }}</dt><dd>{{ number }} <small>{{ aside }}</small></dd></div>
  {% endfor %}
</dl>
{% if notes %}
<ul class="notes" aria-label="Notes">{% for note in notes %}<li>{{ note }}</li>{% endfor %}</ul>
{% endif %}
<div class="scroll"><table class="result">
  <thead><tr><th>name</th><th>value</th><th>{{ heading }}</th>{% if units %}<th>unit</th>{% endif %}
    {% if remarks %}<th>remark</th>{% endif %}</tr></thead>
  <tbody>
  {% for row, value in rows %}
    <tr{% if row.held %} class="held"{% elif row.open %} class="open"{% endif %}>
      <th scope="row">{{ row.name }}</th><td class="number">{{ value }}</td><td class="number">{{ row.interval }}</td>
      {% if units %}<td>{{ row.unit }}</td>{% endif %}{% if remarks %}<td>{{ row.remark }}</td>{% endif %}</tr>
  {% endfor %}
  </tbody>
</table></div>
"""


def body(estimate: Estimate) -> Markup:
    rows = result_rows(estimate)
    return filled(TEMPLATE, rows=list(zip(rows, aligned([row.value for row in rows]), strict=True)),
                  heading=interval_heading(estimate), units=any(row.unit for row in rows),
                  remarks=any(row.remark for row in rows), notes=estimate.notes, facts=_facts(estimate))


def _facts(estimate: Estimate) -> dict[str, tuple[str, str]]:
    """A few numbers to be seen first, each with an aside."""
    facts = {f"fit of {output}": (percent(fit), "") for output, fit in fits(estimate).items()}
    facts |= {f"noise of {output}": (level.size, level.origin) for output, level in noise_levels(estimate).items()}
    if "reduced_chi2" in estimate.statistics:
        facts["reduced chi-square"] = (format_number(estimate.statistics["reduced_chi2"], 3), "")
    return facts


SECTION = Section("result", "Result", body)
