"""How do an estimate, a comparison, a plan or a profile read when they are printed?"""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dynident._util.harmless_text import clean, styled
from dynident.estimate.estimate import Estimate
from dynident.report.comparison import ComparisonTable, build_comparison
from dynident.report.result_table import (
    HISSING,
    WITHHELD,
    ResultRow,
    aligned,
    convergence,
    counted,
    disturbance_levels,
    extent,
    fits,
    format_number,
    interval_heading,
    interval_meaning,
    judged_fit,
    method_name,
    noise_levels,
    percent,
    result_rows,
    seconds,
    written,
)
from dynident.statistics.uncertainty import LEVEL
from dynident.statistics.verdict import GO_ON

if TYPE_CHECKING:
    from dynident.boundary.solve_bvp.result import BoundarySolution
    from dynident.design.plan import Plan
    from dynident.statistics.profile_likelihood import Profile
    from dynident.statistics.verdict import Verdict

STYLES = {"green": "bold white on green", "amber": "bold black on yellow", "orange": "bold white on dark_orange3",
          "red": "bold white on red", "grey": "bold white on bright_black"}  # of grades, which say the same without colour
TEXT_WIDTH = 80  # columns of plain text; a console has its own width
MOST_QUANTITIES = 20  # in a summary
TABLE_COLUMNS = 3  # estimates beside each other in one table; more go into the next
RULED = box.Box("    \n    \n -- \n    \n -- \n    \n    \n    \n", ascii=True)  # one rule below the headings


def estimate_text(estimate: Estimate) -> str:
    """The result as plain text of at most 80 columns, without colour codes."""
    return _plain(_estimate(estimate))


def estimate_summary(estimate: Estimate) -> str:
    """The verdict, how the fit ended, a line per quantity, and the fit."""
    rows = [f"{row.name} = {row.value} {row.interval}{f' {row.unit}' if row.unit else ''}" for row in result_rows(estimate)]
    fit = ", ".join(f"{name} {percent(share)}" for name, share in fits(estimate).items())
    more = [f"... and {len(rows) - MOST_QUANTITIES} more"] if len(rows) > MOST_QUANTITIES else []
    head = [str(estimate.verdict), " ".join(convergence(estimate))]
    return "\n".join([*head, *rows[:MOST_QUANTITIES], *more, *([f"fit {fit}"] if fit else [])])


def estimate_dict(estimate: Estimate) -> dict[str, dict[str, object]]:
    """By name what the table shows, as numbers."""
    def std(row: ResultRow) -> float:
        return 0.0 if row.held else math.nan if row.interval == WITHHELD else float(estimate.uncertainty.std(row.name))

    return {row.name: {"value": row.number, "std": std(row), "low": row.low, "high": row.high, "unit": row.unit,
                       "fixed": row.held, "remark": row.remark or (WITHHELD if row.interval == WITHHELD else "")}
            for row in result_rows(estimate)}


def print_estimate(estimate: Estimate, console: Console | None = None) -> None:
    """The same words in colour, as wide as the console."""
    (console or Console(file=styled(sys.stdout))).print(_estimate(estimate))


def comparison_text(estimates: Mapping[str, Estimate]) -> str:
    """Several estimates side by side as plain text: one column per label; of `compare`'s also why a method has none."""
    return _plain(_comparison(build_comparison(estimates)))


def print_comparison(estimates: Mapping[str, Estimate], console: Console | None = None) -> None:
    """The same comparison in colour, as wide as the console."""
    (console or Console(file=styled(sys.stdout))).print(_comparison(build_comparison(estimates)))


def _estimate(estimate: Estimate) -> RenderableType:
    asked = f"{method_name(estimate)}: {extent(estimate)}"
    parts: list[RenderableType] = [_verdict(estimate.verdict), _headline(estimate), _said(asked, "dim"), _gap()]
    parts += [_result_table(estimate), _gap(), _said(interval_meaning(estimate), "italic"), _gap()]
    parts += [_facts(_key_facts(estimate))]
    if estimate.notes:
        parts += [_gap(), _said(counted(len(estimate.notes), "note"), "bold yellow"), _bullets(estimate.notes)]
    parts += [_gap(), _said(effort(estimate), "dim")]
    return Group(*parts)


def print_verdict(verdict: Verdict, console: Console | None = None) -> None:
    """Grade and sentence, in colour."""
    (console or Console(file=styled(sys.stdout))).print(_verdict(verdict))


def _verdict(verdict: Verdict) -> Text:
    said = clean(verdict.sentence).replace(f" {GO_ON}", f"\n{GO_ON}")
    return Text.assemble((f"[{verdict.grade}]", STYLES[verdict.colour]), " ", said)


def _headline(estimate: Estimate) -> RenderableType:
    word, sentence = convergence(estimate)
    if estimate.converged:
        return Text.assemble((word, "bold"), " ", clean(sentence))
    shout = Text(f"*** {word} ***", "bold white on red")
    return Group(shout, _said(sentence, "red"),
                 _said("The values below are the best point found, not an optimum.", "red"))


def _result_table(estimate: Estimate) -> Table:
    rows = result_rows(estimate)
    remarks, units = any(row.remark for row in rows), any(row.unit for row in rows)
    table = _table(["name", "value", interval_heading(estimate), *["unit"] * units, *["remark"] * remarks])
    for row, value in zip(rows, aligned([row.value for row in rows]), strict=True):
        style = "dim" if row.held else "yellow" if row.open else ""
        cells = [row.name, value, row.interval, *[row.unit] * units, *[row.remark] * remarks]
        table.add_row(*(Text(clean(cell), style) for cell in cells))
    return table


