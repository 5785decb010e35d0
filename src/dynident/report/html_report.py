"""How do an estimate, or several side by side, become a page to read and to send?"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from markupsafe import Markup

from dynident.errors import NotSupported
from dynident.estimate.estimate import Estimate
from dynident.report.comparison import REACHED, ComparisonTable, Effort, Waterfall, build_comparison
from dynident.report.html_document import HtmlPage, HtmlPart, filled, write_page
from dynident.report.result_table import (
    MOST_DIGITS,
    VAGUE_DIGITS,
    WITHHELD,
    ResultRow,
    aligned,
    convergence,
    counted,
    disturbance_levels,
    extent,
    fits,
    format_number,
    interval_heading,
    interval_meaning,
    method_name,
    noise_levels,
    percent,
    result_rows,
)
from dynident.report.sections import SECTIONS
from dynident.statistics.verdict import GO_ON

WORST_LAST = ("green", "grey", "amber", "orange", "red")  # colours of verdicts
SENTENCE_END = r"(?<=[.?!]) (?=[A-Z0-9])"
NAMED_RECORDS = 3  # in the heading; the section on the problem lists all of them
VERDICT = """
<div class="verdict {{ colour }}"{% if not converged %} role="alert"{% endif %}>
<p class="first"><strong class="grade {{ verdict.colour }}">{{ verdict.grade }}</strong> {{ head }}</p>
{% for paragraph in more %}<p class="more">{{ paragraph }}</p>{% endfor %}
{% for validation in validations %}{% if validation.verdict %}
<p class="validated"><strong class="grade {{ validation.verdict.colour }}">{{ validation.verdict.grade }}</strong>
<b>{{ validation.experiment }}</b>, not fitted: {{ validation.verdict.sentence }}</p>{% endif %}{% else %}
<p class="validated">No other record was predicted: whether the model holds beyond the fitted one is not known.</p>
{% endfor %}
{% if undetermined %}<p class="validated"><strong class="grade amber">!</strong>
Not determined by these data: {{ undetermined }}.</p>{% endif %}
<p class="ended"><strong>{{ word }}</strong> {{ sentence }}
{% if not converged %}The values below are the best point found, not an optimum.{% endif %}</p></div>
"""
AGREEMENT = """<div class="verdict{% if not agrees %} doubtful{% endif %}"><p>{{ sentence }}</p></div>"""
COMPARISON = """
<div class="scroll" tabindex="0"><table class="result">
  <thead><tr><td></td>{% for label in labels %}<th>{{ label }}</th>{% endfor %}</tr></thead>
  <tbody>{% for line in lines %}
    <tr><th scope="row">{{ line.name }}</th>{% for cell in line.cells %}
      <td class="number{% if line.warned[loop.index0] %} apart{% endif %}">{{ cell }}</td>{% endfor %}</tr>{% endfor %}
  </tbody>
</table></div>
"""
FAILED = """<ul>{% for label, reason in failed.items() %}<li><strong>{{ label }}</strong>: {{ reason }}</li>{% endfor %}</ul>"""
MEANINGS = """{% for meaning in meanings %}<p class="prose">{{ meaning }}</p>{% endfor %}"""
AXIS_MARGIN = 0.08  # of the drawn range, left free on either side
INTERVALS = """
<p class="hint">One bar per estimate: its interval, and the value as a dot. A dashed bar is open: the data set no
limit.</p>
{% for quantity in quantities %}
<article><h3>{{ quantity.title }}</h3>
<div class="bars">
{% for bar in quantity.bars %}
  <div class="label">{{ bar.label }}</div>
  <svg role="img" aria-label="{{ bar.label }}: {{ bar.said }}">
    <line class="rail" x1="0" x2="100%" y1="50%" y2="50%"/>
    <line class="reach{% if bar.open %} open{% endif %}{% if bar.failed %} failed{% endif %}"
      x1="{{ bar.left }}%" x2="{{ bar.right }}%" y1="50%" y2="50%"/>
    <circle class="value" cx="{{ bar.at }}%" cy="50%" r="5"/>
  </svg>
  <div class="said number">{{ bar.said }}{% if bar.failed %} (not converged){% endif %}</div>
{% endfor %}
  <div></div><div class="ends"><span>{{ quantity.low }}</span><span>{{ quantity.high }}</span></div><div></div>
