"""What is known along time of states and of parameters that move, and where is the model wrong?"""

from __future__ import annotations

import itertools

import numpy as np
from markupsafe import Markup

from dynident.estimate.estimate import Estimate, Trajectory
from dynident.estimate.filter_result import FilterRecord, FilterResult
from dynident.estimate.smoother_result import SmootherRecord, SmootherResult
from dynident.problem.experiment import Experiment
from dynident.report.chart_svg import drawn
from dynident.report.charts import TWO_SIDED_95, Chart, Panel, curve, shaded, with_unit
from dynident.report.html_document import Section, filled
from dynident.report.result_table import format_number

STATE_HEIGHT = 130  # pixels
UNMEASURED_TEMPLATE = """
<p class="hint">Smoothed states that are no measured output by themselves
{%- if sized %}; shaded: their 95 % interval at each time, if the errors are as large as stated{% endif %}.</p>
{% for record in records %}
<article>{% if several %}<h3>{{ record.name }}</h3>{% endif %}{{ record.chart }}</article>
{% endfor %}
"""
HISTORY_HEIGHT, NIS_HEIGHT = 150, 110  # pixels
INNOVATION_WINDOWS = 200  # over which the innovations are averaged for the picture
FILTERING_TEMPLATE = """
<p class="prose"><strong>{{ verdict }}</strong></p>
<ul class="prose">{% for test in tests %}<li>{{ "✓" if test.passed else "✗" }} {{ test.sentence }}</li>{% endfor %}</ul>
<p class="hint">{% if parameters %}Parameters over time with their 95 % interval; below, the{% else %}The{% endif %} squared
innovations over their foreseen variance, averaged over stretches of the record: 1 where the filter foresees its own errors.</p>
{% for record in records %}
<article>{% if records | length > 1 %}<h3>{{ record.name }}</h3>{% endif %}{{ record.chart }}</article>
{% endfor %}
{% if levels %}<div class="scroll" tabindex="0"><table>
  <thead><tr><th>assumed</th><th>initial standard deviation</th><th>process noise per {{ per }}</th><th>origin</th></tr>
  </thead>
  <tbody>{% for row in levels %}
    <tr><th scope="row">{{ row.name }}</th><td class="number">{{ row.initial }}</td>
      <td class="number">{{ row.noise }}</td><td>{{ row.origin }}</td></tr>
  {% endfor %}</tbody>
</table></div>{% endif %}
"""
ERROR_HEIGHT = 120  # pixels
ERRORS_TEMPLATE = """
<p class="hint">What the rates of the model lack at each time for the states to follow the record.
{% if sized %}
Shaded: where 95 % of it lie if the model errs as its process noise says. That is less than the errors themselves, of which
the record shows a part only; smoothing makes waves of them. What leaves the band shows where the model is wrong, and often
what it lacks.
{% else %}
The given noise weighs errors here and does not size them (as weights, they are no variances), so that no band can be
drawn. A pattern shows where the model is wrong, and often what it lacks.
{% endif %}</p>
{% for record in records %}
<article>{% if records | length > 1 %}<h3>{{ record.name }}</h3>{% endif %}{{ record.chart }}</article>
{% endfor %}
<div class="scroll" tabindex="0"><table>
  <thead><tr><th>may err</th><th>process noise</th><th>its part of the cost</th></tr></thead>
  <tbody>{% for row in shares %}
    <tr><th scope="row">{{ row.name }}</th><td class="number">{{ row.noise }}</td><td class="number">{{ row.cost }}</td></tr>
  {% endfor %}</tbody>
</table></div>
"""


def unmeasured_states(estimate: Estimate) -> Markup | None:
    if estimate.smoothed is None:
        return None
    records = []
    for record, experiment, trajectory, units in zip(estimate.smoothed.records, estimate.problem.experiments,
                                                     estimate.trajectories, units_of(estimate), strict=True):
        panels = [course(record, name, units.get(name, ""), STATE_HEIGHT) for name in _unmeasured(experiment, trajectory)]
        if panels:
            across = with_unit("time", units.get("time", ""))
            records.append({"name": record.experiment, "chart": drawn(
                Chart(panels, across, f"{record.experiment}: smoothed states over time", zoom=True))})
    sized = any(np.isfinite(record.std).any() for record in estimate.smoothed.records)
    several = len(estimate.problem.experiments) > 1
    return filled(UNMEASURED_TEMPLATE, records=records, several=several, sized=sized) if records else None


def _unmeasured(experiment: Experiment, trajectory: Trajectory) -> list[str]:
    """States that no measured output shows as they are."""
    shown = [trajectory.outputs[name] for name in experiment.outputs]
    return [name for name, state in trajectory.states.items() if not any(np.array_equal(state, y) for y in shown)]


def course(record: SmootherRecord, name: str, unit: str, height: int) -> Panel:
    """A smoothed state or drifting parameter over time, with its interval."""
    i = record.names.index(name)
    value, reach = record.values[:, i], TWO_SIDED_95 * record.std[:, i]
    return Panel(name, [*shaded(record.time, value - reach, value + reach, "95 %"),
                        curve(record.time, value, name, "fitted", legend=False)], height, unit)


