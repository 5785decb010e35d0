"""Results: which fits of a problem lie on disk? Ordinary result folders, `results/<problem>-fit-001` and on."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

FOLDER = "results"
NUMBERED = re.compile(r"-fit-(\d{3,})$")


def next_folder(problem: Path) -> Path:
    """Where the next fit of this problem goes."""
    taken = [number for number, _ in _numbered(problem)]
    return problem.parent / FOLDER / f"{problem.stem}-fit-{max(taken, default=0) + 1:03d}"


def listed(problem: Path, text: str) -> list[dict[str, Any]]:
    """Every fit that can be read, oldest first, with what stands in its first lines; `fresh` where it answers this text."""
    found, asked = [], _asked(text)
    for number, folder in _numbered(problem):
        try:
            said = json.loads((folder / "estimate.json").read_text(encoding="utf-8"))
            given = (folder / "problem_as_given.toml").read_text(encoding="utf-8")
        except (OSError, ValueError, RecursionError):
            continue  # being written, or damaged: the one who asks for it is told why
        verdict, counts, values = (_table(_table(said).get(key)) for key in ("verdict", "counts", "values"))
        found.append({"id": folder.name, "label": f"fit {number}", "fresh": _asked(given) == asked,
                      "converged": _table(said).get("converged") is True, "interrupted": bool(counts.get("interrupted")),
                      "cost": _number(_table(said).get("cost")), "grade": str(verdict.get("grade", "")),
                      "values": {name: value for name, value in values.items() if _number(value) is not None}})
    return found


def _table(said: Any) -> dict[str, Any]:
    """What was said, where it is a table: anybody may have written the file."""
    return said if isinstance(said, dict) else {}


def _number(said: Any) -> float | None:
    return said if isinstance(said, int | float) and not isinstance(said, bool) else None


def _asked(text: str) -> dict[str, Any] | None:
    """What a fit depends on: all tables but the one that plans the next experiment. None for what is no TOML."""
    try:
        return {key: table for key, table in tomllib.loads(text.replace("\r\n", "\n")).items() if key != "design"}
    except (tomllib.TOMLDecodeError, RecursionError):
        return None


def folder_of(problem: Path, result: str) -> Path | None:
    """The folder of a listed result; None where there is no such."""
    return next((folder for _, folder in _numbered(problem) if folder.name == result), None)


def _numbered(problem: Path) -> list[tuple[int, Path]]:
    top = problem.parent / FOLDER
    if not top.is_dir():
        return []
    own = [(NUMBERED.search(path.name), path) for path in top.iterdir() if path.is_dir()
           and path.name.startswith(f"{problem.stem}-fit-")]
    return sorted((int(match.group(1)), path) for match, path in own if match and path.name == f"{problem.stem}{match.group()}")
