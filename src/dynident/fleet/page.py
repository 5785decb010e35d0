"""Fleet page: how are the parameters distributed over the fleet and over time, which machines are outliers, and what failed?"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from dynident.fleet.result import FleetResult, value_and_interval
from dynident.report.chart_svg import drawn
from dynident.report.charts import Chart, Curve, Panel, bars, with_unit
from dynident.report.html_document import HtmlPage, HtmlPart, filled, write_page

PAGE = "fleet.html"
EACH_UP_TO = 3000  # records drawn one by one; beyond it the bands of the fleet and the outliers
BINS = 40  # of a histogram, and of the bands over time
FLEET_CHART_HEIGHT = 200  # pixels
BAND = (10, 50, 90)  # percentiles
TABLE_ROWS_SHOWN = 500  # rows of a table on the page; the rest is in the table on disk

VERDICT = """
<div class="verdict{% if not good %} doubtful{% endif %}"><p>{% if good %}<strong>Complete.</strong> {% endif %}{{ headline }}
{{ standing }}</p>{% if verdicts %}<p>{{ verdicts }}</p>{% endif %}</div>
{% for note in notes %}<p class="hint">{{ note }}</p>{% endfor %}
"""
PARAMETERS = """
<p class="prose">The middle and the spread are those of the machines; neither is moved by a few odd ones. The spread is what
machines differ by beyond the errors of their estimates.</p>
<div class="scroll" tabindex="0"><table class="result"><thead><tr><th>name</th><th>middle</th><th>spread</th>
<th>usual error (std)</th><th>unit</th></tr></thead><tbody>
{% for row in rows %}<tr><th scope="row">{{ row[0] }}</th>
{% for cell in row[1:4] %}<td class="number">{{ cell }}</td>{% endfor %}<td>{{ row[4] }}</td></tr>{% endfor %}
</tbody></table></div>
"""
SHARED = """
<p class="prose">{{ shared.status }} {{ shared.meaning }}</p>
<div class="scroll" tabindex="0"><table class="result"><thead><tr><th>name</th><th>value</th><th>95 % interval</th><th>unit</th>
<th>remark</th></tr></thead><tbody>
{% for row in rows %}<tr><th scope="row">{{ row[0] }}</th><td class="number">{{ row[1] }}</td>
<td class="number">{{ row[2] }}</td><td>{{ row[3] }}</td><td>{{ row[4] }}</td></tr>{% endfor %}
</tbody></table></div>
<div class="verdict{% if not shared.agrees %} doubtful{% endif %}"><p>{{ shared.agreement }}</p></div>
"""
PAIRS = """
<p class="prose">Dotted: the middle of the machines; shaded: one spread to both sides.{% if bands %} Over time there are too
many records to draw each: the line is their median, the band holds 80 % of them, and outliers are dots.{% endif %}
</p>
{% for title, charts in quantities %}<h3>{{ title }}</h3><div class="pair">{% for chart in charts %}{{ chart }}
{% endfor %}</div>{% endfor %}"""
OUTLIERS = """
<p class="prose">A machine is listed if it lies farther from the middle than the usual spread and its own error explain: so
far that a fleet whose machines differ as usual shows any with a probability of 5 %. A record is listed if it lies as far
from the other records of its machine. A value that is only poorly known is no outlier, however far it lies.</p>
{% if rows %}
<div class="scroll" tabindex="0"><table><thead><tr><th>machine</th><th>record</th><th>parameter</th><th>value</th><th>usual</th>
<th>standard deviations away</th></tr></thead><tbody>
{% for it in rows %}<tr><th scope="row">{{ it.machine }}</th><td>{{ it.record or "all" }}</td><td>{{ it.parameter }}</td>
<td class="number">{{ it.value }}</td><td class="number">{{ it.usual }}</td><td class="number">{{ it.away }}</td></tr>
{% endfor %}
</tbody></table></div>
{% if more %}<p class="hint">{{ more }} more are not listed here.</p>{% endif %}
<p class="hint">To look at one record in the workbench: <code>dynident open FLEET.toml --record RECORD</code></p>
{% else %}<p>No outliers.</p>{% endif %}
"""
FAILURES = """
<div class="scroll" tabindex="0"><table><thead><tr><th>record</th><th>machine</th><th>what</th><th>why</th></tr></thead><tbody>
{% for it in rows %}<tr><th scope="row">{{ it.record }}</th><td>{{ it.machine }}</td><td>{{ it.status }}</td>
<td>{{ it.reason }}</td></tr>{% endfor %}
</tbody></table></div>
{% if more %}<p class="hint">{{ more }} more are listed in fleet.csv.</p>{% endif %}
"""


def write_fleet_page(result: FleetResult, path: str | Path) -> Path:
    """Write the page of a fleet: one file that opens offline; returns its path."""
    shown = [name for name in result.names if name in result.centres] or list(result.names)
    parts = [HtmlPart("shared", "Shared by the fleet", _shared(result))] if result.shared is not None else []
    parts.append(HtmlPart("outliers", "Outlier machines", _outliers(result)))
    if result.names:
        parts.append(HtmlPart("parameters", "Parameters", filled(PARAMETERS, rows=result.summary())))
    if result.records and shown:
        parts.append(HtmlPart("distribution", "Over the fleet" + (" and over time" if _timed(result) else ""),
                          filled(PAIRS, quantities=[_quantity(result, name) for name in shown],
                                 bands=_timed(result) and len(result.records) > EACH_UP_TO)))
    if result.failures:
        parts.append(HtmlPart("failures", "Without a result", filled(
            FAILURES, rows=result.failures[:TABLE_ROWS_SHOWN], more=max(0, len(result.failures) - TABLE_ROWS_SHOWN))))
    machines = len({it.machine for it in result.outliers if not it.record})
    standing = f"{machines} outlier {'machine' if machines == 1 else 'machines'}." if machines else "No outlier machines."
    fleet = len({machine for machine in result.machines if machine})
    heading = f"{fleet:,} machines, {result.total:,} records" if fleet > 1 else f"{result.total:,} records"
    page = HtmlPage(
        title=f"Fleet: {heading}", over="Fleet", heading=heading, under=", ".join(result.names), sections=parts,
        charts=bool(result.records and shown),
        verdict=filled(VERDICT, good=result.good, headline=result.headline, standing=standing, notes=result.notes,
                       verdicts=result.verdict_line),
        ribbon="Stopped before all records were fitted" if result.stopped else "")
    return write_page(page, path)


def _shared(result: FleetResult) -> Markup:
    assert result.shared is not None
    rows = [[name, *value_and_interval(result.shared, i), result.shared.units[i], result.shared.remarks[i]]
            for i, name in enumerate(result.shared.names)]
    return filled(SHARED, shared=result.shared, rows=rows)


def _outliers(result: FleetResult) -> Markup:
    rows = []
    for it in result.outliers[:TABLE_ROWS_SHOWN]:
        unit = result.units.get(it.parameter, "")
        rows.append({"machine": it.machine, "record": it.record, "parameter": it.parameter,
                     "value": f"{it.value:.4g} ± {it.half_width:.2g} {unit}", "usual": f"{it.middle:.4g} {unit}",
                     "away": f"{it.away:+.1f}"})
    return filled(OUTLIERS, rows=rows, more=max(0, len(result.outliers) - TABLE_ROWS_SHOWN))


def _quantity(result: FleetResult, name: str) -> tuple[str, list[Markup]]:
    title = with_unit(name, result.units.get(name, ""))
    charts = [_histogram(result, name)]
    if _timed(result):
        charts.append(_over_time(result, name))
    return title, charts


def _timed(result: FleetResult) -> bool:
    return len({time for time in result.times if time is not None}) > 1


def _histogram(result: FleetResult, name: str) -> Markup:
    values = result.values[name]
    values = values[np.isfinite(values)]
    counts, edges = np.histogram(values, bins=_edges(values))
    centre = result.centres.get(name)
    panel = Panel("records", [bars(edges, counts.astype(float), "records", "fitted")], FLEET_CHART_HEIGHT,
                  across_band=None if centre is None else (centre.middle - centre.spread, centre.middle + centre.spread),
                  across_line=None if centre is None else centre.middle)
    return drawn(Chart([panel], with_unit(name, result.units.get(name, "")), f"How {name} is distributed over the fleet"))


def _edges(values: np.ndarray) -> np.ndarray:
    """Bins as fine as the number of values supports (Freedman and Diaconis), within reason."""
    low, high = (float(np.min(values)), float(np.max(values))) if values.size else (0.0, 1.0)
    if high <= low:
        low, high = low - max(abs(low), 1.0) * 0.05, high + max(abs(high), 1.0) * 0.05
    quarter, three = np.percentile(values, [25, 75]) if values.size else (0.0, 1.0)
    width = 2 * (three - quarter) / max(values.size, 1) ** (1 / 3)
    return np.linspace(low, high, int(np.clip((high - low) / width if width > 0 else 10, 5, BINS)) + 1)


def _over_time(result: FleetResult, name: str) -> Markup:
    when = np.array([t is not None for t in result.times]) & np.isfinite(result.values[name])
    rows = np.flatnonzero(when)
    dated = any(isinstance(result.times[k], datetime) for k in rows)
    seconds = np.array([_seconds(result.times[k]) for k in rows])
    odd = {(s.machine, s.record) for s in result.outliers if s.parameter == name}
    out = np.array([(result.machines[k] or result.records[k], "") in odd
                    or (result.machines[k] or result.records[k], result.records[k]) in odd for k in rows], bool)
    curves = _bands(seconds, result.values[name][rows]) if rows.size > EACH_UP_TO else []
    for label, mask, color in (("records", ~out, "measured"), ("outliers", out, "second")):
        if np.any(mask) and (label != "records" or rows.size <= EACH_UP_TO):
            names = tuple(f"{result.machines[k]} {result.records[k]}".strip() for k in rows[mask])
            curves.append(Curve(seconds[mask], result.values[name][rows[mask]], label, color, "dots", labels=names))
    return drawn(Chart([Panel(name, curves, FLEET_CHART_HEIGHT, result.units.get(name, ""))], "" if dated else "time",
                       f"{name} of every record over time", dated=dated))


def _bands(seconds: np.ndarray, values: np.ndarray) -> list[Curve]:
    """Percentiles of the fleet in equal parts of time."""
    edges = np.linspace(seconds.min(), seconds.max(), BINS + 1)
    part = np.clip(np.digitize(seconds, edges) - 1, 0, BINS - 1)
    full = [k for k in range(BINS) if np.any(part == k)]
    middle = (edges[:-1] + edges[1:])[full] / 2
    low, half, high = (np.array([np.percentile(values[part == k], p) for k in full]) for p in BAND)
    return [Curve(middle, low, "80 % of the records", "band", "area", y_end=high), Curve(middle, half, "median", "fitted")]


def _seconds(time: Any) -> float:
    return time.timestamp() if isinstance(time, datetime) else float(time)