UNMEASURED_STATES = Section("unmeasured", "States that were not measured", unmeasured_states)


def filtering(estimate: Estimate) -> Markup | None:
    filtered = estimate.filtered
    if filtered is None:
        return None
    verdict = ("The innovations are as the filter foresaw them: its intervals can be relied on." if filtered.consistent
               else "The innovations are not as the filter foresaw them: its intervals cannot be relied on.")
    records = [{"name": record.experiment, "chart": drawn(filter_chart(record, filtered, units))}
               for record, units in zip(filtered.records, units_of(estimate), strict=True)]
    return filled(FILTERING_TEMPLATE, verdict=verdict, tests=filtered.tests, records=records, per=filtered.process_noise_unit,
                  levels=_levels(filtered, units_of(estimate)[0]), parameters=bool(filtered.parameters))


def _levels(filtered: FilterResult, units: dict[str, str]) -> list[dict[str, str]]:
    def with_its_unit(name: str, std: float) -> str:
        return f"{format_number(std)} {units.get(name, '')}".strip()

    return [{"name": name, "initial": with_its_unit(name, std),
             "noise": with_its_unit(name, filtered.process_noise.get(name, 0.0)),
             "origin": "maximum likelihood" if name in filtered.estimated else ""}
            for name, std in filtered.initial_std.items()]


def units_of(estimate: Estimate) -> list[dict[str, str]]:
    """By experiment: the units of states, parameters and time."""
    model = estimate.problem.model.units
    parameters = {u.quantity: u.unit for u in estimate.problem.unknowns if u.unit}
    return [{**model, **parameters, **experiment.units} for experiment in estimate.problem.experiments]


def filter_chart(record: FilterRecord, filtered: FilterResult, units: dict[str, str]) -> Chart:
    """The parameters as the filter learns them, and the size of its innovations."""
    panels = []
    for name in filtered.parameters:
        i = record.names.index(name)
        value, reach = record.values[:, i], TWO_SIDED_95 * record.std[:, i]
        panels.append(Panel(name, [*shaded(record.time, value - reach, value + reach, "95 %"),
                                   curve(record.time, value, name, "fitted", legend=False)],
                            HISTORY_HEIGHT, units.get(name, "")))
    middle, size = _averaged(record)
    if size.size:
        panels.append(Panel("squared innovations over their variance", [
            curve(middle, size, "innovations", "residual", legend=False)], NIS_HEIGHT, log=True))
    return Chart(panels, with_unit("time", units.get("time", "")),
                 f"{record.experiment}: {'estimated parameters over time, and ' if filtered.parameters else ''}the size of the "
                 "innovations", zoom=True)


def _averaged(record: FilterRecord) -> tuple[np.ndarray, np.ndarray]:
    """Mean squared innovation per stretch of the record; stretches without a measurement are left out."""
    cuts = np.unique(np.linspace(0, len(record.time), min(INNOVATION_WINDOWS, len(record.time)) + 1).astype(int))
    middle, size = [], []
    for begin, end in itertools.pairwise(cuts):
        part = record.whitened[begin:end]
        part = part[np.isfinite(part)]
        if part.size:
            middle.append(record.time[begin])
            size.append(max(float(np.mean(part**2)), 1e-12))  # a logarithmic axis has no place for zero
    return np.array(middle), np.array(size)


FILTERING = Section("filtering", "What the filter knew", filtering)


def model_errors(estimate: Estimate) -> Markup | None:
    smoothed = estimate.smoothed
    if smoothed is None or not smoothed.weights:
        return None
    records = [{"name": record.experiment, "chart": drawn(error_chart(record, smoothed, units))}
               for record, units in zip(smoothed.records, units_of(estimate), strict=True)]
    shares = [{"name": name, "noise": format_number(smoothed.weights[name] ** -0.5), "cost": format_number(cost)}
              for name, cost in smoothed.share_of_cost().items()]
    sized = any(np.isfinite(record.error_std).any() for record in smoothed.records)
    return filled(ERRORS_TEMPLATE, records=records, shares=shares, sized=sized)


def error_chart(record: SmootherRecord, smoothed: SmootherResult, units: dict[str, str]) -> Chart:
    """What each rate lacks over time, with the band that its process noise gives, and the parameters that drift."""
    panels, time = [], units.get("time", "")
    for i, name in enumerate(record.names):
        if name in smoothed.weights:
            rate = f"{units[name]}/{time}" if units.get(name) and time else ""
            reach = TWO_SIDED_95 * record.error_std[:, i]
            panels.append(Panel(f"what the rate of {name} lacks", [
                *shaded(record.time, -reach, reach, "95 %"),
                curve(record.time, record.model_error[:, i], name, "residual", legend=False)], ERROR_HEIGHT, rate))
    panels += [course(record, name, units.get(name, ""), ERROR_HEIGHT) for name in smoothed.drifting]
    return Chart(panels, with_unit("time", time), f"{record.experiment}: errors of the model over time", zoom=True)


MODEL_ERRORS = Section("model-errors", "Where the model is wrong", model_errors)
