"""Which values were found, how sure is each, what do the intervals promise, and which unknowns are hard to tell apart?"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from markupsafe import Markup

from dynident.estimate.estimate import Estimate, attainable_fit
from dynident.methods.noise_estimation import outputs_with_unknown_noise
from dynident.problem.problem import Unknown
from dynident.report.chart_svg import drawn
from dynident.report.estimate_charts import profile_chart
from dynident.report.html_document import Section, filled
from dynident.report.result_table import (
    ResultRow,
    aligned,
    disturbance_levels,
    fits,
    format_number,
    interval_heading,
    interval_meaning,
    noise_levels,
    percent,
    result_rows,
    taken_from_errors,
    written,
)
from dynident.report.signal_chart import expected_std
from dynident.statistics.profile_likelihood import Profile
from dynident.statistics.residual_statistics import pooled_independent_share
from dynident.statistics.residual_tests import CONFIDENCE, noise_level
from dynident.statistics.uncertainty import LEVEL

RESULT_TEMPLATE = """
{% if notes %}
<ul class="notes" aria-label="Notes">{% for note in notes %}<li>{{ note }}</li>{% endfor %}</ul>
{% endif %}
<div class="scroll" tabindex="0"><table class="result">
  <thead><tr><th>name</th><th>value</th><th>{{ heading }}</th>{% if units %}<th>unit</th>{% endif %}
    {% if relative %}<th>relative</th>{% endif %}<th>start</th><th>between its bounds</th>
    {% if remarks %}<th>remark</th>{% endif %}</tr></thead>
  <tbody>
  {% for row in rows %}
    <tr{% if row.open %} class="open"{% endif %}>
      <th scope="row">{{ row.name }}</th><td class="number">{{ row.value }}</td><td class="number">{{ row.interval }}</td>
      {% if units %}<td>{{ row.unit }}</td>{% endif %}{% if relative %}<td class="number">{{ row.relative }}</td>{% endif %}
      <td class="number">{{ row.start }}</td><td class="within">{{ row.bounds }}</td>
      {% if remarks %}<td>{{ row.remark }}</td>{% endif %}</tr>
  {% endfor %}
  </tbody>
</table></div>
{% if held %}<p class="hint held">Held fixed: {% for row in held %}{{ row.name }} = {{ row.value }}
{%- if row.unit %} {{ row.unit }}{% endif %}{% if row.remark %} ({{ row.remark }}){% endif %}
{{- ", " if not loop.last else "." }}{% endfor %}</p>{% endif %}
<dl class="facts">
  {% for name, (number, aside) in facts.items() %}
  <div><dt>{{ name }}</dt><dd>{{ number }} <small>{{ aside }}</small></dd></div>
  {% endfor %}
