"""How does a signal, a histogram or a matrix become a chart of the page, and how does a long record, without hiding a peak?

A chart is plain data for plotly. Colours are names of the page's style ("var(--fitted)"), which the page's script
looks up, so that one chart serves light, dark and print.
"""

from __future__ import annotations

import html as markup
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from dynident.estimate.estimate import Estimate, Validation
from dynident.report.result_table import counted

FINEST = 1e-6  # of a curve's span: finer steps cannot be seen, and would only make the page larger
DOTS_UP_TO = 600  # samples; a longer record of measurements is a line, as dots would merge anyway
MARGIN_TOP, MARGIN_BOTTOM, GAP = 52, 44, 44  # pixels; the margins are those of the page's script
UNSEEN = {"zeroline": False, "showgrid": True, "gridcolor": "var(--line)", "linecolor": "var(--line)"}
POINTS_ON_PAGE = 150_000  # over all curves; some 3 MB of numbers
FEWEST_POINTS = 800  # per curve, however many there are
SIGNAL_HEIGHT, RESIDUAL_HEIGHT, INPUT_HEIGHT, MODE_HEIGHT = 190, 80, 70, 22  # pixels
MODE_COLORS = ("var(--measured)", "var(--fitted)", "var(--second)", "var(--input)", "var(--residual)")
EDGE = 0.01  # of the record, left free on either side so that the outermost dots are whole
TWO_SIDED_95 = 1.96  # standard deviations of a normal distribution
POINTS = 4000  # drawn per curve; two per bucket, and more buckets than a screen has columns


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


@dataclass(frozen=True, eq=False)
class SignalRecord:
    """What was measured and what the model did there; fitted and validated records look alike."""

    name: str
    word: str  # "fitted" or "predicted"
    time: np.ndarray  # (samples,)
    measured: Mapping[str, np.ndarray]
    modelled: Mapping[str, np.ndarray]
    residuals: Mapping[str, np.ndarray]
    inputs: Mapping[str, np.ndarray]
    holds: Mapping[str, str]
    units: Mapping[str, str]
    modes: np.ndarray | None = None  # (samples,) text, where the model has modes


def fitted_records(estimate: Estimate) -> list[SignalRecord]:
    """One per experiment of the problem."""
    return [SignalRecord(e.name, "fitted", e.time, e.outputs, t.outputs, r, e.inputs, e.hold, e.units, t.modes)
            for e, t, r in zip(estimate.problem.experiments, estimate.trajectories, estimate.residuals, strict=True)]


def validated_record(estimate: Estimate, validation: Validation) -> SignalRecord:
    """A validation keeps the residuals; with the model's outputs they give the measurements again."""
    units = {name: unit for e in reversed(estimate.problem.experiments) for name, unit in e.units.items()}
    modelled = {name: validation.trajectory.outputs[name] for name in validation.residuals}
    measured = {name: modelled[name] + residual for name, residual in validation.residuals.items()}
    return SignalRecord(validation.experiment, "predicted", validation.trajectory.time, measured, modelled,
                  validation.residuals, {}, {}, units, validation.trajectory.modes)


