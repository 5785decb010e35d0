"""What do the intervals promise?"""

from __future__ import annotations

from markupsafe import Markup

from dynident.estimate.estimate import Estimate
from dynident.report.result_table import LEVEL, written
from dynident.report.sections.section import Section, filled

KINDS = {"plain": "errors independent", "corrected": "errors as correlated as the residuals"}

TEMPLATE = """
<p class="prose">{{ meaning }}</p>
{% if combinations %}
<p class="prose">What the data do determine about the open ones:</p>
<ul class="prose">{% for combination in combinations %}<li>{{ combination }}</li>{% endfor %}</ul>
{% endif %}
{% if both %}
<div class="scroll"><table>
  <thead><tr><th>name</th>{% for kind in kinds %}<th>{{ kind }}</th>{% endfor %}</tr></thead>
  <tbody>
    {% for name, intervals in both %}
    <tr><th scope="row">{{ name }}</th>
      {% for interval in intervals %}
      <td class="number">{{ interval }}</td>
      {% endfor %}
    </tr>
    {% endfor %}
  </tbody>
</table></div>
{% endif %}
"""


def body(estimate: Estimate) -> Markup:
    uncertainty = estimate.uncertainty
    both = []
    if len(uncertainty.kinds) > 1:
        both = [(name, [_interval(estimate, name, kind) for kind in KINDS]) for name in estimate.problem.names]
    kinds = [title + (" (printed above)" if kind == uncertainty.default_kind else "") for kind, title in KINDS.items()]
    return filled(TEMPLATE, meaning=uncertainty.meaning, combinations=uncertainty.combinations,
                  both=both, kinds=kinds)


def _interval(estimate: Estimate, name: str, kind: str) -> str:
    low, high = estimate.uncertainty.interval(name, LEVEL, kind)
    return written(estimate.values[name], low, high)[1]


SECTION = Section("meaning", "What the intervals mean", body)
