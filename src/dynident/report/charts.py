"""What is a chart: panels over one horizontal axis, each with its curves; and how does a long record, without hiding a peak?

A chart is a value that knows no pixels and no library: `chart_svg` draws it on the page, `figures` draws the same one by
matplotlib. Colours are names of the page's style ("fitted", "measured"), so that one chart serves light, dark and print.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from dynident._util.prefixes import prefixed

DOTS_UP_TO = 600  # samples; a longer record of measurements is a line, as dots would merge anyway
MAX_CURVE_POINTS = 4000  # drawn per curve; two per bucket, and more buckets than a screen has columns
TWO_SIDED_95 = 1.96  # standard deviations of a normal distribution

Look = Literal["line", "dots", "dotted", "steps", "bars", "area", "boxes"]
Symbol = Literal["dot", "ring", "cross", "thin cross"]


@dataclass(frozen=True, eq=False)
class Curve:
    """One row of points and how they look; NaN is a gap."""

    x: np.ndarray
    y: np.ndarray
    name: str = ""
    color: str = "fitted"  # a name of the page's style
    look: Look = "line"
    width: float = 1.6  # pixels
    dashed: bool = False
    legend: bool = True
    x_end: np.ndarray | None = None  # the other edge of bars and boxes
    y_end: np.ndarray | None = None  # the other edge of areas and boxes
    symbols: tuple[Symbol, ...] = ()  # one per point, where they differ
    labels: tuple[str, ...] = ()  # one per point, read where the pointer is


@dataclass(frozen=True, eq=False)
class Panel:
    """One drawing area among those stacked in a chart; they share the horizontal axis."""

    title: str
    curves: Sequence[Curve]
    height: int  # pixels
    unit: str = ""
    band: float | None = None  # half height of a shaded band around zero
    log: bool = False
    bare: bool = False  # a strip from 0 to 1 without numbers at its side
    across_band: tuple[float, float] | None = None  # shaded between these places of the horizontal axis
    across_line: float | None = None  # a dotted line at this place of the horizontal axis

    def values(self) -> np.ndarray:
        """All finite numbers of the vertical axis; on a logarithmic one the positive ones."""
        parts = [np.ravel(part) for c in self.curves for part in (c.y, c.y_end) if part is not None]
        if any(c.look == "bars" for c in self.curves):
            parts.append(np.zeros(1))
        if self.band is not None and np.isfinite(self.band):
            parts.append(np.array([-self.band, self.band]))
        found = np.concatenate([np.zeros(0), *(np.asarray(part, float) for part in parts)])
        return found[np.isfinite(found) & ((found > 0) | (not self.log))]


@dataclass(frozen=True, eq=False)
class Chart:
    """Panels below each other over one horizontal axis."""

    panels: Sequence[Panel]
    across: str  # what the horizontal axis shows
    described: str  # what is read out where the chart cannot be seen
    span: tuple[float, float] | None = None  # of the horizontal axis; all that is drawn where None
    zoom: bool = False  # whether a stretch of the horizontal axis can be looked at alone
    dated: bool = False  # the horizontal axis counts seconds since 1970
    breaks: tuple[float, ...] = ()  # dotted lines through all panels

    def reach(self) -> tuple[float, float]:
        """Ends of the horizontal axis, never the same."""
        found = [np.ravel(part) for p in self.panels for c in p.curves for part in (c.x, c.x_end) if part is not None]
        known = np.concatenate([np.zeros(0), *(np.asarray(part, float) for part in found)])
        known = known[np.isfinite(known)]
        low, high = self.span or ((float(known.min()), float(known.max())) if known.size else (0.0, 1.0))
        return (low, high) if high > low else (low - 0.5, high + 0.5)


def curve(x: np.ndarray, y: np.ndarray, name: str, color: str, points: int = MAX_CURVE_POINTS, dots: bool = False, *,
          look: Look = "line", width: float = 1.6, dashed: bool = False, legend: bool = True) -> Curve:
    """A line (or dots, where there are few enough), thinned so that peaks stay."""
    kept = kept_samples(y, points)
    dotted = dots and np.size(y) <= DOTS_UP_TO
    return Curve(np.asarray(x, float)[kept], np.asarray(y, float)[kept], name, color, "dots" if dotted else look,
                 width, dashed, legend)


def shaded(x: np.ndarray, low: np.ndarray, high: np.ndarray, name: str, points: int = MAX_CURVE_POINTS, color: str = "band"
           ) -> list[Curve]:
    """The area between two curves; nothing where one of them is not known."""
    known = np.isfinite(low) & np.isfinite(high)
    if not np.any(known):
        return []
    x, low, high = np.asarray(x, float)[known], np.asarray(low, float)[known], np.asarray(high, float)[known]
    kept = np.union1d(kept_samples(low, points // 2), kept_samples(high, points // 2))
    return [Curve(x[kept], low[kept], name, color, "area", y_end=high[kept], legend=False)]


def bars(edges: np.ndarray, heights: np.ndarray, name: str, color: str) -> Curve:
    """One bar between each two edges."""
    edges = np.asarray(edges, float)
    return Curve(edges[:-1], np.asarray(heights, float), name, color, "bars", x_end=edges[1:], legend=False)


def shown(panel: Panel) -> Panel:
    """The panel as it is read: with its unit in the title, and very small or large numbers in a prefix of that unit."""
    values = np.abs(panel.values())
    factor, unit = (1.0, panel.unit) if panel.log or panel.bare else prefixed(float(values.max(initial=0.0)), panel.unit)
    if factor == 1.0:
        return replace(panel, title=with_unit(panel.title, unit), unit=unit)
    curves = [replace(c, y=c.y * factor, y_end=None if c.y_end is None else c.y_end * factor) for c in panel.curves]
    return replace(panel, title=with_unit(panel.title, unit), unit=unit, curves=curves,
                   band=None if panel.band is None else panel.band * factor)


def with_unit(name: str, unit: str) -> str:
    return f"{name} ({unit})" if unit else name


def kept_samples(values: np.ndarray, points: int = MAX_CURVE_POINTS) -> np.ndarray:
    """Indices to draw, rising: all of a short record; else the lowest and highest of each bucket and both ends.

    Missing values (NaN) are passed over; a bucket that holds nothing else keeps one of them, so that a gap stays a gap.
    """
    values = np.asarray(values, float)
    buckets = max(points // 2 - 1, 1)  # the two ends come on top
    if values.size <= max(points, 4):
        return np.arange(values.size)
    edges = np.linspace(0, values.size, buckets + 1).astype(int)[:-1]  # where each bucket begins
    bucket = np.searchsorted(edges, np.arange(values.size), side="right") - 1
    lowest = _first_where(values == np.fmin.reduceat(values, edges)[bucket], edges)
    highest = _first_where(values == np.fmax.reduceat(values, edges)[bucket], edges)
    return np.unique(np.concatenate([[0, values.size - 1], lowest, highest]))


def _first_where(hit: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """In each bucket the first sample that is hit, or the bucket's first sample where none is (all missing)."""
    candidates = np.where(hit, np.arange(hit.size), hit.size)
    first = np.minimum.reduceat(candidates, edges)
    return np.where(first < hit.size, first, edges)
