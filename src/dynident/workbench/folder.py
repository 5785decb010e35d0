"""Folder: which files may the page name? Those that are listed, and nothing that leads out of the folder."""

from __future__ import annotations

import os
from pathlib import Path

PROBLEMS = (".toml", ".yaml", ".yml")  # our own, and those of PEtab
RECORDS = (".csv", ".txt", ".tsv", ".dat", ".asc", ".parquet", ".pq", ".feather", ".arrow", ".mat", ".npz", ".h5", ".hdf5",
           ".xlsx", ".xlsm", ".xlsb", ".xls", ".ods", ".mf4", ".mdf", ".tdms", ".mcap", ".bag", ".db3")  # a test compares
DEEPEST = 2  # folders below the one that is open
MOST_FILES_LISTED = 500  # files
LOOKED_AT = 100_000  # bytes of a YAML file; those of PEtab have some hundred
PASSED_OVER = {"results", "node_modules", "__pycache__", "build", "dist"}  # folders that hold what programs wrote


def listed_files(folder: Path) -> list[str]:
    """Problem files and records, by their path from the folder with forward slashes; hidden ones are passed over."""
    found: list[str] = []
    for place, folders, files in os.walk(folder):
        depth = len(Path(place).relative_to(folder).parts)
        folders[:] = sorted(name for name in folders if depth < DEEPEST and name[0] != "." and name not in PASSED_OVER)
        for name in sorted(files):
            if name[0] == "." or Path(name.lower().removesuffix(".gz")).suffix not in (*PROBLEMS, *RECORDS):
                continue
            path = Path(place, name)
            if not os.path.isfile(path):  # a pipe would never answer, a link may lead round in a circle
                continue
            if path.suffix in PROBLEMS[1:] and not is_petab(path):
                continue
            if path.resolve().is_relative_to(folder):
                found.append(path.relative_to(folder).as_posix())
        if len(found) >= MOST_FILES_LISTED:
            break
    return sorted(found[:MOST_FILES_LISTED], key=lambda name: (name.count("/"), not name.endswith(PROBLEMS), name))


def is_petab(path: Path) -> bool:
    """Whether a YAML file names a model and tables of PEtab; others have nothing to do with us."""
    try:
        with path.open("rb") as file:
            return b"sbml_files" in file.read(LOOKED_AT)
    except OSError:
        return False


def within(folder: Path, name: str) -> Path:
    """The path of a name below the folder; the folder itself where the name leads out of it."""
    try:
        path = (folder / name).resolve()
    except (OSError, ValueError, RuntimeError):  # links that lead round in a circle, letters that no name can have
        return folder
    return path if path.is_relative_to(folder.resolve()) else folder
