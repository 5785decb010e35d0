"""What a drawing of the page holds: the numbers behind its paths."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

import numpy as np

UNITS = 30_000


@dataclass
class DrawnCurve:
    name: str | None  # None: not read out
    classes: list[str]
    x: np.ndarray
    y: np.ndarray
    labels: list[str]
    d: str


@dataclass
class DrawnPanel:
    title: str = ""
    y: tuple[float, float] = (0.0, 1.0)
    log: bool = False
    curves: list[DrawnCurve] = field(default_factory=list)
    legend: list[str] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)

    def named(self, name: str) -> DrawnCurve:
        return next(curve for curve in self.curves if curve.name == name)


@dataclass
class DrawnChart:
    described: str
    x: tuple[float, float]
    panels: list[DrawnPanel] = field(default_factory=list)


class Drawings(HTMLParser):
    """All charts of a page, in their order."""

    def __init__(self, page: str):
        super().__init__(convert_charrefs=True)
        self.charts: list[DrawnChart] = []
        self._inside, self._key = "", False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        a = {key: value or "" for key, value in attributes}
        classes = a.get("class", "").split()
        if "panels" in classes:
            self.charts.append(DrawnChart(a["aria-label"], tuple(map(float, a["data-x"].split()))))
        elif "panel" in classes:
            self.charts[-1].panels.append(DrawnPanel())
        elif "plot" in classes:
            self._panel.y, self._panel.log = tuple(map(float, a["data-y"].split())), a["data-scale"] == "log"
        elif tag == "path" and "data-y" not in a and self.charts and self._inside == "curves":
            self._panel.curves.append(self._curve(a, classes))
        elif tag == "path" and self._inside == "symbol" and not self._key:
            self._panel.symbols.append(classes[-1])
        self._key = self._key or "key" in classes
        self._inside = classes[0] if classes and classes[0] in ("curves", "title", "symbol") else (
            self._inside if tag == "path" else "")

    def handle_data(self, text):
        if self._inside == "title" and self.charts and self.charts[-1].panels and not self._panel.title:
            self._panel.title = text.strip()
        elif self._key and text.strip():
            self._panel.legend.append(text.strip())

    def handle_endtag(self, tag):
        if tag in ("span", "title"):
            self._inside, self._key = "", False

    @property
    def _panel(self) -> DrawnPanel:
        return self.charts[-1].panels[-1]

    def _curve(self, a, classes) -> DrawnCurve:
        corners = np.array(path_values(a["d"]), float).reshape(-1, 2)
        (left, right), (low, high) = self.charts[-1].x, self._panel.y
        x = left + corners[:, 0] / UNITS * (right - left)
        y = high - corners[:, 1] / UNITS * (high - low)
        labels = a["data-labels"].split("\n") if "data-labels" in a else []
        return DrawnCurve(a.get("data-name"), classes, x, 10.0**y if self._panel.log else y, labels, a["d"])


def charts(page: str) -> list[DrawnChart]:
    return Drawings(page).charts


def path_values(d: str) -> list[tuple[int, int]]:
    """Corners of a path of the kinds that charts have, in units of their square; what the page's script does, too."""
    corners, x, y, kind = [], 0, 0, ""
    numbers: list[int] = []
    for token in re.findall(r"[A-Za-z]|-?\d+", d):
        if token.isalpha():
            kind, numbers = token, []
            continue
        numbers.append(int(token))
        if kind in "hHvV":
            x, y = {"h": (x + numbers[0], y), "H": (numbers[0], y), "v": (x, y + numbers[0]), "V": (x, numbers[0])}[kind]
        elif len(numbers) == 2:
            x, y = (numbers[0], numbers[1]) if kind == "M" else (x + numbers[0], y + numbers[1])
        else:
            continue
        if not (kind == "h" and numbers[0] == 0):
            corners.append((x, y))
        numbers = []
    return corners
