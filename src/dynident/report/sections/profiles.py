"""How far can each unknown be moved before the data object?"""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from dynident.estimate.estimate import Estimate
from dynident.report.charts import Panel, curve, drawn, stacked, with_unit
from dynident.report.sections.section import Section, filled
from dynident.statistics.profile_likelihood import LEVEL, Profile

HEIGHT = 180  # pixels of one profile

TEMPLATE = """
<p class="prose">Each point is a refit of all other unknowns with this one held; the dashed line is the 95 % threshold.</p>
{% for name, verdict, partners, chart in profiles %}
<article>
  <h3>{{ name }}: {{ verdict }}</h3>
  {% if partners %}<p class="hint">Followed by {{ partners | join(", ") }}.</p>{% endif %}
  {{ chart }}
</article>
{% endfor %}
"""


def body(estimate: Estimate) -> Markup | None:
    found = estimate.uncertainty
    if not isinstance(found, Profile):
        return None
    units = {u.name: u.unit for u in estimate.problem.unknowns}
    rows = [(name, found.identifiability(name), found.partners(name), _chart(found, name, units.get(name, "")))
            for name in found.curves]
    return filled(TEMPLATE, profiles=rows)


def _chart(profile: Profile, name: str, unit: str) -> Markup:
    own = profile.curves[name]
    traces = [curve(own.values, own.rise, "rise", "var(--fitted)", showlegend=False)]
    limit = profile.reach(name, LEVEL) ** 2
    if np.isfinite(limit):
        ends = np.array([own.values[0], own.values[-1]])
        line = curve(ends, np.full(2, limit), "95 % threshold", "var(--residual)", showlegend=False)
        line["line"] |= {"dash": "dash"}
        traces.append(line)
    return drawn(stacked([Panel("rise of the weighted sum of squares", traces, HEIGHT)], with_unit(name, unit)),
                 f"Likelihood profile of {name}")


SECTION = Section("profiles", "Likelihood profiles", body)
