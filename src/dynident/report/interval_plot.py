"""How do intervals of several estimates look beside each other?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from dynident.report.comparison import ComparisonTable
from dynident.report.number_format import VAGUE_DIGITS, format_number
from dynident.report.result_table import ResultRow
from dynident.report.sections.section import filled

MARGIN = 0.08  # of the drawn range, left free on either side

TEMPLATE = """
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


def interval_bars(comparison: ComparisonTable, failed: Sequence[str]) -> Markup:
    """One group of bars per quantity that was estimated somewhere; held ones have no interval to draw."""
    quantities = []
    for name in comparison.names:
        rows = {label: by_name[name] for label, by_name in comparison.rows.items() if name in by_name}
        if any(not row.held for row in rows.values()):
            quantities.append(_quantity(name, rows, failed))
    return filled(TEMPLATE, quantities=quantities)


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
    return {"title": f"{name} ({unit})" if unit else name, "bars": bars, "low": format_number(low, VAGUE_DIGITS),
            "high": format_number(high, VAGUE_DIGITS)}


def _range(rows: Sequence[ResultRow]) -> tuple[float, float]:
    ends = [number for row in rows for number in (row.low, row.number, row.high) if math.isfinite(number)]
    low, high = min(ends, default=0.0), max(ends, default=0.0)
    margin = MARGIN * (high - low) or MARGIN * max(abs(high), 1.0)
    return low - margin, high + margin
