"""The papers: one page of all items, as HTML with its figures, or as the Markdown of the manual."""

from __future__ import annotations

import base64
import csv
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from dynident._util.atomic import atomic_write
from dynident.papers.misprints import MISPRINTS, SOURCES
from dynident.papers.outcome import Agreement
from dynident.papers.registry import ITEMS, PAPERS, Item
from dynident.papers.run_item import ItemResult, file_of
from dynident.report.html_document import HtmlPage, HtmlPart, filled, write_page

NOT_RUN = "not run yet: dynident papers run {id}"
INTRODUCTION = """# The papers

dynident brings the methods of five papers under one problem object. This page holds, item by item, what each printed,
what comes out here, and why the two differ where they do. `dynident papers` lists the items, `dynident papers run ID`
computes one and writes its table and its figure, `dynident papers run all --quick` computes all of them in the coarse
form whose numbers stand below, and `dynident papers page` makes one page with all figures and tables. This file is written by
`make papers`; the tests compute items again and compare. Where the full form (`dynident papers run ID`: more starts, longer
records, larger grids) was computed and says something else in words or numbers, it stands below the coarse one.

"Agrees" means that the numbers, or where a paper leaves out what made its numbers, the ranking or the shape that it
claims, come out here. "Differs" and "not reproduced" say why.
"""


MAX_TABLE_ROWS = 100  # of an item's numbers on the page; the CSV file has all


def write_html(results: Mapping[str, ItemResult], folder: Path, path: Path, full: Mapping[str, ItemResult] | None = None
               ) -> Path:
    """All items in the order of the papers, with the figures and tables of the folder inside of the page."""
    parts = [HtmlPart(key, _heading(name), filled(_SECTION, citation=_plain(citation), rows=[
        _row(item, results.get(item.id), (full or {}).get(item.id), folder) for item in ITEMS if item.paper == key]))
        for key, (name, citation) in PAPERS.items()]
    misprints = HtmlPart("misprints", "Misprints", filled(_MISPRINTS, rows=[
        (PAPERS[m.paper][0], m.place, m.printed, m.meant) for m in MISPRINTS]))
    verdict = filled(_OTHERS, groups=[(heading, ids) for agreement, heading in HEADINGS.items()
                                      if (ids := [item.id for item in ITEMS if item.id in results
                                                  and results[item.id].agreement is agreement])])
    return write_page(HtmlPage("dynident: the papers", "dynident", "Five papers, item by item", _counts(results), verdict, "",
                               [*parts, misprints], charts=False), path)


HEADINGS = {Agreement.DIFFERS: "Ours differs", Agreement.NOT_REPRODUCED: "Not reproduced"}
_OTHERS = """
{% for heading, ids in groups %}<p>{{ heading }}:
{% for id in ids %}<a href="#{{ id }}"><code>{{ id }}</code></a>{{ "." if loop.last else ", " }}
{% endfor %}</p>
{% endfor %}"""
_SECTION = """
<p>{{ citation }}</p>
<table><thead><tr><th>item</th><th>theirs</th><th>ours</th><th>agrees?</th></tr></thead><tbody>
{% for item, result, fuller, verdict, figure, table in rows %}
<tr id="{{ item.id }}"><td><b>{{ item.item }}</b><br><code>{{ item.id }}</code><br>{{ item.reproduces }}</td>
{% if result %}<td>{{ result.theirs }}</td><td>{{ result.ours }}</td><td>{{ verdict }}<br>
<small>{{ result.form }} form, {{ "%.1f"|format(result.cpu_seconds) }} s of CPU time</small></td>
{% else %}<td colspan="3">{{ verdict }}</td>{% endif %}</tr>
{% if fuller %}<tr><td>in its full form</td><td></td><td>{{ fuller.ours }}</td><td>{{ fuller.verdict }}<br>
<small>{{ "%.0f"|format(fuller.cpu_seconds) }} s of CPU time</small></td></tr>{% endif %}
{% if figure %}<tr><td colspan="4">{{ figure }}</td></tr>{% endif %}
{% if table %}<tr><td colspan="4"><details><summary>the numbers of {{ item.id }}</summary>
<table><thead><tr>{% for cell in table[0] %}<th>{{ cell }}</th>{% endfor %}</tr></thead><tbody>
{% for row in table[1] %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table>{% if table[2] %}<p>and {{ table[2] }} more rows in {{ item.id }}.csv</p>{% endif %}
</details></td></tr>{% endif %}
{% endfor %}</tbody></table>
"""
_MISPRINTS = """
<table><thead><tr><th>paper</th><th>place</th><th>printed</th><th>meant</th></tr></thead><tbody>
{% for row in rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table>
"""


