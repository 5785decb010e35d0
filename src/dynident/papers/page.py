"""The papers: one page of all items, as HTML with its figures, or as the Markdown of the manual."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

from markupsafe import Markup

from dynident._util.atomic import atomic_write
from dynident.papers.misprints import MISPRINTS, SOURCES
from dynident.papers.outcome import Agreement, verdict_text
from dynident.papers.registry import ITEMS, PAPERS, Item
from dynident.papers.run_item import ItemResult, file_of
from dynident.report.html_document import HtmlPage, HtmlPart, filled, write_page

NOT_RUN = "not run yet: dynident papers run {id}"
INTRODUCTION = """# The papers

dynident brings the methods of five papers under one problem object. This page holds, item by item, what each printed,
what comes out here, and why the two differ where they do. `dynident papers` lists the items, `dynident papers run ID`
computes one and writes its table and its figure, `dynident papers run all --quick` computes all of them in the coarse
form whose numbers stand below, and `dynident papers page` makes one page with all figures. This file is written by `make
papers`; the tests compute items again and compare.

"Agrees" means that the numbers, or where a paper leaves out what made its numbers, the ranking or the shape that it
claims, come out here. "Differs" and "not reproduced" say why.
"""


def write_html(results: Mapping[str, ItemResult], folder: Path, path: Path) -> Path:
    """All items in the order of the papers, with the figures of the folder inside of the page."""
    parts = [HtmlPart(key, name, filled(_SECTION, rows=[_row(item, results.get(item.id), folder) for item in ITEMS
                                                       if item.paper == key])) for key, (name, _) in PAPERS.items()]
    misprints = HtmlPart("misprints", "Misprints", filled(_MISPRINTS, rows=[
        (PAPERS[m.paper][0], m.place, m.printed, m.meant) for m in MISPRINTS]))
    counts = {a: sum(r.agreement is a for r in results.values()) for a in Agreement}
    said = (f"{len(ITEMS)} items: " + ", ".join(f"{n} {a.value}" for a, n in counts.items())
            + f", {len(ITEMS) - len(results)} not run.")
    return write_page(HtmlPage("dynident: the papers", "dynident", "Five papers, item by item", said, Markup(""), "",
                               [*parts, misprints], charts=False), path)


_SECTION = """
<table><thead><tr><th>item</th><th>theirs</th><th>ours</th><th>agrees?</th></tr></thead><tbody>
{% for item, result, verdict, figure in rows %}
<tr><td><b>{{ item.item }}</b><br><code>{{ item.id }}</code><br>{{ item.reproduces }}</td>
{% if result %}<td>{{ result.theirs }}</td><td>{{ result.ours }}</td><td>{{ verdict }}<br>
<small>{{ result.form }} form, {{ "%.1f"|format(result.cpu_seconds) }} s of CPU</small></td>
{% else %}<td colspan="3">{{ verdict }}</td>{% endif %}</tr>
{% if figure %}<tr><td colspan="4">{{ figure }}</td></tr>{% endif %}
{% endfor %}</tbody></table>
"""
_MISPRINTS = """
<table><thead><tr><th>paper</th><th>place</th><th>printed</th><th>meant</th></tr></thead><tbody>
{% for row in rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table>
"""


def _row(item: Item, result: ItemResult | None, folder: Path) -> tuple[Item, ItemResult | None, str, Markup | None]:
    if result is None:
        return item, None, NOT_RUN.format(id=item.id), None
    drawing = file_of(item, folder, "svg")
    figure = _picture(drawing, item) if drawing.is_file() else None
    return item, result, verdict_text(result.agreement, result.because), figure


def _picture(drawing: Path, item: Item) -> Markup:
    """The drawing inside of the page, so that the page is one file."""
    data = base64.b64encode(drawing.read_bytes()).decode()
    return filled('<img alt="{{ name }}" style="max-width: 100%" src="data:image/svg+xml;base64,{{ data }}">',
                  name=f"{item.paper_name}: {item.item}", data=data)


def markdown(results: Mapping[str, ItemResult]) -> str:
    """The page of the manual."""
    parts = [INTRODUCTION]
    for key, (name, citation) in PAPERS.items():
        parts.append(f"## {name[0].upper()}{name[1:]}\n\n{citation}\n")
        parts.append(_table(("item", "what is reproduced", "theirs", "ours", "agrees?"), [
            _markdown_cells(item, results.get(item.id)) for item in ITEMS if item.paper == key]))
    parts.append("## Misprints\n\nWhat to read past in the five texts, with the equation; dynident computes what is meant, and "
                 "as printed where a row above says so.\n")
    parts.append(_table(("paper", "place", "printed", "meant"), [
        (PAPERS[m.paper][0], m.place, m.printed, m.meant) for m in MISPRINTS]))
    parts.append(SOURCES)
    return "\n".join(parts)


def _markdown_cells(item: Item, result: ItemResult | None) -> tuple[str, ...]:
    name = f"**{item.item}** `{item.id}`"
    if result is None:
        return name, item.reproduces, "", "", NOT_RUN.format(id=item.id)
    return name, item.reproduces, result.theirs, result.ours, verdict_text(result.agreement, result.because)


def _table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [headings, ("---",) * len(headings), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def write_markdown(results: Mapping[str, ItemResult], path: Path) -> None:
    """Write the page of the manual."""
    with atomic_write(path) as aside:
        aside.write_text(markdown(results), encoding="utf-8", newline="\n")