def _key_facts(estimate: Estimate) -> dict[str, str]:
    facts = {}
    if fits(estimate):
        facts["fit"] = ", ".join(f"{output} {percent(fit)}" for output, fit in fits(estimate).items())
    if noise_levels(estimate):
        facts["noise"] = ", ".join(f"{output} {level}" for output, level in noise_levels(estimate).items())
    if disturbed := disturbance_levels(estimate):
        facts["disturbed"] = ", ".join(f"{place} {level}" for place, level in disturbed.items())
    if not math.isnan(estimate.cost):  # a method that proves bounds minimises nothing
        facts["cost"] = format_number(estimate.cost)
    by_construction = noise_levels(estimate) and all(level.estimated for level in noise_levels(estimate).values())
    if "cost" in facts and "reduced_chi2" in estimate.statistics and not by_construction:
        facts["cost"] += f", reduced chi-square {format_number(estimate.statistics['reduced_chi2'], 3)}"
    for validation in estimate.validations:
        facts.setdefault("validated", "")
        samples, judged = judged_fit(validation)
        over = f" over {counted(samples, 'sample')}" if samples else ""
        fitted = ", ".join(f"{output} {percent(fit)}{over}" for output, fit in judged.items())
        graded = "" if validation.verdict is None else f"[{validation.verdict.grade}] "
        facts["validated"] += ("; " if facts["validated"] else "") + f"{graded}{validation.experiment}: {fitted}"
    return facts


def effort(estimate: Estimate) -> str:
    """Counts and times in one sentence."""
    counts = ", ".join(f"{number:,} {_singular(what) if number == 1 else what.replace('_', ' ')}"
                       for what, number in estimate.counts.items())
    counts = counts.replace("jacobian", "Jacobian")  # a name, though counts are kept in lower case
    times = ", ".join(f"{what} {seconds(duration)}" for what, duration in estimate.times.items())
    return "; ".join(part for part in (counts, times) if part)


def _singular(nouns: str) -> str:
    """'step per sample' of 'steps_per_sample'; counts are kept under their plural, or under what is no noun."""
    noun, per, unit = nouns.replace("_", " ").partition(" per ")
    if noun.endswith("ies"):
        noun = noun[:-3] + "y"
    elif noun.endswith(tuple(f"{end}es" for end in HISSING)):
        noun = noun[:-2]
    else:
        noun = noun.removesuffix("s")
    return noun + per + unit


def _comparison(comparison: ComparisonTable) -> RenderableType:
    parts: list[RenderableType] = []
    for first in range(0, len(comparison.labels), TABLE_COLUMNS):
        shown = slice(first, first + TABLE_COLUMNS)
        table = _table(["", *comparison.labels[shown]])
        for line in comparison.lines:
            cells = [Text(clean(cell), "yellow" if warned else "")
                     for cell, warned in zip(line.cells[shown], line.warned[shown], strict=True)]
            table.add_row(Text(clean(line.name)), *cells, end_section=line.ends_group)
        parts += [table, _gap()]
    parts += [_said(comparison.agreement, "bold"), *(_said(said, "dim") for said in comparison.meanings)]
    if comparison.failed:
        reasons = tuple(f"{label}: {reason}" for label, reason in comparison.failed.items())
        parts += [_gap(), _said("Without an answer", "bold yellow"), _bullets(reasons)]
    return Group(*parts)


def _table(headings: list[str]) -> Table:
    table = Table(box=RULED, show_edge=False, pad_edge=False, expand=False)
    for heading in headings:
        table.add_column(Text(clean(heading), "bold"), overflow="fold")
    return table


def _facts(facts: Mapping[str, str]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in facts.items():
        grid.add_row(Text(name, "bold"), Text(clean(text)))
    return grid


def _bullets(sentences: tuple[str, ...]) -> Table:
    grid = Table.grid(padding=(0, 1))
    for sentence in sentences:
        grid.add_row(Text("-"), Text(clean(sentence)))
    return grid


def _said(sentence: str, style: str = "") -> Text:
    return Text(clean(sentence), style)


def _gap() -> Padding:
    return Padding("", 0)


def _plain(renderable: RenderableType) -> str:
    page = io.StringIO()
    console = Console(file=page, width=TEXT_WIDTH, color_system=None, force_terminal=False, legacy_windows=False,
                      highlight=False, markup=False, emoji=False)
    console.print(renderable)
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines())


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
    """Interval, identifiability and compensating unknowns of each profiled unknown."""
    rows = []
    for name, curve in profile.curves.items():
        value = float(profile.estimated[profile.names.index(name)])
        low, high = profile.interval(name, LEVEL)
        text, interval = written(value, low, high)
        linear = written(value, *profile.base.interval(name, LEVEL))[1]
        rows.append([name, text, interval, linear, profile.identifiability(name), ", ".join(profile.partners(name)) or "-",
                     _stops(curve.ends)])
    head = ["name", "value", f"{LEVEL:.0%} by profile", "linearised", "identifiability", "compensated by", "ends"]
    if not any(row[-1] for row in rows):
        head, rows = head[:-1], [row[:-1] for row in rows]
    return "\n".join([plain_table(head, rows), "", profile.meaning, *(f"note: {note}" for note in profile.notes)])


def _stops(ends: tuple[str, str]) -> str:
    said = [f"{side}: {ENDS[end]}" for side, end in zip(("below", "above"), ends, strict=True) if ENDS[end]]
    return "; ".join(said)
