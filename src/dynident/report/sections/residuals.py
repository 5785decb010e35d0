"""Is what the model leaves unexplained just noise?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from markupsafe import Markup

from dynident._util.prefixes import quantity
from dynident.estimate.estimate import Estimate
from dynident.problem.experiment import Experiment
from dynident.problem.noise import stated_bound
from dynident.report.chart_svg import drawn
from dynident.report.charts import Chart, Curve, Panel, bars
from dynident.report.html_document import Section, filled
from dynident.report.result_table import counted
from dynident.report.signal_chart import expected_std, misfit
from dynident.statistics.residual_tests import CONFIDENCE, OUTLIER, autocorrelation, cross_correlation

RESIDUAL_CHART_HEIGHT = 170  # pixels
BAR = 0.6  # of the distance of two lags
MOST_LAGS_DRAWN = 40  # at most; never more than a quarter of the record
FEWEST_VALUES = 8  # measured values, below which a correlation with an input says nothing
MOST_SIGNALS = 12  # whose residuals are shown; those of more are alike, and would make the page too large
MOST_INPUTS = 3  # whose cross-correlation is drawn

TEMPLATE = """
{% for said in bounded %}
<p class="prose">{{ said }}</p>
{% endfor %}
{% if groups %}
<p class="hint">{% if filtered %}Innovations: by how much each sample differs from what was predicted from all before it, of
which noise of the model and of inputs is a part. Their distribution in units of the standard deviation that was foreseen,
{%- else %}Distribution in units of the noise's standard deviation,{% endif %} against the normal one; correlation of a
residual with later ones; and with what an input was some samples before. Noise stays within the shaded bands at
{{ confidence }} of 100 lags (with an input: at all lags in {{ confidence }} of 100 records).</p>
{% endif %}
{% if left_out %}<p class="hint">{{ left_out }}</p>{% endif %}
{% for group in groups %}
<article>
  <h3>{{ group.title }}</h3><p class="hint">{{ group.said }}</p>
  <div class="pair">{% for chart in group.charts %}{{ chart }}{% endfor %}</div>
