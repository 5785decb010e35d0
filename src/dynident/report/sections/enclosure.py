"""What was proved to be impossible, over time and as a paving?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from markupsafe import Markup

from dynident.estimate.enclosure import Band, Enclosure
from dynident.estimate.estimate import Estimate
from dynident.report.chart_svg import drawn
from dynident.report.charts import Chart, Curve, Panel, curve, shaded
from dynident.report.html_document import Section, filled
from dynident.report.result_table import percent

BAND_HEIGHT, COUNT_HEIGHT, STRIP_HEIGHT, PAVING_HEIGHT = 130, 70, 22, 420  # pixels
MOST_DRAWN = 2500  # boxes of a paving; more are not told apart

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
        curves = [*shaded(band.time, band.low[name], band.high[name], name),
                  curve(band.time, band.low[name], f"{name}: lower", "fitted", legend=False),
                  curve(band.time, band.high[name], f"{name}: upper", "fitted", legend=False)]
        if name in truth:
            true = _per_sample(truth[name], band.time.size)
            curves.append(curve(band.time[:true.size], true, f"{name}: truth", "ink", legend=False))
        panels.append(Panel(name, curves, BAND_HEIGHT, estimate.problem.model.units.get(name, "")))
    panels.append(Panel("boxes", [curve(band.time, band.boxes, "boxes", "residual", legend=False)], COUNT_HEIGHT))
    for k, mode in enumerate(band.mode_names):
        possible = ((band.modes >> k) & 1).astype(float)
        strip = shaded(band.time, np.zeros(possible.size), possible, mode, color="input")
        panels.append(Panel(f"{mode} is possible", strip, STRIP_HEIGHT, bare=True))
    told = [f"{band.experiment}, run {band.run}: bounds over time"]
    told += ["dotted lines mark resets"] if band.resets else []
    told += [f"dark lines are the truth of {', '.join(name for name in truth if name in band.low)}"] if truth else []
    return drawn(Chart(panels, "time (s)", "; ".join(told), zoom=True,
                       breaks=tuple(_first_of_each(band.resets, band.time))))


def _per_sample(truth: Any, samples: int) -> np.ndarray:
    value = np.asarray(truth, float)
    return value[:samples] if value.ndim else np.full(samples, value)


def _first_of_each(resets: tuple[float, ...], time: np.ndarray) -> list[float]:
    """Where a spell of resets begins; within it every sample resets again."""
    gap = 1.5 * float(np.max(np.diff(time), initial=0.0))
    return [t for k, t in enumerate(resets) if k == 0 or t - resets[k - 1] > gap]


def _paving(enclosure: Enclosure) -> Markup:
    """Two unknowns: boxes in which every value fits, and boxes that are undecided or, box by box along time, left."""
    first, second = enclosure.plot_pair or enclosure.names[:2]
    chosen = [enclosure.names.index(name) for name in (first, second)]
    paved = enclosure.outer.shape[2] + enclosure.inner.shape[2] > 0
    kinds = ((enclosure.outer, "undecided", "band"), (enclosure.inner, "every value fits", "fitted")) if paved else (
        (enclosure.last, "left at the end", "band"),)
    curves = []
    for boxes, name, color in kinds:
        lo, hi = boxes[0][chosen, :MOST_DRAWN], boxes[1][chosen, :MOST_DRAWN]
        if lo.shape[1]:
            curves.append(Curve(lo[0], lo[1], name, color, "boxes", x_end=hi[0], y_end=hi[1]))
    if {first, second} <= set(enclosure.truth):
        x, y = (np.atleast_1d(np.asarray(enclosure.truth[name], float))[-1:] for name in (first, second))
        curves.append(Curve(x, y, "truth", "ink", "dots", symbols=("cross",)))
    of = "Paving" if paved else "Boxes at the end of the last run, in the plane"
    return drawn(Chart([Panel(second, curves, PAVING_HEIGHT)], first, f"{of} of {first} and {second}"))


ENCLOSURE = Section("enclosure", "What is proved", enclosure_section)
