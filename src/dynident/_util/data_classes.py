"""Data classes: what all of them share: a short repr, never more than a screen, and a table of pandas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from dynident.errors import NotSupported

MOST_LINES = 30
LONGEST_FIELD_TEXT = 60  # characters of one field


def short_text(it: object) -> str:
    """What print() shows, cut to a screen; for `__repr__` of objects that print well."""
    lines = str(it).splitlines()
    if len(lines) <= MOST_LINES:
        return "\n".join(lines)
    kept = MOST_LINES - 1
    return "\n".join([*lines[:kept], f"... {len(lines) - kept} more lines; print() shows them all"])


def short_fields(it: Any) -> str:
    """The fields of a dataclass, each in a few characters: arrays and long texts by their size."""
    parts = [f"{field.name}={_short(getattr(it, field.name))}" for field in fields(it) if field.repr]
    return f"{type(it).__name__}({', '.join(parts)})"


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return repr(value.item()) if value.ndim == 0 else f"<{'x'.join(map(str, value.shape))} numbers>"
    if isinstance(value, dict) or hasattr(value, "items"):
        return _listed("{}", [f"{key!r}: {_short(each)}" for key, each in value.items()])
    if isinstance(value, (list, tuple)):
        return _listed("()" if isinstance(value, tuple) else "[]", [_short(each) for each in value[:LONGEST_FIELD_TEXT]])
    text = repr(value)
    return text if len(text) <= LONGEST_FIELD_TEXT and "\n" not in text else f"<{type(value).__name__}>"


def _listed(brackets: str, parts: list[str]) -> str:
    text = ", ".join(parts)
    return f"{brackets[0]}{text}{brackets[1]}" if len(text) <= 2 * LONGEST_FIELD_TEXT else f"<{len(parts)} entries>"


def data_frame(rows: Mapping[str, Mapping[str, Any]]) -> Any:
    """A DataFrame with one row per name. Raises NotSupported, with the install line, where there is no pandas."""
    try:
        import pandas as pd
    except ImportError:
        raise NotSupported("to_pandas() needs pandas, which is not installed: pip install pandas. to_dict() gives the same "
                           "without it.") from None
    return pd.DataFrame.from_dict(rows, orient="index")
