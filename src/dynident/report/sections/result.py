"""Which values were found, how sure is each, what do the intervals promise, and which unknowns are hard to tell apart?"""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from dynident.estimate.estimate import Estimate
from dynident.report.charts import Panel, curve, drawn, plain, stacked, with_unit
from dynident.report.html_document import Section, filled
from dynident.report.result_table import (
    aligned,
    fits,
    format_number,
    interval_heading,
    noise_levels,
    percent,
    result_rows,
    written,
)
from dynident.statistics.profile_likelihood import Profile
from dynident.statistics.uncertainty import LEVEL

RESULT_TEMPLATE = """
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
KINDS = {"plain": "errors independent", "corrected": "errors as correlated as the residuals"}
INTERPRETATION_TEMPLATE = """
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
STRONG = 0.95  # beyond it one unknown can take over most of the other's work
LABELLED_UP_TO = 12  # unknowns; in a larger matrix the numbers would not be legible
CORRELATION_TEMPLATE = """
<p class="prose">{{ said }}</p>
{% if absent %}
<p class="hint">Left empty: {{ absent | join(", ") }} (unidentifiable, or fixed on a bound).</p>
{% endif %}
<div class="square">{{ chart }}</div>
"""
PROFILE_HEIGHT = 180  # pixels of one profile
PROFILES_TEMPLATE = """
<p class="prose">Each point is a refit of all other unknowns with this one fixed; the dashed line is the 95 % threshold.</p>
{% for name, verdict, partners, chart in profiles %}
<article>
  <h3>{{ name }}: {{ verdict }}</h3>
  {% if partners %}<p class="hint">Followed by {{ partners | join(", ") }}.</p>{% endif %}
  {{ chart }}
</article>
{% endfor %}
"""


def result(estimate: Estimate) -> Markup:
    rows = result_rows(estimate)
    return filled(RESULT_TEMPLATE, rows=list(zip(rows, aligned([row.value for row in rows]), strict=True)),
                  heading=interval_heading(estimate), units=any(row.unit for row in rows),
                  remarks=any(row.remark for row in rows), notes=estimate.notes, facts=_facts(estimate))


def _facts(estimate: Estimate) -> dict[str, tuple[str, str]]:
    """A few numbers to be seen first, each with an aside."""
    facts = {f"fit of {output}": (percent(fit), "") for output, fit in fits(estimate).items()}
    facts |= {f"noise of {output}": (level.size, level.origin) for output, level in noise_levels(estimate).items()}
    if "reduced_chi2" in estimate.statistics:
        facts["reduced chi-square"] = (format_number(estimate.statistics["reduced_chi2"], 3), "")
    return facts


RESULT = Section("result", "Result", result)


def interpretation(estimate: Estimate) -> Markup:
    uncertainty = estimate.uncertainty
    both = []
    if len(uncertainty.kinds) > 1:
        both = [(name, [_interval(estimate, name, kind) for kind in KINDS]) for name in estimate.problem.names]
    kinds = [title + (" (printed above)" if kind == uncertainty.default_kind else "") for kind, title in KINDS.items()]
    return filled(INTERPRETATION_TEMPLATE, meaning=uncertainty.meaning, combinations=uncertainty.combinations,
                  both=both, kinds=kinds)


def _interval(estimate: Estimate, name: str, kind: str) -> str:
    low, high = estimate.uncertainty.interval(name, LEVEL, kind)
    return written(estimate.values[name], low, high)[1]


INTERPRETATION = Section("meaning", "What the intervals mean", interpretation)


def correlation(estimate: Estimate) -> Markup | None:
    names, matrix = estimate.problem.names, estimate.uncertainty.correlation()
    if matrix is None or len(names) < 2:
        return None
    absent = [name for name, known in zip(names, np.isfinite(np.diag(matrix)), strict=True) if not known]
    return filled(CORRELATION_TEMPLATE, said=_correlation_sentence(names, matrix), absent=absent, chart=_heatmap(names, matrix))


def _correlation_sentence(names: tuple[str, ...], matrix: np.ndarray) -> str:
    pairs = [(names[i], names[j], matrix[i, j]) for i in range(len(names)) for j in range(i)
             if abs(matrix[i, j]) >= STRONG]
    pairs.sort(key=lambda pair: -abs(pair[2]))
    if not pairs:
        which = "unknowns" if np.all(np.isfinite(np.diag(matrix))) else "of the unknowns shown"
        return f"No two {which} are correlated beyond ±{STRONG}: the data tell them apart."
    listed = "; ".join(f"{b} and {a} ({r:.3f})" for a, b, r in pairs)
    return f"Hard to tell apart (correlation beyond ±{STRONG}): {listed}."


def _heatmap(names: tuple[str, ...], matrix: np.ndarray) -> Markup:
    shown = [[float(r) if np.isfinite(r) else None for r in np.round(row, 3)] for row in matrix]
    labels = len(names) <= LABELLED_UP_TO
    axis = {"tickvals": list(range(len(names))), "ticktext": [plain(name) for name in names], "showgrid": False,
            "zeroline": False, "linecolor": "var(--line)", "automargin": True}
    height = int(np.clip(110 + 44 * len(names), 240, 720))
    return drawn({
        "data": [{"type": "heatmap", "z": shown, "zmin": -1, "zmax": 1, "xgap": 2, "ygap": 2, "hoverongaps": False,
                  "colorscale": [[0, "var(--negative)"], [0.5, "var(--middle)"], [1, "var(--positive)"]],
                  "colorbar": {"thickness": 10, "outlinewidth": 0, "tickvals": [-1, 0, 1]},
                  "hovertemplate": "%{y}, %{x}: %{z:.3f}<extra></extra>",
                  **({"texttemplate": "%{z:.2f}", "textfont": {"size": 12}} if labels else {})}],
        "layout": {"height": height, "xaxis": axis | {"side": "top"}, "yaxis": axis | {"autorange": "reversed"}}},
        "Correlation matrix of the unknowns")


CORRELATION = Section("correlation", "Correlation", correlation)


def profiles(estimate: Estimate) -> Markup | None:
    found = estimate.uncertainty
    if not isinstance(found, Profile):
        return None
    units = {u.name: u.unit for u in estimate.problem.unknowns}
    rows = [(name, found.identifiability(name), found.partners(name), _profile_chart(found, name, units.get(name, "")))
            for name in found.curves]
    return filled(PROFILES_TEMPLATE, profiles=rows)


def _profile_chart(profile: Profile, name: str, unit: str) -> Markup:
    own = profile.curves[name]
    traces = [curve(own.values, own.rise, "rise", "var(--fitted)", showlegend=False)]
    limit = profile.threshold_root(name, LEVEL) ** 2
    if np.isfinite(limit):
        ends = np.array([own.values[0], own.values[-1]])
        line = curve(ends, np.full(2, limit), "95 % threshold", "var(--residual)", showlegend=False)
        line["line"] |= {"dash": "dash"}
        traces.append(line)
    return drawn(stacked([Panel("rise of the weighted sum of squares", traces, PROFILE_HEIGHT)], with_unit(name, unit)),
                 f"Likelihood profile of {name}")


PROFILES = Section("profiles", "Likelihood profiles", profiles)
