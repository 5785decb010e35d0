"""How does an estimate read when it is printed?"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dynident.estimate.estimate import Estimate
from dynident.report.comparison import ComparisonTable, build_comparison
from dynident.report.number_format import aligned, format_number, percent, seconds
from dynident.report.result_table import (
    HISSING,
    counted,
    extent,
    fits,
    interval_heading,
    method_name,
    noise_levels,
    result_rows,
    verdict,
)

WIDTH = 80  # columns of plain text; a console has its own width
AT_ONCE = 3  # estimates beside each other in one table; more go into the next
RULED = box.Box("    \n    \n -- \n    \n -- \n    \n    \n    \n", ascii=True)  # one rule below the headings


def estimate_text(estimate: Estimate) -> str:
    """The result as plain text of at most 80 columns, without colour codes."""
    return _plain(_estimate(estimate))


def print_estimate(estimate: Estimate, console: Console | None = None) -> None:
    """The same words in colour, as wide as the console."""
    (console or Console()).print(_estimate(estimate))


def comparison_text(estimates: Mapping[str, Estimate]) -> str:
    """Several estimates side by side as plain text: one column per label; of `compare`'s also why a method has none."""
    return _plain(_comparison(build_comparison(estimates)))


def print_comparison(estimates: Mapping[str, Estimate], console: Console | None = None) -> None:
    """The same comparison in colour, as wide as the console."""
    (console or Console()).print(_comparison(build_comparison(estimates)))


def _estimate(estimate: Estimate) -> RenderableType:
    asked = f"{method_name(estimate)}: {extent(estimate)}"
    parts: list[RenderableType] = [_headline(estimate), _said(asked, "dim"), _gap()]
    parts += [_result_table(estimate), _gap(), _said(estimate.uncertainty.meaning, "italic"), _gap()]
    parts += [_facts(_key_facts(estimate))]
    if estimate.notes:
        parts += [_gap(), _said(counted(len(estimate.notes), "note"), "bold yellow"), _bullets(estimate.notes)]
    parts += [_gap(), _said(effort(estimate), "dim")]
    return Group(*parts)


def _headline(estimate: Estimate) -> RenderableType:
    word, sentence = verdict(estimate)
    if estimate.converged:
        return Text.assemble((word, "bold green"), " ", clean(sentence))
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
    if not math.isnan(estimate.cost):  # a method that proves bounds minimises nothing
        facts["cost"] = format_number(estimate.cost)
    if "cost" in facts and "reduced_chi2" in estimate.statistics:
        facts["cost"] += f", reduced chi-square {format_number(estimate.statistics['reduced_chi2'], 3)}"
    for validation in estimate.validations:
        facts.setdefault("validated", "")
        fitted = ", ".join(f"{output} {percent(fit)}" for output, fit in validation.fit.items())
        facts["validated"] += ("; " if facts["validated"] else "") + f"{validation.experiment}: {fitted}"
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
    for first in range(0, len(comparison.labels), AT_ONCE):
        shown = slice(first, first + AT_ONCE)
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


def clean(text: str) -> str:
    """Names come from files: characters that would steer a terminal are written out, never sent."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def _plain(renderable: RenderableType) -> str:
    page = io.StringIO()
    console = Console(file=page, width=WIDTH, color_system=None, force_terminal=False, legacy_windows=False,
                      highlight=False, markup=False, emoji=False)
    console.print(renderable)
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines())