</dl>
"""
BAR = """<svg class="bounds" width="120" height="16" role="img" aria-label="{{ said }}"><line class="rail" x1="0" x2="120"
 y1="8" y2="8"/><line class="rail" x1="0.5" x2="0.5" y1="3" y2="13"/><line class="rail" x1="119.5" x2="119.5" y1="3" y2="13"/>
{% if reach %}<rect class="reach" x="{{ reach[0] }}" y="5" width="{{ reach[1] }}" height="6"/>{% endif %}
{% if start is not none %}<path class="start" d="M{{ start }} 15l-3.5 0 3.5-6 3.5 6z"/>{% endif %}
<circle class="value" cx="{{ at }}" cy="8" r="3.5"/></svg><span class="ends">{{ lower }} to {{ upper }}</span>"""
BAR_WIDTH = 120  # pixels
KINDS = {"plain": "errors independent", "corrected": "errors as correlated as the residuals"}
INTERPRETATION_TEMPLATE = """
<p class="prose">{{ meaning }}</p>
{% if combinations %}
<p class="prose">What the data do determine about the open ones:</p>
<ul class="prose">{% for combination in combinations %}<li>{{ combination }}</li>{% endfor %}</ul>
{% endif %}
{% if both %}
<div class="scroll" tabindex="0"><table>
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
{% elif same %}<p class="hint">Corrected for errors that are alike from sample to sample, the intervals are the same.</p>
{% endif %}
"""
STRONG = 0.95  # beyond it one unknown can take over most of the other's work
LABELLED_UP_TO = 12  # unknowns; in a larger matrix the numbers would not be legible
LARGEST_MATRIX = 24  # unknowns; of more those with the largest correlations are shown
SHADES = 5  # of either sign
CORRELATION_TEMPLATE = """
<p class="prose">{{ said }}</p>
{% if absent %}
<p class="hint">Left empty: {{ absent | join(", ") }} (unidentifiable, or fixed on a bound).</p>
{% endif %}
<div class="scroll" tabindex="0"><table class="correlation">
<tbody>{% for name, cells in rows %}<tr><th scope="row">{{ name }}</th>
{% for shade, text, said in cells %}
<td class="{{ shade }}"{% if not text %} title="{{ said }}"{% endif %}>{{ text }}</td>{% endfor %}</tr>
{% endfor %}</tbody><tfoot><tr><td></td>{% for name in columns %}<th scope="col">{{ name }}</th>{% endfor %}</tr></tfoot>
</table></div>
"""
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
    found = [row for row in rows if not row.held]
    unknowns = {u.name: u for u in estimate.problem.unknowns}
    shown = [_shown(row, value, unknowns[row.name]) for row, value in
             zip(found, aligned([row.value for row in found]), strict=True)]
    return filled(RESULT_TEMPLATE, rows=shown, held=[row for row in rows if row.held], heading=interval_heading(estimate),
                  units=any(row.unit for row in found), remarks=any(row.remark for row in found),
                  relative=any(row["relative"] for row in shown), notes=estimate.notes, facts=_facts(estimate))


def _shown(row: ResultRow, value: str, unknown: Unknown) -> dict[str, Any]:
    half = (row.high - row.low) / 2
    known = math.isfinite(half) and half <= abs(row.number) and row.number != 0  # else it may be zero
    return {"name": row.name, "value": value, "interval": row.interval, "unit": row.unit, "remark": row.remark,
            "open": row.open, "bounds": _bounds(row, unknown),
            "relative": f"± {_two_digits(100 * half / abs(row.number))} %" if known else "",
            "start": "from the data" if unknown.start is None else format_number(unknown.start)}


def _two_digits(number: float) -> str:
    return f"{number:.2g}" if number < 100 else f"{number:.0f}"


def _bounds(row: ResultRow, unknown: Unknown) -> Markup | str:
    """Where the value lies between its bounds, with its interval and its start; words where a bound is missing."""
    lower, upper = unknown.lower, unknown.upper
    if not (math.isfinite(lower) and math.isfinite(upper) and upper > lower):
        ends = [f"{word} {format_number(end)}" for word, end in (("at least", lower), ("at most", upper)) if math.isfinite(end)]
        return ", ".join(ends) or "none"
    logarithmic = unknown.log and lower > 0

    def place(number: float) -> float:
        share = (math.log(number / lower) / math.log(upper / lower) if logarithmic and number > 0 else
                 (number - lower) / (upper - lower))
        return round(BAR_WIDTH * min(max(share, 0.0), 1.0), 1)

    reach = None
    if math.isfinite(row.low) and math.isfinite(row.high):
        reach = (place(row.low), max(round(place(row.high) - place(row.low), 1), 1.0))
    low, high = format_number(lower, 4), format_number(upper, 4)
    said = f"{row.value} between {low} and {high}{', on a logarithmic scale' if logarithmic else ''}"
    return filled(BAR, at=place(row.number), start=None if unknown.start is None else place(unknown.start), reach=reach,
                  said=said, lower=low, upper=high)


def _facts(estimate: Estimate) -> dict[str, tuple[str, str]]:
    """A few numbers to be seen first, each with an aside: what the noise allows, or the band that it should lie in."""
    unknown = set(outputs_with_unknown_noise(estimate.problem)) if taken_from_errors(estimate) else set()
    known = {name: std for name, std in estimate.noise_std.items() if name not in unknown}
    experiments = estimate.problem.experiments
    if estimate.filtered is not None:  # what it foresees of its innovations, unless that was found from them
        known = {} if estimate.filtered.estimated else expected_std(estimate)
        experiments = [replace(experiment, noise={}) for experiment in experiments]
    allowed = attainable_fit(experiments, known)
    facts = {f"fit of {output}": (percent(fit), f"the noise allows {percent(allowed[output])}" if output in allowed else "")
             for output, fit in fits(estimate).items()}
    facts |= {f"noise of {output}": (level.size, level.origin) for output, level in noise_levels(estimate).items()}
    facts |= {f"noise {place}": (level.size, level.origin) for place, level in disturbance_levels(estimate).items()}
    if "reduced_chi2" in estimate.statistics:
        facts["reduced chi-square"] = (format_number(estimate.statistics["reduced_chi2"], 3), _chi_square_aside(estimate))
    return facts


def _chi_square_aside(estimate: Estimate) -> str:
    """The band in which noise as given leaves it; where all noise was estimated from the residuals it is 1 by construction."""
    if all(level.estimated for level in noise_levels(estimate).values()):
        return "1 by construction: the noise was estimated"
    dof = estimate.statistics.get("dof", 0.0)
    if not dof > 0:
        return ""
    alike = [r for own in estimate.residuals for r in own.values()] if estimate.uncertainty.default_kind == "corrected" else []
    test = noise_level(estimate.statistics["reduced_chi2"] * dof, dof, independent=pooled_independent_share(alike))
    low, high = test.threshold
    return f"{CONFIDENCE:.0%} band {format_number(low, 3)} to {format_number(high, 3)}".replace("%", " %")


RESULT = Section("result", "Result", result)


def interpretation(estimate: Estimate) -> Markup:
    """What an interval promises; both kinds of intervals only for the unknowns for which they differ."""
    uncertainty, withheld = estimate.uncertainty, estimate.verdict.withholds_intervals
    both, several = [], len(uncertainty.kinds) > 1 and not withheld
    if several:
        both = [(name, [_interval(estimate, name, kind) for kind in KINDS]) for name in estimate.problem.names]
        both = [(name, intervals) for name, intervals in both if len(set(intervals)) > 1]
    kinds = [title + (" (printed above)" if kind == uncertainty.default_kind else "") for kind, title in KINDS.items()]
    return filled(INTERPRETATION_TEMPLATE, meaning=interval_meaning(estimate), combinations=uncertainty.combinations,
                  both=both, kinds=kinds, same=several and not both)


def _interval(estimate: Estimate, name: str, kind: str) -> str:
    low, high = estimate.uncertainty.interval(name, LEVEL, kind)
    return written(estimate.values[name], low, high)[1]


INTERPRETATION = Section("meaning", "What the intervals mean", interpretation)


def correlation(estimate: Estimate) -> Markup | None:
    names, matrix = estimate.problem.names, estimate.uncertainty.correlation()
    if matrix is None or len(names) < 2:
        return None
    absent = [name for name, known in zip(names, np.isfinite(np.diag(matrix)), strict=True) if not known]
    said, total = _correlation_sentence(names, matrix), len(names)
    if total > LARGEST_MATRIX:
        most = np.nanmax(np.abs(np.where(np.eye(total, dtype=bool), 0.0, np.nan_to_num(matrix))), axis=1)
        chosen = np.sort(np.argsort(-most, kind="stable")[:LARGEST_MATRIX])
        names, matrix = tuple(names[k] for k in chosen), matrix[np.ix_(chosen, chosen)]
        said += f" Of {total} unknowns the {LARGEST_MATRIX} with the largest correlations are shown."
    labelled = len(names) <= LABELLED_UP_TO
    rows = [(names[i], [_cell(names[j], names[i], matrix[i, j], labelled) for j in range(i)]) for i in range(1, len(names))]
    return filled(CORRELATION_TEMPLATE, said=said, absent=absent, rows=rows, columns=names[:-1])


def _cell(one: str, other: str, number: float, labelled: bool) -> tuple[str, str, str]:
    """How a cell is shaded, its number, and what is said where there is no room for numbers."""
    if not np.isfinite(number):
        return "", "", f"{one}, {other}: not known"
    shade = round(SHADES * abs(number))
    return (f"{'negative' if number < 0 else 'positive'}-{shade}" if shade else "",
            f"{number:.2f}".replace("-", "−") if labelled else "", f"{one}, {other}: {number:.3f}")


def _correlation_sentence(names: tuple[str, ...], matrix: np.ndarray) -> str:
    pairs = [(names[i], names[j], matrix[i, j]) for i in range(len(names)) for j in range(i)
             if abs(matrix[i, j]) >= STRONG]
    pairs.sort(key=lambda pair: -abs(pair[2]))
    if not pairs:
        which = "unknowns" if np.all(np.isfinite(np.diag(matrix))) else "of the unknowns shown"
        return f"No two {which} are correlated beyond ±{STRONG}: the data tell them apart."
    listed = "; ".join(f"{b} and {a} ({r:.3f})" for a, b, r in pairs)
    return f"Hard to tell apart (correlation beyond ±{STRONG}): {listed}."


CORRELATION = Section("correlation", "Correlation", correlation)


def profiles(estimate: Estimate) -> Markup | None:
    found = estimate.uncertainty
    if not isinstance(found, Profile):
        return None
    units = {u.name: u.unit for u in estimate.problem.unknowns}
    rows = [(name, found.identifiability(name), found.partners(name), drawn(profile_chart(found, name, units.get(name, ""))))
            for name in found.curves]
    return filled(PROFILES_TEMPLATE, profiles=rows)


PROFILES = Section("profiles", "Likelihood profiles", profiles)
