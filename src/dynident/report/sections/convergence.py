"""How did the solver get there?"""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from dynident.estimate.estimate import Estimate
from dynident.report.charts import Panel, drawn, numbers, stacked
from dynident.report.sections.section import Section, filled

COST_HEIGHT, STEP_HEIGHT = 170, 130  # pixels

TEMPLATE = """{{ chart }}"""


def body(estimate: Estimate) -> Markup | None:
    if not estimate.history:
        return None
    count = np.array([entry.number for entry in estimate.history], float)
    cost = np.array([entry.cost for entry in estimate.history], float)
    curve = _dotted(count, cost, "cost", "var(--fitted)") | {"showlegend": False}
    panels = [Panel("cost", [curve], COST_HEIGHT, log=bool(np.all(cost > 0)))]
    lengths = [("scaled step", "var(--second)", [entry.step for entry in estimate.history]),
               ("violated matching conditions", "var(--measured)", [entry.mismatch for entry in estimate.history])]
    shown = [_dotted(count, _positive(values), name, color) for name, color, values in lengths if max(values) > 0]
    if shown:
        panels.append(Panel("what is still moving", shown, STEP_HEIGHT, log=True))
    return filled(TEMPLATE, chart=drawn(stacked(panels, "iteration"), "Cost and step per iteration"))


def _positive(values: list[float]) -> np.ndarray:
    """A logarithmic axis has no place for zero: the start has no step, and an exact match no mismatch."""
    array = np.array(values, float)
    return np.where(array > 0, array, np.nan)


def _dotted(count: np.ndarray, values: np.ndarray, name: str, color: str) -> dict:
    return {"type": "scatter", "mode": "lines+markers", "name": name, "x": numbers(count),
            "y": [float(v) if np.isfinite(v) else None for v in values],  # unrounded: the axis may span many decades
            "line": {"color": color, "width": 1.6}, "marker": {"color": color, "size": 5}}


SECTION = Section("convergence", "Convergence", body)