</div></article>
{% endfor %}
"""


def html(estimate: Estimate, path: str | Path, validations: Sequence[Any] = (), paving: Sequence[str] = (),
         truth: Mapping[str, Any] | None = None, name: str = "", command: str = "") -> Path:
    """Write the estimate as one page that opens offline and whose charts can be zoomed (at most 1 MB); returns its path.

    For guaranteed bounds: `paving` names the two unknowns whose boxes are drawn, `truth` what is known to be true, a number
    or one per sample. `name` is the heading (that of the model, or the records, if empty), `command` a line to be copied that
    makes the result again.
    """
    if validations:
        estimate = replace(estimate, validations=(*estimate.validations, *validations))
    if paving or truth:
        drawn = estimate.uncertainty.with_plot_pair(paving, truth or {})
        if drawn is None:
            raise NotSupported(f"paving and truth are drawn beside guaranteed bounds; {method_name(estimate)} gives none.")
        estimate = replace(estimate, uncertainty=drawn)
    bodies = [(section, section.body(estimate)) for section in SECTIONS]
    parts = [HtmlPart(section.anchor, section.title, body, section.folded) for section, body in bodies if body is not None]
    model = str(estimate.problem.model.definition().get("name") or "")
    records, asked = _records(estimate), extent(estimate)
    heading = name or model or records
    word, sentence = convergence(estimate)
    failed = "" if estimate.converged else f"{word}: "
    page = HtmlPage(title=f"{failed}{heading}", over=f"Estimate by {method_name(estimate)}", heading=heading,
                under=asked if heading == records else f"{records}: {asked}", sections=parts, charts=True,
                verdict=_strip(estimate, word, sentence), written=f"Written {_now()}", command=command,
                ribbon="" if estimate.converged else "Not converged: the values on this page are not an optimum")
    return write_page(page, path)


def _strip(estimate: Estimate, word: str, sentence: str) -> Markup:
    """The verdict in a few lines, in the colour of the worst of them: the fit, other records, what is not determined."""
    rows = [row for row in result_rows(estimate) if not row.held]
    open_ones = [row.name for row in rows if row.open and row.interval != WITHHELD]
    said = f"{', '.join(open_ones)} ({len(open_ones)} of {counted(len(rows), 'unknown')})" if open_ones else ""
    colours = [estimate.verdict.colour, *(v.verdict.colour for v in estimate.validations if v.verdict is not None),
               *(["amber"] if open_ones else [])]
    head, *more = paragraphs(estimate.verdict.sentence)
    return filled(VERDICT, head=head, more=more, converged=estimate.converged, word=word, sentence=sentence,
                  verdict=estimate.verdict, validations=estimate.validations, undetermined=said,
                  colour=max(colours, key=WORST_LAST.index))


def paragraphs(sentence: str) -> list[str]:
    """A verdict as it is read: what it says, what was found about it, and what to try next."""
    found, _, next_steps = sentence.partition(f" {GO_ON}")
    head, _, rest = re.sub(SENTENCE_END, "\n", found, count=1).partition("\n")
    return [part for part in (head, rest, f"{GO_ON}{next_steps}" if next_steps else "") if part]


def _now() -> str:
    return datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")


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
    labels = [experiment.label for experiment in estimate.problem.experiments]
    more = len(labels) - NAMED_RECORDS
    return ", ".join(labels[:NAMED_RECORDS]) + (f" and {more} more" if more > 0 else "")


def _asked(estimates: Mapping[str, Estimate]) -> str:
    return "; ".join(dict.fromkeys(extent(estimate) for estimate in estimates.values()))


# Styles stand inline and take the notebook's own colours, since a cell must not restyle the page around it.
FRAGMENT = """
<div style="font-family: system-ui, sans-serif; line-height: 1.45; max-width: 52rem">
{% for verdict, record in verdicts %}
<p style="margin: 0.2em 0"><strong style="{{ badge }}; background: {{ colours[verdict.colour] }}">
{%- if verdict.colour in alarming %}[!] {% endif %}{{ verdict.grade }}</strong>
{% if record %}<b>{{ record }}</b>, not fitted: {% endif %}{{ verdict.sentence }}</p>
{% endfor %}
{% if converged %}
<p style="margin: 0.2em 0; opacity: 0.8">{{ word }} {{ sentence }}</p>
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

BADGE = "color: #fff; padding: 0.1em 0.5em; border-radius: 4px"

BADGE_COLOURS = {"green": "#00694f", "amber": "#7d5200", "orange": "#a84300", "red": "#a3150c", "grey": "#586269"}

