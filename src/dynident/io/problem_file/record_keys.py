"""Record keys: how a problem file says into which runs a record is split, and under which conditions it was taken."""

from __future__ import annotations

from typing import Any

CONDITIONS = ("before", "constants", "group", "steady")  # what no reader needs to know of a record


def initial_values(value: Any) -> Any:
    """Numbers and formulas by state, or the word for a state of rest."""
    if value == "steady":
        return value
    if not isinstance(value, dict):
        raise ValueError("must be a table from state to number or formula, or \"steady\".")
    for state, each in value.items():
        if isinstance(each, bool) or not isinstance(each, (int, float, str)):
            raise ValueError(f"of '{state}' must be a number or a formula.")
    return value


def split_rule(value: Any) -> Any:
    """What tells the runs of a file apart: a column, or the seconds without a sample between them."""
    if isinstance(value, dict):
        gap = value.get("gap")
        if set(value) != {"gap"} or isinstance(gap, bool) or not isinstance(gap, (int, float)) or not gap > 0:
            raise ValueError("must be a column, or { gap = seconds }.")
    elif isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError("must be a column, or { gap = seconds }.")
    return value