def points_per_curve(estimate: Estimate) -> int:
    """A share of what one page can bear: long records are thinned further where there are many."""
    curves = sum(3 * len(e.outputs) + len(e.inputs) for e in estimate.problem.experiments)
    curves += sum(3 * len(validation.residuals) for validation in estimate.validations)
    return int(np.clip(POINTS_ON_PAGE // max(curves, 1), FEWEST_POINTS, POINTS))


def signal_chart(record: SignalRecord, noise_std: Mapping[str, float], points: int) -> dict[str, Any]:
    """Measured and modelled outputs, what is left between them, and the inputs, over one time axis."""
    panels = [panel for output in record.measured for panel in _output_panels(record, output, noise_std, points)]
    for trace in (trace for panel in panels[2:] for trace in panel.traces):
        trace["showlegend"] = False  # the first output explains the colours of all
    panels += [_input_panel(record, name, points) for name in record.inputs]
    panels += [] if record.modes is None else [_mode_panel(record, points)]
    chart = stacked(panels, with_unit("time", record.units.get("time", "")))
    first, last = float(record.time[0]), float(record.time[-1])
    margin = EDGE * (last - first) or 0.5  # a record may be a single sample
    chart["layout"]["xaxis"]["range"] = [first - margin, last + margin]
    return chart


def thinning_sentence(record: SignalRecord, points: int) -> str:
    """What the reader has to know about a record that is not drawn sample by sample; nothing if it is."""
    if record.time.size <= points:
        return ""
    return (f"Thinned for display: of {counted(record.time.size, 'sample')} at most {points} are drawn per curve, the "
            "lowest and the highest of each stretch, so that no peak is hidden. All of them were used.")


def _output_panels(record: SignalRecord, output: str, noise_std: Mapping[str, float], points: int) -> list[Panel]:
    measured = curve(record.time, record.measured[output], "measured", "var(--measured)", points, dots=True)
    modelled = curve(record.time, record.modelled[output], record.word, "var(--fitted)", points)
    residual = curve(record.time, record.residuals[output], "residual", "var(--residual)", points, dots=True)
    band = TWO_SIDED_95 * noise_std[output] if output in noise_std else None
    return [Panel(with_unit(output, record.units.get(output, "")),
                  [measured | {"legendgroup": "measured"}, modelled | {"legendgroup": "model"}], SIGNAL_HEIGHT),
            Panel(f"{output}: measured − {record.word}", [residual | {"showlegend": False}], RESIDUAL_HEIGHT, band)]


def _input_panel(record: SignalRecord, name: str, points: int) -> Panel:
    drawn = curve(record.time, record.inputs[name], name, "var(--input)", points, showlegend=False)
    drawn["line"] |= {"shape": "hv" if record.holds[name] == "zero" else "linear", "width": 1.4}
    return Panel(f"input {with_unit(name, record.units.get(name, ''))}", [drawn], INPUT_HEIGHT)


def mode_strips(record: SignalRecord) -> dict[str, np.ndarray]:
    """Per mode, in the order in which they first hold, where it does: 1 from a sample on, or 0."""
    modes = np.zeros(0, dtype=str) if record.modes is None else record.modes
    return {str(name): np.where(modes == name, 1.0, 0.0) for name in dict.fromkeys(modes.tolist())}


def _mode_panel(record: SignalRecord, points: int) -> Panel:
    """A strip of one colour per mode."""
    traces = []
    for (name, holds), color in zip(mode_strips(record).items(), itertools.cycle(MODE_COLORS)):
        shown = np.union1d(np.flatnonzero(np.diff(holds, prepend=np.nan)), [holds.size - 1])
        strip = curve(record.time[shown], holds[shown], name, color, points, legendgroup=f"mode {name}")
        strip["line"] |= {"shape": "hv", "width": 0}
        traces.append(strip | {"fill": "tozeroy", "fillcolor": color, "hoverinfo": "name"})
    return Panel("mode", traces, MODE_HEIGHT, bare=True)


def kept_samples(values: np.ndarray, points: int = POINTS) -> np.ndarray:
    """Indices to draw, rising: all of a short record; else the lowest and highest of each bucket and both ends.

    Missing values (NaN) are passed over; a bucket that holds nothing else keeps one of them, so that a gap stays a gap.
    """
    values = np.asarray(values, float)
    buckets = max(points // 2 - 1, 1)  # the two ends come on top
    if values.size <= max(points, 4):
        return np.arange(values.size)
    edges = np.linspace(0, values.size, buckets + 1).astype(int)[:-1]  # where each bucket begins
    bucket = np.searchsorted(edges, np.arange(values.size), side="right") - 1
    lowest = _first_where(values == np.fmin.reduceat(values, edges)[bucket], edges)
    highest = _first_where(values == np.fmax.reduceat(values, edges)[bucket], edges)
    return np.unique(np.concatenate([[0, values.size - 1], lowest, highest]))


def _first_where(hit: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """In each bucket the first sample that is hit, or the bucket's first sample where none is (all missing)."""
    candidates = np.where(hit, np.arange(hit.size), hit.size)
    first = np.minimum.reduceat(candidates, edges)
    return np.where(first < hit.size, first, edges)
