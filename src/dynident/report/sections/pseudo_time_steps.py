"""How long were the steps of the root finder, and when did it make a new Jacobian?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from markupsafe import Markup

from dynident.estimate.estimate import Estimate
from dynident.estimate.smoother_result import PseudoTimeStep
from dynident.report.charts import Panel, drawn, numbers, stacked
from dynident.report.sections.section import Section, filled

HEIGHT = 130  # pixels
MARKS = {"new Jacobian": "circle", "Jacobian kept": "circle-open", "rejected, new Jacobian": "x",
         "rejected, Jacobian kept": "x-thin-open"}

TEMPLATE = """
<p class="hint">{{ iterations }} iterations, {{ jacobians }} of them with a new Jacobian (filled), {{ rejected }} rejected
(crossed; the crosses are filled where a new Jacobian was made for a step that was rejected). In time stepping the length is
that of a step in artificial time; in Newton's method it is the share of the step that was gone.</p>
{{ chart }}
"""


def body(estimate: Estimate) -> Markup | None:
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
    chart = stacked([Panel("step length", lengths, HEIGHT, log=True),
                     Panel("largest change of an unknown", moved, HEIGHT, log=True)], "iteration")
    return filled(TEMPLATE, iterations=len(strides), jacobians=sum(s.fresh for s in strides),
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


SECTION = Section("strides", "Steps of the root finder", body)
