"""TOML text: write plain data as TOML, and find the line of a key in it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_KEY = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADING = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]\]?")
_ENTRY = re.compile(rf"\s*({_DOTTED})\s*=")

Path = tuple[str | int, ...]


def to_toml(content: Mapping[str, Any]) -> str:
    """Plain data as TOML; a value of None is left out. Floats keep every bit."""
    plain = {key: value for key, value in content.items() if not isinstance(value, Mapping) and not _is_tables(value)}
    parts = [_entries(plain)] if plain else []  # before the first heading, or they would belong to its table
    for key, value in content.items():
        if isinstance(value, Mapping):
            parts.append(f"[{_key(key)}]\n{_entries(value)}")
        elif _is_tables(value):
            parts += [f"[[{_key(key)}]]\n{_entries(table)}" for table in value]
    return "\n".join(parts)


def _is_tables(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and bool(value) and all(isinstance(each, Mapping) for each in value)


def _entries(table: Mapping[str, Any]) -> str:
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in table.items() if value is not None)


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")  # JSON's other escapes are TOML's too


def _value(value: Any) -> str:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, str)):
        return str(value) if isinstance(value, int) else _text(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(str(k))} = {_value(v)}" for k, v in value.items() if v is not None)
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, Sequence):
        return f"[{', '.join(_value(item) for item in value)}]"
    raise TypeError(f"{value!r} is not plain data")


def line_of(text: str, path: Path) -> int | None:
    """The line, counted from 1, of the key at `path`, or of the closest key around it; None if there is none."""
    table: Path = ()
    counts: dict[Path, int] = {}
    best: tuple[int, int] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if heading := _HEADING.match(line):
            table = _split(heading.group(2))
            if heading.group(1) == "[[":
                counts[table] = counts.get(table, -1) + 1
            here = table = _indexed(table, counts)
        elif entry := _ENTRY.match(line):
            here = table + _split(entry.group(1))
        else:
            continue
        known = len(here) if path[:len(here)] == here else 0
        if known and (best is None or known > best[0]):
            best = (known, number)
    return best[1] if best else None


def _split(dotted: str) -> tuple[str, ...]:
    return tuple(part[1:-1] if part[0] in "\"'" else part for part in re.findall(_KEY, dotted))


def _indexed(table: Path, counts: Mapping[Path, int]) -> Path:
    """The path with the number of the current entry after each name of a list of tables."""
    full: Path = ()
    for k, part in enumerate(table):
        full += (part, counts[table[:k + 1]]) if table[:k + 1] in counts else (part,)
    return full


def printed(path: Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
