"""How do intervals of several estimates look beside each other?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from dynident.report.comparison import REACHED, ComparisonTable, Effort
from dynident.report.number_format import VAGUE_DIGITS, format_number
from dynident.report.result_table import ResultRow
from dynident.report.sections.section import filled
from dynident.report.waterfall import Waterfall

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


WIDE = 30.0  # times the smallest; beyond it short bars could not be told from none
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
the bottom to {{ high }} at the top. A hollow dot did not converge. Where noise sizes are estimated, and for filters, a cost is
that of the best plus twice what the log-likelihood is lower by; costs compare between methods that minimise the same sum.</p>
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
    logarithmic = low > 0 and high / low > WIDE and effort.name != REACHED
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
