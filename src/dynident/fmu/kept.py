"""Kept: the file of an FMU as it was when its model was made, for whoever moves or replaces it later."""

from __future__ import annotations

import shutil
from pathlib import Path

from dynident.errors import ProblemError
from dynident.fmu.archive import digest_of
from dynident.fmu.folders import new_folder

_copies: dict[tuple[str, str], Path] = {}  # by path and digest


def kept(path: Path, digest: str) -> Path:
    """A copy of the file under its own name, made at the first use and removed with the process; refuses a file that is
    no longer the one with this digest."""
    if (str(path), digest) not in _copies:
        _copies[str(path), digest] = _copied(path, digest)
    return _copies[str(path), digest]


def found_again(path: Path, copy: Path, digest: str) -> Path:
    """Where to make the same model in another process: the file, or where that is no longer the same, its copy.

    A copy that can be seen from here serves both processes.
    """
    if _is(copy, digest):
        own = path if _is(path, digest) else copy
        _copies.setdefault((str(own), digest), copy)
        return own
    if _is(path, digest):
        return path
    raise ProblemError(f"{path} is gone or has changed since its model was made. Put the file back, or make the model again.")


def _is(path: Path, digest: str) -> bool:
    try:
        return digest_of(path) == digest
    except OSError:
        return False


def _copied(path: Path, digest: str) -> Path:
    copy = new_folder(digest[:8]) / path.name
    try:
        shutil.copyfile(path, copy)
    except OSError as error:
        raise ProblemError(f"{path} cannot be read any more, though its model was made from it: {error.strerror}. Put the "
                           "file back, or make the model again from another.") from None
    if digest_of(copy) != digest:
        raise ProblemError(f"{path} has changed since its model was made. Make the model again with FmuModel(...), or put "
                           "the old file back.")
    return copy
