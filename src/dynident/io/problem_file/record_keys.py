"""Record keys: how a problem file says into which runs a record is split."""

from __future__ import annotations

from typing import Any


def split_rule(value: Any) -> Any:
    """What tells the runs of a file apart: a column, or the seconds without a sample between them."""
    if isinstance(value, dict):
        gap = value.get("gap")
        if set(value) != {"gap"} or isinstance(gap, bool) or not isinstance(gap, (int, float)) or not gap > 0:
            raise ValueError("must be a column, or { gap = seconds }.")
    elif isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError("must be a column, or { gap = seconds }.")
    return value
