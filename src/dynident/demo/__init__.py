"""An embedded example: a servo axis with friction, one record to fit and one kept for validation."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

FILES = ("servo.toml", "slide.csv", "slide_validation.csv")


def copy_to(folder: Path) -> list[Path]:
    """Copy the example into a folder; a file that is already there stays as it is (it may have been edited)."""
    folder.mkdir(parents=True, exist_ok=True)
    copies = []
    for name in FILES:
        copy = folder / name
        if not copy.exists():
            copy.write_bytes(resources.files(__name__).joinpath(name).read_bytes())
        copies.append(copy)
    return copies
