"""Architecture figure: the sentence of the core above the layers of pyproject.toml, as SVG for light and for dark pages.

    python tools/architecture_figure.py docs/_static

Layers are those of the contract that `make check` verifies; what a folder holds is said in CONTRIBUTING's tree.
"""

from __future__ import annotations

import re
import sys
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
WIDTH, MARGIN = 1000, 24
ROW, GAP, NAME = 27, 5, 150  # heights of a layer and between two; width of a folder's name
NOUNS = ("model\nexperiments\nparameters", "Problem", "FiniteProblem", "point", "Estimate", "page")
VERBS = (("state", ("problem",)), ("transcribe", ("transcription",)), ("solve", ("solvers",)),
         ("judge", ("statistics",)), ("show", ("report",)))  # what leads from a noun to the next, and the folders of it
SENTENCE = {"problem", "transcription", "solvers", "statistics", "estimate", "report"}  # folders that the sentence names
COLOURS = {
    "light": {"ink": "#1b2733", "dim": "#5b6b7b", "line": "#c3ccd6", "box": "#f4f6f8", "core": "#dcebfa", "edge": "#2f78bd",
              "family": "#dff3ea", "family_edge": "#2c8a63"},
    "dark": {"ink": "#e6edf3", "dim": "#9aa8b6", "line": "#3b4753", "box": "#1c232b", "core": "#17324d", "edge": "#5aa2e6",
             "family": "#153a2d", "family_edge": "#4dbb8d"}}
TITLE = "Model, experiments and parameters become a Problem, a FiniteProblem, a point, an Estimate and a page; the layers below"
FONT = "font-family=\"system-ui, 'Segoe UI', Helvetica, Arial, sans-serif\""


def layers() -> list[list[str]]:
    """Folders and files of each layer, the highest first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    (contract,) = [each for each in contracts if each["type"] == "layers"]
    return [[part.strip().removeprefix("dynident.") for part in layer.split("|")] for layer in contract["layers"]]


def purposes() -> dict[str, str]:
    """What a folder holds, as CONTRIBUTING's tree says it; capitals there are a title, which is left out here."""
    tree = re.findall(r"^ {6}(\w+)/ +(.*)$", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE)
    return {name: re.sub(r"^[A-Z][A-Z ,>-]+ {3}", "", text) for name, text in tree}


def text(x: float, y: float, words: str, colour: str, size: float = 13, anchor: str = "start", weight: int = 400) -> str:
    return (f'<text x="{x:g}" y="{y:g}" fill="{colour}" font-size="{size:g}" text-anchor="{anchor}" '
            f'font-weight="{weight}">{escape(words)}</text>')


def box(x: float, y: float, width: float, height: float, fill: str, edge: str) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" fill="{fill}" stroke="{edge}"/>'


def arrow(x0: float, y0: float, x1: float, y1: float, colour: str) -> str:
    """To the right, or down."""
    tip = f"M{x1:g} {y1 - 4:g} l8 4 l-8 4 z" if y0 == y1 else f"M{x1 - 4:g} {y1:g} l4 8 l4 -8 z"
    return (f'<path d="M{x0:g} {y0:g} L{x1:g} {y1:g}" stroke="{colour}" stroke-width="1.6"/>'
            f'<path d="{tip}" fill="{colour}"/>')


def sentence(c: dict[str, str], top: float) -> list[str]:
    """Nouns in boxes, verbs above their arrows, folders below them."""
    parts: list[str] = []
    widths = [106, 80, 122, 62, 84, 62]
    space = (WIDTH - 2 * MARGIN - sum(widths)) / len(VERBS)
    x, middle, height = float(MARGIN), top + 30, 62
    for i, (noun, width) in enumerate(zip(NOUNS, widths, strict=True)):
        lines = noun.split("\n")
        parts.append(box(x, middle - height / 2, width, height, c["box"], c["line"]))
        parts += [text(x + width / 2, middle + 4.5 + 17 * (k - (len(lines) - 1) / 2), line, c["ink"], 13, "middle", 600)
                  for k, line in enumerate(lines)]
        x += width
        if i < len(VERBS):
            verb, folders = VERBS[i]
            parts.append(arrow(x + 6, middle, x + space - 14, middle, c["edge"]))
            parts.append(text(x + space / 2, middle - 9, verb, c["edge"], 12.5, "middle", 600))
            parts += [text(x + space / 2, middle + 19 + 15 * k, f"{folder}/", c["dim"], 11, "middle")
                      for k, folder in enumerate(folders)]
            x += space
    return parts


def stack(c: dict[str, str], top: float) -> tuple[list[str], float]:
    """A row for each layer of the contract; families side by side."""
    parts, said, y = [], purposes(), top
    left, right = MARGIN + 30, WIDTH - MARGIN
    for layer in layers():
        if len(layer) > 1:
            width = (right - left - GAP * (len(layer) - 1)) / len(layer)
            for k, name in enumerate(layer):
                folder = (ROOT / "src" / "dynident" / name).is_dir()
                family = folder and len(layer) > 2
                x = left + k * (width + GAP)
                parts.append(box(x, y, width, ROW, c["family" if family else "box"], c["family_edge" if family else "line"]))
                parts.append(text(x + width / 2, y + 18, f"{name}/" if folder else f"{name}.py", c["ink"], 12.5, "middle", 600))
        else:
            (name,) = layer
            core = name in SENTENCE
            folder = (ROOT / "src" / "dynident" / name).is_dir()
            parts.append(box(left, y, right - left, ROW, c["core" if core else "box"], c["edge" if core else "line"]))
            parts.append(text(left + 12, y + 18, f"{name}/" if folder else f"{name}.py", c["ink"], 12.5, weight=600))
            parts.append(text(left + NAME, y + 18, said.get(name, ""), c["dim"], 12))
        y += ROW + GAP
    bottom = y - GAP
    parts.append(arrow(MARGIN + 8, top, MARGIN + 8, bottom - 8, c["dim"]))
    middle = (top + bottom) / 2
    parts.append(f'<g transform="rotate(-90 {MARGIN - 4} {middle:g})">'
                 f'{text(MARGIN - 4, middle, "a folder imports only from those below it", c["dim"], 12, "middle")}</g>')
    return parts, bottom


def figure(theme: str) -> str:
    c = COLOURS[theme]
    rows, bottom = stack(c, 136)
    legend = [box(MARGIN + 30, 105, 16, 12, c["core"], c["edge"]),
              text(MARGIN + 52, 116, "folders of the sentence", c["dim"], 12),
              box(MARGIN + 222, 105, 16, 12, c["family"], c["family_edge"]),
              text(MARGIN + 244, 116, "families of methods, which do not import each other", c["dim"], 12)]
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + MARGIN:g}" width="{WIDTH}" '
                      f'role="img" aria-label="{escape(TITLE)}" {FONT} fill="none">', *sentence(c, 22), *legend, *rows,
                      "</svg>\n"])


def main(folder: Path) -> None:
    for theme in COLOURS:
        (folder / f"architecture_{theme}.svg").write_text(figure(theme), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
