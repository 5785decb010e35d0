"""How do a few columns of text line up without colour?"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dynident.boundary.solve_bvp.result import BoundarySolution
from dynident.design.plan import Plan
from dynident.report.number_format import format_number, seconds
from dynident.report.result_table import written
from dynident.report.terminal import clean
from dynident.statistics.profile_likelihood import LEVEL, Profile


def plain_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they need to be, one rule below the headings."""
    cells = [[clean(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def boundary_text(solution: BoundarySolution) -> str:
    """Status, the values at both ends, the parameters, and how it was found."""
    head = "BoundarySolution" if solution.converged else "BoundarySolution: NOT CONVERGED"
    rows = [[name, f"{solution.values[0, k]:.8g}", f"{solution.values[-1, k]:.8g}", f"{solution.scale[name]:.4g}"]
            for k, name in enumerate(solution.names)]
    ends = plain_table(["state", f"at t = {solution.time[0]:g}", f"at t = {solution.time[-1]:g}", "typical size"], rows)
    found = [[name, f"{value:.10g}"] for name, value in solution.parameters.items()]
    work = [[each.why, each.solver, str(each.nodes), str(each.iterations), str(each.jacobians),
             "yes" if each.converged else "no", f"{each.error:.1e}" if each.error == each.error else "-"]
            for each in solution.rounds]
    return "\n".join([
        head, solution.status, "", ends, "", *([plain_table(["parameter", "value"], found), ""] if found else []),
        plain_table(["round", "solver", "nodes", "iterations", "Jacobians", "solved", "error"], work), "",
        f"condition number {solution.condition:.2g}", *(f"warning: {text}" for text in solution.warnings)])


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


ENDS = {"reached": "", "bound": "stops at its bound", "far": "no limit within reach",
        "partner": "flat until another unknown meets its bound",
        "wall": "stops where no refit succeeds"}


def profile_text(profile: Profile) -> str:
    """Interval, verdict and partners of each profiled unknown."""
    rows = []
    for name, curve in profile.curves.items():
        value = float(profile.estimated[profile.names.index(name)])
        low, high = profile.interval(name, LEVEL)
        text, interval = written(value, low, high)
        linear = written(value, *profile.base.interval(name, LEVEL))[1]
        rows.append([name, text, interval, linear, profile.identifiability(name), ", ".join(profile.partners(name)) or "-",
                     _stops(curve.ends)])
    head = ["name", "value", f"{LEVEL:.0%} by profile", "linearised", "verdict", "followed by", "ends"]
    if not any(row[-1] for row in rows):
        head, rows = head[:-1], [row[:-1] for row in rows]
    return "\n".join([plain_table(head, rows), "", profile.meaning, *(f"note: {note}" for note in profile.notes)])


def _stops(ends: tuple[str, str]) -> str:
    said = [f"{side}: {ENDS[end]}" for side, end in zip(("below", "above"), ends, strict=True) if ENDS[end]]
    return "; ".join(said)
