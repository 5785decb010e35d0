"""Is what the model leaves unexplained just noise?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from markupsafe import Markup

from dynident.estimate.estimate import Estimate
from dynident.problem.noise import stated_bound
from dynident.report.charts import UNSEEN, band, drawn, numbers, plain
from dynident.report.html_document import Section, filled
from dynident.report.result_table import counted
from dynident.statistics.residual_tests import CONFIDENCE, OUTLIER, autocorrelation

HEIGHT = 240  # pixels
BAR = 0.92  # of a bin; the rest is the gap to the next
NO_LEGEND = {"t": 28, "r": 12, "b": 44, "l": 58}  # pixels
LAGS = 40  # at most; never more than a quarter of the record

TEMPLATE = """
{% for said in bounded %}
<p class="prose">{{ said }}</p>
{% endfor %}
{% if pairs %}
<p class="hint">First: distribution in units of the noise's standard deviation, against the normal one. Second:
correlation of a residual with later ones; noise stays within the shaded band at
{{ confidence }} of 100 lags.</p>
{% endif %}
<div class="pair-list">{% for pair in pairs %}
<article>
  <h3>{{ pair.title }}</h3><p class="hint">{{ pair.said }}</p>
  <div class="pair">{{ pair.histogram }}{{ pair.memory }}</div>
</article>
{% endfor %}</div>
"""


def residuals_section(estimate: Estimate) -> Markup | None:
    several = len(estimate.problem.experiments) > 1
    pairs, bounded = [], []
    for experiment, residuals in zip(estimate.problem.experiments, estimate.residuals, strict=True):
        for output, residual in residuals.items():
            residual = np.asarray(residual, float)
            known = residual[np.isfinite(residual)]
            title = f"{experiment.name}: {output}" if several else output
            radius = None if output in estimate.noise_std else stated_bound(experiment.noise[output])
            if known.size and radius is not None:  # a bound says nothing of a distribution
                bounded.append(_within_bound(title, residual, radius))
            elif known.size:
                std = estimate.noise_std.get(output, 0.0) or float(np.sqrt(np.mean(known**2)))
                pairs.append(_pair(title, residual, known, std))
    if not pairs and not bounded:
        return None
    return filled(TEMPLATE, pairs=pairs, bounded=bounded, confidence=round(100 * CONFIDENCE))


def _within_bound(title: str, residual: np.ndarray, radius: np.ndarray) -> str:
    """How the residuals at the values printed compare with the bound of the errors."""
    share = np.abs(residual) / radius
    beyond = int(np.sum(share > 1))
    return (f"{title}: at the values printed, the largest of {counted(int(np.isfinite(share).sum()), 'residual')} is "
            f"{np.nanmax(share):.3g} times its bound, and {beyond or 'none'} {'lies' if beyond in (0, 1) else 'lie'} beyond.")


def _pair(title: str, residual: np.ndarray, known: np.ndarray, std: float) -> dict[str, Any]:
    outliers = int(np.sum(np.abs(known) > OUTLIER * std)) if std > 0 else 0
    said = (f"{counted(known.size, 'measured value')}, mean {np.mean(known):.3g}, std {np.std(known):.3g}, "
            f"{counted(outliers, 'outlier')} beyond {OUTLIER:.0f} standard deviations.")
    shape = _histogram(residual, std, title) if std > 0 else Markup("")  # a perfect fit leaves nothing to distribute
    return {"title": title, "said": said, "histogram": shape, "memory": _memory(residual, title)}


def _histogram(residual: np.ndarray, std: float, title: str) -> Markup:
    centres, density, beyond = histogram(residual, std)
    smooth = np.linspace(1.25 * centres[0], 1.25 * centres[-1], 121)
    normal = np.exp(-(smooth**2) / 2) / math.sqrt(2 * math.pi)
    across = "residual / std" + (f" ({beyond} beyond {FARTHEST:.0f} in the outermost bins)" if beyond else "")
    return drawn({
        "data": [{"type": "bar", "x": numbers(centres), "y": numbers(density), "name": "residuals",
                  "width": BAR * float(centres[1] - centres[0]), "marker": {"color": "var(--residual)"}},
                 {"type": "scatter", "mode": "lines", "x": numbers(smooth), "y": numbers(normal), "name": "normal",
                  "line": {"color": "var(--fitted)", "width": 1.8}}],
        "layout": _layout(across, "density")}, f"Histogram of the residuals of {title}")


def _memory(residual: np.ndarray, title: str) -> Markup:
    correlation, limit = autocorrelation(residual, min(LAGS, residual.size // 4))
    return drawn({
        "data": [{"type": "bar", "x": list(range(1, correlation.size)), "y": numbers(correlation[1:]), "width": 0.5,
                  "marker": {"color": "var(--residual)"}, "name": "autocorrelation"}],
        "layout": _layout("lag in samples", "correlation") | {"shapes": [band(limit, "y")]}},
        f"Autocorrelation of the residuals of {title}")


def _layout(across: str, up: str) -> dict[str, Any]:
    zero = {"zeroline": True, "zerolinecolor": "var(--quiet)"}
    return {"height": HEIGHT, "showlegend": False, "margin": NO_LEGEND,
            "xaxis": UNSEEN | {"title": {"text": plain(across), "standoff": 6}},
            "yaxis": UNSEEN | zero | {"title": {"text": plain(up), "standoff": 6}}}


RESIDUALS = Section("residuals", "Residuals", residuals_section)


FARTHEST = 6.0  # standard deviations covered by the histogram; what lies beyond is put into the outermost bins


def histogram(residual: np.ndarray, std: float) -> tuple[np.ndarray, np.ndarray, int]:
    """Centres and densities of residuals in units of `std`, and how many lie beyond the drawn range."""
    scaled = np.asarray(residual, float) / std
    scaled = scaled[np.isfinite(scaled)]
    bins = int(np.clip(np.sqrt(scaled.size), 9, 61)) | 1  # odd: one bin is centred on zero
    reach = min(max(4.0, float(np.max(np.abs(scaled), initial=0.0))), FARTHEST)
    edges = np.linspace(-reach, reach, bins + 1)
    beyond = int(np.sum(np.abs(scaled) > reach))
    counts, _ = np.histogram(np.clip(scaled, -reach, reach), edges)
    width = edges[1] - edges[0]
    return (edges[:-1] + edges[1:]) / 2, counts / max(scaled.size, 1) / width, beyond
