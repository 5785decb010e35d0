"""Which unknowns can the data hardly tell apart?"""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from dynident.estimate.estimate import Estimate
from dynident.report.charts import drawn, plain
from dynident.report.sections.section import Section, filled

STRONG = 0.95  # beyond it one unknown can take over most of the other's work
LABELLED_UP_TO = 12  # unknowns; in a larger matrix the numbers would not be legible

TEMPLATE = """
<p class="prose">{{ said }}</p>
{% if absent %}
<p class="hint">Left empty: {{ absent | join(", ") }} (unidentifiable, or fixed on a bound).</p>
{% endif %}
<div class="square">{{ chart }}</div>
"""


def body(estimate: Estimate) -> Markup | None:
    names, matrix = estimate.problem.names, estimate.uncertainty.correlation()
    if matrix is None or len(names) < 2:
        return None
    absent = [name for name, known in zip(names, np.isfinite(np.diag(matrix)), strict=True) if not known]
    return filled(TEMPLATE, said=_said(names, matrix), absent=absent, chart=_heatmap(names, matrix))


def _said(names: tuple[str, ...], matrix: np.ndarray) -> str:
    pairs = [(names[i], names[j], matrix[i, j]) for i in range(len(names)) for j in range(i)
             if abs(matrix[i, j]) >= STRONG]
    pairs.sort(key=lambda pair: -abs(pair[2]))
    if not pairs:
        which = "unknowns" if np.all(np.isfinite(np.diag(matrix))) else "of the unknowns shown"
        return f"No two {which} are correlated beyond ±{STRONG}: the data tell them apart."
    listed = "; ".join(f"{b} and {a} ({r:.3f})" for a, b, r in pairs)
    return f"Hard to tell apart (correlation beyond ±{STRONG}): {listed}."


def _heatmap(names: tuple[str, ...], matrix: np.ndarray) -> Markup:
    shown = [[float(r) if np.isfinite(r) else None for r in np.round(row, 3)] for row in matrix]
    labels = len(names) <= LABELLED_UP_TO
    axis = {"tickvals": list(range(len(names))), "ticktext": [plain(name) for name in names], "showgrid": False,
            "zeroline": False, "linecolor": "var(--line)", "automargin": True}
    height = int(np.clip(110 + 44 * len(names), 240, 720))
    return drawn({
        "data": [{"type": "heatmap", "z": shown, "zmin": -1, "zmax": 1, "xgap": 2, "ygap": 2, "hoverongaps": False,
                  "colorscale": [[0, "var(--negative)"], [0.5, "var(--middle)"], [1, "var(--positive)"]],
                  "colorbar": {"thickness": 10, "outlinewidth": 0, "tickvals": [-1, 0, 1]},
                  "hovertemplate": "%{y}, %{x}: %{z:.3f}<extra></extra>",
                  **({"texttemplate": "%{z:.2f}", "textfont": {"size": 12}} if labels else {})}],
        "layout": {"height": height, "xaxis": axis | {"side": "top"}, "yaxis": axis | {"autorange": "reversed"}}},
        "Correlation matrix of the unknowns")


SECTION = Section("correlation", "Correlation", body)
