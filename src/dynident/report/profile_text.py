"""How does a likelihood profile read when it is printed?"""

from __future__ import annotations

from dynident.report.result_table import written
from dynident.report.text_table import plain_table
from dynident.statistics.profile_likelihood import LEVEL, Profile

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
