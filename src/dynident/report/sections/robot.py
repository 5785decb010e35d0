"""What do the torques say about an arm: errors per joint beside the file's, base parameters in words, friction laws?"""

from __future__ import annotations

from markupsafe import Markup

from dynident.estimate.estimate import Estimate
from dynident.report.html_document import Section, filled

ROBOT_TEMPLATE = """
<p class="hint">RMS of measured minus predicted torque. "Moving": while the joint is faster than 0.03 rad/s (or m/s), since at
rest friction is any torque up to Coulomb's. "File": with the inertias of the robot's file and friction fitted to the same
record.</p>
<div class="scroll" tabindex="0"><table>
  <thead><tr><th>record</th><th>joint</th><th>RMS</th><th>moving</th><th>file</th>
    {% if price %}<th>consistency adds</th>{% endif %}</tr></thead>
  <tbody>{% for row in errors %}
    <tr><td>{{ row.record }}</td><th scope="row">{{ row.joint }}</th><td class="number">{{ "%.3g"|format(row.rms) }}</td>
      <td class="number">{{ "%.3g"|format(row.rms_moving) }}</td><td class="number">{{ "%.3g"|format(row.rms_nominal) }}</td>
      {% if price %}<td class="number">{{ "%.2g"|format(price[row.joint]) }}</td>{% endif %}</tr>
  {% endfor %}</tbody>
</table></div>
{% if friction %}<p class="hint">Friction laws, tried on what was left out of the fit:</p>
<ul class="prose">{% for trial in friction %}<li>{{ trial }}</li>{% endfor %}</ul>{% endif %}
{% if hausman %}<p class="prose">{{ hausman }}</p>{% endif %}
{% if didim %}<p class="prose">{{ didim }}</p>{% endif %}
<h3>Base parameters</h3>
<p class="hint">The combinations that the torques tell, with 95 % intervals for errors as correlated as the residuals are.</p>
<div class="scroll" tabindex="0"><table>
  <thead><tr><th>in words</th><th>value</th><th>95 % interval</th><th>file</th><th>unit</th></tr></thead>
  <tbody>{% for row in base %}
    <tr{% if not row.differs_from_zero %} class="open"{% endif %}><th scope="row">{{ row.words }}</th>
      <td class="number">{{ "%.4g"|format(row.value) }}</td>
      <td class="number">{{ "%.4g"|format(row.interval[0]) }} ... {{ "%.4g"|format(row.interval[1]) }}</td>
      <td class="number">{{ "%.4g"|format(row.nominal) }}</td><td>{{ row.unit }}</td></tr>
  {% endfor %}</tbody>
</table></div>
{% if idle %}<p class="hint">Act on nothing: {{ idle|join(", ") }}.</p>{% endif %}
"""


def robot(estimate: Estimate) -> Markup | None:
    it = estimate.robot
    if it is None:
        return None
    return filled(ROBOT_TEMPLATE, errors=it.errors, price=it.price, friction=it.friction, hausman=it.hausman,
                  didim=it.didim, base=it.base, idle=it.without_effect)


ROBOT = Section("robot", "Robot", robot)
