"""How did the solver get there?"""

from __future__ import annotations

import itertools

import numpy as np
from markupsafe import Markup

from dynident.estimate.estimate import Estimate
from dynident.report.charts import Panel, drawn, numbers, plain, stacked
from dynident.report.sections.section import Section, filled

COST_HEIGHT, STEP_HEIGHT, COURSE_HEIGHT = 170, 130, 170  # pixels
MOST_COURSES = 12  # parameters whose way is drawn; more lines hide each other
COLORS = ("var(--fitted)", "var(--measured)", "var(--second)", "var(--input)", "var(--residual)")

TEMPLATE = """{{ chart }}"""


def body(estimate: Estimate) -> Markup | None:
    if not estimate.history:
        return None
    count = np.array([entry.number for entry in estimate.history], float)
    cost = np.array([entry.cost for entry in estimate.history], float)
    curve = _dotted(count, cost, "cost", "var(--fitted)") | {"showlegend": False}
    panels = [Panel("cost", [curve], COST_HEIGHT, log=bool(np.all(cost > 0)))]
    lengths = [("scaled step", "var(--second)", [entry.step for entry in estimate.history]),
               ("violated matching conditions", "var(--measured)", [entry.max_defect for entry in estimate.history])]
    shown = [_dotted(count, _positive(values), name, color) for name, color, values in lengths if max(values) > 0]
    if shown:
        panels.append(Panel("what is still moving", shown, STEP_HEIGHT, log=True))
    panels += _courses(estimate, count)
    return filled(TEMPLATE, chart=drawn(stacked(panels, "iteration"), "Cost, step and parameters per iteration"))


def _courses(estimate: Estimate, count: np.ndarray) -> list[Panel]:
    """The way of each parameter, over where it ended: 1 at the end. One that was zero or of the other sign on its way has no
    place on a logarithmic axis, and is drawn on a linear one."""
    unknowns = estimate.problem.unknowns
    if any(len(entry.values) != len(unknowns) for entry in estimate.history) or count.size < 2:
        return []
    values = np.array([entry.values for entry in estimate.history])
    shown = [i for i, u in enumerate(unknowns) if not u.initial and estimate.values[u.name] != 0][:MOST_COURSES]
    alike: list[dict] = []
    turned: list[dict] = []
    for i, color in zip(shown, itertools.cycle(COLORS)):
        way = values[:, i] / estimate.values[unknowns[i].name]
        (turned if np.any(way <= 0) else alike).append(_dotted(count, way, unknowns[i].name, color))
    panels = [Panel("parameters over their last value", alike, COURSE_HEIGHT, log=True)] if alike else []
    return panels + ([Panel("parameters over their last value, once of the other sign or zero", turned, COURSE_HEIGHT)]
                     if turned else [])


def _positive(values: list[float]) -> np.ndarray:
    """A logarithmic axis has no place for zero: the start has no step, and an exact match no defect."""
    array = np.array(values, float)
    return np.where(array > 0, array, np.nan)


def _dotted(count: np.ndarray, values: np.ndarray, name: str, color: str) -> dict:
    return {"type": "scatter", "mode": "lines+markers", "name": plain(name), "x": numbers(count),
            "y": [float(v) if np.isfinite(v) else None for v in values],  # unrounded: the axis may span many decades
            "line": {"color": color, "width": 1.6}, "marker": {"color": color, "size": 5}}


SECTION = Section("convergence", "Convergence", body)
