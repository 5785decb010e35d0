"""Short repr: what is shown of an object in a notebook or at the prompt, never more than a screen."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

MOST_LINES = 30
LONGEST_PART = 60  # characters of one field


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
        return _listed("()" if isinstance(value, tuple) else "[]", [_short(each) for each in value[:LONGEST_PART]])
    text = repr(value)
    return text if len(text) <= LONGEST_PART and "\n" not in text else f"<{type(value).__name__}>"


def _listed(brackets: str, parts: list[str]) -> str:
    text = ", ".join(parts)
    return f"{brackets[0]}{text}{brackets[1]}" if len(text) <= 2 * LONGEST_PART else f"<{len(parts)} entries>"
