"""How does a chart become part of a page: as drawings that need no script, follow the page's colours and print sharply?

Each panel is an SVG whose curves live in a square of 30,000 units that is stretched to the panel, so that the page may have
any width, and a stretch of time is looked at by moving the square's view box. The path is the data: the page's script reads
values from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from dynident.report.charts import Chart, Curve, Panel, shown
from dynident.report.html_document import filled

UNITS = 30_000  # along each side of the square; finer steps are not seen until one looks at a thousandth
PADDING = 0.06  # of the vertical range, left free above and below
ACROSS_TICKS = 6  # at most, along the horizontal axis
TICK_EVERY = 38  # pixels between numbers of the vertical axis, at least
FAR_FROM_ZERO = 1e4  # times the width of the horizontal axis; numbers beyond it are counted from its begin
MAX_DECADE_TICKS = 6  # ticks of a logarithmic axis, at most
SYMBOL_PATHS = {"dot": "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z", "ring": "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
                "cross": "M-4-4L4 4M-4 4L4-4", "thin cross": "M-4-4L4 4M-4 4L4-4"}
TEMPLATE = """
<figure class="chart{% if zoom %} zooms{% endif %}"><div class="panels" role="img" aria-label="{{ described }}"
 data-x="{{ x[0] }} {{ x[1] }}"{% if offset %} data-offset="{{ offset }}"{% endif %}{% if dated %} data-dated="1"{% endif %}
 data-across="{{ across }}">
{% for panel in panels %}
<div class="panel"><div class="head"><span class="title">{{ panel.title }}</span>
{% for key in panel.legend %}
<span class="key"><svg class="swatch" width="22" height="12" aria-hidden="true">{{ key.swatch }}</svg>{{ key.name }}</span>
{% endfor %}
<span class="readout" aria-hidden="true"></span></div>
<svg class="yaxis" height="{{ panel.height }}" aria-hidden="true">{% for at, text in panel.ticks %}
<text x="100%" y="{{ at }}%" dx="-6" dy="0.32em">{{ text }}</text>{% endfor %}</svg>
<svg class="plot" height="{{ panel.height }}" aria-hidden="true" data-y="{{ panel.y[0] }} {{ panel.y[1] }}"
 data-scale="{{ panel.scale }}">
<svg class="grid" viewBox="0 0 100 100" preserveAspectRatio="none"><path d="{% for at, text in panel.ticks %}M0 {{ at }}H100
{%- endfor %}{% for at, text in xticks %}M{{ at }} 0V100{% endfor %}"/></svg>
<svg class="curves" viewBox="0 0 30000 30000" preserveAspectRatio="none">{{ panel.paths }}</svg>
{{ panel.symbols }}</svg></div>
{% endfor %}
<svg class="xaxis" height="22" aria-hidden="true">{% for at, text in xticks %}
<text x="{{ at }}%" y="15"{% if loop.index is even %} class="even"{% endif %}>{{ text }}</text>{% endfor %}</svg>
<div class="across">{{ across }}{% if offset %} − {{ offset }}{% endif %}</div></div>
{% if zoom %}<button type="button" class="whole" hidden>Show the whole range</button>{% endif %}
</figure>
"""


def drawn(chart: Chart) -> Markup:
    """The chart as part of a page."""
    low, high = chart.reach()
    offset = 0 if chart.dated or abs(low) < FAR_FROM_ZERO * (high - low) else round(low)
    across = date_ticks(low, high) if chart.dated else [
        (at + offset, text) for at, text in ticks(low - offset, high - offset, ACROSS_TICKS)]
    return filled(TEMPLATE, described=chart.described, across=chart.across, x=(_exact(low), _exact(high)), zoom=chart.zoom,
                  dated=chart.dated, offset=offset, xticks=[(_percent((at - low) / (high - low)), text) for at, text in across],
                  panels=[_panel(shown(panel), chart, low, high) for panel in chart.panels])


def _panel(panel: Panel, chart: Chart, low: float, high: float) -> dict[str, Any]:
    bottom, top = vertical_range(panel)
    place = _Square(low, high, bottom, top, panel.log)
    shades = []
    if panel.band is not None and np.isfinite(panel.band):
        shades.append(_rectangle(place, low, high, -panel.band, panel.band))
    if panel.across_band is not None:
        shades.append(_rectangle(place, *panel.across_band, bottom, top))
    lines = [*chart.breaks, *([] if panel.across_line is None else [panel.across_line])]
    paths = [f'<path class="band area" d="{d}"/>' for d in shades]
    paths += [f'<path class="break" d="M{place.x(at)} 0V{UNITS}"/>' for at in lines]
    paths += [_path(place, c) for c in panel.curves]
    marked = [_symbol(place, c, k) for c in panel.curves if c.symbols for k in range(len(c.symbols))]
    named = {c.name: c for c in reversed(panel.curves) if c.legend and c.name}
    return {"title": panel.title, "height": panel.height, "y": (_exact(bottom), _exact(top)),
            "scale": "bare" if panel.bare else "log" if panel.log else "linear", "ticks": _vertical_ticks(panel, bottom, top),
            "paths": Markup("".join(paths)), "symbols": Markup("".join(marked)),
            "legend": [{"name": name, "swatch": _swatch(c)} for name, c in reversed(named.items())]}


def vertical_range(panel: Panel) -> tuple[float, float]:
    """Ends of the vertical axis with some room; logarithms of them where the axis is logarithmic."""
    if panel.bare:
        return 0.0, 1.0
    values = panel.values()
    if panel.log:
        values = np.log10(values)
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    room = PADDING * (high - low) or (0.5 if panel.log else 0.05 * abs(high) or 0.5)
    stands_on_zero = any(c.look == "bars" for c in panel.curves) and low == 0
    return (low if stands_on_zero else low - room), high + room


def ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """Round numbers between two ends, and how they are written: as few digits as tell them apart.

    At most so many; but a scale needs two, so that more stand where fewer than that would.
    """
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    steps = [m * power for m in (10, 5, 2, 1, 0.5, 0.2)]
    smallest = max(k for k, step in enumerate(steps) if step >= raw * (1 - 1e-9))
    for step in steps[smallest:]:
        places = [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
        if len(places) > 1:
            break
    return [(at, _tick_text(at, step, max(abs(low), abs(high)))) for at in places]


def _tick_text(at: float, step: float, largest: float) -> str:
    if (largest >= 1e6 and step >= 1e3) or largest < 1e-4:
        return f"{at + 0.0:.6g}".replace("e-0", "e-").replace("e+0", "e").replace("-", "−")
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return f"{at + 0.0:.{decimals}f}".replace("-", "−")


def date_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Equal parts of a stretch of time in seconds since 1970, written as days, or as hours and minutes within a few days."""
    style = "%Y-%m-%d" if high - low > 5 * 86400 else "%d %b %H:%M"
    count = ACROSS_TICKS - 2
    places = [low + (k + 0.5) * (high - low) / count for k in range(count)]
    return [(at, datetime.fromtimestamp(at, UTC).strftime(style)) for at in places]


