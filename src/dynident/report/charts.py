"""How does a signal, a histogram or a matrix become a chart of the page?

A chart is plain data for plotly. Colours are names of the page's style ("var(--fitted)"), which the page's script
looks up, so that one chart serves light, dark and print.
"""

from __future__ import annotations

import html as markup
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from dynident.report.downsampling import POINTS, kept_samples

FINEST = 1e-6  # of a curve's span: finer steps cannot be seen, and would only make the page larger
DOTS_UP_TO = 600  # samples; a longer record of measurements is a line, as dots would merge anyway
MARGIN_TOP, MARGIN_BOTTOM, GAP = 52, 44, 44  # pixels; the margins are those of the page's script
UNSEEN = {"zeroline": False, "showgrid": True, "gridcolor": "var(--line)", "linecolor": "var(--line)"}


@dataclass(frozen=True)
class Panel:
    """One drawing area among those stacked in a chart; they share the horizontal axis."""

    title: str
    traces: Sequence[dict[str, Any]]
    height: int  # pixels
    band: float | None = None  # half height of a shaded band around zero
    log: bool = False
    bare: bool = False  # a strip from 0 to 1 without numbers at its side


def curve(x: np.ndarray, y: np.ndarray, name: str, color: str, points: int = POINTS, dots: bool = False,
          **more: Any) -> dict[str, Any]:
    """A line (or dots, where there are few enough), thinned so that peaks stay."""
    kept = kept_samples(y, points)
    dotted = dots and np.size(y) <= DOTS_UP_TO
    shape = ({"mode": "markers", "marker": {"color": color, "size": 4}} if dotted else
             {"mode": "lines", "line": {"color": color, "width": 1.0 if dots else 1.8, "simplify": False}})
    return {"type": "scatter", "x": numbers(np.asarray(x, float)[kept]), "y": numbers(np.asarray(y, float)[kept]),
            "name": plain(name), **shape, **more}


def shaded(x: np.ndarray, low: np.ndarray, high: np.ndarray, name: str, points: int = POINTS) -> list[dict[str, Any]]:
    """The area between two curves; nothing where one of them is not known."""
    known = np.isfinite(low) & np.isfinite(high)
    ends = [curve(np.asarray(x)[known], end[known], name, "var(--band)", points, showlegend=False, hoverinfo="skip")
            for end in (low, high) if np.any(known)]
    for end, more in zip(ends, ({}, {"fill": "tonexty", "fillcolor": "var(--band)"}), strict=False):
        end["line"] |= {"width": 0}
        end |= more
    return ends


def stacked(panels: Sequence[Panel], across: str) -> dict[str, Any]:
    """Panels below each other over one shared horizontal axis, each with its title above its left corner."""
    inner = sum(panel.height for panel in panels) + GAP * (len(panels) - 1)
    layout: dict[str, Any] = {"height": inner + MARGIN_TOP + MARGIN_BOTTOM, "annotations": [], "shapes": []}
    data: list[dict[str, Any]] = []
    top, lowest = 1.0, "" if len(panels) == 1 else str(len(panels))
    for number, panel in enumerate(panels, start=1):
        axis = "" if number == 1 else str(number)
        bottom = max(top - panel.height / inner, 0.0)
        layout[f"yaxis{axis}"] = UNSEEN | (_decades(panel) if panel.log else {}) | {
            "domain": [bottom, top], "anchor": "x", "exponentformat": "power", "nticks": max(5, panel.height // 32)}
        if panel.bare:
            layout[f"yaxis{axis}"] |= {"range": [0, 1], "showticklabels": False, "showgrid": False, "fixedrange": True}
        layout["annotations"].append(_title(panel.title, top))
        if panel.band is not None and np.isfinite(panel.band):
            layout["shapes"].append(band(panel.band, f"y{axis}"))
        data += [trace | {"yaxis": f"y{axis}", "xaxis": "x"} for trace in panel.traces]
        top = bottom - GAP / inner
    layout["xaxis"] = UNSEEN | {"anchor": f"y{lowest}", "title": {"text": plain(across), "standoff": 6}}
    return {"data": data, "layout": layout}


def band(reach: float, axis: str) -> dict[str, Any]:
    """A shaded strip around zero, from edge to edge."""
    return {"type": "rect", "xref": "paper", "x0": 0, "x1": 1, "yref": axis, "y0": -reach, "y1": reach,
            "layer": "below", "line": {"width": 0}, "fillcolor": "var(--band)"}


def drawn(figure: dict[str, Any], described: str) -> Markup:
    """The chart's place in the page, with its data beside it; `described` is read out where it cannot be seen."""
    height = int(figure["layout"]["height"])
    data = htmlsafe_json_dumps(figure, allow_nan=False, separators=(",", ":"))  # "</script>" cannot occur in it
    return Markup('<figure class="chart" role="img" aria-label="{}" style="min-height:{}px">'
                  '<script type="application/json">{}</script></figure>').format(described, height, data)


def numbers(values: np.ndarray) -> list[float | None]:
    """Numbers as JSON can hold them: missing ones are None, and none carries digits that nobody could see."""
    values = np.asarray(values, float)
    finite = values[np.isfinite(values)]
    span = float(np.ptp(finite)) if finite.size else 0.0
    if span > 0:
        values = np.round(values, max(0, int(np.ceil(-np.log10(span * FINEST)))))
    return [float(value) if np.isfinite(value) else None for value in values]


def plain(text: str) -> str:
    """Text that plotly shows as it is; it would read tags and entities otherwise."""
    return markup.escape(text, quote=False)


def with_unit(name: str, unit: str) -> str:
    return f"{name} ({unit})" if unit else name


def _decades(panel: Panel) -> dict[str, Any]:
    """A logarithmic axis with a tick per decade, or per several; within one decade plotly chooses."""
    values = [value for trace in panel.traces for value in trace["y"] if value]
    decades = np.log10(max(values) / min(values)) if values else 0.0
    return {"type": "log"} | ({"dtick": max(1, round(decades / 5))} if decades > 1 else {})


def _title(text: str, top: float) -> dict[str, Any]:
    return {"text": plain(text), "xref": "paper", "yref": "paper", "x": 0, "y": top, "xanchor": "left", "yshift": 4,
            "yanchor": "bottom", "showarrow": False, "font": {"size": 12.5, "color": "var(--ink)"}}
