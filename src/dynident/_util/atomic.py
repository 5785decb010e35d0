"""How are files written so that a crash or a full disk leaves the old ones as they were, by one process at a time?

A single file is written aside and renamed. A set of files that belong together goes into a hidden folder first; the
rename of that folder from `.writing` to `.ready` is the one moment at which the new set replaces the old. What then
remains, moving each file to its place, is finished by whoever comes next (`finish_replacing`) if it was cut short. A lock
in the folder says who is at work there.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dynident._util.operating_system import is_running
from dynident.errors import DynidentError

WRITING = ".writing"
READY = ".ready"
LOCK = ".lock"
ATTEMPTS = 3  # a lock that comes and goes this often belongs to somebody who is at work
_held: set[Path] = set()  # by this process; tells a lock of ours from one left by a dead process with the same id


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

    The caller sees to it that nobody else writes into `folder` (see `exclusive`).
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


class InUse(DynidentError):
    """Another run is at work in this folder."""


@contextmanager
def exclusive(folder: str | Path) -> Iterator[None]:
    """Hold the folder for this run; a second run refuses until the first ends. A dead run's lock is taken over.

    The folder is made if need be, and taken away again if it was made in vain.
    """
    folder = Path(folder)
    made_here = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = folder.resolve() / LOCK
        _take(lock, folder)
    except OSError as error:
        raise DynidentError(f"{folder} cannot be used for results: {error.strerror or error}. "
                            "Choose another folder.") from error
    _held.add(lock)
    try:
        yield
    finally:
        _held.discard(lock)
        lock.unlink(missing_ok=True)
        if made_here:
            with suppress(OSError):  # not empty: it holds a result
                folder.rmdir()


def _take(lock: Path, folder: Path) -> None:
    mine = json.dumps({"pid": os.getpid(), "host": socket.gethostname()})
    for _ in range(ATTEMPTS):
        try:
            with lock.open("x", encoding="utf-8") as file:  # fails if it exists: the one atomic question
                file.write(mine)
            return
        except FileExistsError:
            _remove_if_dead(lock, folder)
    raise InUse(f"{folder} is in use by other runs; wait for them, or choose another folder.")


def _remove_if_dead(lock: Path, folder: Path) -> None:
    try:
        text = lock.read_text(encoding="utf-8")
    except FileNotFoundError:
        return  # its owner has just finished
    owner = _owner(text)
    if owner is None or not _is_dead(*owner, lock):
        who = f"process {owner[0]} on {owner[1]}" if owner else "another process"
        raise InUse(f"{folder} is in use by {who}. Wait for it, or choose another folder. "
                    f"If no run is at work there, delete {folder / LOCK}.")
    aside = lock.with_name(f"{LOCK}.{os.getpid()}")
    with suppress(FileNotFoundError):  # somebody else has cleared it away
        os.replace(lock, aside)
        if aside.read_text(encoding="utf-8") != text:  # not the lock we judged: a new owner came in between
            os.replace(aside, lock)
            raise InUse(f"{folder} has just been taken by another run; choose another folder.")
        aside.unlink()


def _owner(text: str) -> tuple[int, str] | None:
    with suppress(ValueError, KeyError, TypeError):
        said = json.loads(text)
        return int(said["pid"]), str(said["host"])
    return None


def _is_dead(pid: int, host: str, lock: Path) -> bool:
    if host != socket.gethostname():
        return False  # a process on another machine cannot be asked
    return lock not in _held if pid == os.getpid() else not is_running(pid)
