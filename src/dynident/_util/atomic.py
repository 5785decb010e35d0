"""How files are written so that a crash or a full disk leaves the old ones as they were.

A single file is written aside and renamed. A set of files that belong together goes into a hidden folder first; the
rename of that folder from `.writing` to `.ready` is the one moment at which the new set replaces the old. What then
remains, moving each file to its place, is finished by whoever comes next (`finish_replacing`) if it was cut short.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dynident.errors import DynidentError

WRITING = ".writing"
READY = ".ready"


class NotWritten(DynidentError):
    """A file could not be written; what was there before is intact."""


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """A path to write to; what was written there becomes `path` if the block ends well, and vanishes otherwise."""
    path = Path(path)
    aside = path.with_name(f".{path.name}.{os.getpid()}.writing")
    with _said_in_words(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield aside
            _flush(aside)
            os.replace(aside, path)
        finally:
            aside.unlink(missing_ok=True)


@contextmanager
def atomic_replace(folder: str | Path) -> Iterator[Path]:
    """An empty folder to fill; its files replace those of the same names in `folder` together, or not at all.

    The caller sees to it that nobody else writes into `folder` (see `files.lock`).
    """
    folder = Path(folder)
    aside = folder / WRITING
    with _said_in_words(folder):
        folder.mkdir(parents=True, exist_ok=True)
        finish_replacing(folder)
        shutil.rmtree(aside, ignore_errors=True)  # left behind by a run that was killed
        aside.mkdir()
        try:
            yield aside
            for path in aside.iterdir():
                _flush(path)
            os.rename(aside, folder / READY)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        finish_replacing(folder)


def is_half_replaced(folder: str | Path) -> bool:
    """Whether a writer was cut short, or is at work, between the decision for the new files and their arrival."""
    return (Path(folder) / READY).is_dir()


def finish_replacing(folder: str | Path) -> None:
    """Move what is ready to its place, if there is anything."""
    folder = Path(folder)
    ready = folder / READY
    if not is_half_replaced(folder):
        return
    for path in sorted(ready.iterdir()):
        os.replace(path, folder / path.name)
    ready.rmdir()


def _flush(path: Path) -> None:
    """Ask the system to put the content on the disk, so that a power failure cannot leave an empty renamed file."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


@contextmanager
def _said_in_words(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise NotWritten(f"{target} could not be written: {reason}. What was there before is intact. Free some space, "
                         "or choose another folder.") from error
