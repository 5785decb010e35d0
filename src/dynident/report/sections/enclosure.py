"""What was proved to be impossible, over time and as a paving?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from markupsafe import Markup

from dynident.estimate.enclosure import Band, Enclosure
from dynident.estimate.estimate import Estimate
from dynident.report.charts import Panel, curve, drawn, numbers, plain, stacked, with_unit
from dynident.report.html_document import Section, filled
from dynident.report.result_table import percent

BAND_HEIGHT, COUNT_HEIGHT, STRIP_HEIGHT, PAVING_HEIGHT = 130, 70, 22, 420  # pixels
MOST_DRAWN = 2500  # boxes of a paving; more are not told apart
INNER, OUTER = "var(--fitted)", "var(--band)"

TEMPLATE = """
<p class="prose">{{ sentence }}</p>
{% for chart in charts %}
{{ chart }}
{% endfor %}
"""


def enclosure_section(estimate: Estimate) -> Markup | None:
    enclosure = estimate.uncertainty
    if not isinstance(enclosure, Enclosure):
        return None
    charts = [_over_time(estimate, band, enclosure.truth) for band in enclosure.bands]
    if (enclosure.outer.shape[2] + enclosure.inner.shape[2] or enclosure.last.shape[2]) and len(enclosure.names) >= 2:
        charts.append(_paving(enclosure))
    share = percent(100 * enclosure.excluded_volume())
    sentence = (enclosure.refutation.sentence if enclosure.refutation is not None else
                f"{share[:1].upper()}{share[1:]} of the first box, by volume, is proved to be impossible.")
    return filled(TEMPLATE, sentence=sentence, charts=charts)


def _over_time(estimate: Estimate, band: Band, truth: Mapping[str, Any]) -> Markup:
    """The bounds of each parameter and state, the number of boxes, the number of modes that are possible."""
    panels = []
    for name in [*estimate.problem.model.parameters, *estimate.problem.model.states]:
        traces = [curve(band.time, band.low[name], f"{name}: lower", "var(--fitted)", showlegend=False),
                  curve(band.time, band.high[name], f"{name}: upper", "var(--fitted)", showlegend=False,
                        fill="tonexty", fillcolor="var(--band)")]
        if name in truth:
            true = _per_sample(truth[name], band.time.size)
            traces.append(curve(band.time[:true.size], true, f"{name}: truth", "var(--ink)", showlegend=False))
        panels.append(Panel(with_unit(name, estimate.problem.model.units.get(name, "")), traces, BAND_HEIGHT))
    panels.append(Panel("boxes", [curve(band.time, band.boxes, "boxes", "var(--measured)", showlegend=False)],
                        COUNT_HEIGHT))
    if band.mode_names:
        for k, mode in enumerate(band.mode_names):
            possible = ((band.modes >> k) & 1).astype(float)
            strip = curve(band.time, possible, mode, "var(--input)", showlegend=False, fill="tozeroy")
            panels.append(Panel(f"{mode} is possible", [strip], STRIP_HEIGHT, bare=True))
    figure = stacked(panels, "time (s)")
    figure["layout"]["shapes"] += [_mark(t) for t in _first_of_each(band.resets, band.time)]
    told = [f"{band.experiment}, run {band.run}: bounds over time"]
    told += ["dotted lines mark resets"] if band.resets else []
    told += [f"dark lines are the truth of {', '.join(name for name in truth if name in band.low)}"] if truth else []
    return drawn(figure, "; ".join(told))


def _per_sample(truth: Any, samples: int) -> np.ndarray:
    value = np.asarray(truth, float)
    return value[:samples] if value.ndim else np.full(samples, value)


def _first_of_each(resets: tuple[float, ...], time: np.ndarray) -> list[float]:
    """Where a spell of resets begins; within it every sample resets again."""
    gap = 1.5 * float(np.max(np.diff(time), initial=0.0))
    return [t for k, t in enumerate(resets) if k == 0 or t - resets[k - 1] > gap]


def _mark(time: float) -> dict[str, Any]:
    return {"type": "line", "xref": "x", "x0": time, "x1": time, "yref": "paper", "y0": 0, "y1": 1,
            "line": {"color": "var(--line)", "width": 1, "dash": "dot"}}


def _paving(enclosure: Enclosure) -> Markup:
    """Two unknowns: boxes in which every value fits, and boxes that are undecided or, box by box along time, left."""
    first, second = enclosure.plot_pair or enclosure.names[:2]
    chosen = [enclosure.names.index(name) for name in (first, second)]
    paved = enclosure.outer.shape[2] + enclosure.inner.shape[2] > 0
    kinds = ((enclosure.outer, "undecided", OUTER), (enclosure.inner, "every value fits", INNER)) if paved else (
        (enclosure.last, "left at the end", OUTER),)
    data = []
    for boxes, name, color in kinds:
        if not boxes.shape[2]:
            continue
        lo, hi = boxes[0][chosen, :MOST_DRAWN], boxes[1][chosen, :MOST_DRAWN]
        gap = np.full(lo.shape[1], np.nan)
        x = np.array([lo[0], hi[0], hi[0], lo[0], lo[0], gap]).T.ravel()
        y = np.array([lo[1], lo[1], hi[1], hi[1], lo[1], gap]).T.ravel()
        data.append({"type": "scatter", "mode": "lines", "x": numbers(x), "y": numbers(y), "fill": "toself",
                     "fillcolor": color, "line": {"color": INNER, "width": 0.5}, "name": plain(name)})
    if {first, second} <= set(enclosure.truth):
        at = [float(np.atleast_1d(np.asarray(enclosure.truth[name], float))[-1]) for name in (first, second)]
        data.append({"type": "scatter", "mode": "markers", "x": [at[0]], "y": [at[1]], "name": "truth",
                     "marker": {"symbol": "x", "size": 9, "color": "var(--ink)"}})
    layout = {"height": PAVING_HEIGHT, "showlegend": True, "xaxis": {"title": {"text": plain(first)}},
              "yaxis": {"title": {"text": plain(second)}}}
    of = "Paving" if paved else "Boxes at the end of the last run, in the plane"
    return drawn({"data": data, "layout": layout}, f"{of} of {first} and {second}")


ENCLOSURE = Section("enclosure", "What is proved", enclosure_section)
