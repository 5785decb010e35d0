"""How did the search get there, by which steps, and where did other starts end?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from markupsafe import Markup

from dynident.estimate.estimate import Estimate
from dynident.estimate.smoother_result import PseudoTimeStep
from dynident.methods.ranking import best_of
from dynident.report.chart_svg import drawn
from dynident.report.charts import Chart, Curve, Panel, Symbol
from dynident.report.comparison import waterfall
from dynident.report.estimate_charts import convergence_chart, numbered, starts_chart
from dynident.report.html_document import Section, filled
from dynident.report.result_table import counted

ROOT_HEIGHT = 130  # pixels
MARKS: dict[str, Symbol] = {"new Jacobian": "dot", "Jacobian kept": "ring", "rejected, new Jacobian": "cross",
                            "rejected, Jacobian kept": "thin cross"}
CONVERGENCE_TEMPLATE = """{% if said %}<p class="hint">{{ said }}</p>{% endif %}{{ chart }}"""
STEPS_TEMPLATE = """
<p class="hint">{{ iterations }} iterations, {{ jacobians }} of them with a new Jacobian (filled), {{ rejected }} rejected
(crossed; the crosses are bold where a new Jacobian was made for a step that was rejected). In time stepping the length is
that of a step in artificial time; in Newton's method it is the share of the step that was gone.</p>
{{ chart }}
"""
STARTS_TEMPLATE = """<p>{{ sentence }}</p>{% if counted %}<p class="hint">The noise of each end is its own, so costs are counted
from the best: its cost, plus twice what the log-likelihood is lower by.</p>{% endif %}{{ chart }}"""

STAGES_TEMPLATE = """<p>{{ reason }}</p>
<div class="scroll" tabindex="0"><table><thead><tr><th>stage</th><th>simulations with sensitivities</th><th>without</th>
<th>cost above the best</th><th>what is left over</th><th>how it ended</th></tr></thead><tbody>
{% for row in rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table></div>
<p class="hint">The cost is minus twice the log-likelihood of one simulation per record. This estimate is where the stage
"{{ arrived }}" ended.</p>"""


def convergence(estimate: Estimate) -> Markup | None:
    if not estimate.history:
        return None
    _, begins = numbered(estimate)
    said = (f"Dotted: there the search began again, {counted(len(begins) - 1, 'time')}; costs on the two sides of such a line "
            "need not be of the same sum.") if len(begins) > 1 else ""
    return filled(CONVERGENCE_TEMPLATE, said=said, chart=drawn(convergence_chart(estimate)))


CONVERGENCE = Section("convergence", "Convergence", convergence)


def root_finder_steps(estimate: Estimate) -> Markup | None:
    strides = estimate.smoothed.strides if estimate.smoothed is not None else ()
    if not strides:
        return None
    return filled(STEPS_TEMPLATE, iterations=len(strides), jacobians=sum(s.fresh for s in strides),
                  rejected=sum(not s.accepted for s in strides), chart=drawn(root_finder_chart(strides)))


def root_finder_chart(strides: tuple[PseudoTimeStep, ...]) -> Chart:
    """Length of each step and the largest change that it made; a mark says whether its Jacobian is new and it was taken."""
    phases = dict.fromkeys(s.phase for s in strides)
    numbers = list(enumerate(strides, start=1))  # a root finder that begins again counts from 1 again
    lengths: list[Curve] = []
    for phase, color in zip(phases, ("fitted", "second"), strict=False):
        of = [(k, s) for k, s in numbers if s.phase == phase]
        lengths.append(Curve(*_rows(of, lambda s: s.share), phase, color))
        for mark, symbol in MARKS.items():
            marked = [(k, s) for k, s in of if _mark(s) == mark]
            if marked:
                lengths.append(Curve(*_rows(marked, lambda s: s.share), mark, color, "dots", symbols=(symbol,) * len(marked)))
    moved = Curve(*_rows(numbers, lambda s: s.step), "largest change", "residual", "dotted", legend=False)
    return Chart([Panel("step length", lengths, ROOT_HEIGHT, log=True),
                  Panel("largest change of an unknown", [moved], ROOT_HEIGHT, log=True)], "iteration",
                 "Step lengths of the root finder per iteration", span=(0.5, len(strides) + 0.5))


def _mark(stride: PseudoTimeStep) -> str:
    return ("" if stride.accepted else "rejected, ") + ("new Jacobian" if stride.fresh else "Jacobian kept")


def _rows(strides: list[tuple[int, PseudoTimeStep]], value: Callable[[PseudoTimeStep], float]
          ) -> tuple[np.ndarray, np.ndarray]:
    return (np.array([k for k, _ in strides], float),
            np.array([float(value(s)) if value(s) > 0 else np.nan for _, s in strides]))


ROOT_FINDER_STEPS = Section("strides", "Steps of the root finder", root_finder_steps)


def starts(estimate: Estimate) -> Markup | None:
    if best_of(estimate.starts) is None:  # one start, or a method without a cost
        return None
    steps = waterfall(estimate.starts)
    likelihood = any(start.criterion != start.cost for start in estimate.starts if np.isfinite(start.criterion))
    return filled(STARTS_TEMPLATE, sentence=steps.sentence, counted=likelihood, chart=drawn(starts_chart(steps)))


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
