"""How did states move that nobody measured?"""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from dynident.estimate.estimate import Estimate, Trajectory
from dynident.estimate.smoother_result import SmootherRecord
from dynident.problem.experiment import Experiment
from dynident.report.charts import Panel, curve, drawn, shaded, stacked, with_unit
from dynident.report.sections.section import Section, filled
from dynident.report.signal_charts import TWO_SIDED_95

HEIGHT = 130  # pixels

TEMPLATE = """
<p class="hint">Smoothed states that are no measured output by themselves
{%- if sized %}; shaded: their 95 % interval at each time, if the errors are as the weights say{% endif %}.</p>
{% for record in records %}
<article>{% if several %}<h3>{{ record.name }}</h3>{% endif %}{{ record.chart }}</article>
{% endfor %}
"""


def body(estimate: Estimate) -> Markup | None:
    if estimate.smoothed is None:
        return None
    units = estimate.problem.model.definition().get("units", {})
    records = []
    for record, experiment, trajectory in zip(estimate.smoothed.records, estimate.problem.experiments, estimate.trajectories,
                                              strict=True):
        panels = [course(record, name, units.get(name, ""), HEIGHT) for name in _unmeasured(experiment, trajectory)]
        if panels:
            across = with_unit("time", experiment.units.get("time", ""))
            records.append({"name": record.experiment, "chart": drawn(
                stacked(panels, across), f"{record.experiment}: smoothed states over time")})
    sized = any(np.isfinite(record.std).any() for record in estimate.smoothed.records)
    return filled(TEMPLATE, records=records, several=len(estimate.problem.experiments) > 1, sized=sized) if records else None


def _unmeasured(experiment: Experiment, trajectory: Trajectory) -> list[str]:
    """States that no measured output shows as they are."""
    shown = [trajectory.outputs[name] for name in experiment.outputs]
    return [name for name, state in trajectory.states.items() if not any(np.array_equal(state, y) for y in shown)]


def course(record: SmootherRecord, name: str, unit: str, height: int) -> Panel:
    """A smoothed state or drifting parameter over time, with its interval."""
    i = record.names.index(name)
    value, reach = record.values[:, i], TWO_SIDED_95 * record.std[:, i]
    return Panel(with_unit(name, unit), [*shaded(record.time, value - reach, value + reach, "95 %"),
                                         curve(record.time, value, name, "var(--fitted)", showlegend=False)], height)


SECTION = Section("unmeasured", "States that were not measured", body)