ALARMING = ("orange", "red")  # marked by a sign, too: a notebook may be read without colours, or aloud

DIGITS = "white-space: pre; font-family: ui-monospace, monospace"


def estimate_fragment(estimate: Estimate) -> str:
    """A few kilobytes of HTML with inline styles: verdict, table, fit, notes, and what the intervals mean."""
    rows = result_rows(estimate)
    word, sentence = convergence(estimate)
    facts = [f"fit of {output}: {percent(fit)}" for output, fit in fits(estimate).items()]
    facts += [f"noise of {output}: {level}" for output, level in noise_levels(estimate).items()]
    facts += [f"noise {place}: {level}" for place, level in disturbance_levels(estimate).items()]
    validated = [(v.verdict, v.experiment) for v in estimate.validations if v.verdict is not None]
    return str(filled(
        FRAGMENT, converged=estimate.converged, word=word, sentence=sentence, facts=facts, notes=estimate.notes,
        verdicts=[(estimate.verdict, ""), *validated], badge=BADGE, colours=BADGE_COLOURS, alarming=ALARMING,
        asked=f"{method_name(estimate)}: {extent(estimate)}", meaning=interval_meaning(estimate),
        headings=["name", "value", interval_heading(estimate), "unit", "remark"], cell=CELL, digits=DIGITS,
        rows=list(zip(rows, aligned([row.value for row in rows]), strict=True))))


def interval_bars(comparison: ComparisonTable, failed: Sequence[str]) -> Markup:
    """One group of bars per quantity that was estimated somewhere; held ones have no interval to draw."""
    quantities = []
    for name in comparison.names:
        rows = {label: by_name[name] for label, by_name in comparison.rows.items() if name in by_name}
        if any(not row.held for row in rows.values()):
            quantities.append(_quantity(name, rows, failed))
    return filled(INTERVALS, quantities=quantities)


def _quantity(name: str, rows: dict[str, ResultRow], failed: Sequence[str]) -> dict[str, Any]:
    low, high = _range(list(rows.values()))

    def place(number: float) -> float:
        """Percent of the way; an infinite end reaches the edge."""
        return round(100 * min(max((number - low) / (high - low), 0.0), 1.0), 3)

    def end(number: float, edge: float) -> float:
        return place(edge if math.isnan(number) else number)

    unit = next((row.unit for row in rows.values() if row.unit), "")
    bars = [{"label": label, "said": f"{row.value} {row.interval}", "open": row.open, "failed": label in failed,
             "left": end(row.low, low), "right": end(row.high, high), "at": place(row.number)}
            for label, row in rows.items()]
    ends = next(ends for digits in range(VAGUE_DIGITS, MOST_DIGITS + 1)
                if len(set(ends := (format_number(low, digits), format_number(high, digits)))) > 1 or digits == MOST_DIGITS)
    return {"title": f"{name} ({unit})" if unit else name, "bars": bars, "low": ends[0], "high": ends[1]}


def _range(rows: Sequence[ResultRow]) -> tuple[float, float]:
    ends = [number for row in rows for number in (row.low, row.number, row.high) if math.isfinite(number)]
    low, high = min(ends, default=0.0), max(ends, default=0.0)
    margin = AXIS_MARGIN * (high - low) or AXIS_MARGIN * max(abs(high), 1.0)
    return low - margin, high + margin


LARGEST_BAR_RATIO = 30.0  # times the smallest; beyond it short bars could not be told from none

SHORTEST = 2.0  # percent; what is there is seen

BARS = """
<p class="hint">One bar per estimate, from zero; where the numbers are far apart the scale is logarithmic, and each mark is ten
times the one before it.</p>
<div class="efforts">
{% for effort in efforts %}
<article><h3>{{ effort.name }}{% if effort.decades %} <span class="quiet">(logarithmic)</span>{% endif %}</h3>
<div class="bars">
{% for bar in effort.bars %}
  <div class="label">{{ bar.label }}</div>
  <svg role="img" aria-label="{{ bar.label }}: {{ bar.said }}">
    <line class="rail" x1="0" x2="100%" y1="50%" y2="50%"/>
    {% for place in effort.decades %}<line class="rail" x1="{{ place }}%" x2="{{ place }}%" y1="30%" y2="70%"/>{% endfor %}
    {% if bar.length is not none %}<line class="reach{% if bar.failed %} failed{% endif %}" x1="0"
      x2="{{ bar.length }}%" y1="50%" y2="50%"/>{% endif %}
  </svg>
  <div class="said number">{{ bar.said }}{% if bar.failed %} (not converged){% endif %}</div>
{% endfor %}
</div></article>
{% endfor %}
</div>
"""

