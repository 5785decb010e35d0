"""How did the search get there, by which steps, and where did other starts end?"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from markupsafe import Markup

from dynident.estimate.estimate import Estimate
from dynident.estimate.smoother_result import PseudoTimeStep
from dynident.methods.ranking import best_of
from dynident.report.charts import Panel, drawn, numbers, plain, stacked
from dynident.report.comparison import waterfall
from dynident.report.html_document import Section, filled

COST_HEIGHT, STEP_HEIGHT, COURSE_HEIGHT = 170, 130, 170  # pixels
MOST_COURSES = 12  # parameters whose way is drawn; more lines hide each other
COLORS = ("var(--fitted)", "var(--measured)", "var(--second)", "var(--input)", "var(--residual)")
ROOT_HEIGHT = 130  # pixels
MARKS = {"new Jacobian": "circle", "Jacobian kept": "circle-open", "rejected, new Jacobian": "x",
         "rejected, Jacobian kept": "x-thin-open"}
STEPS_TEMPLATE = """
<p class="hint">{{ iterations }} iterations, {{ jacobians }} of them with a new Jacobian (filled), {{ rejected }} rejected
(crossed; the crosses are filled where a new Jacobian was made for a step that was rejected). In time stepping the length is
that of a step in artificial time; in Newton's method it is the share of the step that was gone.</p>
{{ chart }}
"""
STARTS_HEIGHT = 220  # pixels
STARTS_TEMPLATE = """<p>{{ sentence }}</p>{% if counted %}<p class="hint">The noise of each end is its own, so costs are counted
from the best: its cost, plus twice what the log-likelihood is lower by.</p>{% endif %}{{ chart }}"""

STAGES_TEMPLATE = """<p>{{ reason }}</p>
<table><thead><tr><th>stage</th><th>simulations with sensitivities</th><th>without</th><th>cost above the best</th>
<th>what is left over</th><th>how it ended</th></tr></thead><tbody>
{% for row in rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table>
<p class="hint">The cost is minus twice the log-likelihood of one simulation per record. This estimate is where the stage
"{{ arrived }}" ended.</p>"""


def convergence(estimate: Estimate) -> Markup | None:
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
    return drawn(stacked(panels, "iteration"), "Cost, step and parameters per iteration")


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


CONVERGENCE = Section("convergence", "Convergence", convergence)


def root_finder_steps(estimate: Estimate) -> Markup | None:
    strides = estimate.smoothed.strides if estimate.smoothed is not None else ()
    if not strides:
        return None
    phases = dict.fromkeys(s.phase for s in strides)
    numbered = list(enumerate(strides, start=1))  # a root finder that begins again counts from 1 again
    colors = dict(zip(phases, ("var(--fitted)", "var(--measured)"), strict=False))
    lengths = [_dots([(k, s) for k, s in numbered if s.phase == phase], lambda s: s.share, phase, colors[phase])
               for phase in phases]
    lengths += [_explained(phase, "lines", line={"color": colors[phase]}) for phase in phases]
    lengths += [_explained(mark, "markers", marker={"color": "var(--ink)", "size": 7, "symbol": MARKS[mark]})
                for mark in dict.fromkeys(map(_mark, strides))]
    moved = [_dots(numbered, lambda s: s.step, "largest change", "var(--second)")]
    chart = stacked([Panel("step length", lengths, ROOT_HEIGHT, log=True),
                     Panel("largest change of an unknown", moved, ROOT_HEIGHT, log=True)], "iteration")
    return filled(STEPS_TEMPLATE, iterations=len(strides), jacobians=sum(s.fresh for s in strides),
                  rejected=sum(not s.accepted for s in strides),
                  chart=drawn(chart, "Step lengths of the root finder per iteration"))


def _mark(stride: PseudoTimeStep) -> str:
    return ("" if stride.accepted else "rejected, ") + ("new Jacobian" if stride.fresh else "Jacobian kept")


def _dots(strides: list[tuple[int, PseudoTimeStep]], value: Callable[[PseudoTimeStep], float], name: str, color: str
          ) -> dict[str, Any]:
    return {"type": "scatter", "mode": "lines+markers", "name": name, "showlegend": False,
            "x": numbers(np.array([k for k, _ in strides], float)),
            "y": [float(value(s)) if value(s) > 0 else None for _, s in strides],
            "line": {"color": color, "width": 1.2},
            "marker": {"color": color, "size": 7, "symbol": [MARKS[_mark(s)] for _, s in strides]}}


def _explained(name: str, mode: str, **look: Any) -> dict[str, Any]:
    """An entry of the legend without a curve: a curve's own would show the mark of its first point."""
    return {"type": "scatter", "mode": mode, "name": name, "x": [None], "y": [None], "hoverinfo": "skip", **look}


ROOT_FINDER_STEPS = Section("strides", "Steps of the root finder", root_finder_steps)


def starts(estimate: Estimate) -> Markup | None:
    if best_of(estimate.starts) is None:  # one start, or a method without a cost
        return None
    steps = waterfall(estimate.starts)
    traces = []
    for name, color, shown in (("converged", "var(--fitted)", steps.converged), ("not converged", "var(--measured)",
                                                                                 ~steps.converged)):
        if np.any(shown):
            traces.append({"type": "scatter", "mode": "markers", "name": name, "x": numbers(steps.rank[shown]),
                           "y": [float(v) for v in steps.cost[shown]], "marker": {"color": color, "size": 7}})
    chart = drawn(stacked([Panel("cost", traces, STARTS_HEIGHT, log=bool(np.all(steps.cost > 0)))], "start, best first"),
                  "Cost at the end of each start, from the lowest to the highest")
    counted = any(start.criterion != start.cost for start in estimate.starts if np.isfinite(start.criterion))
    return filled(STARTS_TEMPLATE, sentence=steps.sentence, counted=counted, chart=chart)


STARTS = Section("starts", "Starts", starts)


def stages(estimate: Estimate) -> Markup | None:
    """The ladder: what each stage took and where it ended; costs are counted from the best."""
    if not estimate.stages:
        return None
    best = min((row.cost for row in estimate.stages if np.isfinite(row.cost)), default=0.0)
    return filled(STAGES_TEMPLATE, reason=estimate.belief_reason, arrived=estimate.arrived_by, rows=[
        (row.stage, f"{row.jacobians:,}", f"{row.simulations:,}", f"{row.cost - best:.4g}" if np.isfinite(row.cost) else "",
         "noise" if row.believed else "", row.status) for row in estimate.stages])


STAGES = Section("stages", "Stages", stages)