def _counts(results: Mapping[str, ItemResult]) -> str:
    """How many items there are, and how they stand."""
    said = {a: sum(r.agreement is a for r in results.values()) for a in Agreement}
    words = [f"{said[Agreement.AGREES]} agree", f"{said[Agreement.DIFFERS]} differ",
             *([f"{n} {Agreement.NOT_REPRODUCED.value}"] if (n := said[Agreement.NOT_REPRODUCED]) else []),
             *([f"{n} not run"] if (n := len(ITEMS) - len(results)) else [])]
    return f"{len(ITEMS)} items: {', '.join(words)}."


def _heading(name: str) -> str:
    return name[0].upper() + name[1:]


def _plain(citation: str) -> str:
    return citation.replace("*", "")


def _row(item: Item, result: ItemResult | None, full: ItemResult | None, folder: Path) -> tuple[Any, ...]:
    if result is None:
        return item, None, None, NOT_RUN.format(id=item.id), None, None
    drawing = file_of(item, folder, "svg")
    figure = _picture(drawing, item) if drawing.is_file() else None
    return item, result, _if_other(result, full), result.verdict, figure, _numbers(file_of(item, folder, "csv"))


def _if_other(result: ItemResult, full: ItemResult | None) -> ItemResult | None:
    """The full form where it says something else."""
    told = (result.ours, result.verdict)
    return full if full is not None and result.form != full.form and (full.ours, full.verdict) != told else None


def _numbers(file: Path) -> tuple[list[str], list[list[str]], int] | None:
    """Heading, rows and how many more there are, of an item's table; numbers to six digits."""
    if not file.is_file():
        return None
    with file.open(encoding="utf-8", newline="") as lines:
        heading, *rows = csv.reader(lines)
    return heading, [[_short(cell) for cell in row] for row in rows[:MAX_TABLE_ROWS]], max(len(rows) - MAX_TABLE_ROWS, 0)


def _short(cell: str) -> str:
    return f"{float(cell):.6g}" if re.fullmatch(r"-?\d+\.\d+(e[+-]?\d+)?", cell) else cell


def _picture(drawing: Path, item: Item) -> Markup:
    """The drawing inside of the page, so that the page is one file."""
    data = base64.b64encode(drawing.read_bytes()).decode()
    return filled('<img alt="{{ name }}" style="max-width: 100%" src="data:image/svg+xml;base64,{{ data }}">',
                  name=f"{item.paper_name}: {item.item}", data=data)


def markdown(results: Mapping[str, ItemResult], full: Mapping[str, ItemResult]) -> str:
    """The page of the manual."""
    parts = [INTRODUCTION]
    for key, (name, citation) in PAPERS.items():
        parts.append(f"## {_heading(name)}\n\n{citation}\n")
        parts.append(_table(("item", "what is reproduced", "theirs", "ours", "agrees?"), [
            _markdown_cells(item, results.get(item.id), full.get(item.id)) for item in ITEMS if item.paper == key]))
    parts.append("## Misprints\n\nWhat to read past in the five texts, with the equation; dynident computes what is meant, and "
                 "as printed where a row above says so.\n")
    parts.append(_table(("paper", "place", "printed", "meant"), [
        (PAPERS[m.paper][0], m.place, m.printed, m.meant) for m in MISPRINTS]))
    parts.append(SOURCES)
    return "\n".join(parts)


def _markdown_cells(item: Item, result: ItemResult | None, full: ItemResult | None) -> tuple[str, ...]:
    name = f"**{item.item}** `{item.id}`"
    if result is None:
        return name, item.reproduces, "", "", NOT_RUN.format(id=item.id)
    fuller = _if_other(result, full)
    ours = result.ours + (f"<br>**Full form**: {fuller.ours}" if fuller and fuller.ours != result.ours else "")
    verdict = result.verdict + (f"<br>**Full form**: {fuller.verdict}" if fuller and fuller.verdict != result.verdict else "")
    return name, item.reproduces, result.theirs, ours, verdict


def _table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [headings, ("---",) * len(headings), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def write_markdown(results: Mapping[str, ItemResult], full: Mapping[str, ItemResult], path: Path) -> None:
    """Write the page of the manual."""
    with atomic_write(path) as aside:
        aside.write_text(markdown(results, full), encoding="utf-8", newline="\n")
