"""How does a plan read when it is printed?"""

from __future__ import annotations

import math

from dynident.design.plan import Plan
from dynident.report.number_format import format_number, seconds
from dynident.report.text_table import plain_table


def plan_text(plan: Plan) -> str:
    """Predicted standard deviations, constraints and notes."""
    head = "PLAN" if plan.converged else "*** NOT CONVERGED ***"
    lasts = " and ".join(f"'{r.name}', {r.duration:.4g} long, {r.time.size} samples" for r in plan.records)
    lines = [f"{head} {plan.status}", f"criterion {plan.criterion}; {lasts}", "", plain_table(*_predicted_std(plan))]
    if plan.constraints:
        rows = [[use.text, f"{format_number(use.least, 4)} to {format_number(use.most, 4)}",
                 "holds" if use.holds else "VIOLATED"] for use in plan.constraints]
        lines += ["", plain_table(["constraint", "used", "at ten times finer steps"], rows)]
    lines += [f"note: {note}" for note in plan.notes]
    counts = ", ".join(f"{number} {what}" for what, number in plan.counts.items())
    return "\n".join([*lines, "", f"{counts}; search {seconds(plan.times['search'])}"])


def _predicted_std(plan: Plan) -> tuple[list[str], list[list[str]]]:
    rows = []
    for name, after in plan.std_after.items():
        before = plan.std_before[name]
        gain = f"{before / after:.3g} times" if math.isfinite(before) and after > 0 else "from nothing"
        row = [name, format_number(plan.values[name], 5), _std(before), _std(after), gain if math.isfinite(after) else "none",
               plan.units.get(name, "")]
        if plan.width_after:
            row += [_std(plan.width_before[name]), _std(plan.width_after[name])]
        rows.append(row)
    head = ["name", "nominal", "std before", "predicted std", "sharper", "unit"]
    return head + (["verified width before", "after"] if plan.width_after else []), rows


def _std(value: float) -> str:
    return format_number(value, 3) if math.isfinite(value) else "unidentifiable"