</article>
{% endfor %}
"""


def residuals_section(estimate: Estimate) -> Markup | None:
    experiments = estimate.problem.experiments
    pairs = [(experiment, output, np.asarray(residual, float)) for experiment, residuals in
             zip(experiments, estimate.residuals, strict=True) for output, residual in residuals.items()
             if np.any(np.isfinite(residual))]
    if not pairs:
        return None
    bounded = [pair for pair in pairs if pair[1] not in estimate.noise_std and stated_bound(pair[0].noise[pair[1]]) is not None]
    pairs = [pair for pair in pairs if not any(pair is other for other in bounded)]
    largest = sorted(range(len(pairs)), key=lambda k: -misfit(estimate, *pairs[k][1:]))[:MOST_SIGNALS]
    groups = [_group(estimate, *pairs[k], f"{pairs[k][0].name}: {pairs[k][1]}" if len(experiments) > 1 else pairs[k][1])
              for k in sorted(largest)]
    left_out = "" if len(groups) == len(pairs) else (
        f"Of {counted(len(pairs), 'signal')} the {len(groups)} with the largest residuals are shown.")
    return filled(TEMPLATE, groups=groups, filtered=estimate.filtered is not None, left_out=left_out,
                  confidence=round(100 * CONFIDENCE),
                  bounded=[_within_bound(*pair) for pair in bounded])


def _within_bound(experiment: Experiment, output: str, residual: np.ndarray) -> str:
    """How the residuals at the values printed compare with a bound of the errors, which says nothing of a distribution."""
    share = np.abs(residual) / stated_bound(experiment.noise[output])
    beyond = int(np.sum(share > 1))
    return (f"{experiment.name}: {output}: at the values printed, the largest of "
            f"{counted(int(np.isfinite(share).sum()), 'residual')} is {np.nanmax(share):.3g} times its bound, and "
            f"{beyond or 'none'} {'lies' if beyond in (0, 1) else 'lie'} beyond.")


def _group(estimate: Estimate, experiment: Experiment, output: str, residual: np.ndarray, title: str) -> dict[str, Any]:
    known = residual[np.isfinite(residual)]
    std = expected_std(estimate).get(output, 0.0) or float(np.sqrt(np.mean(known**2)))
    outliers = int(np.sum(np.abs(known) > OUTLIER * std)) if std > 0 else 0
    unit = experiment.units.get(output) or estimate.problem.model.units.get(output, "")
    said = (f"{counted(known.size, 'measured value')}, mean {quantity(float(np.mean(known)), unit)}, std "
            f"{quantity(float(np.std(known)), unit)}, {outliers:,} beyond {OUTLIER:.0f} times {quantity(std, unit)}.")
    charts = [_histogram(residual, std, title)] if std > 0 else []  # a perfect fit leaves nothing to distribute
    charts.append(_memory(residual, title))
    if known.size >= FEWEST_VALUES and std > 0:
        charts += [_with_input(residual, name, np.asarray(signal, float), title)
                   for name, signal in list(experiment.inputs.items())[:MOST_INPUTS]]
    return {"title": title, "said": said, "charts": [drawn(chart) for chart in charts]}


def _histogram(residual: np.ndarray, std: float, title: str) -> Chart:
    centres, density, beyond = histogram(residual, std)
    half = float(centres[1] - centres[0]) / 2
    edges = np.append(centres - half, centres[-1] + half)
    smooth = np.linspace(edges[0], edges[-1], 121)
    normal = Curve(smooth, np.exp(-(smooth**2) / 2) / math.sqrt(2 * math.pi), "normal", "fitted")
    across = "residual / std" + (f" ({beyond} beyond {HISTOGRAM_RANGE:.0f} in the outermost bins)" if beyond else "")
    return Chart([Panel("density", [bars(edges, density, "residuals", "residual"), normal], RESIDUAL_CHART_HEIGHT)], across,
                 f"Histogram of the residuals of {title}")


def _memory(residual: np.ndarray, title: str) -> Chart:
    correlation, limit = autocorrelation(residual, min(MOST_LAGS_DRAWN, residual.size // 4))
    lags = _lag_bars(np.arange(1, correlation.size), correlation[1:])
    return Chart([Panel("correlation with later residuals", [lags], RESIDUAL_CHART_HEIGHT, band=limit)], "lag in samples",
                 f"Autocorrelation of the residuals of {title}", span=(0.0, float(max(correlation.size, 2))))


def _with_input(residual: np.ndarray, name: str, signal: np.ndarray, title: str) -> Chart:
    correlation, limit = cross_correlation(residual, signal)
    bars = [_lag_bars(np.arange(correlation.size), correlation)]
    return Chart([Panel(f"correlation with input {name}", bars, RESIDUAL_CHART_HEIGHT,
                        band=limit)], "lag in samples", f"Cross-correlation of the residuals of {title} with the input {name}",
                 span=(-1.0, float(max(correlation.size, 2))))


def _lag_bars(lags: np.ndarray, heights: np.ndarray) -> Curve:
    return Curve(lags - BAR / 2, heights, "correlation", "residual", "bars", x_end=lags + BAR / 2, legend=False)


RESIDUALS = Section("residuals", "Residuals", residuals_section)


HISTOGRAM_RANGE = 6.0  # standard deviations covered by the histogram; what lies beyond is put into the outermost bins


def histogram(residual: np.ndarray, std: float) -> tuple[np.ndarray, np.ndarray, int]:
    """Centres and densities of residuals in units of `std`, and how many lie beyond the drawn range."""
    scaled = np.asarray(residual, float) / std
    scaled = scaled[np.isfinite(scaled)]
    bins = int(np.clip(np.sqrt(scaled.size), 9, 61)) | 1  # odd: one bin is centred on zero
    reach = min(max(4.0, float(np.max(np.abs(scaled), initial=0.0))), HISTOGRAM_RANGE)
    edges = np.linspace(-reach, reach, bins + 1)
    beyond = int(np.sum(np.abs(scaled) > reach))
    counts, _ = np.histogram(np.clip(scaled, -reach, reach), edges)
    width = edges[1] - edges[0]
    return (edges[:-1] + edges[1:]) / 2, counts / max(scaled.size, 1) / width, beyond
