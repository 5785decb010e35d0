"""How does an estimate look in a notebook?"""

from __future__ import annotations

from dynident.estimate.estimate import Estimate
from dynident.report.number_format import aligned, percent
from dynident.report.result_table import extent, fits, interval_heading, method_name, noise_levels, result_rows, verdict
from dynident.report.sections.section import filled

# Styles stand inline and take the notebook's own colours, since a cell must not restyle the page around it.
TEMPLATE = """
<div style="font-family: system-ui, sans-serif; line-height: 1.45; max-width: 52rem">
{% if converged %}
<p style="margin: 0.2em 0"><strong style="color: #00845f">{{ word }}</strong> {{ sentence }}</p>
{% else %}
<p role="alert" style="margin: 0.2em 0; background: #a3150c; color: #fff; padding: 0.6em 0.9em; border-radius: 5px">
<strong style="font-size: 1.25em">{{ word }}</strong><br>
{{ sentence }} The values are the best point found, not an optimum.</p>
{% endif %}
<p style="margin: 0.2em 0 0.8em; opacity: 0.7">{{ asked }}</p>
<table style="border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 0">
<thead><tr>
{% for heading in headings %}
<th style="{{ cell }}; opacity: 0.7; font-weight: 500">{{ heading }}</th>
{% endfor %}
</tr></thead><tbody>
{% for row, value in rows %}
<tr{% if row.held %} style="opacity: 0.65"{% endif %}><th style="{{ cell }}">{{ row.name }}</th>
<td style="{{ cell }}; {{ digits }}">{{ value }}</td>
<td style="{{ cell }}; {{ digits }}{% if row.open %}; font-weight: 700{% endif %}">{{ row.interval }}</td>
<td style="{{ cell }}">{{ row.unit }}</td><td style="{{ cell }}">{{ row.remark }}</td></tr>
{% endfor %}
</tbody></table>
<p style="margin: 0.8em 0 0.2em">{% for fact in facts %}{{ fact }}<br>{% endfor %}</p>
{% if notes %}
<ul style="margin: 0.3em 0; padding-left: 1.2em">{% for note in notes %}<li>{{ note }}</li>{% endfor %}</ul>
{% endif %}
<p style="margin: 0.4em 0; opacity: 0.7; font-size: 0.9em">{{ meaning }}</p>
</div>
"""
CELL = "text-align: left; padding: 0.25em 1.4em 0.25em 0; border-bottom: 1px solid rgba(128, 128, 128, 0.3)"
DIGITS = "white-space: pre; font-family: ui-monospace, monospace"


def estimate_fragment(estimate: Estimate) -> str:
    """A few kilobytes of HTML with inline styles: verdict, table, fit, notes, and what the intervals mean."""
    rows = result_rows(estimate)
    word, sentence = verdict(estimate)
    facts = [f"fit of {output}: {percent(fit)}" for output, fit in fits(estimate).items()]
    facts += [f"noise of {output}: {level}" for output, level in noise_levels(estimate).items()]
    return str(filled(
        TEMPLATE, converged=estimate.converged, word=word, sentence=sentence, facts=facts, notes=estimate.notes,
        asked=f"{method_name(estimate)}: {extent(estimate)}", meaning=estimate.uncertainty.meaning,
        headings=["name", "value", interval_heading(estimate), "unit", "remark"], cell=CELL, digits=DIGITS,
        rows=list(zip(rows, aligned([row.value for row in rows]), strict=True))))
