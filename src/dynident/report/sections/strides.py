"""How long were the steps of the root finder, and when did it make a new Jacobian?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from markupsafe import Markup

from dynident.estimate.estimate import Estimate
from dynident.estimate.smoothed import Stride
from dynident.report.charts import Panel, drawn, numbers, stacked
from dynident.report.sections.section import Section, filled

HEIGHT = 130  # pixels

TEMPLATE = """
<p class="hint">{{ iterations }} iterations, {{ jacobians }} of them with a new Jacobian (filled). In time stepping the length
is that of a step in artificial time; in Newton's method it is the share of the step that was gone.</p>
{{ chart }}
"""


def body(estimate: Estimate) -> Markup | None:
    strides = estimate.smoothed.strides if estimate.smoothed is not None else ()
    if not strides:
        return None
    phases = dict.fromkeys(s.phase for s in strides)
    lengths = [_dots([s for s in strides if s.phase == phase], lambda s: s.share, phase, color)
               for phase, color in zip(phases, ("var(--fitted)", "var(--measured)"), strict=False)]
    moved = [_dots(list(strides), lambda s: s.step, "largest change", "var(--second)") | {"showlegend": False}]
    chart = stacked([Panel("step length", lengths, HEIGHT, log=True),
                     Panel("largest change of an unknown", moved, HEIGHT, log=True)], "iteration")
    return filled(TEMPLATE, iterations=len(strides), jacobians=sum(s.fresh for s in strides),
                  chart=drawn(chart, "Step lengths of the root finder per iteration"))


def _dots(strides: list[Stride], value: Callable[[Stride], float], name: str, color: str) -> dict[str, Any]:
    symbols = ["circle" if s.fresh else "circle-open" if s.accepted else "x-thin-open" for s in strides]
    return {"type": "scatter", "mode": "lines+markers", "name": name,
            "x": numbers(np.array([s.number for s in strides], float)),
            "y": [float(value(s)) if value(s) > 0 else None for s in strides],
            "line": {"color": color, "width": 1.2}, "marker": {"color": color, "size": 7, "symbol": symbols}}


SECTION = Section("strides", "Steps of the root finder", body)