def _vertical_ticks(panel: Panel, bottom: float, top: float) -> list[tuple[float, str]]:
    if panel.bare:
        return []
    most = max(3, panel.height // TICK_EVERY)
    if panel.log and top - bottom > 1:
        every = max(1, math.ceil((top - bottom) / min(most, MAX_DECADE_TICKS)))
        first = math.ceil(bottom)
        found = [(float(k), _decade(k)) for k in range(first, math.floor(top) + 1, every)]
    elif panel.log:  # within a decade round numbers say more than powers of ten
        found = [(math.log10(at), text) for at, text in ticks(10.0**bottom, 10.0**top, most) if at > 0]
    else:
        found = ticks(bottom, top, most)
    return [(_percent((top - at) / (top - bottom)), text) for at, text in found]


def _decade(power: int) -> str:
    return f"{10.0**power:g}" if -3 <= power <= 4 else f"1e{power}".replace("-", "−")


class _Square:
    """Where numbers of the two axes lie in the square of UNITS."""

    def __init__(self, low: float, high: float, bottom: float, top: float, log: bool):
        self.low, self.wide, self.top, self.tall, self.log = low, high - low, top, top - bottom, log

    def x(self, value: float) -> int:
        return round(float(np.clip((value - self.low) / self.wide, -1, 2)) * UNITS)

    def across(self, values: np.ndarray) -> np.ndarray:
        return np.clip((np.asarray(values, float) - self.low) / self.wide, -1, 2) * UNITS

    def up(self, values: np.ndarray) -> np.ndarray:
        values = np.asarray(values, float)
        if self.log:  # a logarithmic axis has no place for zero
            values = np.log10(np.where(values > 0, values, np.nan))
        return np.clip((self.top - values) / self.tall, -1, 2) * UNITS


def _path(place: _Square, c: Curve) -> str:
    x, y = place.across(c.x), place.up(c.y)
    if c.look in ("bars", "boxes") and c.x_end is not None:
        y_end = place.up(np.zeros(y.size) if c.y_end is None else c.y_end)
        d = "".join(_box(*corners) for corners in zip(*_whole(x, y, place.across(c.x_end), y_end), strict=True))
    elif c.look == "area" and c.y_end is not None:
        d = _line(np.concatenate([x, x[::-1]]), np.concatenate([y, place.up(c.y_end)[::-1]])) + "z" if x.size else ""
    elif c.look == "dots":
        d = _dots(x, y)
    else:
        d = "".join(_line(part_x, part_y, c.look == "steps") for part_x, part_y in _stretches(x, y))
        if c.look == "dotted" and not c.symbols:
            return _element(c, d) + f'<path class="{escape(c.color)} dots" d="{_dots(x, y)}"/>'
    return _element(c, d)


def _element(c: Curve, d: str) -> str:
    read = f' data-name="{escape(c.name)}"' if c.name and c.look not in ("area", "boxes") else ""
    labels = f' data-labels="{escape(chr(10).join(_one_line(text) for text in c.labels))}"' if c.labels else ""
    return f'<path class="{_classes(c)}"{read}{labels} d="{d}"/>'


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _classes(c: Curve) -> str:
    look = {"dotted": "line", "steps": "line"}.get(c.look, c.look)
    weight = " wide" if c.width > 3 else " thin" if c.width < 1.4 else ""
    return f"{escape(c.color)} {look}{weight}{' dashed' if c.dashed else ''}"


def _whole(*rows: np.ndarray) -> list[list[int]]:
    """Whole units, where all are known."""
    known = np.all([np.isfinite(row) for row in rows], axis=0)
    return [np.round(row[known]).astype(int).tolist() for row in rows]


def _stretches(x: np.ndarray, y: np.ndarray) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    """The parts between gaps."""
    known = np.isfinite(x) & np.isfinite(y)
    turns = np.flatnonzero(np.diff(known.astype(int), prepend=0, append=0))
    return ((x[a:b], y[a:b]) for a, b in zip(turns[::2], turns[1::2], strict=True))


def _line(x: np.ndarray, y: np.ndarray, steps: bool = False) -> str:
    px, py = np.round(x).astype(int), np.round(y).astype(int)
    if px.size == 1:
        return f"M{px[0]} {py[0]}h0"
    dx, dy = np.diff(px).tolist(), np.diff(py).tolist()
    if steps:
        return f"M{px[0]} {py[0]}" + "".join(f"h{a}v{b}" if b else f"h{a}" for a, b in zip(dx, dy, strict=True))
    return f"M{px[0]} {py[0]}l" + _joined(n for pair in zip(dx, dy, strict=True) for n in pair)


def _dots(x: np.ndarray, y: np.ndarray) -> str:
    """Strokes without length, which round ends make dots."""
    px, py = _whole(x, y)
    moves = zip(np.diff(px).tolist(), np.diff(py).tolist(), strict=True)
    return (f"M{px[0]} {py[0]}h0" if px else "") + "".join(f"m{_joined(move)}h0" for move in moves)


def _joined(numbers: Iterable[int]) -> str:
    """Numbers apart by a blank, or by the minus of the second."""
    return " ".join(map(str, numbers)).replace(" -", "-")


def _box(x: int, y: int, x_end: int, y_end: int) -> str:
    return f"M{x} {y_end}V{y}H{x_end}V{y_end}z"


def _rectangle(place: _Square, low: float, high: float, bottom: float, top: float) -> str:
    edges = place.across(np.array([low, high])), place.up(np.array([top, bottom]))
    (x, x_end), (y, y_end) = (np.round(edge).astype(int).tolist() for edge in edges)
    return _box(x, y, x_end, y_end)


def _symbol(place: _Square, c: Curve, k: int) -> str:
    x, y = place.across(c.x[k:k + 1])[0], place.up(c.y[k:k + 1])[0]
    if not (np.isfinite(x) and np.isfinite(y)):
        return ""
    kind = c.symbols[k]
    return (f'<svg class="symbol" x="{_percent(x / UNITS)}%" y="{_percent(y / UNITS)}%">'
            f'<path class="{escape(c.color)} {kind.replace(" ", "-")}" d="{SYMBOL_PATHS[kind]}"/></svg>')


def _swatch(c: Curve) -> Markup:
    if c.symbols:
        kind = c.symbols[0]
        return Markup('<svg x="11" y="6" class="symbol"><path class="{} {}" d="{}"/></svg>').format(
            c.color, kind.replace(" ", "-"), SYMBOL_PATHS[kind])
    filled_in = "M1 2H21V10H1z"
    d = {"dots": "M6 6h0M16 6h0", "area": filled_in, "boxes": filled_in, "bars": filled_in}.get(c.look, "M1 6H21")
    return Markup('<path class="{}" d="{}"/>').format(Markup(_classes(c)), d)


def _percent(share: float) -> float:
    return round(100 * share, 2)


def _exact(number: float) -> str:
    return repr(float(number))
