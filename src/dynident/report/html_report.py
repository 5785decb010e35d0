"""How does an estimate become a page to read and to send?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dynident.errors import NotSupported
from dynident.estimate.estimate import Estimate
from dynident.report.comparison import build_comparison
from dynident.report.comparison_charts import effort_bars, falls, interval_bars
from dynident.report.html_document import HtmlPage, HtmlPart, write_page
from dynident.report.number_format import aligned, percent
from dynident.report.result_table import extent, fits, interval_heading, method_name, noise_levels, result_rows, verdict
from dynident.report.sections import SECTIONS
from dynident.report.sections.section import filled

NAMED_RECORDS = 3  # in the heading; the section on the problem lists all of them

VERDICT = """
<div class="verdict{% if not converged %} failed{% elif refuted %} doubtful{% endif %}"
{%- if not converged %} role="alert"{% endif %}>
<p><strong>{{ word }}</strong> {{ sentence }}
{% if not converged %}The values below are the best point found, not an optimum.{% endif %}</p></div>
"""

AGREEMENT = """<div class="verdict{% if not agrees %} doubtful{% endif %}"><p>{{ sentence }}</p></div>"""

COMPARISON = """
<div class="scroll"><table class="result">
  <thead><tr><th></th>{% for label in labels %}<th>{{ label }}</th>{% endfor %}</tr></thead>
  <tbody>{% for line in lines %}
    <tr><th scope="row">{{ line.name }}</th>{% for cell in line.cells %}
      <td class="number{% if line.warned[loop.index0] %} apart{% endif %}">{{ cell }}</td>{% endfor %}</tr>{% endfor %}
  </tbody>
</table></div>
"""

FAILED = """<ul>{% for label, reason in failed.items() %}<li><strong>{{ label }}</strong>: {{ reason }}</li>{% endfor %}</ul>"""

MEANINGS = """{% for meaning in meanings %}<p class="prose">{{ meaning }}</p>{% endfor %}"""


def html(estimate: Estimate, path: str | Path, validations: Sequence[Any] = (), paving: Sequence[str] = (),
         truth: Mapping[str, Any] | None = None) -> Path:
    """Write the estimate as one page that opens offline (about 5 MB, as its charts can be zoomed); returns its path.

    For guaranteed bounds: `paving` names the two unknowns whose boxes are drawn, `truth` what is known to be true, a number
    or one per sample.
    """
    estimate = replace(estimate, validations=(*estimate.validations, *validations))
    if paving or truth:
        drawn = estimate.uncertainty.with_plot_pair(paving, truth or {})
        if drawn is None:
            raise NotSupported(f"paving and truth are drawn beside guaranteed bounds; {method_name(estimate)} gives none.")
        estimate = replace(estimate, uncertainty=drawn)
    bodies = [(section, section.body(estimate)) for section in SECTIONS]
    parts = [HtmlPart(section.anchor, section.title, body) for section, body in bodies if body is not None]
    model = str(estimate.problem.model.definition().get("name") or "")
    records, asked = _records(estimate), extent(estimate)
    heading, under = (model, f"{records}: {asked}") if model else (records, asked)
    word, sentence = verdict(estimate)
    failed = "" if estimate.converged else f"{word}: "
    page = HtmlPage(title=f"{failed}{heading}", over=f"Estimate by {method_name(estimate)}", heading=heading,
                under=under, sections=parts, charts=True,
                verdict=filled(VERDICT, converged=estimate.converged, word=word, sentence=sentence,
                               refuted=estimate.converged and not word.startswith("Converged")),
                ribbon="" if estimate.converged else "Not converged: the values on this page are not an optimum")
    return write_page(page, path)


def comparison_html(estimates: Mapping[str, Estimate], path: str | Path) -> Path:
    """Write several estimates side by side, with their intervals, what they took and all starts drawn; labels are the keys.

    Of what `compare` gives, the page also says which methods have no answer, and why.
    """
    comparison = build_comparison(estimates)
    missing = [HtmlPart("failed", "Without an answer", filled(FAILED, failed=comparison.failed))] if comparison.failed else []
    failed = [label for label, estimate in estimates.items() if not estimate.converged]
    parts = [HtmlPart("agreement", "Side by side", filled(COMPARISON, labels=comparison.labels, lines=comparison.lines)),
             *missing,
             HtmlPart("intervals", "Intervals", interval_bars(comparison, failed)),
             HtmlPart("effort", "What it took", effort_bars(comparison, failed)),
             *([HtmlPart("starts", "Where the starts ended", ended)] if (ended := falls(comparison)) else []),
             HtmlPart("meaning", "What the intervals mean", filled(MEANINGS, meanings=comparison.meanings))]
    page = HtmlPage(title=f"Comparison: {', '.join(comparison.labels)}", over="Comparison", under=_asked(estimates),
                heading=" / ".join(comparison.labels), sections=parts, charts=False,
                verdict=filled(AGREEMENT, agrees=comparison.agrees, sentence=comparison.agreement),
                ribbon="; ".join(f"{what}: {', '.join(labels)}" for what, labels in
                                 (("Not converged", failed), ("Without an answer", comparison.failed)) if labels))
    return write_page(page, path)


def _records(estimate: Estimate) -> str:
    labels = [experiment.source or experiment.label for experiment in estimate.problem.experiments]
    more = len(labels) - NAMED_RECORDS
    return ", ".join(labels[:NAMED_RECORDS]) + (f" and {more} more" if more > 0 else "")


def _asked(estimates: Mapping[str, Estimate]) -> str:
    return "; ".join(dict.fromkeys(extent(estimate) for estimate in estimates.values()))


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