FALLS = """
<p class="hint">One dot per start: the cost at which it ended, best first, on the same {{ scale }} for all, from {{ low }} at
the bottom to {{ high }} at the top. A hollow dot did not converge. Where noise standard deviations are estimated, and for
filters, a cost is that of the best plus twice what the log-likelihood is lower by; costs compare between methods that
minimise the same sum.</p>
<div class="falls">
{% for fall in falls %}
<article><h3>{{ fall.label }}</h3>
<svg role="img" aria-label="{{ fall.label }}: {{ fall.said }}">
  <line class="rail" x1="0" x2="100%" y1="100%" y2="100%"/>
  {% for dot in fall.dots %}
  <circle class="value{% if not dot.converged %} hollow{% endif %}" cx="{{ dot.x }}%" cy="{{ dot.y }}%" r="4"/>
  {% endfor %}
</svg>
<p class="said">{{ fall.said }}</p></article>
{% endfor %}
</div>
"""


def effort_bars(comparison: ComparisonTable, failed: Sequence[str]) -> Markup:
    """Bars for everything that differs in what it took."""
    return filled(BARS, efforts=[_bars(effort, comparison.labels, failed) for effort in comparison.efforts])


def _bars(effort: Effort, labels: Sequence[str], failed: Sequence[str]) -> dict[str, Any]:
    known = [number for number in effort.numbers if math.isfinite(number)]
    low, high = min(known, default=0.0), max(known, default=0.0)
    high = 1.0 if effort.name == REACHED else high
    logarithmic = low > 0 and high / low > LARGEST_BAR_RATIO and effort.name != REACHED
    begin = 10.0 ** math.floor(math.log10(low)) / (10.0 if _is_decade(low) else 1.0) if logarithmic else 0.0

    def length(number: float) -> float | None:
        if not math.isfinite(number):
            return None
        share = math.log(number / begin) / math.log(high / begin) if logarithmic else (number / high if high > 0 else 0.0)
        return round(max(100 * share, SHORTEST if number > 0 else 0.0), 2)

    decades = []
    if logarithmic:
        count = math.floor(math.log10(high / begin) + 1e-9)
        decades = [round(100 * k * math.log(10) / math.log(high / begin), 2) for k in range(1, count + 1)]
    bars = [{"label": label, "length": length(number), "said": said, "failed": label in failed}
            for label, number, said in zip(labels, effort.numbers, effort.said, strict=True)]
    return {"name": effort.name, "bars": bars, "decades": decades}


def _is_decade(number: float) -> bool:
    return number == 10.0 ** round(math.log10(number))


def falls(comparison: ComparisonTable) -> Markup | None:
    """Where the starts of each estimate ended; nothing where none had several."""
    costs = [float(cost) for fall in comparison.falls.values() for cost in fall.cost]
    if not costs:
        return None
    low, high = min(costs), max(costs)
    logarithmic = low > 0

    def height(cost: float) -> float:
        """Percent from the top; room for half a dot at either end."""
        if high == low:
            return 92.0
        share = math.log(cost / low) / math.log(high / low) if logarithmic else (cost - low) / (high - low)
        return round(92 - 84 * share, 2)

    reached = next(dict(zip(comparison.labels, e.said, strict=True)) for e in comparison.efforts if e.name == REACHED)
    drawn = [{"label": label, "said": _sentence(reached[label], fall), "dots": _dots(fall, height)}
             for label, fall in comparison.falls.items()]
    return filled(FALLS, falls=drawn, low=format_number(low, VAGUE_DIGITS), high=format_number(high, VAGUE_DIGITS),
                  scale="logarithmic scale" if logarithmic else "scale")


def _sentence(reached: str, fall: Waterfall) -> str:
    lost = f", {fall.lost} could not be fitted at all" if fall.lost else ""
    return f"{reached} reached the best{lost}."


def _dots(fall: Waterfall, height: Any) -> list[dict[str, Any]]:
    return [{"x": round(100 * (int(rank) - 0.5) / fall.cost.size, 2), "y": height(float(cost)), "converged": bool(converged)}
            for rank, cost, converged in zip(fall.rank, fall.cost, fall.converged, strict=True)]
